"""A scenario: jobs, the platform's outcomes, scripted answers, and steps. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net_lab.clusterd.course import SECONDS, Wait
from taskd_net_lab.clusterd.messages import Signal
from taskd_net_lab.clusterd.round import Job
from taskd_net_lab.clusterd.table import Event, State

FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Fault:
    """Ranks are faulty, by type. With `pre_exit` the client is to end them first, and their death is the fault."""

    ranks: Mapping[int, int]
    in_place: bool = True
    pre_exit: bool = False


@dataclass(frozen=True, slots=True)
class HotSwitch:
    """The pods of these ranks are replaced while they train."""

    ranks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SwitchCards:
    """Network cards are switched: ranks, and for each whether it goes to the backup card."""

    ranks: tuple[int, ...]
    ops: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class StressTest:
    """Devices are tested: operations by rank."""

    tests: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Profiling:
    """The profiling switch changes: a state for each domain."""

    domains: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Orders:
    """A signal is sent, `count` times, each with a uuid of its own if it names none."""

    signal: Signal
    count: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """The platform's settings of the job change, and its times for all jobs."""

    settings: Mapping[str, object]
    waits: Mapping[Wait, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Away:
    """ClusterD is killed, and back after these seconds, with an empty memory."""

    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """The stand-in ends."""


Action = Fault | HotSwitch | SwitchCards | StressTest | Profiling | Orders | Change | Away | End


@dataclass(frozen=True, slots=True)
class Step:
    """A step.

    Args:
        action: done when its time has come.
        job: name of the job.
        when: `registered`, `subscribed`, `unsubscribed`, a state of the job, or empty: after the step before.
        wait: seconds between that and the action.
    """

    action: Action
    job: str
    when: str = ""
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Scripted:
    """An answer to be given instead of the right one.

    Args:
        call: name of the method.
        code, info: of a Status.
        grpc: name of gRPC's status instead; empty for none.
        silent: no answer at all.
        times: calls that get it.
        since, until: seconds from the start in which it counts.
    """

    call: str
    code: int = 0
    info: str = ""
    grpc: str = ""
    silent: bool = False
    times: float = FOREVER
    since: float = 0.0
    until: float = FOREVER


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Args:
        jobs: known to the platform.
        waits: times instead of those in `course.SECONDS`.
        outcomes: the platform's outcomes, by state.
        answers: scripted ones.
        steps: in their order.
    """

    jobs: tuple[Job, ...]
    waits: Mapping[Wait, float] = field(default_factory=lambda: SECONDS)
    outcomes: Mapping[State, tuple[Event, ...]] = field(default_factory=dict)
    answers: tuple[Scripted, ...] = ()
    steps: tuple[Step, ...] = ()
