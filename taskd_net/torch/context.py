"""torch's own context of all local ranks, in which each rank lives and ends alone.

torch ends all local workers when one fails. Here the others go on, and a rank can be stopped or started by its number.
The environment, NUMA binding, log files, filters and prefixes stay torch's, because the context is torch's.

Files of an earlier process stay beside the new ones, with a number at the end: `stdout.log.1` of a rank that was
restarted, `attempt_0.1` of an attempt whose number comes again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from torch.distributed.elastic.agent.server import WorkerState
from torch.distributed.elastic.multiprocessing.api import (
    DefaultLogsSpecs,
    RunProcsResult,
    SubprocessContext,
    get_subprocess_handler,
)
from torch.distributed.elastic.multiprocessing.tail_log import TailLog

from taskd_net.base.codes import TaskdNetError
from taskd_net.base.logger import late_logger
from taskd_net.job.agent.memory import MemoryKills
from taskd_net.job.agent.records import Records
from taskd_net.torch import reasons, start
from taskd_net.torch.guard import await_end
from taskd_net.torch.guardian import Guardian

log: Final = late_logger()

IN_PLACE: Final = "TASKD_NET_RESTARTS_IN_PLACE"
"""Variable of a rank: times that it was started again alone since the last start of all."""

_Copied = tuple[Mapping[int, str], TextIO, Collection[str] | None]
"""Files by local rank, the stream that their lines are copied to, and the texts of which a line has to have one."""


class NoCommand(TaskdNetError):
    """The workers are no processes of their own command, so that none can be restarted alone."""


class RankContext(SubprocessContext):
    """The processes of all local ranks.

    Args:
        guardian: ends the processes if this process is killed.
        failures: takes in those of the ranks.
        renew: called where torch has set handlers of signals.
        records: those of the ranks' progress; None: the ranks have none.
        logs_specs: torch's places of the log files.
        log_line_prefixes: torch's prefixes of lines that are copied to the console, by local rank.
        filters: as torch's context has them: `duplicate_stdout_filters`, `duplicate_stderr_filters`.
        arguments: the other arguments of torch's context.
    """

    def __init__(
        self,
        guardian: Guardian,
        failures: reasons.Failures,
        *,
        renew: Callable[[], object] = list,
        records: Records | None = None,
        logs_specs: Any,
        log_line_prefixes: Mapping[int, str] | None = None,
        duplicate_stdout_filters: Collection[str] | None = None,
        duplicate_stderr_filters: Collection[str] | None = None,
        **arguments: Any,
    ) -> None:
        kept = _KeptLogs(logs_specs)
        super().__init__(
            logs_specs=kept,
            log_line_prefixes=log_line_prefixes,
            duplicate_stdout_filters=duplicate_stdout_filters,
            duplicate_stderr_filters=duplicate_stderr_filters,
            **arguments,
        )
        self._running_local_ranks: set[int]
        self.error_files: dict[int, str]
        self._guardian = guardian
        self._renew = renew
        self._progress = records
        self._failures_of_ranks = failures
        self._asked_ns: dict[int, int] = {}
        self._kills = MemoryKills()
        self._states: dict[int, WorkerState] = {}
        self._prefixes = log_line_prefixes
        copied: list[_Copied] = [(kept.tee_stdouts, sys.stdout, None), (kept.tee_stderrs, sys.stderr, None)]
        if duplicate_stdout_filters:
            copied.append((kept.tee_stdouts, self.filtered_stdout, duplicate_stdout_filters))
        if duplicate_stderr_filters:
            copied.append((kept.tee_stderrs, self.filtered_stderr, duplicate_stderr_filters))
        self._copied = copied
        self._tails: dict[int, list[Any]] = {}
        for local_rank in range(self.nprocs):
            self._make_tails(local_rank)

    def stop_ranks(self, local_ranks: Collection[int], timeout: float) -> None:
        """End ranks: SIGTERM, and SIGKILL after some seconds.

        Args:
            local_ranks: which.
            timeout: seconds until SIGKILL.
        """
        self._end(local_ranks, signal.SIGTERM, timeout)

    def restart_ranks(self, local_ranks: Collection[int], timeout: float) -> dict[int, int]:
        """End ranks, as far as they run, and start them again.

        Args:
            local_ranks: which.
            timeout: seconds from SIGTERM to SIGKILL.

        Returns:
            The pids of the new processes, by local rank.
        """
        self.stop_ranks(local_ranks, timeout)
        return {local_rank: self._restart(local_rank) for local_rank in local_ranks}

    def move_store(self, host: str, port: int) -> None:
        """Give ranks that start from now on another address of their store."""
        for environment in self.envs.values():
            environment |= {"MASTER_ADDR": host, "MASTER_PORT": str(port)}

    @property
    def states(self) -> dict[int, WorkerState]:
        """The state of each local rank, in torch's words, as of the last `wait`."""
        return dict(self._states)

    @property
    def running(self) -> dict[int, int]:
        """The processes that have not ended, by local rank."""
        processes = {local_rank: handler.proc for local_rank, handler in self.subprocess_handlers.items()}
        return {local_rank: each.pid for local_rank, each in processes.items() if each.returncode is None}

    def _start(self) -> None:
        self._renew()
        for environment in self.envs.values():
            environment[IN_PLACE] = "0"
        self._failures_of_ranks.forget([self._rank(local_rank) for local_rank in self.envs])
        if self._progress is not None:
            variables = self._progress.begin_all({local_rank: self._rank(local_rank) for local_rank in self.envs})
            for local_rank, each in variables.items():
                self.envs[local_rank].update(each)
        super()._start()
        for local_rank, pid in self.pids().items():
            self._began(local_rank, pid)

    def _poll(self) -> Any:
        for local_rank in self._take_ended():
            if (failure := self._failures.get(local_rank)) is not None:
                log.error("worker_failed", local_rank=local_rank, pid=failure.pid, code=failure.exitcode)
        for local_rank in self.subprocess_handlers:
            running = local_rank in self._running_local_ranks
            ended = WorkerState.FAILED if local_rank in self._failures else WorkerState.SUCCEEDED
            self._states[local_rank] = WorkerState.HEALTHY if running else ended
        if self._failures:
            return RunProcsResult(failures=dict(self._failures), stdouts=self.stdouts, stderrs=self.stderrs)
        # All that are left have succeeded: torch closes the context, and answers for them.
        return None if self._running_local_ranks else super()._poll()

    def _close(self, death_sig: signal.Signals, timeout: float = 30) -> None:
        self._end(self.subprocess_handlers.keys(), death_sig, timeout)
        for local_rank in self._running_local_ranks:
            self._states[local_rank] = WorkerState.STOPPED
        super()._close(death_sig, timeout)
        for handler in self.subprocess_handlers.values():
            self._forget(handler)

    def _restart(self, local_rank: int) -> int:
        for tail in self._tails[local_rank]:
            tail.stop()  # it reads to the end
        reasons = [self.error_files[local_rank] + end for end in ("", *start.BESIDE)]
        for file in (self.stdouts[local_rank], self.stderrs[local_rank], *reasons):
            if file and not file.startswith(os.devnull):
                _keep(Path(file))
        self._make_tails(local_rank)
        self._forget(self.subprocess_handlers[local_rank])
        environment = self.envs[local_rank]
        environment[IN_PLACE] = str(int(environment.get(IN_PLACE, "0")) + 1)
        if self._progress is not None:
            environment.update(self._progress.begin(local_rank, self._rank(local_rank)))
        handler = get_subprocess_handler(
            entrypoint=self.entrypoint,
            args=self.args[local_rank],
            env=environment,
            stdout=self.stdouts[local_rank],
            stderr=self.stderrs[local_rank],
            local_rank_id=local_rank,
            numa_options=self._numa_options,
        )
        pid: int = handler.proc.pid
        self._began(local_rank, pid)
        self.subprocess_handlers[local_rank] = handler
        self._failures.pop(local_rank, None)
        self._failures_of_ranks.forget([self._rank(local_rank)])
        self._asked_ns.pop(local_rank, None)
        self._running_local_ranks.add(local_rank)
        for tail in self._tails[local_rank]:
            tail.start()
        return pid

    def _began(self, local_rank: int, pid: int) -> None:
        self._guardian.guard(pid)
        self._kills.begin(pid)
        if self._progress is not None:
            self._progress.started(local_rank, pid)

    def _forget(self, handler: Any) -> None:
        self._guardian.release(handler.proc.pid)
        self._kills.end(handler.proc.pid, killed=False)
        for file in (handler._stdout, handler._stderr):
            if file:
                file.close()

    def _end(self, local_ranks: Collection[int], death_sig: signal.Signals, timeout: float) -> None:
        """End ranks, with everything in their sessions.

        The number of a session is its own until the exit status of its leader is taken, last of all. Processes that
        Python leaves behind get no time: they may be its resource trackers, which ignore SIGTERM. A script of a shell
        ends at once at SIGTERM, and what it has started is the training.
        """
        wrapped = not Path(self.entrypoint).name.startswith("python")
        running = {local_rank: self.subprocess_handlers[local_rank] for local_rank in local_ranks}
        running = {local_rank: each for local_rank, each in running.items() if each.proc.returncode is None}
        alive = [local_rank for local_rank, handler in running.items() if _exit_status(handler) is None]
        self._asked_ns |= dict.fromkeys(alive, time.time_ns())
        handlers = running.values()
        pids = [handler.proc.pid for handler in handlers]
        for number, seconds in ((death_sig, 0.0), (signal.SIGCONT, timeout), (signal.SIGKILL, timeout)):
            for handler in handlers:
                handler.close(death_sig=number)
            await_end(pids, seconds, groups=wrapped)
        for local_rank, handler in running.items():
            if handler.proc.poll():
                self._note(local_rank, self._records(local_rank))

    def _take_ended(self) -> set[int]:
        """Take the exit codes of the ranks that have ended, after everything else in the sessions of failed ones."""
        running = self._running_local_ranks
        ended = set()
        for local_rank in running:
            handler = self.subprocess_handlers[local_rank]
            if handler.proc.returncode is not None:
                ended.add(local_rank)
            elif (status := _exit_status(handler)) is not None:
                ended.add(local_rank)
                if (status.si_code, status.si_status) != (os.CLD_EXITED, 0):
                    handler.close(death_sig=signal.SIGKILL)
        records = {local_rank: self._records(local_rank) for local_rank in ended}
        files = self.error_files
        self.error_files = {
            each: file if each not in records or records[each].for_torch else "" for each, file in files.items()
        }
        self._running_local_ranks = ended  # torch looks at these
        self._capture_process_failures(set())
        self._running_local_ranks = running - ended
        self.error_files = files
        for local_rank in ended & self._failures.keys():
            self._note(local_rank, records[local_rank])
        return ended

    def _records(self, local_rank: int) -> reasons.Records:
        return reasons.take(self.error_files[local_rank], self.subprocess_handlers[local_rank].proc.pid)

    def _note(self, local_rank: int, records: reasons.Records) -> None:
        """Take in a failure, once for each process."""
        process, rank = self.subprocess_handlers[local_rank].proc, self._rank(local_rank)
        if not self._failures_of_ranks.has(rank, process.pid):
            self._failures_of_ranks.add(
                records,
                rank=rank,
                node=int(self.envs[local_rank].get("GROUP_RANK", 0)),
                pid=process.pid,
                status=process.returncode,
                error_file=self.error_files[local_rank],
                stderr_file=self.stderrs[local_rank],
                noticed_ns=time.time_ns(),
                asked_ns=self._asked_ns.get(local_rank),
                out_of_memory=self._kills.end(process.pid, killed=process.returncode == -signal.SIGKILL),
            )

    def _rank(self, local_rank: int) -> int:
        return int(self.envs[local_rank].get("RANK", local_rank))

    def _make_tails(self, local_rank: int) -> None:
        self._tails[local_rank] = list(self._tails_of(local_rank))
        self._tail_logs = [tail for tails in self._tails.values() for tail in tails]

    def _tails_of(self, local_rank: int) -> Iterator[Any]:
        for files, console, needles in self._copied:
            if local_rank in files:
                more = {} if needles is None else {"log_line_filter": _Containing(needles)}
                yield TailLog(self.name, {local_rank: files[local_rank]}, console, self._prefixes, **more)


