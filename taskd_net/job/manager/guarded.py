"""A user's plugin in a thread of its own, with a time limit for each call.

    tick: wants(snapshot) ──▶ the thread is asked, with a copy of the snapshot; the tick goes on
                              … the answer comes, and causes a tick
    tick: wants(snapshot) ──▶ the answer

So nobody waits for a user's plugin: no other plugin, and no message. It is asked at most once in each interval.

All code of the plugin runs in that thread, its state's methods too. The event loop has the state, and the decisions,
as plain data that was checked there.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from taskd_net.base.codes import ArgumentError
from taskd_net.base.untrusted import json_value, shown
from taskd_net.job.decide.device_state import DeviceState
from taskd_net.job.decide.outbox import INFINITY, Outbox
from taskd_net.job.decide.plain import from_plain, to_text
from taskd_net.job.decide.plugins import AnyPlugin, Plugin, Progress
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import move_plain, moved
from taskd_net.job.decide.traffic import Call, Command, Item, Reply, ReportFaults, Restarts, Retried
from taskd_net.job.manager.config import PLUGIN_S
from taskd_net.job.manager.threads import OwnThread, described

ITEMS: Final = 65_536
"""Decisions in one step of a user's plugin: one for each Agent and Worker that a Manager keeps a record of."""

STATE_CHARS: Final = 262_144
"""Characters of the state of a user's plugin as JSON. It is written with each change of the job: a millisecond."""

FAILURES: Final = 3
"""Failures in a row after which a user's plugin is off until the Manager restarts."""

Report = Callable[[str, str, BaseException | str], None]
"""Takes the name of a plugin that has failed, the reason, and its exception or the stack that it hangs in."""


class Loaded(NamedTuple):
    """A user's plugin, and what its class said when it was loaded.

    Args:
        make: makes another one.
        plugin: the first one.
        name, streams: those of the class.
        kind: the type of its state.
        state: the first state, as plain data.
        goes_on: the class has its own `lost`.
    """

    make: Callable[[], AnyPlugin]
    plugin: AnyPlugin
    name: str
    streams: dict[str, int | None]
    kind: type[Any]
    state: object
    goes_on: bool


class _Answer(NamedTuple):
    """The result of a call: of `wants` the streams, of `step` the progress; the decisions, the state, the deadline."""

    wanted: Collection[str] | None
    stream: str
    progress: Progress | None
    items: list[Item]
    state: object
    deadline: float


_Work = Callable[[AnyPlugin, Loaded, Snapshot], _Answer]


