"""Joining through several addresses: refusals, silence, losses, and the ledger of a move."""

import asyncio
import re
import signal
import socket
from pathlib import Path

import pytest

from taskd_net import Code
from taskd_net.retry import Backoff
from tests.cli.processes import Command, Daemon, run
from tests.peers.mesh import Mesh, address_of, free_address, soon
from tests.peers.parent import RawParent


async def test_refusal_leads_to_the_next_address_without_a_pause(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    async with RawParent() as standby:
        standby.refuse["Register"] = int(Code.CLIENT_ERR)
        monkeypatch.setattr(Backoff, "pause", lambda *_: 1 / 0)
        worker = await mesh.worker(0, 0, f"{await free_address()},{standby.address},{address_of(mgr)}")
        assert standby.requests["Register"].qsize() == 1
    assert mesh.count("join_failed", node=worker.position) == 2
    assert mesh.count("joined", node=worker.position, upstream=address_of(mgr)) == 1


async def test_trouble_names_every_address(mesh: Mesh) -> None:
    async with RawParent() as standby:
        standby.refuse["Register"] = int(Code.CLIENT_ERR)
        nobody = await free_address()
        worker = await mesh.worker(0, 0, f"{nobody},{standby.address}", join=False)
        await mesh.logged("join_failed", node=worker.position, times=2)
        with pytest.raises(TimeoutError, match=f"{nobody}: .*{standby.address}: Register was refused"):
            await worker.joined(0.01)
        standby.refuse.clear()
        await soon(worker.joined())


async def test_after_a_loss_a_silent_address_is_passed_over(mesh: Mesh) -> None:
    """It takes connections and never answers, as a frozen process: in turn it would cost 5 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with RawParent() as first, RawParent() as second:
            frozen = f"127.0.0.1:{silent.getsockname()[1]}"
            worker = await mesh.worker(0, 0, f"{first.address},{frozen},{second.address}")
            await first.stop()
            async with asyncio.timeout(4):
                assert await second.opened.get() == "Worker/0/0"
            await mesh.logged("joined", node=worker.position, upstream=second.address)
            assert mesh.count("join_failed", node=worker.position, upstream=frozen) == 0


async def test_it_does_not_move_back(mesh: Mesh) -> None:
    async with RawParent() as second:
        first = await free_address()
        worker = await mesh.worker(0, 0, f"{first},{second.address}")
        async with RawParent() as back:
            await back.stop()
            await back.start(first)
            assert (await worker.send("x", to="Mgr", timeout=5)).ok
            assert back.requests["Register"].empty()


@pytest.mark.timeout(120)
async def test_worker_moves_between_proxies_without_loss_or_double(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    left, right = await mesh.proxy(0, mgr), await mesh.proxy(1, mgr)
    worker = await mesh.worker(0, 0, f"{address_of(left)},{address_of(right)}")
    confirmed, sent = [], 0
    for sent in range(60):
        if sent == 20:
            await left.close()
        ack = await worker.send(str(sent), to="Mgr", timeout=10)
        if ack.ok:
            confirmed.append(str(sent))
    await mesh.logged("joined", node=worker.position, upstream=address_of(right))
    got = []
    while len(got) < len(confirmed):
        got.append((await soon(mgr.receive())).body)
    assert sorted(got) == sorted(confirmed), "what was answered 0 has come once"
    assert (await soon(mgr.send("back", to=worker.position))).ok, "the old route is replaced"


@pytest.mark.timeout(180)
async def test_second_manager_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    async with Daemon("mgr", logs=tmp_path / "a") as first, Daemon("mgr", logs=tmp_path / "b") as second:
        both = f"{first.address},{second.address}"
        async with Command("listen", "--as", "Worker/0/0", "--upstream", both) as leaf:
            await leaf.said(f"ready, upstream {re.escape(both)}")
            first.signal(signal.SIGKILL)
            code, _, errors = await run("send", "Worker/0/0", "hello", "--upstream", both, "--timeout", "20")
            assert code == 0, errors
            assert "hello" in await leaf.line()
