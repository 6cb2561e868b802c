"""PyTorch's functions (its elastic agent), called as it expects.

`KILL_WORKER`, `START_ALL_WORKER`, `RESTART` and `MONITOR` take a worker group; MONITOR answers a RunResult. For some
ranks the group is a copy that holds these workers alone.
"""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, cast

from taskd_net.base.cause import Cause
from taskd_net.base.untrusted import shown
from taskd_net.base.vocabulary import MEETS, SHOWS_STACKS, TELLS
from taskd_net.job.agent.messages import Meeting
from taskd_net.job.agent.records import Records
from taskd_net.job.agent.supervision import Offered, WorkerStatus
from taskd_net.job.agent.workers import KILL_WORKER, MONITOR, RESTART, START_ALL_WORKER, Operators
from taskd_net.job.member import Refused

RESTARTED: Final = "RESTART_FAULT_PROCESS_TYPE"
"""Variable that tells a worker whether single processes are started again, or whole pods."""

_FAILED: Final = ("FAILED", "UNHEALTHY", "UNKNOWN")
_STATES: Final = ("HEALTHY", "SUCCEEDED", *_FAILED)


class TorchWorker(Protocol):
    """A worker of PyTorch's; `id` is its pid, None before its start."""

    id: int | None
    global_rank: int


class TorchWorkerGroup(Protocol):
    """A group of PyTorch's."""

    workers: Sequence[TorchWorker]


class TorchAgent(Protocol):
    """The parts of PyTorch's SimpleElasticAgent that this package uses."""

    _worker_group: TorchWorkerGroup
    _remaining_restarts: int


class MeetingAgent(Protocol):
    """A TorchAgent that meets the other nodes as the Mgr says: `taskd_net.torch.ElasticAgent`."""

    def offer(self) -> tuple[str, int]:
        """Make a fresh store for the workers of the next start, on node 0. Returns its address, and their number."""

    def meet(self, meeting: Meeting | None) -> None:
        """Take the outcome of a meeting for the next start; None: torch's rendezvous decides."""

    def take_meeting(self, meeting: Meeting) -> None:
        """Take the outcome of a meeting of other nodes, for workers that start alone from now on."""


class TellingAgent(Protocol):
    """A TorchAgent that knows why its workers have failed: `taskd_net.torch.ElasticAgent`."""

    @property
    def first_failure(self) -> Cause | None:
        """The first failure of the workers since their last start; None without one."""


