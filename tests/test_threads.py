"""Threads of the package: their signal masks, and a limit of the process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading

import pytest

from taskd_net import BlockingNode, Node, NodeConfig, NodeError
from taskd_net.base import threads

pytestmark = pytest.mark.oldest

SOON = 10.0


def masks(*, application: bool = False) -> set[signal.Signals | int]:
    """The mask of a thread, started here."""
    found: list[set[signal.Signals | int]] = []
    thread = threads.start(
        lambda: found.append(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "test", application=application
    )
    thread.join(SOON)
    return found[0]


def test_own_thread_gets_no_signal_of_the_process() -> None:
    mask = masks()
    assert mask >= {signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGXFSZ}
    assert not mask & {signal.SIGSEGV, signal.SIGFPE, signal.SIGPROF}
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_thread_with_functions_of_the_application_has_its_mask() -> None:
    """Programs that they start inherit it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        expected = before | {signal.SIGUSR2}
        assert masks(application=True) == expected
        found: list[set[signal.Signals | int]] = []
        threads.start(lambda: found.append(masks(application=True)), "test").join(SOON)
        assert found == [expected]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


MASK = ["grep", "-h", "SigBlk", "/proc/self/status"]


async def started(_: Node) -> set[str]:
    """The masks of programs that a coroutine in the node's thread starts, in each way that does not block."""
    program = await asyncio.create_subprocess_exec(*MASK, stdout=subprocess.PIPE)
    mask = (await program.communicate())[0]
    return {mask.decode(), await asyncio.to_thread(subprocess.check_output, MASK, text=True)}


def test_programs_that_a_coroutine_in_the_nodes_thread_starts_can_be_ended() -> None:
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        assert node.run(started) == {subprocess.check_output(MASK, text=True)}
        assert signal.SIGTERM not in node.run(in_executor)


async def in_executor(_: Node) -> set[signal.Signals | int]:
    """The mask of the executor's threads."""
    return await asyncio.to_thread(signal.pthread_sigmask, signal.SIG_BLOCK, ())


def test_child_that_is_forked_in_an_own_thread_has_the_mask_of_the_application() -> None:
    codes: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    threads.start(fork, "test").join(SOON)
    assert codes == [0]


def test_thread_that_cannot_be_started_is_an_error_with_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(NodeError, match=r"cannot start the thread 'test': can't start new thread; see ulimit"):
        threads.start(lambda: None, "test")
