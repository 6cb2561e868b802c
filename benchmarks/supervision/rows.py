"""The faults that `make supervise` plays, a function each: it hurts a job, and says since when, and what is to come."""

from __future__ import annotations

import math
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.processes import TurnFailed
from benchmarks.supervision.job import Addresses, Event, Job

TRAINS: Final = "trains"
ENDS: Final = "ends"

RETURN_S: Final = 2.0
"""Seconds after which a platform starts a launcher again."""

PROXY_S: Final = 5.0
"""Seconds after the return of a Proxy in which nothing may restart."""

STOPPED_S: Final = 20.0
"""Seconds for which a launcher is stopped."""

PATIENCE_S: Final = 15
"""Seconds for which launchers wait for a node, where a row is about one that does not come."""

GRACE_S: Final = 35.0
"""Seconds in which all processes end after SIGTERM: launchers give their ranks 30."""

WAITS_S: Final = 8.0
"""Seconds after which torchrun surely waits for another node: it imports torch in them."""

STEPS: Final = (10, 30)
"""Steps before a fault, the least and the most: the number is drawn."""


@dataclass(frozen=True, slots=True)
class Due:
    """Expectation of a fault.

    Args:
        since: the time of the fault.
        goal: `trains`: all ranks take steps, and the job succeeds in the end. `ends`: each launcher leaves.
        fresh: ranks that have to be new processes.
        also: another job, with the same goal.
        processes: they have to be gone in the end, too.
    """

    since: float
    goal: str = TRAINS
    fresh: tuple[int, ...] = ()
    also: Job | None = None
    processes: tuple[psutil.Process, ...] = ()


Act = Callable[[Job, random.Random, ExitStack], Due]


@dataclass(frozen=True, slots=True)
class Row:
    """A fault.

    Args:
        name: for the command line.
        title: in the table.
        act: it.
        job: arguments of the job that differ.
        within: seconds until its outcome, at most.
        managed: it is one of jobs with a Manager alone.
        ours: seconds until its outcome under a Manager, at most.
    """

    name: str
    title: str
    act: Act
    job: dict[str, Any] = field(default_factory=dict)
    within: float = 30.0
    managed: bool = False
    ours: float = math.inf


def _training(job: Job, draw: random.Random) -> None:
    job.start()
    job.until_training(draw.randint(*STEPS))


def _killed(*ranks: int) -> Act:
    def act(job: Job, draw: random.Random, _: ExitStack) -> Due:
        _training(job, draw)
        since = time.monotonic()
        _kill(job, ranks)
        return Due(since, fresh=ranks)

    return act


def _kill(job: Job, ranks: Sequence[int]) -> None:
    """Kill ranks at once. On a busy machine one may have ended before its signal, by the loss of the first."""
    first, *others = [job.pid(rank) for rank in ranks]
    os.kill(first, signal.SIGKILL)
    for pid in others:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _all_of_node_1(job: Job, draw: random.Random, _: ExitStack) -> Due:
    _training(job, draw)
    ranks, since = job.of_node(1), time.monotonic()
    _kill(job, ranks)
    return Due(since, fresh=tuple(ranks))


def _told(fault: str, rank: int = 3, goal: str = TRAINS) -> Act:
    def act(job: Job, draw: random.Random, _: ExitStack) -> Due:
        _training(job, draw)
        if fault == "memory":
            job.limit_memory(rank)
        job.tell(rank, fault)
        fresh = (rank,) if goal == TRAINS else ()
        return Due(_fault(job), goal, fresh)

    return act


def _fault(job: Job) -> float:
    """The time at which a rank began to fail."""
    give_up_at = time.monotonic() + 30
    while time.monotonic() < give_up_at:
        if found := [each.at for each in job.events if each.event == "fault"]:
            return found[0]
        job.wait()
    raise TurnFailed(f"the fault has not happened\n{job.words()}")


