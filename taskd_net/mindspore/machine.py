"""The decisions of a launcher that follows the platform's files. Pure: no clock, no I/O, no thread.

    GATE ── open ──▶ WORK ── all finished ──▶ FINISH ── 10 s ──▶ leave 0
      ▲               │ │ ▲
      │   RetryTime   │ │ └─ the workers have ended, or 600 s ── EXIT ◀── GracefulExit
      ├── 60 s ◀──────┘ │
      └── all recovered ── HELD ◀── a rank is unrecovered or recovered

Once a second the files, the answer of MONITOR and the time come in (`look`), and calls of the framework's functions go
out. The first of these that applies counts:

 1. ClusterD has sent killMaster: end the workers, leave with 1.
 2. GracefulExit: SIGTERM, wait until the workers have ended, end the rest, go on.
 3. A rank of this node is `fault`: restart it alone where that is allowed; else end the workers, leave with 1.
 4. RetryTime grew, and no rank is listed: end the workers, pause, start all. The controller starts anew.
 5. A rank is `unrecovered` or `recovered`: end the workers; when all are `recovered`, start all.
 6. All workers have finished: pause, leave with 0.
 7. A worker has failed: leave with 1 after a pause, in which 1 to 5 apply.

After `podReschedule`, 4 and 5 wait for a greater version of the rank table. Before every start there is the gate: no
FaultFlushing, and no rank of this node is `fault`.

A file that is missing or unusable changes nothing. Each order is carried out once, though it stays in its file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from taskd_net.job.agent.plans import AskToEnd, Call, KillAll, KillRanks, Leave, StartAll, StartRanks
from taskd_net.job.agent.supervision import WorkerStatus
from taskd_net.mindspore import reset as files
from taskd_net.mindspore.reset import PlatformReset, Status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlatformFiles:
    """The bytes of the platform's files; None for one that is missing."""

    reset: bytes | None = None
    restart_type: bytes | None = None
    version: bytes | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One look.

    Args:
        files: the platform's files.
        workers: the answer of MONITOR; None where it gave no usable one.
        master_killed: ClusterD has sent killMaster.
    """

    files: PlatformFiles = PlatformFiles()
    workers: WorkerStatus | None = None
    master_killed: bool = False


@dataclass(frozen=True, slots=True)
class StartController:
    """Start the client of ClusterD with the framework's controller; the controller anew where both run."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the log.

    Args:
        step: its name.
        reason: the cause.
        warns: it is a warning.
    """

    step: str
    reason: str
    warns: bool = False


Action = Call | StartController | Note | Leave
"""A call is carried out before the next look. `Leave` is last."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a launcher, in seconds.

    Args:
        look: between two looks.
        gate_look: between two looks at a closed gate.
        gate: for the gate to open; then it leaves with 1.
        restart: between the end and the start of the workers at a new RetryTime.
        replace: for the order to restart a failed worker alone.
        failed: from a worker's failure to the end of the others.
        finish: from the end of the last worker to that of the process.
        grace: for the workers to end after SIGTERM.
    """

    look: float
    gate_look: float
    gate: float
    restart: float
    replace: float
    failed: float
    finish: float
    grace: float


class _State(Enum):
    GATE = "gate"
    WORK = "work"
    EXIT = "exit"
    HELD = "held"
    PAUSE = "pause"
    FINISH = "finish"
    OVER = "over"


class _Number:
    """A number that the platform counts up: its last value, and the one at the last start of all workers."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.base: int | None = None
        self._unusable = False

    def read(self, value: int | None, *, unusable: bool) -> None:
        self._unusable = unusable
        if value is None:
            return
        self.value = value
        if self.base is None or value < self.base:
            # The first value of a file that was unusable at the start; or the platform counts from the beginning.
            self.base = value

    def begin(self) -> None:
        """Take the present value for the base; 0 where the platform has not counted yet."""
        self.base = 0 if self.value is None and not self._unusable else self.value

    @property
    def grew(self) -> bool:
        return self.value is not None and self.base is not None and self.value > self.base


