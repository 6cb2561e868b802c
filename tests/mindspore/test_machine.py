"""Scenes of a launcher in `golden/`; `pytest --rewrite-golden` writes them again. And what holds in any scene."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.job.agent.plans import AskToEnd, KillAll, Leave, StartAll, StartRanks
from taskd_net.mindspore.machine import Note, StartController
from tests.mindspore.scene import RANKS, Scene

pytestmark = pytest.mark.oldest

GOLDEN = Path(__file__).parent / "golden"


def finished() -> Scene:
    """Workers to their end, and killMaster too late."""
    scene = Scene()
    scene.say("The gate is open: the workers start.")
    scene.look()
    scene.until(3)
    scene.end()
    scene.until(5)
    scene.say("killMaster changes nothing for work that is done.")
    scene.killed = True
    scene.until(10)
    return scene


def gate() -> Scene:
    """The start waits for the gate: every 5 s."""
    scene = Scene()
    scene.say("More faults may follow, then one of this node is known; ranks of others are nothing to it.")
    scene.file((0, "fault"), FaultFlushing=True)
    scene.look()
    scene.until(10)
    scene.file((0, "fault"), (3, "fault"), FaultFlushing=False)
    scene.until(10)
    scene.file((0, "fault"))
    scene.until(5)
    return scene


def gate_stays_closed() -> Scene:
    """900 s at most."""
    scene = Scene()
    scene.file(FaultFlushing=True)
    scene.look()
    scene.until(1000)
    return scene


def kill_master() -> Scene:
    """ClusterD ends the job."""
    scene = Scene(controls=True)
    scene.look()
    scene.until(2)
    scene.note("killMaster")
    scene.killed = True
    scene.until(1)
    return scene


def kill_master_at_the_gate() -> Scene:
    """ClusterD ends the job before it starts."""
    scene = Scene(controls=True)
    scene.file(FaultFlushing=True)
    scene.look()
    scene.killed = True
    scene.until(5)
    return scene


def graceful_exit() -> Scene:
    """Workers end after SIGTERM, in their time."""
    scene = Scene()
    scene.look()
    scene.file(GracefulExit=1)
    scene.until(300)
    scene.say("No other order counts meanwhile.")
    scene.file((2, "fault"))
    scene.until(10)
    scene.file()
    scene.end()
    scene.until(12)
    return scene


def graceful_exit_takes_too_long() -> Scene:
    """SIGKILL after 600 s, and once for each order; then the workers have failed."""
    scene = Scene()
    scene.look()
    scene.file(GracefulExit=1)
    scene.until(602)
    scene.say("A new RetryTime starts them again, though GracefulExit is still 1.")
    scene.file(RetryTime=1)
    scene.until(70)
    scene.say("The next order.")
    scene.file(GracefulExit=0)
    scene.until(2)
    scene.file(GracefulExit=1)
    scene.until(2)
    return scene


def fault() -> Scene:
    """A faulty device of this node; that of another node was nothing to it."""
    scene = Scene()
    scene.look()
    scene.file((1, "fault"), RestartFaultProcess=True)
    scene.until(5)
    scene.file((1, "fault"), (3, "fault"), RestartFaultProcess=True)
    scene.until(5)
    return scene


def replaced() -> Scene:
    """Faulty ranks are restarted alone, once each, though they stay listed."""
    scene = Scene(replaces=True)
    scene.look()
    scene.fail(3)
    scene.until(50)
    scene.file((3, "fault"), RestartFaultProcess=True)
    scene.until(5)
    scene.say("A further one, while more faults may follow.")
    scene.file((3, "fault"), (2, "fault"), RestartFaultProcess=True, FaultFlushing=True)
    scene.until(10)
    scene.file((3, "fault"), (2, "fault"), RestartFaultProcess=True, FaultFlushing=False)
    scene.until(10)
    scene.say("The list is cleared; the next fault of the same rank is a new one.")
    scene.file()
    scene.until(5)
    scene.file((3, "fault"))
    scene.until(5)
    scene.say("Without RestartFaultProcess the node leaves.")
    scene.file((3, "fault"), RestartFaultProcess=False)
    scene.until(5)
    return scene


def retry_time() -> Scene:
    """RetryTime grows: all restart after 60 s, with the controller."""
    scene = Scene(controls=True)
    scene.reset = {"RankList": [], "RetryTime": 4}
    scene.say("The value at the start is the base.")
    scene.look()
    scene.until(5)
    scene.say("While ranks are listed it waits.")
    scene.file((9, "fault"), RetryTime=5)
    scene.until(5)
    scene.file()
    scene.until(70)
    scene.say("A smaller value is a new base.")
    scene.file(RetryTime=0)
    scene.until(5)
    scene.file(RetryTime=1)
    scene.until(30)
    scene.say("A further one in the pause is served by the same start.")
    scene.file(RetryTime=2, FaultFlushing=True)
    scene.until(40)
    scene.file(FaultFlushing=False)
    scene.until(10)
    return scene


def retry_time_and_pods() -> Scene:
    """After podReschedule it waits for the rank table of the new pods."""
    scene = Scene()
    scene.version = b"7\n"
    scene.look()
    scene.restart_type = b"podReschedule"
    scene.note("restartType podReschedule")
    scene.file(RetryTime=1)
    scene.until(30)
    scene.version = b"8\n"
    scene.note("version 8")
    scene.until(65)
    return scene


def hot_reset() -> Scene:
    """Devices are reset: workers end, and start when all ranks are recovered."""
    scene = Scene()
    scene.look()
    scene.until(2)
    scene.file((0, "unrecovered"), (3, "unrecovered"))
    scene.until(100)
    scene.file((0, "recovered"), (3, "unrecovered"))
    scene.until(10)
    scene.file((0, "recovered"), (3, "recovered"))
    scene.until(10)
    scene.say("The list stays, and is cleared: nothing more to do.")
    scene.file()
    scene.until(10)
    scene.say("Seen late, after its end: the workers of before the reset are ended and started.")
    scene.file((3, "recovered"))
    scene.until(3)
    scene.say("The same rank again; the list is cleared between two looks.")
    scene.file((3, "unrecovered"))
    scene.until(3)
    scene.file()
    scene.until(3)
    return scene


def hot_reset_and_pods() -> Scene:
    """The reset ends with new pods elsewhere."""
    scene = Scene()
    scene.version, scene.restart_type = b"1", b"podReschedule"
    scene.look()
    scene.file((0, "unrecovered"))
    scene.until(5)
    scene.file((0, "recovered"))
    scene.until(5)
    scene.note("version 2")
    scene.version = b"2"
    scene.until(5)
    return scene


def hot_reset_fails() -> Scene:
    """A rank of this node is faulty in the end."""
    scene = Scene(replaces=True)
    scene.look()
    scene.file((3, "unrecovered"))
    scene.until(5)
    scene.file((3, "fault"), RestartFaultProcess=True)
    scene.until(5)
    return scene


def failed() -> Scene:
    """A worker fails, and no file says why: 10 s."""
    scene = Scene()
    scene.look()
    scene.fail(2)
    scene.until(5)
    scene.fail(3)
    scene.until(10)
    return scene


def failed_before_the_reset() -> Scene:
    """The reset of its device is known 5 s after a worker's failure: the node stays."""
    scene = Scene()
    scene.look()
    scene.fail(2)
    scene.until(5)
    scene.file((2, "unrecovered"))
    scene.until(20)
    scene.file((2, "recovered"))
    scene.until(20)
    return scene