def _launcher_killed(node: int) -> Act:
    def act(job: Job, draw: random.Random, _: ExitStack) -> Due:
        _training(job, draw)
        ranks, since = job.of_node(node), time.monotonic()
        _kill_launcher(job, node)
        time.sleep(RETURN_S)
        job.start(node)
        return Due(since, fresh=tuple(ranks))

    return act


def _launcher_lost(node: int) -> Act:
    def act(job: Job, draw: random.Random, _: ExitStack) -> Due:
        _training(job, draw)
        since = time.monotonic()
        _kill_launcher(job, node)
        return Due(since, ENDS)

    return act


def _kill_launcher(job: Job, node: int) -> None:
    job.launchers[node].kill()
    job.launchers[node].wait()
    job.look()


def _manager_killed(job: Job, draw: random.Random, _: ExitStack) -> Due:
    """torchrun's counterpart is the store, in the launcher of node 0: there is no fault without that."""
    _training(job, draw)
    since = time.monotonic()
    os.kill(job.manager(), signal.SIGKILL)
    time.sleep(RETURN_S)
    rank = job.of_node(1)[0]
    os.kill(job.pid(rank), signal.SIGKILL)
    return Due(since + RETURN_S, fresh=(rank,))


def _proxy_killed(job: Job, draw: random.Random, _: ExitStack) -> Due:
    """The Proxy of node 1 is another process. Its loss costs no restart, and a rank that dies after it is restarted."""
    job.start_proxy(1)
    _training(job, draw)
    began = len(_of(job, "process"))
    job.proxies[-1].kill()
    time.sleep(RETURN_S)
    job.start_proxy(1)
    give_up_at = time.monotonic() + PROXY_S
    while (since := time.monotonic()) < give_up_at:
        job.wait()
    if len(_of(job, "process")) > began or job.stepped(since - 1.0) is None:
        raise TurnFailed(f"the loss of a Proxy has stopped the training\n{job.words()}")
    rank = job.of_node(1)[0]
    os.kill(job.pid(rank), signal.SIGKILL)
    return Due(since, fresh=(rank,))


def _of(job: Job, event: str) -> list[Event]:
    return [each for each in job.events if each.event == event]


def _manager_and_launcher_killed(job: Job, draw: random.Random, _: ExitStack) -> Due:
    _training(job, draw)
    ranks, manager, since = job.of_node(0), job.manager(), time.monotonic()
    os.kill(manager, signal.SIGKILL)
    _kill_launcher(job, 0)
    time.sleep(RETURN_S)
    job.start(0)
    return Due(since, fresh=tuple(ranks))


