"""Records of ranks: made before a start, read from outside, closed after another start."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from binascii import crc32
from collections.abc import Iterator

import pytest

from taskd_net.base import rank_record
from taskd_net.base.progress import Seen
from taskd_net.job.agent.records import Records
from tests.agent.ranks import SOON, Rank, look, look_until


@pytest.fixture
def records() -> Iterator[Records]:
    made = Records()
    yield made
    made.close()


def descriptors() -> int:
    return sum(entry.is_symlink() for entry in os.scandir("/proc/self/fd"))


def test_records_are_closed_with_the_processes_that_are_replaced(records: Records) -> None:
    before = descriptors()
    assert records.look() is None
    assert set(records.begin_all({0: 4, 1: 5})) == {0, 1} and descriptors() == before + 4
    records.begin(1, 5)
    assert descriptors() == before + 4
    records.begin_all({0: 2})
    assert descriptors() == before + 2 and look(records).ranks == 1
    records.close()
    assert descriptors() == before
    records.close()


def test_rank_that_was_never_started_is_absent(records: Records) -> None:
    records.begin_all({0: 0, 1: 1})
    with Rank(records) as rank:
        rank.run("from taskd_net import train", "train.step(1)")
        found = look(records)
    assert [(each.rank, each.seen) for each in found.slowest] == [(0, Seen.RUNS), (1, Seen.ABSENT)]


def test_last_marks_of_a_replaced_process_count(records: Records) -> None:
    for number in range(3):
        with Rank(records) as rank:
            rank.run("from taskd_net import train", f"train.step({number}, samples=2)")
    assert (look(records).steps, look(records).samples) == (3, 6)


def test_steps_of_which_the_mgr_was_not_told_are_done_again_after_a_start(records: Records) -> None:
    records.note_highest(3)
    begins = "from taskd_net import train"
    with Rank(records, 0, 0) as zero, Rank(records, 1, 1) as one:
        zero.run(begins, "train.step(4)")
        one.run(begins, "train.step(5)")
    for local_rank, variables in records.begin_all({0: 0, 1: 1}).items():
        with Rank(records, local_rank, local_rank, path=variables[rank_record.VARIABLE]) as rank:
            rank.run(begins, "train.step(5)")
            assert look(records).again == 1
    records.note_highest(9)
    with Rank(records) as rank:
        rank.run(begins, "train.step(9)")
        assert look(records).again == 2


def test_job_without_memfd_is_not_watched(
    records: Records, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = descriptors()

    def refused(*_: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    for name, place in (("memfd_create", os), ("posix_fallocate", os)):
        monkeypatch.setattr(place, name, refused)
        none = {rank_record.VARIABLE: "", rank_record.STACKS_VARIABLE: ""}
        assert records.begin_all({0: 0, 1: 1}) == {0: none, 1: none}
        monkeypatch.undo()
    assert caplog.text.count("ranks_not_watched") == 1 and descriptors() == before
    with Rank(records, path="") as rank:
        rank.run("from taskd_net import train", "train.step(1)")
        found = look(records)
    assert (found.ranks, found.watched) == (2, 0)


@pytest.mark.parametrize("name", ["x) S 1 (y", "R", ") Z", "\xff" * 9])
def test_name_of_a_process_says_nothing_about_its_state(records: Records, name: str) -> None:
    with Rank(records) as rank:
        rename = f"open('/proc/self/comm', 'wb').write({name.encode('latin-1')!r})"
        rank.run("from taskd_net import train", "train.step(1)", rename)
        assert look(records).slowest[0].seen is Seen.RUNS


def test_traced_process_is_seen_as_such(records: Records) -> None:
    """The rank asks its child to trace it, as a debugger does."""
    tracer = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.ptrace(16, os.getppid(), 0, 0) == 0\n"
        "os.waitpid(os.getppid(), 0x40000000)\n"
        "sys.stdin.read()\n"
    )
    with Rank(records) as rank:
        rank.run("from taskd_net import train", "train.step(1)", "import ctypes, subprocess, sys")
        rank.run("ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)")
        rank.begin(f"child = subprocess.Popen([sys.executable, '-c', {tracer!r}], stdin=subprocess.PIPE)")
        look_until(records, lambda now: now.slowest[0].seen is Seen.TRACED)


def test_process_that_has_another_ones_pid_is_not_the_rank(records: Records) -> None:
    records.begin(0, 0)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(SOON)
    records.started(0, ended.pid)
    record = records._held[0].descriptor
    assert record is not None
    os.pwrite(record, _marked(ended.pid), rank_record.SCRIPT_AT[0])
    assert look(records).slowest[0].seen is Seen.ENDED
    records._held[0].pid = os.getpid()
    os.pwrite(record, _marked(os.getpid()), rank_record.SCRIPT_AT[0])
    assert look(records).slowest[0].seen is Seen.ENDED


def _marked(pid: int) -> bytes:
    data = rank_record.SCRIPT.pack(1, pid, time.monotonic_ns(), 1, -1, 1, 0, 0, 0.0, 1, 1, 0, 0, b"", *[0] * 9)
    return data + rank_record.CHECK.pack(crc32(data))