class Guarded(Plugin[Any]):
    """Stands for a user's plugin among the others. It lives in the node's event loop.

    Args:
        loaded: the plugin.
        thread: the one that has loaded it.
        seconds: for one call.
        changed: brings about a tick.
        report: takes each failure.

    Attributes:
        state: that of the plugin, as plain data.
        off: it has failed too often without a step between, and is not asked any more.
    """

    def __init__(
        self, loaded: Loaded, thread: OwnThread, seconds: float, changed: Callable[[], None], report: Report
    ) -> None:
        super().__init__(loaded.state)
        self.name = loaded.name  # type: ignore[misc]
        self.streams = loaded.streams  # type: ignore[misc]
        self.off = False
        self._loaded = loaded
        self._plugin: AnyPlugin | None = loaded.plugin
        self._seconds = seconds
        self._changed = changed
        self._report = report
        self._thread = thread
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._error: Exception | None = None
        self._wanted: Collection[str] = ()
        self._wanted_at = 0.0
        self._stepped: _Answer | None = None
        self._finished = False
        self._releases: list[str] = []
        self._asked_at = 0.0
        self._about = ""
        self._others_wait = False
        self._again = False
        self._deadline = INFINITY
        self._moves: list[tuple[float, float]] = []  # of the clock, during a call

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The streams that the plugin wanted when it was asked."""
        self._raise()
        if self._wanted:
            self._wanted_at = self._wanted_at or snapshot.now
            if self._wanted_at == snapshot.now:
                return self._wanted
            self._wanted, self._wanted_at = (), 0.0
        self._ask(snapshot, "", _wants)
        return ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Take the decisions of the step that the plugin has taken meanwhile; HOLD until it has."""
        self._raise()
        self._wanted = [each for each in self._wanted if each != stream]
        if (answer := self._stepped) is None or answer.stream != stream:
            self._ask(snapshot, stream, lambda plugin, loaded, seen: _step(plugin, loaded, stream, seen))
            return Progress.HOLD
        assert answer.progress is not None
        self._stepped, self._finished = None, answer.progress is Progress.FINAL
        self._items, self.state = list(answer.items), answer.state
        return answer.progress

    def release(self, stream: str) -> None:
        """Release the stream after a failure, or where it was taken away; a final step has done so itself."""
        finished, self._finished = self._finished, False
        if finished:
            return
        self._releases.append(stream)
        if self._stepped is not None and self._stepped.stream == stream:
            self._stepped = None

    def restore(self, state: object, name: str) -> None:
        """Take a stored state as it is. The next call reads it, and fails where it is no state of the plugin's."""
        self.state = state

    def move(self, then: float, now: float) -> None:
        """Change the times of the plugin's state, and of the questions to it. A state that cannot be read stays."""
        self.state = self._move(self.state, then, now)
        if self._stepped is not None:
            self._stepped = self._stepped._replace(state=self._move(self._stepped.state, then, now))
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
        return not self.off and self._loaded.goes_on

    async def close(self) -> None:
        """End the thread; one that hangs ends with the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._thread.busy:
            self._thread.stop()
            return
        with contextlib.suppress(TimeoutError):
            await self._thread.end(bool, PLUGIN_S)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _ask(self, snapshot: Snapshot, about: str, work: _Work) -> None:
        """Have the thread do some work, about a stream or about those that the plugin wants, unless it is too early.

        Questions about the same do not come twice in a row while there are others.
        """
        if self.off:
            return
        early = self._task is not None or snapshot.now < self._asked_at + snapshot.config.interval
        if early or (self._others_wait and about == self._about):
            self._again = True
            self._others_wait = early and (self._others_wait or about != self._about)
            return
        self._again, self._others_wait = False, False
        self._asked_at, self._about = snapshot.now, about
        self._task = asyncio.create_task(self._call(work, _copied(snapshot)), name=f"asks {self.name}")

    def _move(self, state: object, then: float, now: float) -> object:
        try:
            return move_plain(state, self._loaded.kind, then, now)
        except Exception as error:  # noqa: BLE001 - a state of the user's ends no Manager
            self._report(self.name, f"the type of a field cannot be read: {described(error)}", error)
            return state

    async def _call(self, work: _Work, snapshot: Snapshot) -> None:
        known, loaded, state = self._plugin, self._loaded, self.state
        releases, self._releases = self._releases, []

        def run() -> tuple[AnyPlugin, _Answer]:
            plugin = loaded.make() if known is None else known
            plugin.state = from_plain(loaded.kind, state, "state")
            for stream in releases:
                plugin.release(stream)
            return plugin, work(plugin, loaded, snapshot)

        try:
            self._plugin, answer = await self._thread.call(run, self._seconds)
        except Exception as raised:  # noqa: BLE001 - reported
            self._releases = releases + self._releases
            if not self._thread.busy:
                # Also a TimeoutError, where it is the plugin's own.
                self._fail(raised, raised)
                return
            stack = self._thread.stack()
            error = TimeoutError(f"it has not returned within {self._seconds:g} s")
            # A call that hangs keeps its thread and its object; the next call gets new ones.
            self._thread.abandon()
            self._thread = plugin_thread(self.name)
            self._fail(error, stack)
        else:
            self._take(answer)
        finally:
            self._task = None
            self._moves.clear()

    def _take(self, answer: _Answer) -> None:
        for then, now in self._moves:
            state = self._move(answer.state, then, now)
            answer = answer._replace(state=state, deadline=moved(answer.deadline, then, now))
        self._deadline = answer.deadline
        if answer.progress is None:
            self._wanted, self._wanted_at = answer.wanted or (), 0.0
            news = bool(self._wanted)
        elif answer.stream in self._releases:  # taken away meanwhile, so the step is void
            news = True
        else:
            self._failures, self._stepped = 0, answer
            news = bool(answer.items) or answer.progress is Progress.FINAL or answer.state != self.state
        if news or self._again:
            self._changed()

    def _fail(self, error: Exception, trace: BaseException | str) -> None:
        self._failures += 1
        self.off = self._failures >= FAILURES
        self._plugin = None
        self._error, self._stepped, self._wanted, self._again = error, None, (), True
        self._deadline = INFINITY
        self._report(self.name, described(error), trace)
        self._changed()


def plugin_thread(name: str) -> OwnThread:
    """A thread for the calls of a user's plugin."""
    return OwnThread(f"plugin {name}", application=True)


