"""The events that an Agent's state machine (`supervision`) takes, and the actions that it gives back. Data alone."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.base.body import Body
from taskd_net.job.api.agent_messages import Command
from taskd_net.job.api.plans import Call, Leave, Return

# ---- events


@dataclass(frozen=True, slots=True)
class Joined:
    """The Mgr knows the way to the Agent: for the first time, or again after the parent or the Mgr was away."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed; comes once a second."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of `Supervisor.due` has come."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The process of a worker has ended: the workers are looked at as soon as no plan is under way."""


@dataclass(frozen=True, slots=True)
class Commanded:
    """A command has come.

    Args:
        command: the command.
        uuid: of its message.
        meant_for: incarnation of the process that it is for; empty where the Mgr does not say it.
    """

    command: Command
    uuid: str = ""
    meant_for: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The current call has returned."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The current call has raised."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The current call, `Look`, has returned.

    Args:
        failed: global ranks of the workers that have failed.
        running: whether any worker runs.
        finished: whether all workers have finished their work.
        result: the framework's own form of it.
        state: the framework's name for it; empty where it has none.
        ranks: global ranks of this node's workers; those that are not known yet are missing.
    """

    failed: frozenset[int] = frozenset()
    running: bool = True
    finished: bool = False
    result: object = None
    state: str = ""
    ranks: frozenset[int] = frozenset()


Event = Joined | Tick | Woken | Ended | Commanded | Done | Failed | Looked

# ---- actions


@dataclass(frozen=True, slots=True)
class Report:
    """Send this to the Mgr."""

    body: Body


@dataclass(frozen=True, slots=True)
class Ignored:
    """A command is not carried out.

    Args:
        command: the command.
        reason: the cause, for the log.
    """

    command: Command
    reason: str


Action = Call | Report | Ignored | Leave | Return
"""A `Call` is answered by one `Done`, `Failed` or `Looked`; there is one at a time. `Leave` and `Return` are last."""
