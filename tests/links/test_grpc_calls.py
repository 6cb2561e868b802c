"""Unary calls of gRPC, as a parent serves them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from taskd_net import limits
from taskd_net.links.grpc_calls import Methods
from tests.peers.mesh import soon


async def test_node_rests_after_so_many_looks_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRAIN_LOOKS", 1)
    monkeypatch.setattr(limits, "DRAIN_LOOK_S", 0.05)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await soon(Methods({}).rest(1000.0))
    assert loop.time() - began >= 0.05  # that one look later, and not at once


async def test_node_rests_in_the_end_though_calls_never_cease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRAIN_LOOKS", 2)
    monkeypatch.setattr(limits, "DRAIN_LOOK_S", 0.01)
    calls = Methods({})

    async def come() -> None:
        while True:
            assert calls.service(cast("Any", SimpleNamespace(method="/Somebody/Else"))) is None
            await asyncio.sleep(0)

    coming = asyncio.create_task(come())
    loop = asyncio.get_running_loop()
    began = loop.time()
    await soon(calls.rest(0.3))
    assert loop.time() - began >= 0.3  # calls came until then, so there was no reason to end before
    assert not coming.done()
    coming.cancel()
    await asyncio.wait([coming])