def _stopped(job: Job, draw: random.Random, _: ExitStack) -> Due:
    _training(job, draw)
    since = time.monotonic()
    os.kill(job.launchers[1].pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(job.launchers[1].pid, signal.SIGCONT)
    return Due(since)


def _begun(job: Job, _: random.Random, __: ExitStack) -> Due:
    since = time.monotonic()
    job.start()
    return Due(since, ENDS)


def _port_taken(job: Job, _: random.Random, stack: ExitStack) -> Due:
    """Node 1 is told by its own wait for a Manager."""
    at = job.addresses
    stack.enter_context(socket.create_server((at.first, at.mgr if job.column.manages else at.store)))
    since = time.monotonic()
    job.start(0)
    return Due(since, ENDS)


def _two_jobs(job: Job, _: random.Random, stack: ExitStack) -> Due:
    """Of one machine: the second one has other ports, as its user was told to give it."""
    since = time.monotonic()
    other = stack.enter_context(Job(job.column, addresses=Addresses.fresh(job.addresses.hosts)))
    job.start()
    other.start()
    return Due(since, also=other)


def _second_run(job: Job, draw: random.Random, stack: ExitStack) -> Due:
    """The same job once more, at once."""
    first = stack.enter_context(Job(job.column, addresses=job.addresses))
    _training(first, draw)
    first.finish()
    give_up_at = time.monotonic() + 30
    while len(first.ended_at) < len(first.launchers):
        if time.monotonic() > give_up_at:
            raise TurnFailed(f"the first run does not end\n{first.words()}")
        first.wait()
    since = time.monotonic()
    job.start()
    return Due(since)


def _never_comes(job: Job, _: random.Random, __: ExitStack) -> Due:
    since = time.monotonic()
    job.start(0)
    return Due(since + PATIENCE_S, ENDS)


def _signalled(number: int, node: int, *, tree: bool = False, returns: bool = False) -> Act:
    def act(job: Job, draw: random.Random, _: ExitStack) -> Due:
        _training(job, draw)
        ranks, since = job.of_node(node), time.monotonic()
        if tree:
            _signal_all(job.tree(node), number)
        else:
            job.signal(node, number)
        if not returns:
            return Due(since, ENDS)
        job.launchers[node].wait()
        job.look()
        time.sleep(RETURN_S)
        job.start(node)
        return Due(since, fresh=tuple(ranks))

    return act


def _all_signalled(number: int, *, returns: bool = False) -> Act:
    """All processes of the job get a signal, as from a scheduler that ends it. With `returns` it is started again."""

    def act(job: Job, draw: random.Random, _: ExitStack) -> Due:
        _training(job, draw)
        processes = tuple(each for node in range(len(job.processes)) for each in job.tree(node))
        since = time.monotonic()
        _signal_all(processes, number)
        if not returns:
            return Due(since, ENDS, processes=processes)
        give_up_at = since + GRACE_S
        while len(job.ended_at) < len(job.launchers) or any(map(runs, processes)):
            if time.monotonic() > give_up_at:
                raise TurnFailed(f"not all processes have ended within {GRACE_S:g} s\n{job.words()}")
            job.wait()
        time.sleep(RETURN_S)
        job.start()
        return Due(since, fresh=tuple(range(job.ranks)))

    return act


def _signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # the end of another one was its own
            process.send_signal(number)


def runs(process: psutil.Process) -> bool:
    """True while a process runs; one that only waits for its parent does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _interrupted_while_it_waits(job: Job, _: random.Random, __: ExitStack) -> Due:
    job.start(0)
    _await_wait(job, "waits_for_nodes")
    return _interrupt(job)


def _interrupted_while_it_starts(job: Job, draw: random.Random, _: ExitStack) -> Due:
    job.start()
    _until(job, "process", job.ranks)
    time.sleep(draw.uniform(0, 1))
    return _interrupt(job)


def _interrupted_in_a_restart(job: Job, draw: random.Random, _: ExitStack) -> Due:
    _training(job, draw)
    os.kill(job.pid(3), signal.SIGKILL)
    time.sleep(draw.uniform(0.2, 1.5))
    return _interrupt(job)


def _interrupted_at_the_end(job: Job, draw: random.Random, _: ExitStack) -> Due:
    """Node 0 has ended its work, and a rank of node 1 hangs at its end."""
    _training(job, draw)
    (job.folder / f"hang-{job.of_node(1)[0]}").touch()
    job.finish()
    _until(job, "done", job.ranks)
    _await_wait(job, "waits_for_release")
    return _interrupt(job)


def _interrupt(job: Job) -> Due:
    since = time.monotonic()
    job.signal(0, signal.SIGINT)
    return Due(since, ENDS)


def _await_wait(job: Job, event: str) -> None:
    """Wait until the launcher of node 0 says that it waits. torchrun says nothing, and has a time for it."""
    if not job.column.manages:
        time.sleep(WAITS_S)
        return
    give_up_at = time.monotonic() + 60
    while event not in job.words():
        if time.monotonic() > give_up_at:
            raise TurnFailed(f"no {event}\n{job.words()}")
        job.wait()


def _until(job: Job, event: str, count: int) -> None:
    give_up_at = time.monotonic() + 60
    while sum(each.event == event for each in job.events) < count:
        if time.monotonic() > give_up_at:
            raise TurnFailed(f"not {count} times {event}\n{job.words()}")
        job.wait()


_FOLDER: Final = Path(__file__).parent
_IMPATIENT: Final = {"patience": PATIENCE_S}
_LONG: Final = PATIENCE_S + 45.0
"""Seconds for rows in which a launcher waits for a node or a Manager that does not come."""

ROWS: Final = (
    Row("rank", "one rank killed", _killed(3)),
    Row("two-ranks", "two ranks killed", _killed(1, 2)),
    Row("rank-0", "rank 0 killed", _killed(0)),
    Row("node-ranks", "all ranks of a node killed", _all_of_node_1),
    Row("exception", "exception", _told("raise")),
    Row("exit-3", "exit 3", _told("exit")),
    Row("slow-death", "exception, and 4 s until the process ends", _told("slow")),
    Row("memory", "out of memory, in a cgroup", _told("memory")),
    Row("launcher-1", "launcher of node 1 killed, back after 2 s", _launcher_killed(1)),
    Row("launcher-0", "launcher of node 0 killed, back after 2 s", _launcher_killed(0)),
    Row("launcher-1-lost", "launcher of node 1 killed, not back", _launcher_lost(1), _IMPATIENT, _LONG),
    Row(
        "launcher-0-lost",
        "launcher of node 0 killed, not back",
        _launcher_lost(0),
        _IMPATIENT,
        _LONG,
        ours=PATIENCE_S + 5.0,
    ),
    Row("manager", "Manager killed, then a rank", _manager_killed, managed=True),
    Row(
        "manager-launcher",
        "Manager and launcher of node 0 killed, back after 2 s",
        _manager_and_launcher_killed,
        managed=True,
    ),
    Row(
        "proxy",
        "Proxy of node 1, a process of its own, killed and back after 2 s, then a rank",
        _proxy_killed,
        managed=True,
    ),
    Row("stopped", "launcher of node 1 stopped for 20 s", _stopped),
    Row("import-error", "import error", _begun, {"script": str(_FOLDER / "scripts" / "import_error.py")}),
    Row("no-script", "script missing", _begun, {"script": str(_FOLDER / "scripts" / "none.py")}),
    Row("bug", "the same bug in each start", _told("bug", goal=ENDS), within=90),
    Row("port", "port taken at node 0", _port_taken, _IMPATIENT, _LONG),
    Row("two-jobs", "two jobs at once", _two_jobs, within=90),
    Row("second-run", "the same job again", _second_run),
    Row("uneven", "2 + 1 ranks, one killed", _killed(2), {"processes": (2, 1)}),
    Row("ctrl-c-waits", "Ctrl-C at node 0, which waits for node 1", _interrupted_while_it_waits),
    Row("ctrl-c-starts", "Ctrl-C at node 0 while ranks start", _interrupted_while_it_starts),
    Row("ctrl-c", "Ctrl-C at node 0 in training", _signalled(signal.SIGINT, 0)),
    Row("ctrl-c-restart", "Ctrl-C at node 0 in a restart", _interrupted_in_a_restart),
    Row("ctrl-c-end", "Ctrl-C at node 0, which waits for the end of node 1", _interrupted_at_the_end),
    Row("never-comes", "node 1 never comes", _never_comes, _IMPATIENT, _LONG),
    Row(
        "sigterm-tree",
        "SIGTERM to all of node 1, back 2 s later",
        _signalled(signal.SIGTERM, 1, tree=True, returns=True),
    ),
    Row(
        "sigkill-tree",
        "SIGKILL to all of node 1, back 2 s later",
        _signalled(signal.SIGKILL, 1, tree=True, returns=True),
    ),
    Row("sigterm-all", "SIGTERM to all of both nodes", _all_signalled(signal.SIGTERM)),
    Row("sigkill-all", "SIGKILL to all of both nodes", _all_signalled(signal.SIGKILL)),
    Row(
        "sigterm-all-back",
        "SIGTERM to all of both nodes, both back 2 s after their end",
        _all_signalled(signal.SIGTERM, returns=True),
    ),
    Row(
        "sigkill-all-back",
        "SIGKILL to all of both nodes, both back 2 s after their end",
        _all_signalled(signal.SIGKILL, returns=True),
    ),
)
"""All faults, in the order of the table."""
