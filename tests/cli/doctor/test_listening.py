"""Addresses to listen at, tried for a moment."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from taskd_net import Position
from taskd_net.base.address import Address
from taskd_net.cli.doctor import listening
from taskd_net.cli.doctor.finding import Verdict
from taskd_net.observe.identify import Found, ServerKind
from taskd_net.observe.probe_codec import About

MGR, PROXY = Position.mgr(), Position.proxy(0)


@pytest.fixture
def taken() -> Iterator[Address]:
    """An address in use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield Address("127.0.0.1", listener.getsockname()[1])


async def test_a_free_port_is_right_and_a_mgr_is_warned_of_loopback() -> None:
    found = await listening.check(Address("127.0.0.1", 0), PROXY, tls=False)
    assert [(each.check, each.state) for each in found] == [("port", Verdict.OK)]
    found = await listening.check(Address("127.0.0.1", 0), MGR, tls=False)
    assert [(each.check, each.state) for each in found] == [("port", Verdict.OK), ("address", Verdict.WARNING)]


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
async def test_an_address_of_another_machine_is_wrong(host: str) -> None:
    (found,) = await listening.check(Address(host, 0), PROXY, tls=False)
    assert found.state is Verdict.WRONG and found.advice


@pytest.mark.parametrize(
    ("met", "state", "text"),
    [
        (Found(ServerKind.OURS, About(PROXY, "1", 0, MGR)), Verdict.OK, "Proxy/0 itself"),
        (Found(ServerKind.OURS, About(MGR, "1", 0, None)), Verdict.WRONG, "Mgr/0, another node"),
        (Found(ServerKind.SILENT), Verdict.WRONG, "a process that does not answer"),
    ],
)
async def test_the_owner_of_a_port_is_named(
    taken: Address, monkeypatch: pytest.MonkeyPatch, met: Found, state: Verdict, text: str
) -> None:
    async def identify(*_: object) -> Found:
        return met

    monkeypatch.setattr(listening, "identify", identify)
    (found,) = await listening.check(taken, PROXY, tls=False)
    assert found.state is state and text in found.text


async def test_with_tls_the_owner_cannot_be_asked(taken: Address) -> None:
    (found,) = await listening.check(taken, PROXY, tls=True)
    assert found.state is Verdict.WARNING and "cannot be asked" in found.text