class Machine:
    """The state machine of one launcher.

    Args:
        times: waiting times.
        ranks: global ranks of this node, as far as known; MONITOR's count before them.
        replaces: faulty ranks may be restarted alone.
        controls: this node has the client of ClusterD.
        now: the present, in seconds of any steady clock, as everywhere.
    """

    def __init__(
        self, times: Times, ranks: frozenset[int] = frozenset(), *, replaces: bool, controls: bool, now: float
    ) -> None:
        self._times = times
        self._ranks = ranks
        self._replaces = replaces
        self._controls = controls

        self._reset = PlatformReset()
        self._restart_type = ""
        self._retry_time, self._version = _Number(), _Number()
        self._unusable: dict[str, str] = {}  # reason by file, each told once

        self._state = _State.GATE
        self._start: StartAll | StartRanks = StartAll()
        self._restarts_controller = controls
        self._until = now + times.gate
        self._waits_for = ""  # the gate
        self._asked = False  # GracefulExit has been carried out
        self._replaced: frozenset[int] = frozenset()  # faulty, and restarted alone
        self._started_with: frozenset[int] = frozenset()  # recovered before the last start
        self._failed_until: float | None = None

        self._actions: list[Action] = []

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return self._times.gate_look if self._state is _State.GATE else self._times.look

    def look(self, seen: Observation, now: float) -> list[Action]:
        """Take in a look.

        Returns:
            Actions, to be carried out in this order; none after `Leave`.
        """
        self._actions = []
        if self._state is not _State.OVER:
            self._read(seen.files)
            workers = seen.workers
            if workers is not None and workers.ranks:
                self._ranks = workers.ranks
            self._decide(workers, seen.master_killed, now)
        return self._actions

    def start_failed(self) -> list[Action]:
        """The framework could not start all workers."""
        self._actions = []
        self._leave(1, "the workers could not be started")
        return self._actions

    def _decide(self, workers: WorkerStatus | None, master_killed: bool, now: float) -> None:
        if self._state is _State.FINISH:
            if now >= self._until:
                self._leave(0, "all workers have finished")
        elif master_killed:
            self._leave(1, "ClusterD has sent killMaster")
        elif self._state is _State.GATE:
            self._pass_gate(now)
        elif self._state is _State.PAUSE:
            if now >= self._until:
                self._close_gate(StartAll(), now)
        elif self._state is _State.EXIT:
            if workers is not None and not workers.running:
                self._end_exit("all workers have ended")
            elif now >= self._until:
                self._end_exit(f"not within {self._times.grace:g} s")
        elif not (self._exits(now) or self._faulty(now) or self._ordered(now) or self._held(now)):
            self._judge(workers, now)

    def _exits(self, now: float) -> bool:
        """2. Ask the workers to end, once for each time that GracefulExit is set."""
        asked, self._asked = self._asked, self._reset.graceful_exit
        if not self._asked or asked or self._state is not _State.WORK:
            return False
        self._note("workers_asked_to_end", "GracefulExit is 1")
        self._actions.append(AskToEnd())
        self._state, self._until = _State.EXIT, now + self._times.grace
        return True

    def _end_exit(self, reason: str) -> None:
        self._note("exit_ends", reason)
        self._actions.append(KillAll())
        self._state = _State.WORK

    def _faulty(self, now: float) -> bool:
        """3. Faults of this node."""
        faulty = self._local_faults()
        if not faulty:
            return False
        if not (self._replaces and self._reset.restart_process and self._state is _State.WORK):
            self._leave(1, f"ranks {_listed(faulty)} are faulty")
            return True
        fresh = faulty - self._replaced
        if not fresh:
            return False
        self._note("ranks_replaced", f"ranks {_listed(fresh)} are faulty, and RestartFaultProcess is set")
        self._replaced |= fresh
        self._failed_until = None
        self._actions.append(KillRanks(fresh))
        self._close_gate(StartRanks(fresh), now)
        return True

    def _ordered(self, now: float) -> bool:
        """4. A new RetryTime."""
        if not self._retry_time.grew or self._reset.ranks or not self._has_rank_table():
            return False
        self._note("workers_restart", f"RetryTime went from {self._retry_time.base} to {self._retry_time.value}")
        self._actions.append(KillAll())
        self._restarts_controller = self._controls
        self._state, self._until = _State.PAUSE, now + self._times.restart
        return True

    def _held(self, now: float) -> bool:
        """5. Devices are being reset."""
        statuses = self._reset.ranks
        recovered = self._recovered()
        if self._state is _State.WORK:
            resets = frozenset(rank for rank, status in statuses.items() if status is Status.UNRECOVERED)
            if not (resets or recovered - self._started_with):
                return False
            self._note("workers_held", f"ranks {_listed(resets or recovered)} are reset")
            self._actions.append(KillAll())
            self._state = _State.HELD
        if len(recovered) == len(statuses) and self._has_rank_table():
            self._note("workers_restart", "all ranks are recovered")
            self._close_gate(StartAll(), now)
        return True

    def _judge(self, workers: WorkerStatus | None, now: float) -> None:
        """6 and 7. The workers have finished, or failed."""
        if workers is not None:
            if workers.finished:
                self._note("workers_finished", f"the launcher leaves in {self._times.finish:g} s")
                self._state, self._until = _State.FINISH, now + self._times.finish
                return
            if not workers.failed:
                self._failed_until = None
            elif self._failed_until is None:
                seconds = self._times.replace if self._replaces else self._times.failed
                reason = f"ranks {_listed(workers.failed)}; the launcher leaves in {seconds:g} s"
                self._note("workers_failed", reason)
                self._failed_until = now + seconds
        if self._failed_until is not None and now >= self._failed_until:
            self._leave(1, "workers have failed")

    def _close_gate(self, start: StartAll | StartRanks, now: float) -> None:
        """Start workers when the gate is open: perhaps at once."""
        self._state, self._start = _State.GATE, start
        self._until, self._waits_for = now + self._times.gate, ""
        self._pass_gate(now)

    def _pass_gate(self, now: float) -> None:
        if reason := self._closed():
            if now >= self._until:
                self._leave(1, f"no start within {self._times.gate:g} s: {reason}")
            elif reason != self._waits_for:
                self._note("start_waits", reason)
            self._waits_for = reason
            return
        self._state = _State.WORK
        self._failed_until = None
        self._actions.append(self._start)
        if isinstance(self._start, StartAll):
            self._retry_time.begin()
            self._version.begin()
            self._replaced = frozenset()
            self._started_with = self._recovered()
            if self._restarts_controller:
                self._restarts_controller = False
                self._actions.append(StartController())

    def _closed(self) -> str:
        """The reason for which workers must not start; empty where they may."""
        if self._reset.fault_flushing:
            return "FaultFlushing is set"
        # Ranks that restart alone are listed until they work again.
        faulty = self._local_faults() - (self._replaced if isinstance(self._start, StartRanks) else frozenset())
        return f"ranks {_listed(faulty)} are faulty" if faulty else ""

    def _read(self, contents: PlatformFiles) -> None:
        reset = self._usable("reset.json", files.read_reset, contents.reset)
        if reset is not None:
            self._reset = reset
            # A rank that is listed again later is a new order.
            self._replaced &= self._local_faults()
            self._started_with &= self._recovered()
        retry_time = None if reset is None else reset.retry_time
        self._retry_time.read(retry_time, unusable="reset.json" in self._unusable)
        restart_type = self._usable("restartType", files.read_restart_type, contents.restart_type)
        self._restart_type = restart_type or self._restart_type
        version = self._usable("version", files.read_version, contents.version)
        self._version.read(version, unusable="version" in self._unusable)

    def _usable(self, name: str, read: Callable[[bytes], T], data: bytes | None) -> T | None:
        try:
            value = None if data is None else read(data)
        except ValueError as error:
            reason = f"{name}: {error}"
            if self._unusable.get(name) != reason:
                self._note("reset_file_unusable", reason, warns=True)
            self._unusable[name] = reason
            return None
        self._unusable.pop(name, None)
        return value

    def _local_faults(self) -> frozenset[int]:
        return self._ranks & {rank for rank, status in self._reset.ranks.items() if status is Status.FAULT}

    def _recovered(self) -> frozenset[int]:
        return frozenset(rank for rank, status in self._reset.ranks.items() if status is Status.RECOVERED)

    def _has_rank_table(self) -> bool:
        """True where the rank table fits the pods: after a rescheduling there is a new one."""
        return self._restart_type != files.POD_RESCHEDULE or self._version.grew

    def _leave(self, status: int, reason: str) -> None:
        self._actions += [KillAll(), Leave(status, reason)]
        self._state = _State.OVER

    def _note(self, step: str, reason: str, *, warns: bool = False) -> None:
        self._actions.append(Note(step, reason, warns))


def _listed(ranks: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
