"""The last decisions of a job, with their causes and answers."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from taskd_net.base.position import Position
from taskd_net.base.vocabulary import KEEP_ALIVE, REGISTER
from taskd_net.job.decide.events import (
    DeviceEvent,
    DeviceReleased,
    Event,
    FaultFiles,
    MachineReset,
    PluginRequest,
    ProfilingSwitch,
    RankWanted,
    Reported,
    ResetEnded,
    RetryTime,
    Signal,
    Subscribed,
)
from taskd_net.job.decide.traffic import Call, Command, Item, Replace, Reply, ReportFaults, Reset, Restarts
from taskd_net.observe.job_view import (
    DECISIONS_SHOWN,
    MESSAGES_SHOWN,
    OWN,
    SHOWN_CHARS,
    DecisionView,
    JobCounters,
    MessageView,
)

_Other = Call | Reply | ReportFaults | Reset | Replace
"""Decisions that are shown in words."""


class DecisionHistory:
    """The last decisions. Each has a number, and the uuids of its commands lead to it until they are settled.

    Args:
        stored: those of an earlier Manager of the job, in any order.
        on_the_way: uuids of the commands that nobody has taken.
    """

    def __init__(self, stored: Iterable[DecisionView] = (), on_the_way: Iterable[str] = ()) -> None:
        ordered = sorted(stored, key=lambda each: each.number)
        self._decisions = OrderedDict((each.number, _Decided(each)) for each in ordered)
        # The commands of a decision have consecutive uuids.
        with_commands = [each for each in ordered if each.messages]
        firsts = [_number(each.messages[0].uuid) for each in with_commands]
        self._open: dict[str, int] = {}
        for uuid in on_the_way:
            if place := bisect_right(firsts, _number(uuid)):
                self._open[uuid] = with_commands[place - 1].number
        self._last = next(reversed(self._decisions), 0)
        self.unsaved: set[int] = set()

    @property
    def decisions(self) -> tuple[DecisionView, ...]:
        """All, oldest first."""
        return tuple(each.view() for each in self._decisions.values())

    def get(self, number: int) -> DecisionView | None:
        """A decision by its number; None for one that is no longer kept."""
        entry = self._decisions.get(number)
        return None if entry is None else entry.view()

    def move(self, now: float) -> None:
        """Take note that the clock has moved: no decision is in the future."""
        for entry in self._decisions.values():
            entry.move(now)

    def add(self, now: float, cause: str, decided: Iterable[tuple[str, Item]], counters: JobCounters) -> None:
        """Take in what one tick has decided: a decision for each plugin in a row."""
        for owner, group in groupby(decided, itemgetter(0)):
            items = [item for _, item in group]
            self._last += 1
            commands = [item for item in items if isinstance(item, Command)]
            shown = tuple(
                MessageView(item.to, item.code, item.message[:SHOWN_CHARS], item.uuid)
                for item in commands[:MESSAGES_SHOWN]
            )
            other = [item for item in items if isinstance(item, _Other)]
            calls = tuple(map(_words, other[:MESSAGES_SHOWN]))
            restarts = next((item.left for item in items if isinstance(item, Restarts)), None)
            self._decisions[self._last] = _Decided(
                DecisionView(self._last, now, owner, cause, shown, len(commands), 0, 0, calls, restarts)
            )
            self.unsaved.add(self._last)
            self._open |= dict.fromkeys((item.uuid for item in commands), self._last)
            counters.commands += len(commands)
            counters.rounds += restarts is not None
            counters.decisions[owner or OWN] += 1
        while len(self._decisions) > DECISIONS_SHOWN:
            number, _ = self._decisions.popitem(last=False)
            self.unsaved.add(number)

    def answered(self, uuid: str, code: int) -> None:
        """Note the answer to an attempt of a command."""
        self._settle(uuid, code, lost=False, ends=code == 0)

    def gone(self, uuid: str) -> None:
        """Note that a command is given up, or superseded."""
        self._settle(uuid, None, lost=True, ends=True)

    def _settle(self, uuid: str, code: int | None, *, lost: bool, ends: bool) -> None:
        number = self._open.pop(uuid, None) if ends else self._open.get(uuid)
        entry = None if number is None else self._decisions.get(number)
        if number is None or entry is None:
            return
        message = entry.messages.get(uuid)
        if message is not None:
            entry.messages[uuid] = replace(message, answer=message.answer if code is None else code, lost=lost)
        entry.acknowledged += ends and not lost
        entry.lost += lost
        self.unsaved.add(number)


class _Decided:
    """A decision, and what has become of its commands: by uuid those that are shown, and numbers of all."""

    __slots__ = ("_decided", "acknowledged", "lost", "messages")

    def __init__(self, decided: DecisionView) -> None:
        self._decided = decided
        self.messages = {each.uuid: each for each in decided.messages}
        self.acknowledged, self.lost = decided.acknowledged, decided.lost

    def move(self, now: float) -> None:
        """Take note that the clock has moved."""
        self._decided = replace(self._decided, at=min(self._decided.at, now))

    def view(self) -> DecisionView:
        """The decision as it stands."""
        shown = tuple(self.messages.values())
        return replace(self._decided, messages=shown, acknowledged=self.acknowledged, lost=self.lost)


def cause(event: Event) -> str:
    """An event in words; empty for one that explains no decision, such as a registration, a heartbeat or an answer."""
    match event:
        case Reported() if event.msg_type in (KEEP_ALIVE, REGISTER):
            text = ""
        case Reported():
            text = f"{event.src.identity} {event.msg_type} {event.code} {event.message}"
        case RankWanted():
            text = f"{event.src.identity} asks for a rank for {event.host}"
        case Signal():
            names = (event.signal_type, event.strategy, ",".join(event.actions), event.uuid)
            text = f"ClusterD {' '.join(filter(None, names))}"
        case PluginRequest() | ProfilingSwitch():
            text = event.words
        case Subscribed():
            text = "a stream of ClusterD's signals has begun"
        case MachineReset():
            text = "the stream of ClusterD's signals has ended"
        case RetryTime():
            text = f"RetryTime {event.value}"
        case DeviceEvent():
            text = f"device {event.event.device} {event.event.code} {event.event.kind}{_by(event.reporter)}"
        case DeviceReleased():
            text = f"device {event.device} given free{_by(event.reporter)}"
        case ResetEnded():
            text = f"a reset {'is done' if event.done else f'has failed: {event.reason}'}"
        case FaultFiles():
            text = "the rules for faults of devices have changed"
        case _:
            text = ""
    return text.strip()[:SHOWN_CHARS]


def _by(reporter: Position | None) -> str:
    return "" if reporter is None else f" by {reporter}"


def _number(uuid: str) -> int:
    """The number in a uuid of `State.uuid`."""
    return int(uuid.rpartition("-")[2])


def _words(item: _Other) -> str:
    if isinstance(item, ReportFaults):
        return f"report ranks {','.join(map(str, item.ranks))} as faulty"[:SHOWN_CHARS]
    if isinstance(item, Reset):
        return f"reset {item.device}"[:SHOWN_CHARS]
    if isinstance(item, Replace):
        return f"replace node {item.node} because of {item.device}"[:SHOWN_CHARS]
    if isinstance(item, Reply):
        return f"reply {item.rpc} {item.result}"[:SHOWN_CHARS]
    ranks = ",".join(map(str, item.ranks))
    return " ".join(filter(None, ("controller", item.name, item.text, ranks)))[:SHOWN_CHARS]