class PyTorchWorkers:
    """The workers that PyTorch's elastic agent runs. See `operators.LocalWorkers`.

    Args:
        operators: the registered functions.
        agent: the SimpleElasticAgent.
    """

    needs: Collection[str] = (KILL_WORKER, START_ALL_WORKER, MONITOR, RESTART)
    ignores_results = False

    def __init__(self, operators: Operators, agent: object) -> None:
        self._operators = operators
        self._agent = cast(TorchAgent, agent)
        self._meeting = cast(MeetingAgent, agent) if hasattr(agent, "meet") else None
        self._wrapped: set[int] = set()  # shells that were asked to end; each leads a process group
        self._telling = cast(TellingAgent, agent) if hasattr(agent, "first_failure") else None
        self.records: Records | None = getattr(agent, "records", None)
        found = {MEETS: self._meeting, TELLS: self._telling, SHOWS_STACKS: self.records}
        self.features: Collection[str] = tuple(name for name, part in found.items() if part is not None)

    @property
    def remaining(self) -> str:
        """Restarts that remain, in decimal digits."""
        return str(getattr(self._agent, "_remaining_restarts", 0))

    @property
    def pids(self) -> Collection[int]:
        """See `LocalWorkers`."""
        pids = [worker.id for worker in self._group.workers]
        return [pid for pid in pids if isinstance(pid, int) and pid > 0]

    def require(self) -> None:
        """See `LocalWorkers`."""
        self._operators.require(self.needs)

    def offer(self) -> Offered:
        """See `LocalWorkers`."""
        assert self._meeting is not None
        return Offered(*self._meeting.offer(), self._cause)

    def start_all(self, remaining: int | None, meeting: Meeting | None = None) -> None:
        """Start every worker, after the meeting, or by a rendezvous."""
        if self._meeting is not None:
            self._meeting.meet(meeting)
        if remaining is not None:
            self._agent._remaining_restarts = remaining
        os.environ.setdefault(RESTARTED, "pod")
        self._operators.call(START_ALL_WORKER, self._group)

    def take_meeting(self, meeting: Meeting) -> None:
        """See `LocalWorkers`."""
        assert self._meeting is not None
        self._meeting.take_meeting(meeting)

    def kill_all(self) -> None:
        """End every worker."""
        self._operators.call(KILL_WORKER, self._group)

    def kill_ranks(self, ranks: Collection[int]) -> None:
        """End workers."""
        self._call_for(ranks, KILL_WORKER)

    def start_ranks(self, ranks: Collection[int]) -> None:
        """End workers and start them again, in place."""
        os.environ[RESTARTED] = "worker"
        self._call_for(ranks, RESTART)

    def ask_to_end(self) -> None:
        """Send SIGTERM to every worker that runs, and to the whole session of one that is a shell.

        A shell ends at once, and what it has started is the training. The children of a Python process, such as those
        that load its data, are its own to end.
        """
        for pid in self._running():
            with suppress(ProcessLookupError):
                if _wraps(pid):
                    self._wrapped.add(pid)
                    os.killpg(pid, signal.SIGTERM)
                else:
                    os.kill(pid, signal.SIGTERM)

    def look(self) -> WorkerStatus:
        """Ask MONITOR, unless trainings of shells have time to end: it would end what a failed worker leaves."""
        if self._wrapped and not self._wrapped.isdisjoint(_running_groups()):  # reads all of /proc
            return WorkerStatus()
        result = self._operators.call(MONITOR, self._group)
        state = getattr(result, "state", None)
        name = getattr(state, "name", state)
        if name not in _STATES:
            raise Refused(f"{MONITOR} answered {shown(result)}; expected a RunResult of state {', '.join(_STATES)}")
        return WorkerStatus(
            failed=self._failed(result) if name in _FAILED else frozenset(),
            running=bool(self._running()),
            finished=name == "SUCCEEDED",
            result=result,
            state=name,
            ranks=frozenset(worker.global_rank for worker in self._group.workers if worker.global_rank >= 0),
            cause=self._cause if name in _FAILED else None,
        )

    def leave(self) -> None:
        """Do nothing; torch ends its own processes."""

    @property
    def _cause(self) -> Cause | None:
        return None if self._telling is None else self._telling.first_failure

    @property
    def _group(self) -> TorchWorkerGroup:
        return self._agent._worker_group

    def _failed(self, result: object) -> frozenset[int]:
        """Global ranks of the failed workers: all, where the result names none."""
        failures = getattr(result, "failures", None)
        if isinstance(failures, Mapping) and failures:
            return frozenset(int(rank) for rank in failures)
        return frozenset(worker.global_rank for worker in self._group.workers)

    def _call_for(self, ranks: Collection[int], operator: str) -> None:
        group = copy.copy(self._group)
        group.workers = [worker for worker in group.workers if worker.global_rank in ranks]
        if group.workers:
            self._operators.call(operator, group)

    def _running(self) -> list[int]:
        return [pid for pid in self.pids if _runs(pid)]


def _wraps(pid: int) -> bool:
    """True for a process that leads a group, and is no Python."""
    try:
        return os.getpgid(pid) == pid and not Path(f"/proc/{pid}/exe").readlink().name.startswith("python")
    except OSError:
        return False


def _running_groups() -> set[int]:
    """The process groups of all processes that run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            if state not in "ZX":
                found.add(int(group))
    return found


def _runs(pid: int) -> bool:
    """True while a child of this process runs. Its exit status is left for PyTorch to take."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
