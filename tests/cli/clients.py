"""A node that is asked, in the test: the client of the commands, with answers from a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Self

from taskd_net import Echo, Position
from taskd_net.base.address import Address
from taskd_net.base.states import State
from taskd_net.net.tls.files import Tls
from taskd_net.observe.probe_codec import About, ProbeSeries
from taskd_net.observe.records import Mesh, NodeStatus


def mesh(*workers: State) -> Mesh:
    """A Mgr with Workers in these states, connected to it."""
    mgr = Position.mgr()
    nodes = [(mgr, NodeStatus(None, State.JOINED, 3600.0, "taskd_net"))]
    nodes += [
        (Position.worker(0, rank), NodeStatus(mgr, state, 3600.0, "taskd_net", link="batched"))
        for rank, state in enumerate(workers)
    ]
    return Mesh(mgr, 7200.0, "", nodes)


class Client:
    """The part of `NodeClient` that the commands use; `answers` are returned, or raised, one after another.

    Args:
        answers: of all clients together.
    """

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[object] = []

    def __call__(self, addresses: Sequence[Address], timeout: float, tls: Tls | None) -> Self:
        self.asked.append((",".join(map(str, addresses)), timeout, tls))
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def _next(self) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def mesh(self) -> object:
        return self._next()

    async def job(self) -> object:
        return self._next()

    async def forget(self, position: Position) -> object:
        self.asked.append(position)
        return self._next()

    async def about(self) -> About:
        return About(Position.mgr(), "1", 0, None)

    async def ping(self, series: ProbeSeries) -> AsyncIterator[Echo]:
        self.asked.append(series)
        for echo in self._echoes():
            yield echo

    async def trace(self, to: Position, timeout: float) -> AsyncIterator[Echo]:
        self.asked.append((to, timeout))
        for echo in self._echoes():
            yield echo

    def _echoes(self) -> Sequence[Echo]:
        answer = self._next()
        assert isinstance(answer, list)
        return answer
