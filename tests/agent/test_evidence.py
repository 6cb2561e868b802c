"""Evidence about ranks, from real processes."""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net.base.progress import Seen
from taskd_net.base.rank_record import STACKS_VARIABLE
from taskd_net.job.agent import evidence
from taskd_net.job.agent.evidence import STACKS_SIGNAL, Suspect, catches, collected
from taskd_net.job.agent.records import Records
from tests.agent.ranks import Rank

START = Path(__file__).resolve().parents[2] / "taskd_net" / "torch" / "start.py"
OFFERS = f"""
import faulthandler, os
file = os.open(os.environ[{STACKS_VARIABLE!r}], os.O_WRONLY | os.O_APPEND)
faulthandler.register({int(STACKS_SIGNAL)}, file=file, all_threads=True)
"""
SLEEPS = "import time\ndef waits_for_ever():\n    print('sleeps', flush=True)\n    time.sleep(1000)\nwaits_for_ever()"
HOLDS = """
import ctypes, threading
threading.Thread(target=ctypes.PyDLL(None).sleep, args=(1000,), daemon=True).start()
"""


@pytest.fixture
def records() -> Iterator[Records]:
    """The records of a node."""
    made = Records()
    yield made
    made.close()


def stop(rank: Rank) -> None:
    """Stop a process."""
    rank.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, rank.process.pid, os.WSTOPPED)


async def test_stack_of_a_rank_that_sleeps(records: Records) -> None:
    with Rank(records, rank=5) as rank:
        rank.run(OFFERS)
        rank.begin(SLEEPS)
        assert rank.line() == "sleeps"
        for _ in range(2):  # a second collection begins with an empty text
            (found,) = await collected(records.suspects())
            assert (found.rank, found.pid, found.seen, found.why) == (5, rank.process.pid, Seen.RUNS, "")
            assert found.threads[-1][0].function == "waits_for_ever" and len(found.threads) == 1


async def test_collection_ends_a_sleep_in_c(records: Records) -> None:
    """A first signal may come before the sleep."""
    with Rank(records) as rank:
        rank.run(OFFERS, "import ctypes")
        assert rank.process.stdout is not None
        rank.begin("print('sleeps', flush=True); print(ctypes.CDLL(None).sleep(1000), flush=True)")
        assert rank.line() == "sleeps"
        for _ in range(20):
            await collected(records.suspects())
            if select.select([rank.process.stdout], [], [], 0.5)[0]:
                break
        assert int(rank.line()) > 900


async def test_start_program_offers_the_stacks_of_its_script_and_not_of_its_children(
    records: Records, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    child = "import os, signal; print(signal.getsignal(signal.SIGRTMAX - 3).name, flush=True)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, {str(START)!r}, {str(tmp_path / 'child.py')!r}])"
    script.write_text(f"{start}\n{SLEEPS}")
    (tmp_path / "child.py").write_text(child)
    with Rank(records, 0, 0, str(START), str(script)) as rank:
        assert (rank.line(), rank.line()) == ("SIG_DFL", "sleeps")
        (found,) = await collected(records.suspects())
        frames = [(place.file, place.function) for place in found.threads[-1]]
        assert frames == [(str(script), "waits_for_ever"), (str(script), "<module>")]


async def test_stack_of_a_rank_whose_interpreter_is_held(records: Records) -> None:
    with Rank(records) as rank:
        rank.run(OFFERS)
        rank.begin(HOLDS)
        (found,) = await collected(records.suspects([0]))
        assert found.threads, found
        assert await collected(records.suspects([7])) == []


async def test_process_without_the_handler_is_left_alone(records: Records) -> None:
    with Rank(records) as rank:
        rank.run("x = 1")
        (found,) = await collected(records.suspects())
        assert found.why == "its process has no handler for that: it runs without the start program"
        rank.run("x = 2")  # it lives


async def test_stopped_and_ended_processes_and_ranks_without_one(records: Records) -> None:
    records.begin_all({0: 0, 1: 1})
    with Rank(records) as rank:
        rank.run(OFFERS)
        stop(rank)
        stopped, absent = await collected(records.suspects())
        assert (stopped.seen, stopped.why) == (Seen.STOPPED, "a process that does not run writes no stack")
        assert (absent.seen, absent.why) == (Seen.ABSENT, "there is no process")
        rank.process.kill()
        rank.process.wait()
        ended, _ = await collected(records.suspects())
        assert (ended.seen, ended.why) == (Seen.ENDED, "there is no process")


async def test_process_that_gives_no_answer(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "ANSWER_S", 0.05)
    with Rank(records) as rank:
        rank.run(f"import signal; signal.signal({int(STACKS_SIGNAL)}, lambda *_: None)")
        (found,) = await collected(records.suspects())
        assert found.why == "it has not answered within 0.05 s"


async def test_process_that_cannot_be_asked(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> int:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "pidfd_open", refused)
    with Rank(records) as rank:
        rank.run(OFFERS)
        (found,) = await collected(records.suspects())
        assert found.why == "it could not be asked: Operation not permitted"


async def test_every_descriptor_is_closed(records: Records) -> None:
    def descriptors() -> int:
        return sum(entry.is_symlink() for entry in os.scandir("/proc/self/fd"))

    with Rank(records) as rank:
        rank.run(OFFERS)
        await collected(records.suspects())
        before = descriptors()
        await collected(records.suspects())
        assert descriptors() == before
    assert (await collected([Suspect(3, 0, Seen.ABSENT)]))[0].rank == 3


def test_handlers_of_a_process_are_read_from_its_status() -> None:
    assert catches("Name:\tx\nSigCgt:\t1000000000000000\n", 61)
    assert not catches("SigCgt:\t0000000000000000\n", 61)
    assert not catches("", 61) and not catches("SigCgt:\tmany\n", 61)