def failed_and_not_replaced() -> Scene:
    """No order comes within 120 s, and MONITOR has no answer in the end."""
    scene = Scene(replaces=True)
    scene.look()
    scene.fail(2)
    scene.until(100)
    scene.malformed = True
    scene.note("MONITOR has no answer")
    scene.until(30)
    return scene


def files() -> Scene:
    """Files that are missing, cut, or of another kind change nothing."""
    scene = Scene()
    scene.raw(b'{"RankList": [{"RankId": 3, "Sta')
    scene.look()
    scene.until(2)
    scene.say("The first usable value of a file that was there is the base.")
    scene.file((0, "unheard"), RetryTime=3)
    scene.until(2)
    scene.raw(b"")
    scene.until(2)
    scene.raw(None)
    scene.until(2)
    scene.file(RetryTime=4)
    scene.until(2)
    return scene


def no_file() -> Scene:
    """A file that comes after the start counts from 0."""
    scene = Scene()
    scene.raw(None)
    scene.look()
    scene.until(2)
    scene.file(RetryTime=1)
    scene.until(2)
    return scene


def start_fails() -> Scene:
    """The framework cannot start its workers."""
    scene = Scene()
    scene.start_fails = True
    scene.look()
    return scene


SCENES = [finished, gate, gate_stays_closed, kill_master, kill_master_at_the_gate, graceful_exit]
SCENES += [graceful_exit_takes_too_long, fault, replaced, retry_time, retry_time_and_pods, hot_reset]
SCENES += [hot_reset_and_pods, hot_reset_fails, failed, failed_before_the_reset, failed_and_not_replaced]
SCENES += [files, no_file, start_fails]


@pytest.mark.parametrize("play", SCENES)
def test_transcript(play: Callable[[], Scene], request: pytest.FixtureRequest) -> None:
    transcript = play().transcript()
    file = GOLDEN / f"{play.__name__}.txt"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(transcript, "utf-8")
    assert transcript == file.read_text("utf-8")


