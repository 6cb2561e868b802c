"""Commands and replies that nobody has acknowledged: resends, with one uuid, and losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.base.position import Role
from taskd_net.job.decide.plain import UNSTORED
from taskd_net.job.decide.times import Moment, Timer
from taskd_net.job.decide.traffic import Command, Reply

COMMAND_ATTEMPTS: Final = 5
"""Times that the Mgr sends one command until it is acknowledged, as TaskD's does."""

COMMAND_RETRY_S: Final = 3.0
"""Seconds between them."""

INFINITY: Final = float("inf")
_OF_RANKS: Final = (vocabulary.RESTART_RANKS, vocabulary.STOP_RANKS)


@dataclass(slots=True)
class Sending:
    """A command or reply on its way; one of the two is None.

    Args:
        tries: how often it was sent, since it was last decided on.
        due: time of the next try, in seconds since the epoch.
        sent: time of the first try.
        resumed: an earlier Manager has sent it, and may have died before its acknowledgement came.
        gone: its receiver may have taken it, and has left since. It is sent again all the same, as a link may have
            broken, but nothing else waits for it.
    """

    command: Command | None = None
    reply: Reply | None = None
    tries: int = 0
    due: Timer = 0.0
    sent: Moment = 0.0
    resumed: bool = False
    gone: bool = False


