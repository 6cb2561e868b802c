"""The processes of a demo: whatever happens, none is left."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from taskd_net import Position
from taskd_net.demo.fleet import DemoFailed, Fleet, Interrupted, on_interrupt
from taskd_net.demo.process import DemoNode

pytestmark = pytest.mark.timeout(180)


async def test_a_process_starts_answers_and_ends() -> None:
    async with Fleet() as fleet:
        mgr = await fleet.start(Position.mgr(), listen="127.0.0.1:0")
        await mgr.started()
        assert mgr.address.startswith("127.0.0.1:") and mgr.alive
        sent = await mgr.ask(DemoNode.send, to="Worker/0/0", mtype="kind", uuids=["a", "b"])
        assert sent["codes"] == [5002, 5002]
        assert (await mgr.ask(DemoNode.received), await mgr.ask(DemoNode.routes)) == ({}, {})
        assert await fleet.close() == []
    assert not mgr.alive


async def test_a_process_that_dies_ends_the_demo_with_its_last_words() -> None:
    fleet = Fleet()

    async def demo() -> None:
        async with fleet:
            mgr = await fleet.start(Position.mgr(), listen="127.0.0.1:0")
            await mgr.started()
            mgr._process.kill()
            await asyncio.Event().wait()

    with pytest.raises(DemoFailed, match=r"Mgr/0 .* was ended by SIGKILL; the end of its stderr: nothing"):
        await demo()
    assert not fleet.processes[0].alive


async def test_a_refused_request_and_one_to_a_dead_process_fail() -> None:
    async with Fleet() as fleet:
        worker = await fleet.start(Position.worker(0, 0), upstream="127.0.0.1:1")
        await worker.started()
        with pytest.raises(DemoFailed, match="Worker/0/0: "):
            await worker.ask(DemoNode.join, timeout=0.01)
        await worker.kill()
        with pytest.raises(DemoFailed, match="SIGKILL"):
            await worker.ask(DemoNode.received)


async def test_the_first_reason_to_abort_counts() -> None:
    async def demo() -> None:
        async with Fleet() as fleet:
            fleet.abort(Interrupted(signal.SIGTERM))
            fleet.abort(Interrupted(signal.SIGINT))
            await asyncio.Event().wait()

    with pytest.raises(Interrupted) as error:
        await demo()
    assert error.value.exit_code == 143


async def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """With nohup, a demo outlives its terminal."""
    got = asyncio.Queue[signal.Signals]()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    loop = asyncio.get_running_loop()
    try:
        on_interrupt(got.put_nowait)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for number in (signal.SIGHUP, signal.SIGTERM):
            os.kill(os.getpid(), number)
        async with asyncio.timeout(20):
            assert await got.get() is signal.SIGTERM
        assert got.empty()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGHUP, before)
