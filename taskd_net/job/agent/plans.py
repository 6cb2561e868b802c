"""Plans of an Agent: the steps that a command takes. Pure data.

Most steps call the training framework's functions; the others, from `Pause` on, are the Agent's own. A framework has
`Plans` of its own for the commands that it carries out in its own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from taskd_net.base.cause import AS_TERMINATED
from taskd_net.job.agent.messages import Exit, Meeting


@dataclass(frozen=True, slots=True)
class StartAll:
    """Start every worker of this node.

    Args:
        remaining: restarts that remain, for a framework that counts them; None: as many as before.
        meeting: the nodes that have met by way of the Mgr; None where the framework lets them meet.
    """

    remaining: int | None = None
    meeting: Meeting | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """Make ready for a start: the workers' number, and on node 0 a fresh store for them."""


@dataclass(frozen=True, slots=True)
class TakeMeeting:
    """Take the outcome of a meeting in which other nodes have come back, for workers that start alone from now on."""

    meeting: Meeting


@dataclass(frozen=True, slots=True)
class KillAll:
    """End every worker of this node."""


@dataclass(frozen=True, slots=True)
class KillRanks:
    """End the workers with these global ranks, as far as they are on this node."""

    ranks: frozenset[int]


@dataclass(frozen=True, slots=True)
class StartRanks:
    """Start the workers with these global ranks again, as far as they are on this node.

    PyTorch's function ends them, too.
    """

    ranks: frozenset[int]


@dataclass(frozen=True, slots=True)
class AskToEnd:
    """Send SIGTERM to every worker of this node that runs."""


@dataclass(frozen=True, slots=True)
class Look:
    """Ask for the state of the workers."""


Call = StartAll | Offer | TakeMeeting | KillAll | KillRanks | StartRanks | AskToEnd | Look


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AwaitEnd:
    """Wait until no worker runs, for some seconds at most."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AwaitMeeting:
    """Report 304, and wait until all nodes are ready for a round."""

    round: int


@dataclass(frozen=True, slots=True)
class AwaitRelease:
    """Report 306, and wait until the workers of all nodes have succeeded in a round."""

    round: int


@dataclass(frozen=True, slots=True)
class ReportNoRanks:
    """Report 202 without ranks."""


@dataclass(frozen=True, slots=True)
class Leave:
    """End the Agent, and the process with this exit status.

    Args:
        status: 0, 1, `AS_TERMINATED`, or that of a 203.
        reason: why it leaves, for the log.
        ended: the Mgr's word for the end of the job; None without one.
    """

    status: int
    reason: str
    ended: Exit | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """End the Agent, and hand the framework its own result."""

    result: object


Step = Call | Pause | AwaitEnd | AwaitMeeting | AwaitRelease | ReportNoRanks | Leave | Return
Plan = tuple[Step, ...]


def leave(command: Exit) -> Plan:
    """203, with the reason of a Mgr that gives one."""
    words = f"the Mgr has sent 203: {command.reason}" if command.reason else "the Mgr has sent 203"
    return (KillAll(), ReportNoRanks(), Leave(command.status, words, command))


def after_meeting(plan: Plan, round_: int) -> Plan:
    """A plan that starts the workers when all nodes are ready for a round."""
    meeting: Plan = (Offer(), AwaitMeeting(round_))
    return tuple(step for each in plan for step in ((*meeting, each) if isinstance(each, StartAll) else (each,)))


def give_up(reason: str, status: int = 1) -> Plan:
    """End the workers and leave with this status."""
    return (KillAll(), Leave(status, reason))


def exit_gracefully(seconds: float) -> Plan:
    """Let the workers end within `seconds`, end the rest by force, and leave as after SIGTERM."""
    return (AskToEnd(), AwaitEnd(seconds), KillAll(), Leave(AS_TERMINATED, "the Mgr has sent GRACE_EXIT"))


def urgent(plan: Plan) -> bool:
    """True for a plan that leaves in failure, which replaces all that goes on. A graceful exit waits for its turn."""
    last = plan[-1]
    return isinstance(last, Leave) and last.status != 0 and not isinstance(plan[0], AskToEnd)


class Plans(Protocol):
    """The plans that differ between frameworks."""

    def start(self, remaining: int | None) -> Plan:
        """210, with the Mgr's count of restarts that remain."""

    def restart_all(self, remaining: int | None) -> Plan:
        """208, with the same."""

    def restart_ranks(self, ranks: frozenset[int]) -> Plan:
        """209, with the global ranks."""

    def finished(self, result: object) -> Plan:
        """Every worker of this node has finished; `result` is MONITOR's answer."""
