"""The flows of recovery with their stages, at which a process can be killed, and what each leaves until then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net_lab.demos.job.scenarios import WORKERS
from taskd_net_lab.demos.job.terms import FAULTY
from taskd_net_lab.demos.recovery.manager import ISOLATED, SAYS, WATCHES
from taskd_net_lab.demos.recovery.stage import INIT

STRATEGIES: Final = "RecoverStrategy retry recover downgrade dump exit"
NODE_1: Final = WORKERS[2:]

_OF_RANK: Final = {**dict.fromkeys("012", ("0", "OK")), "3": ("2", "fault")}
TEST_RESULT: Final = json.dumps(
    {rank: {"rankResult": {"0": {"code": code, "result": text}}} for rank, (code, text) in _OF_RANK.items()}
)
"""The result of a stress test that finds a fault in rank 3."""


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a flow, or of its part until a stage, with the platform's part in it.

    Args:
        commands: to each Agent; `{}` stands for the restarts that are left.
        starts: the training processes that start again.
        ends: exit code of the launcher that ends, `-9` where the platform ends it; empty for none.
        node: of that launcher.
        restarts: restarts of all processes in it.
        workers: command to each Worker; empty for none.
    """

    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    starts: tuple[str, ...] = ()
    ends: str = ""
    node: int = 1
    restarts: int = 0
    workers: str = ""


NOTHING: Final = Course()
REPLACED: Final = Course({"Agent/1": ("203", "210 {}")}, NODE_1, "1")
RESTARTED: Final = Course({"Agent/0": ("208 {}",), "Agent/1": ("203", "210 {}")}, WORKERS, "1", restarts=1)
IN_PLACE: Final = Course({"Agent/1": ('209 ["3"]',)}, ("Worker/3",))
KILLED: Final = Course({"Agent/1": ("210 {}",)}, NODE_1, "-9")
RANK_ENDED: Final = Course({"Agent/1": ('213 ["3"]', "210 {}")}, NODE_1, "-9")
RANK_REPLACED: Final = Course({"Agent/1": ('213 ["3"]', "203", "210 {}")}, NODE_1, "1")
MASTER_REPLACED: Final = Course({"Agent/0": ("203", "210 {}")}, WORKERS[:2], "1", node=0)
SWITCHED: Final = Course(workers="204")
TESTED: Final = Course(workers="205")
TESTED_AND_REPLACED: Final = Course(REPLACED.commands, NODE_1, "1", workers="205")


@dataclass(frozen=True, slots=True)
class Stop:
    """A stage at which a flow rests.

    Args:
        at: the state of ClusterD; the client's call that gets `answer`; or the signal that was sent.
        held: what the framework, or each Worker, does not report until it may; empty for nothing.
        calls, reports: how many calls the framework has got, and reports ClusterD, of those of the flow.
        course: so far.
        waits: times that do not pass.
        then: calls of the framework after the kill, which no order of ClusterD has led to.
        outcomes: of ClusterD's states, instead of those of the scenario.
        answer: ClusterD's answer to the call.
    """

    at: str
    held: str = ""
    calls: int = 0
    reports: int = 0
    course: Course = NOTHING
    waits: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    outcomes: tuple[Mapping[str, str], ...] = ()
    answer: Mapping[str, object] | None = None

    @property
    def is_before(self) -> bool:
        """True for a stage before the fault."""
        return self.answer is not None or self.at == INIT

    @property
    def held_by_workers(self) -> bool:
        """True where the Workers hold their report back."""
        return bool(self.held) and self.held == self.course.workers


GOES_ON: Final = ("continue",)
"""The Manager ends a pause that ClusterD has forgotten."""

CALLS: Final = ("Init", "Register", "SubscribeProcessManageSignal")
"""The client's calls before it reads signals."""

BEFORE: Final = (*(Stop(call, answer={"silent": True}) for call in CALLS), Stop(INIT))
"""The stages before any fault, which are those of all flows."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow of recovery.

    Args:
        name: of the flow, and of the scenario of the package that has it.
        groups: its stages. A whole flow comes after each group.
        calls, reports: all of the framework's, and all that ClusterD gets.
        course: the whole.
        variables: further environment of the processes.
        scenario: of the package, if its name is another one.
        again: the flow after a kill in a round; None for this one. The Manager reports the fault again, so nothing
            comes that has led to it.
    """

    name: str
    groups: tuple[tuple[Stop, ...], ...]
    calls: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    course: Course = NOTHING
    variables: Mapping[str, str] = field(default_factory=dict)
    scenario: str = ""
    again: Flow | None = None

    @property
    def stops(self) -> tuple[Stop, ...]:
        """All stages, in order."""
        return tuple(stop for group in self.groups for stop in group)

    @property
    def file(self) -> str:
        """Name of the scenario of the package."""
        return self.scenario or self.name


def _alone(*stops: Stop) -> tuple[tuple[Stop, ...], ...]:
    return tuple((stop,) for stop in stops)


def _begin(
    lost: str,
    course: Course = NOTHING,
    calls: int = 0,
    reports: int = 0,
    until: Course = NOTHING,
    *,
    waits: bool = True,
) -> list[Stop]:
    """The stages from the fault to the choice of a strategy.

    Args:
        lost: the ranks that the framework gets.
        course: with the choice.
        calls, reports, until: before the fault.
        waits: ClusterD waits for the release of devices, as it does unless it retries.
    """
    sleeps = [
        Stop("wait fault flush finished", "", calls + 1, reports + 1, until, ("flush",)),
        Stop("notify global fault", "", calls + 1, reports + 1, until, ("release", "in_place")),
    ]
    return [
        Stop("wait report stop complete", "stop", calls + 1, reports, until),
        *(sleeps if waits else []),
        Stop("wait report recover strategy", f"ranks {lost}", calls + 2, reports + 1, course),
    ]