@dataclass(slots=True)
class Outbox:
    """All that is on its way, in the order of the next tries.

    The pause between tries is one constant, so whatever was sent last is due last. A look at what is due stops at the
    first entry that is not.

    Args:
        sending: by uuid.
        by_target: uuids of the commands, by destination.
        codes: number of commands by code.
        unsaved: uuids whose entry has changed since they were last taken out for storing.
        withdrawn: uuids of the commands that were withdrawn since they were last taken out.
    """

    sending: dict[str, Sending] = field(default_factory=dict)
    by_target: dict[str, list[str]] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)
    unsaved: set[str] = field(default_factory=set, compare=False, metadata=UNSTORED)
    withdrawn: list[str] = field(default_factory=list, compare=False, metadata=UNSTORED)

    @property
    def wake(self) -> float:
        """Time of the next try, or infinity."""
        return next((sending.due for sending in self.sending.values()), INFINITY)

    def add(self, now: float, item: Command | Reply, retry: float = COMMAND_RETRY_S) -> None:
        """Take in what is sent now for the first time. It supersedes what has lost its meaning by it.

        Args:
            now: the time.
            item: it.
            retry: seconds until the next try, the same in each call.
        """
        if isinstance(item, Reply):
            self.sending[item.uuid] = Sending(reply=item, tries=1, due=now + retry)
            self.unsaved.add(item.uuid)
            return
        for uuid in self._superseded(item):
            self.withdraw(uuid)
        self.sending[item.uuid] = Sending(command=item, tries=1, due=now + retry, sent=now)
        self.unsaved.add(item.uuid)
        self._index(item)

    def due(self, now: float) -> Iterator[Sending]:
        """Take the entries that are due, one after another; each is to be tried `again`, or removed."""
        while self.sending:
            sending = next(iter(self.sending.values()))
            if sending.due > now:
                return
            yield sending

    def again(self, now: float, sending: Sending, tries: int, retry: float = COMMAND_RETRY_S) -> None:
        """Count a further try, made now. `retry` as in `add`."""
        uuid = uuid_of(sending)
        del self.sending[uuid]
        sending.tries, sending.due = tries, now + retry
        self.sending[uuid] = sending
        self.unsaved.add(uuid)

    def fill(self, sendings: Mapping[str, Sending]) -> None:
        """Take in stored entries, by uuid."""
        for uuid, sending in sorted(sendings.items(), key=lambda item: (item[1].due, len(item[0]), item[0])):
            self.sending[uuid] = sending
            if sending.command is not None:
                self._index(sending.command)

    def hurry(self, now: float) -> None:
        """Make every entry due now: a Manager that goes on does not know which of them have left.

        The tries count from one again, as its receivers have to rejoin first.
        """
        for uuid, sending in self.sending.items():
            sending.tries, sending.due, sending.resumed = 1, min(now, sending.due), True
            self.unsaved.add(uuid)

    def remove(self, uuid: str) -> Sending | None:
        """Forget an entry that was taken, if it is there."""
        sending = self.sending.pop(uuid, None)
        if sending is not None:
            self.unsaved.add(uuid)
        if sending is not None and sending.command is not None:
            command = sending.command
            uuids = self.by_target[command.to]
            uuids.remove(uuid)
            if not uuids:
                del self.by_target[command.to]
            self.codes[command.code] -= 1
            if not self.codes[command.code]:
                del self.codes[command.code]
        return sending

    def withdraw(self, uuid: str) -> None:
        """Forget an entry that nobody has taken."""
        sending = self.remove(uuid)
        if sending is not None and sending.command is not None:
            self.withdrawn.append(uuid)

    def take_withdrawn(self) -> list[str]:
        """Take out the uuids of the commands that were withdrawn since the last call."""
        withdrawn, self.withdrawn = self.withdrawn, []
        return withdrawn

    def void(self, to: str, kept: int | None = None) -> None:
        """Forget the commands to a process that has been replaced, but for those of the code `kept`."""
        for command in list(self._to(to)):
            if command.code != kept:
                self.withdraw(command.uuid)

    def has(self, to: str, code: int) -> bool:
        """True while a command with this code is on its way to this destination."""
        return any(command.code == code for command in self._to(to))

    def is_awaited(self, to: str, code: int) -> bool:
        """True while a command with this code is on its way to a destination that may still take it."""
        return any(not self.sending[uuid].gone for uuid in self.by_target.get(to, ()) if self._code(uuid) == code)

    def receiver_gone(self, uuid: str) -> bool:
        """The receiver of a command has left after it may have taken it. Returns whether that is news."""
        sending = self.sending.get(uuid)
        if sending is None or sending.gone:
            return False
        sending.gone = True
        self.unsaved.add(uuid)
        return True

    def commands(self) -> list[str]:
        """Uuids of all commands on their way."""
        return [uuid for uuid, sending in self.sending.items() if sending.command is not None]

    def commands_to(self, to: str, code: int) -> list[Command]:
        """The commands with a code on their way to a destination."""
        return [command for command in self._to(to) if command.code == code]

    def codes_to(self, to: str) -> list[int]:
        """Codes of the commands on their way to a destination."""
        return [command.code for command in self._to(to)]

    def _index(self, command: Command) -> None:
        self.by_target.setdefault(command.to, []).append(command.uuid)
        self.codes[command.code] = self.codes.get(command.code, 0) + 1

    def is_fresh(self, to: str, code: int) -> bool:
        """True while the first try of a command is under way: nobody can have taken it long ago."""
        return any(self.sending[uuid].tries <= 1 for uuid in self.by_target.get(to, ()) if self._code(uuid) == code)

    def _code(self, uuid: str) -> int:
        command = self.sending[uuid].command
        assert command is not None
        return command.code

    def _to(self, to: str) -> Iterator[Command]:
        for uuid in self.by_target.get(to, ()):
            command = self.sending[uuid].command
            assert command is not None
            yield command

    def _superseded(self, item: Command) -> list[str]:
        """Earlier commands to the same destination that this one replaces.

        An Agent that exits needs none of the earlier ones, and one that restarts only its 210, which it may not have;
        a profiling switch replaces the one before, and a command on ranks one that names no others.
        """
        kept = {vocabulary.EXIT: (), vocabulary.RESTART_ALL: (vocabulary.START,)}.get(item.code)
        if kept is None or not item.to.startswith(f"{Role.AGENT}/"):
            return [command.uuid for command in self._to(item.to) if _replaces(item, command)]
        return [command.uuid for command in self._to(item.to) if command.code not in kept]


def uuid_of(sending: Sending) -> str:
    """The uuid of an entry."""
    item = sending.command or sending.reply
    assert item is not None
    return item.uuid


def _replaces(item: Command, before: Command) -> bool:
    if _subject(item) != _subject(before):
        return False
    return item.code not in _OF_RANKS or set(before.ranks) <= set(item.ranks)


def _subject(command: Command) -> int:
    return vocabulary.PROFILING_COMMANDS.start if command.code in vocabulary.PROFILING_COMMANDS else command.code
