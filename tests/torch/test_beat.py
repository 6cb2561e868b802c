"""The beat of a training process, with a double of torch's groups: real processes below the start program."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net.base import rank_record
from taskd_net.base.progress import Seen
from taskd_net.job.agent.records import Records
from tests.agent.ranks import PROGRAM, SOON, Rank, look, look_until
from tests.torch.test_start import PROGRAM as START

GROUPS = """
import gc, sys, types

class Backend:
    number = asked = 0

    def _get_sequence_number_for_group(self):
        self.asked += 1
        return self.number

class World:
    _device_types = ["cpu", "cuda"]

    def __init__(self, *backends):
        self.backends = dict(zip(self._device_types, backends))

    def _get_backend(self, device):
        return self.backends[device]

groups = types.ModuleType("torch.distributed.distributed_c10d")
groups.GroupMember = types.SimpleNamespace(WORLD=None)
one, other = Backend(), Backend()
"""
IMPORTED = "sys.modules[groups.__name__] = groups; gc.collect()"
THREADS = "print(len(__import__('os').listdir('/proc/self/task')))"


@pytest.fixture
def records() -> Iterator[Records]:
    made = Records()
    yield made
    made.close()


@pytest.fixture
def rank(records: Records, tmp_path: Path) -> Iterator[Rank]:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    with Rank(records, 0, 0, str(START), str(script)) as made:
        made.run(GROUPS)
        yield made


def beats(rank: Rank, records: Records) -> None:
    """Wait for the first beat, with the number 3."""
    rank.run("groups.GroupMember.WORLD = World(one, one); one.number = 3", IMPORTED)
    look_until(records, lambda now: now.low_group == 3)


def seen_for(records: Records, seconds: float) -> set[Seen]:
    """The states of the one rank for some time."""
    until, seen = time.monotonic() + seconds, set()
    while time.monotonic() < until:
        seen.add(look(records).slowest[0].seen)
        select.select([], [], [], 0.1)
    return seen


def test_no_thread_runs_before_torchs_groups_are_imported(rank: Rank, records: Records) -> None:
    assert rank.run("gc.collect()", "gc.collect()", THREADS) == "1"
    assert rank.run("print([each.__name__ for each in gc.callbacks])") == "['look_for_torch']"
    beats(rank, records)
    assert rank.run(THREADS, "gc.collect()", THREADS, "print(gc.callbacks)") == "[]"
    assert rank.run(THREADS) == "2"


def test_number_of_the_last_collective_is_seen(rank: Rank, records: Records) -> None:
    rank.run(IMPORTED)
    assert look(records).watched == 0
    rank.run("groups.GroupMember.WORLD = World(one, one); one.number = 3")
    found = look_until(records, lambda now: now.watched)
    assert (found.low_group, found.high_group, found.marking) == (3, 3, 0)
    rank.run("one.number = 4")
    assert look_until(records, lambda now: now.low_group == 4).slowest[0].moved == 0.0
    rank.run("groups.GroupMember.WORLD = World(one, other); other.number = 7")
    look_until(records, lambda now: now.low_group == 11)
    rank.run("groups.GroupMember.WORLD = None")
    look_until(records, lambda now: now.watched == 0)


@pytest.mark.parametrize(
    "world",
    [
        "World(one)",
        "types.SimpleNamespace()",
        "7",
        "World(types.SimpleNamespace(_get_sequence_number_for_group=lambda: 1 / 0), one)",
        "World(types.SimpleNamespace(_get_sequence_number_for_group=lambda: -2), one)",
    ],
)
def test_group_without_a_number_is_not_watched(rank: Rank, records: Records, world: str) -> None:
    rank.run(f"groups.GroupMember.WORLD = {world}", IMPORTED)
    rank.run("import time; time.sleep(2.5)")
    assert look(records).watched == 0
    rank.run("groups.GroupMember.WORLD = World(other, other)")
    assert look_until(records, lambda now: now.watched).low_group == 0
    assert rank.end() == ""


def test_group_that_refuses_is_asked_once(rank: Rank, records: Records) -> None:
    rank.run("Backend._get_sequence_number_for_group = lambda self: setattr(self, 'asked', self.asked + 1) or {}[1]")
    rank.run("groups.GroupMember.WORLD = World(one, one)", IMPORTED, "import time; time.sleep(2.5)")
    assert rank.run("print(one.asked)") == "1"


def test_rank_that_holds_the_interpreter_is_seen(rank: Rank, records: Records) -> None:
    beats(rank, records)
    rank.run("import ctypes")
    rank.begin("ctypes.PyDLL(None).sleep(6)")
    found = look_until(records, lambda now: now.slowest[0].seen is not Seen.RUNS)
    assert found.slowest[0].seen is Seen.HOLDS and found.low_group == 3
    assert rank.line() == "done"
    look_until(records, lambda now: now.slowest[0].seen is Seen.RUNS)


def test_rank_that_goes_on_after_a_stop_never_held_the_interpreter(rank: Rank, records: Records) -> None:
    beats(rank, records)
    rank.process.send_signal(signal.SIGSTOP)
    look_until(records, lambda now: now.slowest[0].seen is Seen.STOPPED)
    seen = seen_for(records, 4.0)
    rank.process.send_signal(signal.SIGCONT)
    assert (seen, seen_for(records, 2.0) - seen) == ({Seen.STOPPED}, {Seen.RUNS})


def test_forked_children_do_not_beat(rank: Rank, records: Records) -> None:
    """Neither one that imports torch itself, nor one of a process that beats."""
    count = "f = open({!r}, 'w'); print(len(os.listdir('/proc/self/task')), file=f); f.close(); os._exit(0)"
    folder = Path(str(rank.process.args[-1])).parent  # type: ignore[index]
    for name, before in (("first", IMPORTED), ("second", "time.sleep(1.5)")):
        child = f"pid = os.fork()\nif not pid:\n {before}\n time.sleep(0.2)\n {count.format(str(folder / name))}"
        rank.run("import os, time", child, "os.waitpid(pid, 0)")
        assert (folder / name).read_text() == "1\n"
        if name == "first":
            beats(rank, records)
    rank.run("one.number = 5")
    look_until(records, lambda now: now.low_group == 5)


def test_process_that_ends_slowly_does_not_hold_the_interpreter(rank: Rank, records: Records) -> None:
    """The end of the interpreter ends the beat. Functions of `atexit` that were registered before run after it."""
    rank.run("import atexit, ctypes", "atexit.register(ctypes.PyDLL(None).sleep, 5)")
    beats(rank, records)
    rank.begin("sys.exit()")
    assert seen_for(records, 4.5) == {Seen.RUNS}
    assert rank.process.wait(SOON) == 0


def test_script_that_executes_another_program_holds_nothing(rank: Rank, records: Records) -> None:
    beats(rank, records)
    rank.begin("import os; os.execv(sys.executable, [sys.executable, '-c', 'input()'])")
    assert seen_for(records, 4.5) == {Seen.RUNS}


def test_ends_of_processes_that_beat_are_quiet(records: Records, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{GROUPS}\nimport time\n{IMPORTED}\ntime.sleep(float(sys.argv[1]))\n")
    for pause in ("0", "0.01", "0.05", "1.0"):
        with Rank(records, 0, 0, str(START), str(script), pause) as rank:
            assert rank.end() == "" and rank.process.returncode == 0


@pytest.mark.parametrize("path", ["", "/proc/1/fd/3", "/proc/{}/fd/99999", "/proc/{}/fd/0"])
def test_script_without_a_record_goes_on(records: Records, tmp_path: Path, path: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{GROUPS}\nimport time\n{IMPORTED}\ntime.sleep(0.3)\nprint(len(gc.callbacks))\n")
    records.begin(0, 0)
    file = tmp_path / "error.json"
    variables = {"TORCHELASTIC_ERROR_FILE": str(file)}
    with Rank(records, 0, 0, str(START), str(script), path=path.format(os.getpid()), **variables) as rank:
        assert rank.line() == "0"
        assert rank.end() == "" and rank.process.returncode == 0
    assert {each.name for each in tmp_path.iterdir() if each.stat().st_size} == {"train.py"}


def test_beat_of_a_record_of_another_version_is_none(records: Records, tmp_path: Path) -> None:
    path = records.begin(0, 0)[rank_record.VARIABLE]
    descriptor = os.open(path, os.O_RDWR)
    os.pwrite(descriptor, b"\x09", 8)
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    with Rank(records, 0, 0, str(START), str(script), path=path) as rank:
        rank.run(GROUPS, "groups.GroupMember.WORLD = World(one, one)", IMPORTED, "import time; time.sleep(0.3)")
        assert rank.end() == ""
    assert rank_record.newest(os.pread(descriptor, rank_record.BYTES, 0), rank_record.BEAT, rank_record.BEAT_AT) is None
    os.close(descriptor)
