"""A parent that is lost, and a second one: processes that are killed, and packets that a network drops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskd_net import Position, Retry
from tests.cli.processes import PATIENCE_S, Command, Daemon, run
from tests.faults.network import Machines, why_not
from tests.peers.mesh import Mesh, WatchedNode, address_of, soon
from tests.ports import free_address

pytestmark = pytest.mark.timeout(300)

MOVED_S = 10.0
"""Bound on a move between living processes on a busy machine; at rest it takes a fraction of a second."""

BACK_S = 3.0
LEAVES = 256
PROXIES = 8


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes of this process."""
    async with Mesh() as mesh:
        yield mesh


async def test_proxy_moves_while_workers_below_send(mesh: Mesh, tmp_path: Path) -> None:
    """The ledger: each message once at its receiver, and no failure between the Workers below."""
    mgr = await mesh.mgr(inbox=4096)
    over = [
        Daemon("proxy", "--upstream", address_of(mgr), "--server-rank", rank, logs=tmp_path / f"{rank}")
        for rank in (0, 1)
    ]
    async with over[0], over[1]:
        both = f"{over[0].address},{over[1].address}"
        async with Daemon("proxy", "--upstream", both, "--server-rank", 2, logs=tmp_path / "2") as moving:
            one, two = await mesh.worker(2, 0, moving.address), await mesh.worker(2, 1, moving.address, inbox=4096)
            assert mgr.routes()[one.position] == Position.proxy(0)
            up = Ledger(one, "Mgr", Retry(attempts=1000, within=60))
            beside = Ledger(one, str(two.position), None)
            sending = [asyncio.create_task(up.send()), asyncio.create_task(beside.send())]
            await mesh.until(lambda: len(up.sent) > 50 and len(beside.sent) > 50)
            killed = time.monotonic()
            over[0].signal(signal.SIGKILL)
            await mesh.until(lambda: mgr.routes().get(one.position) == Position.proxy(1), MOVED_S)
            print(f"moved in {time.monotonic() - killed:.2f} s")
            at = len(up.sent), len(beside.sent)
            await mesh.until(lambda: len(up.sent) > at[0] + 50 and len(beside.sent) > at[1] + 50)
            up.over = beside.over = True
            await soon(asyncio.gather(*sending), 90)
            assert not up.failed and not beside.failed
            assert await received(mgr, len(up.sent)) == up.sent
            assert await received(two, len(beside.sent)) == beside.sent
            assert (await mgr.send("down", to=one.position)).ok


@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_network_that_drops_the_packets_to_the_first(tmp_path: Path) -> None:
    with Machines() as machines, contextlib.ExitStack() as healed:
        near, far = f"{machines.host(0)}:9601", f"{machines.host(1)}:9601"
        here, there = machines.wrapper(0), machines.wrapper(1)
        both = ("--upstream", f"{far},{near}")
        async with (
            Command("mgr", "--listen", near, "--log-path", tmp_path / "near", wrapper=here) as second,
            Command("mgr", "--listen", far, "--log-path", tmp_path / "far", wrapper=there) as first,
        ):
            assert "ready" in await second.line()
            assert "ready" in await first.line()
            async with Command("listen", "--as", "Worker/0/0", *both, wrapper=here) as leaf:
                await leaf.said(f"ready, upstream {far}")
                machines.drop_packets(0)
                healed.callback(machines.pass_packets, 0)
                # A sender that is quicker past the first Mgr than the receiver gets a code, and rightly.
                async with asyncio.timeout(PATIENCE_S):
                    code: int | None = None
                    while code != 0:
                        async with Command("ping", "Worker/0/0", "--at", near, "--count", 1, wrapper=here) as asked:
                            code = await asked.exit_code()
                hello = ("send", "Worker/0/0", "hello", "--timeout", "30")
                async with Command(*hello, *both, wrapper=here) as sender:
                    assert await sender.exit_code() == 0, sender.errors
                assert "hello" in await leaf.line()
            began = time.monotonic()
            async with Command("listen", "--as", "Worker/0/1", *both, wrapper=here) as leaf:
                await leaf.said(f"ready, upstream {near}")
                print(f"joined past an address that drops packets in {time.monotonic() - began:.1f} s")


@pytest.mark.long
async def test_leaves_are_back_soon_after_the_second_listens(mesh: Mesh, tmp_path: Path) -> None:
    """Figures for 256 leaves below 8 Proxies: from the second Mgr's ready line until all have joined again."""
    later = free_address()
    async with Daemon("mgr", logs=tmp_path / "a") as first:
        both = f"{first.address},{later}"
        usual: dict[str, Any] = {"backoff_initial": 0.05, "backoff_max": 1.0, "links": "direct"}
        proxies = [await mesh.proxy(rank, both, **usual) for rank in range(PROXIES)]
        leaves = [await mesh.worker(n % PROXIES, n, proxies[n % PROXIES], **usual) for n in range(LEAVES)]
        first.signal(signal.SIGKILL)
        await mesh.until(lambda: not any(node.is_joined for node in (*proxies, *leaves)), 60)
    async with Command("mgr", "--listen", later, "--log-path", tmp_path / "b") as second:
        assert "ready" in await second.line()
        began = time.monotonic()
        await mesh.until(lambda: all(node.is_joined for node in (*proxies, *leaves)), 60)
        seconds = time.monotonic() - began
        print(f"{PROXIES} Proxies and {LEAVES} leaves were back in {seconds:.2f} s")
        assert seconds <= BACK_S
        code, _, errors = await run("ping", "Worker/0/0", "--at", later, "--count", "1")
        assert code == 0, errors


class Ledger:
    """Messages of one sender, each a number, until it is `over`."""

    def __init__(self, by: WatchedNode, to: str, retry: Retry | None) -> None:
        self._by = by
        self._to = to
        self._retry = retry
        self.sent: list[str] = []
        self.failed: list[str] = []
        self.over = False

    async def send(self) -> None:
        """Send one after the other."""
        while not self.over:
            ack = await self._by.send(f"{len(self.sent)}", to=self._to, timeout=5, retry=self._retry)
            self.sent.append(f"{len(self.sent)}")
            if not ack.ok:
                self.failed.append(f"{self.sent[-1]}: {ack}")
            await asyncio.sleep(0.002)


async def received(node: WatchedNode, number: int) -> list[str]:
    """So many messages as they came; there is no further one."""
    bodies = [str((await soon(node.receive())).body) for _ in range(number)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            bodies.append(str((await node.receive()).body))
    return bodies