def _exit_status(handler: Any) -> Any:
    """The end of a process, without taking its exit code; None: it runs."""
    return os.waitid(os.P_PID, handler.proc.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


class _Containing:
    """A filter of lines.

    Args:
        needles: a line passes with any of them.
    """

    def __init__(self, needles: Collection[str]) -> None:
        self._needles = needles

    def __call__(self, line: str) -> bool:
        return any(needle in line for needle in self._needles)


class _KeptLogs:
    """torch's places of the log files, without the end of an earlier attempt's.

    Args:
        specs: torch's.
    """

    def __init__(self, specs: Any) -> None:
        self._specs = specs
        self.tee_stdouts: Mapping[int, str] = {}
        self.tee_stderrs: Mapping[int, str] = {}

    def reify(self, envs: Mapping[int, dict[str, str]]) -> Any:
        """Make the places of one attempt."""
        if isinstance(self._specs, DefaultLogsSpecs) and self._specs._run_log_dir:
            # torch would delete a folder of this name.
            _keep(Path(self._specs._run_log_dir) / f"attempt_{envs[0]['TORCHELASTIC_RESTART_COUNT']}")
        places = self._specs.reify(envs)
        self.tee_stdouts, self.tee_stderrs = places.tee_stdouts, places.tee_stderrs
        return places


def start_processes(
    guardian: Guardian,
    failures: reasons.Failures,
    start_program: bool = False,
    *,
    entrypoint: object,
    args: Mapping[int, tuple[str, ...]],
    start_method: str = "spawn",
    **arguments: Any,
) -> RankContext:
    """Start all local ranks, as torch's function of this name.

    Args:
        guardian: ends the processes if this process is killed.
        failures: takes in those of the ranks.
        start_program: the command is Python, and runs a script by the start program.
        entrypoint: a command.
        args: its arguments, by local rank.
        start_method: of functions; unused.
        arguments: the other arguments of torch's function.

    Raises:
        NoCommand: the entrypoint is a function.
    """
    require_command(entrypoint)
    if start_program:
        args = {local_rank: by_start_program(each) for local_rank, each in args.items()}
    context = RankContext(guardian, failures, entrypoint=entrypoint, args=args, **arguments)
    try:
        context.start()
    except Exception:  # any: the ranks before the one that could not be started run
        context.close()
        raise
    return context


def by_start_program(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of Python with the start program before the script or module.

    Those of anything else stay as they are: Python reads its standard input (`-`), or has other options.

    Args:
        arguments: of Python, as torchrun makes them: `-u`, and the script or `-m` and the module.
    """
    match arguments:
        case ("-u", script, *rest) if script == "-m" or not script.startswith("-"):
            return "-u", start.__file__, script, *rest
    return arguments


def require_command(entrypoint: object) -> None:
    """Check that the workers are started by a command.

    Raises:
        NoCommand: they are started by a Python function. Its processes share queues and an event, which a rank that
            ends alone leaves locked.
    """
    if not isinstance(entrypoint, str):
        name = getattr(entrypoint, "__qualname__", type(entrypoint).__name__)
        text = f"the entrypoint is the Python function {name}; expected a command, such as a script"
        raise NoCommand(f"{text}: workers that are functions cannot be restarted one at a time")


def _keep(path: Path) -> None:
    """Rename a file or folder, so that a new one can take its name. A file without content is removed."""
    if path.is_file() and not path.stat().st_size:
        path.unlink()
    elif path.exists():
        number = 1
        while (kept := path.with_name(f"{path.name}.{number}")).exists():
            number += 1
        path.rename(kept)
