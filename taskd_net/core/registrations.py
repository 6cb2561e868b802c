"""Registrations whose stream is not open yet: places for each connection and address, and a line before them.

A child registers and opens its stream at once, so its registration holds a place for milliseconds. A peer that never
opens streams would otherwise hold every place of the parent. Thousands of honest children may share an address (NAT);
beyond the places of the address a registration waits, and is not refused. The line is fair: connections take turns.

An address may have as many registrations as the parent has free places: one address alone gets half of them, two a
third each, and there is always room for the next one. Where few are free, children that return have some at least.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from taskd_net.core.routes import LinkId

Connection: TypeAlias = Hashable


@dataclass(slots=True, eq=False)
class Registration:
    """One registration, from the call until its stream is open.

    Attributes:
        connection, address: the source of the call.
        admitted: it has a place.
        child: the child that keeps the place until its stream is open; None before the child has registered.
    """

    connection: Connection
    address: str
    admitted: bool = False
    child: LinkId | None = None


class Registrations:
    """The registrations of one parent without a stream.

    Args:
        per_connection: places of one connection.
        per_address: places of one address at least.
        free_places: returns the places of the parent that no child has.
        line: registrations that wait for a place. A further one replaces the newest of the longest line.
    """

    def __init__(self, per_connection: int, per_address: int, free_places: Callable[[], int], line: int) -> None:
        self._per_connection = per_connection
        self._per_address = per_address
        self._free_places = free_places
        self._line = line
        # Places in use, by connection and by address.
        self._held: Counter[Hashable] = Counter()
        # Ordered dicts, whose first and last entries are found and taken out at once.
        self._lines: dict[Connection, OrderedDict[Registration, None]] = {}
        # By address: the connections that wait and have a place left, in turn.
        self._turns: dict[str, OrderedDict[Connection, None]] = {}
        self._waiting = 0

    def enter(self, registration: Registration) -> Registration | None:
        """Admit a registration, or let it wait. Returns the one that has lost its place in line to it, if any."""
        connection, address = registration.connection, registration.address
        turns = self._turns.get(address)
        if not turns and connection not in self._lines and self._has_place(registration):
            self._admit(registration)
            return None
        self._lines.setdefault(connection, OrderedDict())[registration] = None
        self._waiting += 1
        if self._held[connection] < self._per_connection:
            self._turns.setdefault(address, OrderedDict())[connection] = None
        if self._waiting <= self._line:
            return None
        longest = max(self._lines, key=lambda waits: len(self._lines[waits]))
        self.leave(pushed := next(reversed(self._lines[longest])))
        return pushed

    def leave(self, registration: Registration) -> list[Registration]:
        """Take out a registration: its stream is open, or its caller is gone. Returns those that get a place now."""
        connection, address = registration.connection, registration.address
        if registration.admitted:
            for key in (connection, address):
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]
            if connection in self._lines:
                self._turns.setdefault(address, OrderedDict())[connection] = None
            return list(self._next(address))
        del self._lines[connection][registration]
        self._waiting -= 1
        self._tidy(connection, address)
        return []

    def _next(self, address: str) -> Iterator[Registration]:
        """Admit registrations of an address, one of each connection in turn, while there are places."""
        while self._has_room(address) and (turns := self._turns.get(address)):
            connection, _ = turns.popitem(last=False)
            registration, _ = self._lines[connection].popitem(last=False)
            self._waiting -= 1
            self._admit(registration)
            if self._lines[connection] and self._held[connection] < self._per_connection:
                turns[connection] = None
            self._tidy(connection, address)
            yield registration

    def _has_place(self, registration: Registration) -> bool:
        return self._held[registration.connection] < self._per_connection and self._has_room(registration.address)

    def _has_room(self, address: str) -> bool:
        held = self._held[address]
        return held < self._per_address or held < self._free_places()

    def _admit(self, registration: Registration) -> None:
        registration.admitted = True
        self._held[registration.connection] += 1
        self._held[registration.address] += 1

    def _tidy(self, connection: Connection, address: str) -> None:
        """Forget what is empty."""
        turns = self._turns.get(address)
        if not self._lines[connection]:
            del self._lines[connection]
            if turns is not None:
                turns.pop(connection, None)
        if not turns:
            self._turns.pop(address, None)
