"""Registrations that wait for their streams, and calls that wait for a place among them (`core.registrations`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from taskd_net.base.codes import Code, Refusal
from taskd_net.core.registrations import Registration, Registrations
from taskd_net.core.routes import LinkId
from taskd_net.net.links.remote import Remote

PER_CONNECTION: Final = 64
"""Registrations of one connection whose stream is not open; the next waits. A process has one node as a rule."""

PER_ADDRESS: Final = 256
"""Registrations from one address whose stream is not open, where the parent has few places left; the next waits. Else
an address may have as many as there are places left, so that there is always room for the next one. 2,000 children of
one address then join without waiting. Waiting took a third more of their parent's time."""

REPEAT_S: Final = 0.1
"""Seconds that the answer to a repeated registration is held, over the same connection and before its stream: a peer
that repeats all its registrations without a pause takes a tenth of a core."""

GATHER_S: Final = 0.02
"""Seconds for which free places are gathered for the next registrations. Children that join one by one, not in groups,
cost their parent a third more: 2,000 joined in 3.5 s instead of 3.1."""

LINE: Final = 8192
"""Registrations that wait for such a place, of all connections: more than the children that a parent may have. The
call of each takes some 21 KB."""


class PendingRegistrations:
    """The registrations of one parent without a stream.

    Args:
        free_places: returns the places of the parent that no child has.
        per_connection, per_address, line: the bounds.
    """

    def __init__(
        self,
        free_places: Callable[[], int],
        per_connection: int = PER_CONNECTION,
        per_address: int = PER_ADDRESS,
        line: int = LINE,
    ) -> None:
        self._registrations = Registrations(per_connection, per_address, free_places, line)
        self._of: dict[LinkId, Registration] = {}
        self._turns: dict[Registration, asyncio.Future[None]] = {}
        # Calls that have a place, and are told so together.
        self._admitted: list[Registration] = []

    @asynccontextmanager
    async def place(self, remote: Remote, child: LinkId | None) -> AsyncIterator[Registration]:
        """Wait for a place, which is free again at the end unless a child keeps it. A repeat waits as well.

        Args:
            remote: the caller's connection.
            child: the child that registers again; None for a new one.

        Raises:
            Refusal: 5003, too many registrations wait.
        """
        known = None if child is None else self._of.get(child)
        if known is not None and known.connection == remote:
            await asyncio.sleep(REPEAT_S)
            yield known
            return
        registration = Registration(remote, remote.place)
        await self._enter(registration)
        try:
            yield registration
        finally:
            if registration.child is None:
                self._leave(registration)

    def keep(self, registration: Registration, child: LinkId) -> None:
        """Let a child keep a place until its stream is open."""
        before = self._of.get(child)
        self._of[child], registration.child = registration, child
        if before is not None and before is not registration:
            self._leave(before)

    def over(self, child: LinkId) -> None:
        """The stream of a child is open, or the child is forgotten."""
        registration = self._of.pop(child, None)
        if registration is not None:
            self._leave(registration)

    async def _enter(self, registration: Registration) -> None:
        pushed = self._registrations.enter(registration)
        if registration.admitted:
            return
        turn = self._turns[registration] = asyncio.get_running_loop().create_future()
        if pushed is not None and not (lost := self._turns.pop(pushed)).done():
            text = "too many registrations wait for their streams"
            lost.set_exception(Refusal(Code.EXCEED_MAX_REGISTRY_NUM, text))
        try:
            await turn
        except asyncio.CancelledError:
            # The caller has gone. One that was pushed out in the same moment is in no line any more.
            if registration in self._turns:
                self._leave(registration)
            raise
        finally:
            self._turns.pop(registration, None)

    def _leave(self, registration: Registration) -> None:
        admitted = self._registrations.leave(registration)
        if admitted and not self._admitted:
            asyncio.get_running_loop().call_later(GATHER_S, self._tell_admitted)
        self._admitted += admitted

    def _tell_admitted(self) -> None:
        admitted, self._admitted = self._admitted, []
        for registration in admitted:
            turn = self._turns.get(registration)  # none for a caller that has gone
            if turn is not None and not turn.done():
                turn.set_result(None)