def test_nothing_comes_after_the_end() -> None:
    scene = start_fails()
    assert scene.over == Leave(1, "the workers could not be started")
    assert scene.look() == []


STATUSES = st.sampled_from(["fault", "unrecovered", "recovered", "unheard"])
ENTRY = st.tuples(st.sampled_from([0, 2, 3, 9]), STATUSES)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "RankList": st.lists(
            ENTRY.map(lambda entry: {"RankId": entry[0], "Status": entry[1]}) | JUNK.map(lambda junk: junk), max_size=4
        )
        | JUNK,
        "RetryTime": st.integers(-1, 3) | JUNK,
        "GracefulExit": st.integers(0, 2) | JUNK,
        "FaultFlushing": st.booleans() | JUNK,
        "RestartFaultProcess": st.booleans() | JUNK,
    },
)
SOUND = st.fixed_dictionaries(
    {
        "RankList": st.lists(ENTRY.map(lambda entry: {"RankId": entry[0], "Status": entry[1]}), max_size=3),
        "RetryTime": st.integers(0, 3),
        "GracefulExit": st.integers(0, 1),
        "FaultFlushing": st.booleans(),
        "RestartFaultProcess": st.booleans(),
    }
)
CONTENT = st.one_of(
    SOUND.map(lambda fields: json.dumps(fields).encode()),
    FIELDS.map(lambda fields: json.dumps(fields).encode()),
    st.tuples(SOUND, st.integers(1, 40)).map(lambda cut: json.dumps(cut[0]).encode()[: -cut[1]]),
    st.binary(max_size=20),
    st.none(),
)
STEP = st.one_of(
    st.tuples(st.just("reset"), CONTENT),
    st.tuples(st.just("type"), st.sampled_from([None, b"hotReset", b"podReschedule\n", b"pod", b"\xff"])),
    st.tuples(st.just("version"), st.sampled_from([None, b"1", b"2\n", b"-3", b"9" * 5000])),
    st.tuples(st.just("fail"), st.sampled_from([2, 3])),
    st.tuples(st.just("end"), st.booleans()),
    st.tuples(st.just("malformed"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 11.0, 61.0, 121.0, 601.0, 901.0])),
)


@given(st.booleans(), st.booleans(), st.lists(STEP, max_size=20))
def test_whatever_the_files_hold(replaces: bool, controls: bool, steps: list[tuple[str, object]]) -> None:
    """No error, no second process for a rank (the scene), no start through a closed gate, an end with the workers'."""
    scene = Scene(replaces=replaces, controls=controls)
    look = scene.look
    started = 0

    def watched() -> list[object]:
        nonlocal started
        held = sound(scene.reset)
        actions = look()
        kinds = [type(action) for action in actions if not isinstance(action, Note)]
        if held is not None and held.get("FaultFlushing") is True:
            assert not {StartAll, StartRanks} & set(kinds)
        if held is not None and StartAll in kinds:
            assert not any(e["RankId"] in RANKS and e["Status"] == "fault" for e in held["RankList"])
        assert kinds.count(StartController) <= 1 and (controls or StartController not in kinds)
        assert not replaces or StartRanks not in kinds or started
        started += kinds.count(StartAll)
        if Leave in kinds:
            assert kinds[-2:] == [KillAll, Leave] and not scene.running
        return list(actions)

    scene.look = watched  # type: ignore[method-assign,assignment]
    scene.look()
    for name, value in steps:
        if scene.over is not None:
            break
        match name, value:
            case "reset", bytes() | None:
                scene.reset = value
            case "type", bytes() | None:
                scene.restart_type = value
            case "version", bytes() | None:
                scene.version = value
            case "fail", int(rank) if rank in scene.running:
                scene.fail(rank)
            case "end", bool(finish) if scene.running == RANKS:
                scene.end(finish=finish)
            case "malformed", bool(malformed):
                scene.malformed = malformed
            case "wait", float(seconds):
                scene.until(seconds)
    scene.malformed, scene.killed = False, True
    scene.until(1000.0)
    assert scene.over is not None and not scene.running


def sound(content: object) -> dict[str, Any] | None:
    """The fields of a reset file, if it is one that platforms write."""
    if not isinstance(content, bytes):
        return None
    try:
        found = json.loads(content)
    except ValueError:
        return None
    expected = {"RankList", "RetryTime", "GracefulExit", "FaultFlushing", "RestartFaultProcess"}
    if not isinstance(found, dict) or found.keys() != expected:
        return None
    entries = found["RankList"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and len(entry) == 2 for entry in entries):
        return None
    return found


def test_graceful_exit_is_asked_for_once_for_each_order() -> None:
    scene = graceful_exit_takes_too_long()
    assert scene.transcript().count(AskToEnd.__name__) == 2
