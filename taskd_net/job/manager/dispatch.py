"""Messages between a Manager and its Agents and Workers: reports as events, and commands on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError, Code
from taskd_net.base.position import Position, Role, is_rank
from taskd_net.base.untrusted import natural, shown
from taskd_net.base.vocabulary import DEVICE_FAULT, NODE_RANK
from taskd_net.core.frame import Ack
from taskd_net.job.decide.device_reports import read_report
from taskd_net.job.decide.events import Event, RankWanted, Reported
from taskd_net.job.decide.outbox import COMMAND_RETRY_S
from taskd_net.job.decide.records import JOB_NODES
from taskd_net.job.decide.traffic import Command
from taskd_net.net.retry import Retry
from taskd_net.net.wire.codec import Message
from taskd_net.node.node import Node

_UNDELIVERED: Final = frozenset(
    (Code.RECV_BUF_NIL, Code.RECV_BUF_BUSY, Code.NO_ROUTE, Code.NETWORK_SEND_LOST, Code.NET_STREAM_NOT_INITED)
)
"""Answers that say that the message certainly is in no inbox."""


_ABSENT: Final = (Code.NO_ROUTE, Code.NET_STREAM_NOT_INITED)
"""Answers that say that the receiver has left the mesh."""

_HEARTBEAT_CHARS: Final = 256

_NUMBER_MOST: Final = 2**31 - 1

_HOST_CHARS: Final = 253
"""Characters of the name of a host, as in the domain name system."""


@lru_cache(maxsize=16)
def _heard(text: str) -> Body:
    """The body of a short message. The KEEP_ALIVEs of all Agents have one text, which is read once."""
    return Body.parse(text)


def read_event(message: Message, now: float) -> Event:
    """The event that a message is.

    Args:
        message: to the Mgr.
        now: time of its arrival, in seconds since the epoch.

    Raises:
        ArgumentError: its body is none of TaskD's, or a report of a device with a value that is not usable.
    """
    body = _heard(message.body) if len(message.body) <= _HEARTBEAT_CHARS else Body.parse(message.body)
    if body.msg_type == DEVICE_FAULT:
        return read_report(message.src, body, now)
    if body.msg_type == NODE_RANK:
        return read_request(message.src, body)
    said = body.msg_type, body.code, body.message, dict(body.extension)
    return Reported(message.src, *said, uuid=message.uuid, mtype=message.mtype)


def read_request(src: Position, body: Body) -> RankWanted:
    """A launcher's request for the rank of its node.

    Raises:
        ArgumentError: its place is none of an Agent, or a value is missing or out of its range.
    """
    host = body.extension.get(vocabulary.HOST, "")
    if src.role != Role.AGENT or not is_rank(src.server_rank):
        raise ArgumentError(f"{src} asks for the rank of a node; expected an Agent")
    for name, text in (("message", body.message), (vocabulary.HOST, host)):
        if not 0 < len(text) <= _HOST_CHARS:
            raise ArgumentError(f"{name} is {shown(text)}; expected a text of 1 to {_HOST_CHARS} characters")
    numbers: dict[str, int | None] = dict.fromkeys((vocabulary.PID, vocabulary.RANK, vocabulary.NODES))
    for name in numbers.keys() & body.extension.keys():
        number = natural(body.extension[name], _NUMBER_MOST)
        if number is None:
            raise ArgumentError(f"{name} is {shown(body.extension[name])}; expected a whole number")
        numbers[name] = number
    rank = numbers[vocabulary.RANK]
    if rank is not None and rank >= JOB_NODES:
        raise ArgumentError(f"{vocabulary.RANK} is {rank}; expected less than {JOB_NODES}")
    nodes = numbers[vocabulary.NODES] or 0
    return RankWanted(src, body.message, host, numbers[vocabulary.PID] or 0, rank, nodes)


class Dispatch:
    """Sends commands, in the node's event loop: one send at a time for each uuid.

    An attempt lasts until shortly before the next one: what was certainly not delivered (the Agent is not back yet, its
    inbox is full) is sent again meanwhile. All sends of a command have one uuid, so its receiver takes it once.

    Args:
        node: the Mgr.
        answered: takes the uuid and the answer of each attempt, and whether the receiver may have had the command
            already when the send began that was answered. The answer's `receivers` are None for a unicast alone.
        gone: takes the uuid of a command that its receiver may have taken before it left the mesh.
        term: the fencing number of commands that leave now, 0 for none; None where none may leave.
        retry: seconds between two attempts of a command.
    """

    def __init__(
        self,
        node: Node,
        answered: Callable[[str, Ack, bool], None],
        gone: Callable[[str], None],
        term: Callable[[], int | None] = lambda: 0,
        retry: float = COMMAND_RETRY_S,
    ) -> None:
        self._node = node
        # An attempt ends before the next one is due.
        self._attempts = Retry(attempts=1_000, within=0.95 * retry)
        self._answered = answered
        self._gone = gone
        self._term = term
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._unclear: set[str] = set()
        """Uuids of commands that may have been delivered by a send without an acknowledgement."""

    def send(self, command: Command) -> None:
        """Begin an attempt, unless one of this command is under way."""
        if command.uuid not in self._sending:
            task = asyncio.create_task(self._send(command), name=f"sends {command.uuid}")
            self._sending[command.uuid] = task

    def withdraw(self, uuid: str) -> None:
        """Give up a command that has lost its meaning."""
        self._unclear.discard(uuid)
        if (task := self._sending.get(uuid)) is not None:
            task.cancel()

    async def close(self) -> None:
        """End every attempt."""
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _send(self, command: Command) -> None:
        known, uuid = self._known(command), command.uuid

        async def attempt(left: float) -> Ack:
            term = self._term()  # for each attempt: the process may have been stopped meanwhile
            if term is None:
                return Ack(uuid, Code.NET_STREAM_NOT_INITED, self._node.position)
            extension = command.extension | ({vocabulary.TERM: str(term)} if term else {})
            body = Body(command.msg_type, command.code, command.message, extension).to_json()
            ack = await self._node.send(body, to=command.to, mtype=command.mtype, uuid=uuid, timeout=left)
            if not ack.ok and ack.code not in _UNDELIVERED:
                self._unclear.add(uuid)
            elif ack.code in _ABSENT and uuid in self._unclear:
                self._gone(uuid)
            return ack

        try:
            ack = await self._attempts.run(attempt)
        finally:
            del self._sending[uuid]
        late = uuid in self._unclear
        if ack.ok:
            self._unclear.discard(uuid)
        self._answered(uuid, ack if ack.receivers is not None else ack._replace(receivers=known), late)

    def _known(self, command: Command) -> int | None:
        """The number of known receivers of a broadcast: those that an Ack 0 stands for, where it counts none."""
        destination = command.destination
        return None if destination.unicast else self._node.driver.router.routes.receivers(destination)
