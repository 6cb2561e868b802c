"""Marks of a training script, as the Agent of its rank sees them from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from taskd_net import train
from taskd_net.base import rank_record
from taskd_net.base.progress import Seen, Spent
from taskd_net.job.agent.records import Records
from tests.agent.ranks import ROOT, SOON, Rank, look, look_until

IMPORT = "from taskd_net import train"


@pytest.fixture
def records() -> Iterator[Records]:
    made = Records()
    yield made
    made.close()


@pytest.fixture
def rank(records: Records) -> Iterator[Rank]:
    with Rank(records, 0, 5) as made:
        made.run(IMPORT)
        yield made


def test_steps_are_seen_with_all_that_they_tell(records: Records, rank: Rank) -> None:
    before = look(records)
    assert (before.ranks, before.watched, before.marked) == (1, 0, None)
    rank.run("train.step(7, loss=0.5, samples=32, of=1000)", "train.step(8, samples=16)")
    found = look(records)
    assert (found.watched, found.marking, found.lowest, found.highest) == (1, 1, 8, 8)
    assert (found.steps, found.again, found.samples, found.loss, found.of) == (2, 0, 48, 0.5, 1000)
    (slowest,) = found.slowest
    assert (slowest.rank, slowest.pid, slowest.seen, slowest.step) == (5, rank.process.pid, Seen.RUNS, 8)
    assert slowest.marked == found.marked and slowest.marked is not None and 0 <= slowest.marked < 20


def test_repeated_steps_are_counted_apart(records: Records) -> None:
    records.note_highest(9)
    with Rank(records) as rank:
        rank.run(IMPORT, *(f"train.step({n})" for n in (7, 8, 9, 10, 9)))
        assert (look(records).steps, look(records).again) == (5, 4)
    with Rank(records) as rank:
        rank.run(IMPORT, "train.step(9)")
        found = look(records)
        assert (found.steps, found.again, found.highest) == (6, 5, 9)


def test_process_that_goes_back_to_a_checkpoint_repeats_steps(records: Records, rank: Rank) -> None:
    rank.run("import time", *(f"train.step({n})" for n in (1, 2, 3)), "time.sleep(0.3)", "train.step(2)")
    rank.run("time.sleep(0.3)", "train.step(3)", "time.sleep(0.3)", "train.step(4)")
    found = look(records)
    assert (found.steps, found.again) == (6, 2)
    assert found.spent[Spent.AGAIN] >= 0.6 and found.spent[Spent.STEPS] >= 0.3


TIMED = """
import json, time
from contextlib import ExitStack

def timed(name, *blocks):
    before = time.monotonic()
    with ExitStack() as stack:
        [stack.enter_context(block) for block in blocks]
        time.sleep(0.1)
    took[name] = took.get(name, 0.0) + time.monotonic() - before

took = {}
train.step(1)
timed("again"); train.step(2)
timed("steps"); train.step(3)
for name in ("data", "load", "evaluation", "my own"):
    timed(name, train.section(name))