def _restart(calls: int, reports: int) -> list[Stop]:
    """The stages of a restart of all processes, after the strategy `exit`."""
    return [
        Stop("listen schedule result", "", calls, reports, RESTARTED, ("poll", "settle")),
        Stop("wait restart all process", "", calls, reports, RESTARTED, ("restart",)),
    ]


_ROUND: Final = ("StopComplete 0", STRATEGIES)
_OK: Final = "RecoverStatus 0"

RETRY: Final = Flow(
    "retry",
    (BEFORE, *_alone(*_begin("3", waits=False), Stop("wait report step retry status", "retry", 3, 2))),
    ("stop", "ranks 3", "retry"),
    (*_ROUND, _OK),
)
RECOVER: Final = Flow(
    "recover",
    (
        BEFORE,
        *_alone(*_begin("2 3", REPLACED), Stop("wait report process recover status", "recover", 3, 2, REPLACED)),
    ),
    ("stop", "ranks 2 3", "recover"),
    (*_ROUND, _OK),
    REPLACED,
)
FURTHER: Final = (
    Flow(
        "recover-in-place",
        _alone(*_begin("3"), Stop("wait report process recover status", "recover", 3, 2, IN_PLACE)),
        ("stop", "ranks 3", "recover"),
        (*_ROUND, _OK),
        IN_PLACE,
    ),
    Flow(
        "dump",
        _alone(*_begin("2 3", REPLACED), Stop("wait report dump status", "dump", 3, 2, REPLACED), *_restart(3, 3)),
        ("stop", "ranks 2 3", "dump"),
        (*_ROUND, _OK),
        RESTARTED,
    ),
    Flow("exit", _alone(*_begin("2 3", REPLACED), *_restart(2, 2)), ("stop", "ranks 2 3"), _ROUND, RESTARTED),
    Flow(
        "save-and-exit",
        _alone(Stop("wait report dump status", "save", 1, 0, REPLACED), *_restart(1, 1)),
        ("save",),
        (_OK,),
        RESTARTED,
    ),
    Flow(
        "downgrade-upgrade",
        _alone(
            *_begin("2 3", REPLACED),
            Stop("wait report scale in isolate ranks", "downgrade", 3, 2, REPLACED),
            Stop("wait report scale in status", ISOLATED, 3, 3, REPLACED),
            Stop("scale in running", "", 3, 4, REPLACED, ("pods",)),
            Stop("wait report scale out status", "upgrade", 4, 4, REPLACED),
        ),
        ("stop", "ranks 2 3", "downgrade", "upgrade"),
        (*_ROUND, "RecoverStatus 201", _OK, _OK),
        REPLACED,
        {SAYS: '{"downgrade": [201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201]}'},
    ),
    Flow(
        "hot-switch",
        _alone(
            Stop("wait new pod", "", 1, 1, waits=("pod",)),
            Stop("wait report pause result", "hot switch", 1),
            Stop("wait old pod deleted", "", 1, 1, waits=("old_pod",)),
            Stop("wait report restart train result", "migration", 2, 1),
        ),
        ("hot switch", "migration"),
        ("RecoverStrategy migration", _OK),
    ),
    Flow(
        "hot-switch-timeout",
        _alone(Stop("wait new pod", "", 1, 1, waits=("new_pod",))),
        ("hot switch", "stop switch"),
        ("RecoverStrategy migration",),
    ),
    Flow(
        "switch-cards",
        _alone(
            Stop("wait report pause complete", "pause", 1, then=GOES_ON),
            Stop("wait switch nic finished", "204", 1, 1, SWITCHED, then=GOES_ON),
            Stop("wait continue train", "continue", 2, 2, SWITCHED, then=GOES_ON),
        ),
        ("pause", "continue"),
        ("StopComplete 0", "SwitchNicResult true", _OK),
        SWITCHED,
    ),
    Flow(
        "stress-test",
        _alone(
            Stop("wait report pause complete", "pause", 1, then=GOES_ON),
            Stop("wait stress test finished", "205", 1, 1, TESTED, then=GOES_ON),
            *_begin("2 3", TESTED_AND_REPLACED, 1, 2, TESTED),
            Stop("wait report process recover status", "recover", 4, 4, TESTED_AND_REPLACED),
        ),
        ("pause", "stop", "ranks 2 3", "recover"),
        (
            "StopComplete 0",
            f"StressTestResult {TEST_RESULT}",
            *_ROUND,
            _OK,
        ),
        TESTED_AND_REPLACED,
        {FAULTY: "3"},
        again=RECOVER,
    ),
    Flow(
        "pre-exit",
        _alone(
            *_begin("2 3", RANK_REPLACED, 0, 0, RANK_ENDED),
            Stop("wait report process recover status", "recover", 3, 2, RANK_REPLACED),
        ),
        ("stop", "ranks 2 3", "recover"),
        (*_ROUND, _OK),
        RANK_REPLACED,
        {WATCHES: "on"},
        again=RECOVER,
    ),
    Flow("pause-start-agent", _alone(Stop("pauseStartAgent", course=KILLED))),
    Flow(
        "kill-master",
        _alone(
            Stop(
                "wait report stop complete",
                "stop",
                1,
                outcomes=({"state": "wait report stop complete", "event": "report timeout"},),
            )
        ),
        ("stop",),
        ("StopComplete 0",),
        MASTER_REPLACED,
    ),
    Flow(
        "switched-on-later",
        _alone(Stop("Init", answer={"code": 403})),
        RECOVER.calls,
        RECOVER.reports,
        REPLACED,
        scenario="recover",
    ),
)
"""The flows beside `retry` and `recover`."""