def _wants(plugin: AnyPlugin, loaded: Loaded, snapshot: Snapshot) -> _Answer:
    wanted: object = plugin.wants(snapshot)
    named = None
    if isinstance(wanted, Iterable) and not isinstance(wanted, str):
        named = list(islice(wanted, ITEMS))  # an endless one ends there
    if named is None or not all(type(each) is str and each in loaded.streams for each in named):
        raise ArgumentError(f"wants has returned {shown(wanted)}; expected streams out of {list(loaded.streams)}")
    return _Answer(named, "", None, [], None, _deadline(plugin, snapshot))


def _step(plugin: AnyPlugin, loaded: Loaded, stream: str, snapshot: Snapshot) -> _Answer:
    plugin.messages()
    progress = Progress(plugin.step(stream, snapshot))
    items = plugin.messages()
    if len(items) > ITEMS:
        raise ArgumentError(f"a step has {len(items)} decisions; expected {ITEMS} at most")
    items = [_checked(item) for item in items]
    if progress is Progress.FINAL:
        plugin.release(stream)
    return _Answer(None, stream, progress, items, plain(plugin.state, loaded.kind), _deadline(plugin, snapshot))


def _deadline(plugin: AnyPlugin, snapshot: Snapshot) -> float:
    deadline: object = plugin.deadline(snapshot)
    if not isinstance(deadline, int | float) or math.isnan(deadline):
        raise ArgumentError(f"deadline has returned {shown(deadline)}; expected seconds since the epoch")
    return float(deadline)


_DECISIONS: Final = (Command, Call, Reply, ReportFaults, Restarts, Retried)
"""Decisions of a user's plugin. Those about devices belong to the Manager's table of devices."""


def _checked(item: Item) -> Item:
    """A copy of a decision whose fields have their types.

    Raises:
        ArgumentError, ConfigError, TypeError, ValueError: it is none.
    """
    kind = type(item)
    if kind not in _DECISIONS:
        names = ", ".join(each.__name__ for each in _DECISIONS)
        raise ArgumentError(f"a decision is {shown(item)}; expected one of {names}")
    copied: Item = from_plain(kind, json_value(to_text(item)), kind.__name__)
    if isinstance(copied, Command):
        copied.require()
    return copied


def plain(state: Any, kind: type[Any]) -> object:
    """The state of a plugin as plain data, from which a file gives it back.

    Raises:
        ArgumentError, ConfigError, TypeError, ValueError: it is none, or too large.
    """
    if type(state) is not kind:
        raise ArgumentError(f"state is {shown(state)}; expected {kind.__name__}")
    text = to_text(state)
    if len(text) > STATE_CHARS:
        raise ArgumentError(f"state has {len(text)} characters as JSON; expected {STATE_CHARS} at most")
    value = json_value(text)
    from_plain(kind, value, "state")
    return value


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
    return replace(
        snapshot,
        records=still,
        outbox=Outbox(sending, targets, dict(outbox.codes)),
        devices=devices,
        requests=dict(snapshot.requests),
    )