timed("checkpoint", train.waiting(), train.section("checkpoint"))
timed("waiting", train.section("checkpoint"), train.waiting())
timed("steps"); train.step(4)
print(json.dumps(took))
"""


def test_time_of_steps_and_sections_is_booked_apart(records: Records) -> None:
    records.note_highest(2)
    with Rank(records) as rank:
        took = json.loads(rank.run("import time; time.sleep(0.3)", IMPORT, TIMED))
        spent = {each.value: seconds for each, seconds in look(records).spent.items()}
    assert 0.3 <= spent.pop("start") < SOON
    took["other"] = took.pop("my own")
    assert spent.keys() - {"steps"} == took.keys() - {"steps"}
    assert {name: abs(took[name] - spent[name]) < 0.05 for name in took if name != "steps"} == {
        name: True for name in took if name != "steps"
    }, (took, spent)
    assert spent["steps"] >= took["steps"]


def test_section_and_wait_are_seen_while_they_last(records: Records, rank: Rank) -> None:
    name = "säen " * 9
    rank.run(f"outer = train.section({name!r})", "outer.__enter__()")
    (seen,) = look(records).slowest
    assert (seen.section, seen.waits) == (name[:32], False)
    before = look(records).spent[Spent.OTHER]
    assert look_until(records, lambda now: now.spent[Spent.OTHER] > before + 0.05).steps == 0
    rank.run("inner = train.waiting()", "inner.__enter__()")
    (seen,) = look(records).slowest
    assert (seen.section, seen.waits) == ("", True)
    rank.run("inner.__exit__(None, None, None)")
    assert look(records).slowest[0].section == name[:32]
    rank.run("outer.__exit__(None, None, None)", "outer.__exit__(None, None, None)")
    assert look(records).slowest[0].section == ""


def test_blocks_that_end_in_another_order_leave_none(records: Records, rank: Rank) -> None:
    rank.run("a, b = train.section('a'), train.section('b')", "a.__enter__(); b.__enter__(); a.__exit__(0, 0, 0)")
    assert look(records).slowest[0].section == "b"
    rank.run("b.__exit__(0, 0, 0)")
    assert look(records).slowest[0].section == ""


def test_step_within_a_section_leaves_the_section(records: Records, rank: Rank) -> None:
    rank.run("a = train.section('evaluation')", "a.__enter__()", "train.step(1)")
    assert (look(records).slowest[0].section, look(records).highest) == ("evaluation", 1)


def test_more_names_than_are_kept_have_books_all_the_same(records: Records, rank: Rank) -> None:
    rank.run("for n in range(train.NAMES_MOST + 9): train.section(f'epoch {n}').__enter__()")
    assert look(records).slowest[0].section == f"epoch {train.NAMES_MOST + 8}"


def test_sections_of_other_threads_stop_no_training(records: Records, rank: Rank) -> None:
    other = "import threading; t = threading.Thread(target={}); t.start(); t.join()"
    rank.run("train.step(1)", other.format("train.section('data').__enter__"))
    assert look(records).slowest[0].section == ""
    rank.run(other.format("lambda: (train.step(2), train.section('data').__enter__())"))
    assert (look(records).highest, look(records).slowest[0].section) == (2, "data")


def test_children_of_a_rank_write_nothing(records: Records, rank: Rank) -> None:
    """Forked ones, those that another method starts, and those that are there after the rank."""
    rank.run("train.step(1)", "import os, subprocess, sys")
    rank.run("pid = os.fork() or (train.step(50), train.section('x').__enter__(), os._exit(0))", "os.waitpid(pid, 0)")
    child = "from taskd_net import train; train.step(60); print(train._process.ledger)"
    assert rank.run(f"print(subprocess.check_output([sys.executable, '-c', {child!r}], text=True))") == ""
    rank.run("train.step(2)")
    found = look(records)
    assert (found.highest, found.steps, found.slowest[0].section) == (2, 2, "")


def test_another_process_with_the_path_is_not_the_rank(records: Records) -> None:
    path = records.begin_all({0: 0, 1: 1})[0][rank_record.VARIABLE]
    with Rank(records, path=path) as rank, Rank(records, 1, 1, path=path) as other:
        rank.run(IMPORT, "train.step(3)")
        other.run(IMPORT, "train.step(9)")
        rank.run("train.step(4)")
        found = look(records)
        assert (found.ranks, found.marking, found.highest) == (2, 1, 4)


def test_counts_go_on_after_an_exec(records: Records) -> None:
    again = (
        "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'from taskd_net import train; train.step(2)'])"
    )
    with Rank(records) as rank:
        rank.run(IMPORT, "train.step(1)")
        rank.begin(again)
        rank.end()
        found = look(records)
    assert (found.steps, found.highest, found.slowest[0].seen) == (2, 2, Seen.ENDED)


def test_record_outlives_a_kill_and_a_stop(records: Records, rank: Rank) -> None:
    rank.run("train.step(3)")
    rank.process.send_signal(signal.SIGSTOP)
    assert look_until(records, lambda now: now.slowest[0].seen is Seen.STOPPED).highest == 3
    rank.process.kill()
    rank.process.wait()
    found = look_until(records, lambda now: now.slowest[0].seen is Seen.ENDED)
    assert (found.highest, found.marking) == (3, 1)


def test_size_of_a_record_cannot_change(records: Records) -> None:
    path = records.begin(0, 0)[rank_record.VARIABLE]
    with Rank(records, path=path) as rank:
        shrink = f"import os; d = os.open({path!r}, os.O_RDWR)"
        rank.run(IMPORT, shrink)
        for size in (0, 2 * rank_record.BYTES):
            refused = f"try: os.ftruncate(d, {size})\nexcept OSError as error: print(type(error).__name__)"
            assert rank.run(refused) == "PermissionError"
        rank.run("train.step(1)")
    assert look(records).highest == 1


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("train.step('7')", "mark=step reason=\"'7'; expected a whole number from 0 to"),
        ("train.step(-1)", 'mark=step reason="-1; expected'),
        ("train.step(True)", 'mark=step reason="True; expected'),
        ("train.step(10**400)", 'mark=step reason="'),
        ("train.step(1, loss=Tensor())", "mark=loss reason=\"<class 'names.Tensor'>; expected a Python number"),
        ("train.step(1, loss='0.5')", "mark=loss reason=\"'0.5'; expected"),
        ("train.step(1, loss=10**400)", "mark=loss reason="),
        ("train.step(1, samples=-5)", 'mark=samples reason="-5; expected'),
        ("train.step(1, of=1.5)", 'mark=of reason="1.5; expected'),
        ("train.section([]).__enter__()", "mark=section reason=\"<class 'list'>; expected a text"),
    ],
)
def test_values_of_another_kind_are_one_line(records: Records, rank: Rank, call: str, line: str) -> None:
    rank.run(
        "class Tensor: __module__ = 'names'; __float__ = __int__ = __index__ = __repr__ = __str__ = lambda _: 1 / 0",
        *[call] * 3,
    )
    said = rank.end().splitlines()
    assert len(said) == 1 and "event=mark_refused" in said[0] and line in said[0], said
    found = look(records)
    assert (found.samples, found.of, found.loss) == (0, None, None)
    assert found.steps == (3 if "step(1," in call else 0)


def test_numbers_of_other_types_are_read(records: Records, rank: Rank) -> None:
    rank.run("from fractions import Fraction", "import enum", "One = enum.IntEnum('One', 'one')")
    rank.run("train.step(One.one, loss=Fraction(1, 4), samples=One.one, of=One.one)", "train.step(2, loss=3)")
    found = look(records)
    assert (found.highest, found.loss, found.samples, found.of) == (2, 3.0, 1, 1)
    rank.run("train.step(3, loss=float('nan'))", "train.step(4, samples=10**15)", "train.step(5, samples=10**15)")
    assert (look(records).loss, look(records).samples) == (None, 10**15)


def test_record_that_cannot_be_opened_is_one_line(records: Records) -> None:
    records.begin(0, 0)
    for path in (f"/proc/{os.getpid()}/fd/99999", f"/proc/{os.getpid()}/exe", f"/proc/{os.getpid()}/fd/0/.."):
        with Rank(records, path=path) as rank:
            rank.run(IMPORT, "train.step(1)", "train.step(2)")
            said = rank.end().splitlines()
        assert [line.count("event=marks_not_seen") for line in said] == ([] if path.endswith("exe") else [1]), said


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_record_of_another_users_agent_is_one_line(records: Records) -> None:
    with Rank(records) as rank:
        rank.run(
            "import math, numbers, os, threading, taskd_net",
            "from taskd_net.base import rank_record, progress, logger, untrusted",
        )
        rank.run("source = open('taskd_net/train.py').read()", "os.setresuid(65534, 65534, 65534)")
        rank.run("exec(compile(source, 'train.py', 'exec'), {'__name__': 'train'})")
        assert "event=marks_not_seen" in rank.end()


def test_record_of_another_version_is_left_alone(records: Records) -> None:
    path = records.begin(0, 0)[rank_record.VARIABLE]
    descriptor = os.open(path, os.O_RDWR)
    os.pwrite(descriptor, b"\0\0\0\x09", 8)
    os.close(descriptor)
    with Rank(records, path=path) as rank:
        rank.run(IMPORT, "train.step(1)")
        assert "is no record of version 1" in rank.end()
    assert look(records).marking == 0


def test_marks_do_nothing_without_a_record() -> None:
    script = (
        f"import sys\n{IMPORT}\ntrain.step('none', loss=train)\n"
        "with train.section(7), train.waiting(): pass\n"
        "print(sorted({'torch', 'grpc', 'asyncio'} & sys.modules.keys()))"
    )
    for variable in ("", "/proc/1/fd/3", "nonsense"):
        environment = os.environ | {rank_record.VARIABLE: variable}
        said = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert (said.stdout, said.stderr) == ("[]\n", "")


def test_two_threads_that_mark_steps_write_whole_slots(records: Records, rank: Rank) -> None:
    rank.run(
        "import threading",
        "def marks(k): [train.step(n) for n in range(k, 20_000 + k)]",
        "both = [threading.Thread(target=marks, args=(k,)) for k in (0, 10**6)]",
        "[each.start() for each in both]",
    )
    done = threading.Event()
    seen = []

    def end() -> None:
        rank.run("[each.join() for each in both]")
        done.set()

    waiter = threading.Thread(target=end)
    waiter.start()
    while not done.is_set():
        seen.append(look(records))
    waiter.join()
    last = look(records)
    assert all(each.marking == 1 for each in seen[1:]) and last.highest in (19_999, 10**6 + 19_999)
