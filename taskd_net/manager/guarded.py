"""A user's plugin in a thread of its own, with a time limit for each call.

    tick: wants(snapshot) ──▶ the thread is asked, with a copy of the snapshot; the tick goes on
                              … the answer comes, and causes a tick
    tick: wants(snapshot) ──▶ the answer

So nobody waits for a user's plugin: no other plugin, and no message. It is asked at most once in each interval.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, Final, NamedTuple

from taskd_net import job_limits
from taskd_net.jobs.device_state import DeviceState
from taskd_net.jobs.outbox import INFINITY, Outbox
from taskd_net.jobs.plain import from_plain, to_text
from taskd_net.jobs.plugins import AnyPlugin, Plugin, Progress
from taskd_net.jobs.snapshot import Snapshot
from taskd_net.jobs.times import move, moved
from taskd_net.jobs.traffic import Command, Item
from taskd_net.manager.threads import OwnThread, described
from taskd_net.untrusted import json_value

Report = Callable[[str, str, BaseException | str], None]
"""Takes the name of a plugin that has failed, the reason, and its exception or the stack that it hangs in."""


class _Answer(NamedTuple):
    """The result of a call: of `wants` the streams, of `step` the progress; the decisions, the state, the deadline."""

    wanted: Collection[str] | None
    progress: Progress | None
    items: list[Item]
    state: Any
    deadline: float


class Guarded(Plugin[Any]):
    """Stands for a user's plugin among the others. It lives in the node's event loop.

    Args:
        make: makes the plugin.
        seconds: for one call.
        changed: brings about a tick.
        report: takes each failure.

    Attributes:
        off: it has failed too often without a step between, and is not asked any more.
    """

    def __init__(self, make: Callable[[], AnyPlugin], seconds: float, changed: Callable[[], None], report: Report):
        self._make = make
        self._plugin = make()
        super().__init__(deepcopy(self._plugin.state))
        self.name = self._plugin.name  # type: ignore[misc]
        self.streams = dict(self._plugin.streams)  # type: ignore[misc]
        self.off = False
        self._seconds = seconds
        self._changed = changed
        self._report = report
        self._thread = OwnThread(f"plugin {self.name}", application=True)
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._error: Exception | None = None
        self._wanted: Collection[str] = ()
        self._wanted_at = 0.0
        self._stepped: _Answer | None = None
        self._releases: list[str] = []
        self._asked_at = 0.0
        self._again = False
        self._deadline = INFINITY
        self._moves: list[tuple[float, float]] = []  # of the clock, during a call

    # ---- for the decisions

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The streams that the plugin wanted when it was asked."""
        self._raise()
        if self._wanted:
            self._wanted_at = self._wanted_at or snapshot.now
            if self._wanted_at == snapshot.now:
                return self._wanted
            self._wanted, self._wanted_at = (), 0.0
        self._ask(snapshot, _wants)
        return ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Take the decisions of the step that the plugin has taken meanwhile; HOLD until it has."""
        self._raise()
        self._wanted, self._wanted_at = (), 0.0
        answer, self._stepped = self._stepped, None
        if answer is None:
            self._ask(snapshot, lambda plugin, seen: _step(plugin, stream, seen))
            return Progress.HOLD
        assert answer.progress is not None
        self._items, self.state = list(answer.items), answer.state
        return answer.progress

    def release(self, stream: str) -> None:
        """Release the stream after a failure; a final step has done so itself."""
        if self._failures:
            self._releases.append(stream)

    def move(self, then: float, now: float) -> None:
        """Change the times of the plugin's state, and of the questions to it. A state that cannot be read stays."""
        for state in (self.state, None if self._stepped is None else self._stepped.state):
            self._move(state, then, now)
        if self._task is not None:
            self._moves.append((then, now))
        self._wanted_at = moved(self._wanted_at, then, now)
        self._asked_at = moved(self._asked_at, then, now)
        self._deadline = moved(self._deadline, then, now)

    def deadline(self, snapshot: Snapshot) -> float:
        """The time of the next question that is wanted already, or the plugin's own deadline."""
        if self.off:
            return INFINITY
        return min(self._deadline, self._asked_at + snapshot.config.interval if self._again else INFINITY)

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """As the plugin's class says without an instance: only one that has its own `lost` goes on."""
        return not self.off and type(self._plugin).lost is not Plugin.lost

    # ---- inside

    async def close(self) -> None:
        """End the thread; one that hangs ends with the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._thread.busy:
            self._thread.stop()
            return
        with contextlib.suppress(TimeoutError):
            await self._thread.end(bool, job_limits.PLUGIN_S)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _ask(self, snapshot: Snapshot, work: Callable[[AnyPlugin, Snapshot], _Answer]) -> None:
        if self.off:
            return
        if self._task is not None or snapshot.now < self._asked_at + snapshot.config.interval:
            self._again = True
            return
        self._again, self._asked_at = False, snapshot.now
        self._task = asyncio.create_task(self._call(work, _copied(snapshot)), name=f"asks {self.name}")

    def _move(self, state: Any, then: float, now: float) -> None:
        try:
            move(state, then, now)
        except Exception as error:  # noqa: BLE001 - a state of the user's ends no Manager
            self._report(self.name, f"the type of a field cannot be read: {type(error).__name__}: {error}", error)

    async def _call(self, work: Callable[[AnyPlugin, Snapshot], _Answer], snapshot: Snapshot) -> None:
        plugin, releases, state = self._plugin, self._releases, deepcopy(self.state)

        def run() -> _Answer:
            plugin.state = state
            for stream in releases:
                plugin.release(stream)
            return work(plugin, snapshot)

        try:
            answer = await self._thread.call(run, self._seconds)
        except Exception as raised:  # noqa: BLE001 - reported
            if not self._thread.busy:
                # Also a TimeoutError, where it is the plugin's own.
                self._fail(raised, raised)
                return
            stack = self._thread.stack()
            error = TimeoutError(f"it has not returned within {self._seconds:g} s")
            # A call that hangs keeps its thread and its object; the next call gets new ones.
            self._thread.stop()
            self._thread = OwnThread(f"plugin {self.name}", application=True)
            self._fail(error, stack)
        else:
            self._releases = []
            self._take(answer)
        finally:
            self._task = None
            self._moves.clear()

    def _take(self, answer: _Answer) -> None:
        for then, now in self._moves:
            self._move(answer.state, then, now)
            answer = answer._replace(deadline=moved(answer.deadline, then, now))
        self._deadline = answer.deadline
        if answer.progress is not None:
            self._failures, self._stepped = 0, answer
            news = bool(answer.items) or answer.progress is Progress.FINAL or answer.state != self.state
        else:
            self._wanted, self._wanted_at = answer.wanted or (), 0.0
            news = bool(self._wanted)
        if news or self._again:
            self._changed()

    def _fail(self, error: Exception, trace: BaseException | str) -> None:
        self._failures += 1
        self.off = self._failures >= job_limits.PLUGIN_FAILURES
        try:
            self._plugin = self._make()
        except BaseException as failed:  # noqa: BLE001 - the application's
            error, trace, self.off = RuntimeError(f"it cannot be made again: {described(failed)}"), failed, True
        self._error, self._stepped, self._wanted, self._again = error, None, (), True
        self._deadline = INFINITY
        self._report(self.name, described(error), trace)
        self._changed()


def _wants(plugin: AnyPlugin, snapshot: Snapshot) -> _Answer:
    wanted = tuple(plugin.wants(snapshot))
    return _Answer(wanted, None, [], None, float(plugin.deadline(snapshot)))


def _step(plugin: AnyPlugin, stream: str, snapshot: Snapshot) -> _Answer:
    plugin.messages()
    progress = Progress(plugin.step(stream, snapshot))
    items = plugin.messages()
    for item in items:
        if isinstance(item, Command):
            item.require()
    if progress is Progress.FINAL:
        plugin.release(stream)
    return _Answer(None, progress, items, _stored(plugin), float(plugin.deadline(snapshot)))


def _stored(plugin: AnyPlugin) -> Any:
    """The state of a plugin as it comes back from the file.

    Raises:
        ConfigError, TypeError, ValueError: it is no plain data.
    """
    return from_plain(type(plugin.state), json_value(to_text(plugin.state)), "state")


_INDEXES: Final = ("faulty", "exited", "to_replace", "asking", "renewed", "changed_agents", "changed_workers")


def _copied(snapshot: Snapshot) -> Snapshot:
    """A snapshot that does not change any more. Reports and faults are replaced, never changed, so they are shared."""
    records, outbox = snapshot.records, snapshot.outbox
    agents = {rank: copy(record) for rank, record in records.agents.items()}
    workers = {rank: copy(record) for rank, record in records.workers.items()}
    for record in (*agents.values(), *workers.values()):
        record.reports = dict(record.reports)
    still = replace(records, agents=agents, workers=workers, profiling=dict(records.profiling))
    for name in _INDEXES:
        setattr(still, name, set(getattr(records, name)))
    sending = {uuid: copy(each) for uuid, each in outbox.sending.items()}
    targets = {to: list(uuids) for to, uuids in outbox.by_target.items()}
    tasks = {name: copy(task) for name, task in snapshot.devices.tasks.items()}
    devices = DeviceState(tasks, dict(snapshot.devices.nodes), ranks=dict(snapshot.devices.ranks))
    return replace(snapshot, records=still, outbox=Outbox(sending, targets, dict(outbox.codes)), devices=devices)
