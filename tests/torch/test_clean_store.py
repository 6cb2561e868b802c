"""The meeting of nodes before their workers start: two agents of one store, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed import DistError, PrefixStore, TCPStore

from taskd_net.torch import clean_store
from tests.polling import until

SOON = 30.0
RUN = "run"
OLD = "worker/attempt_0/address"
"""A key of workers that have ended."""


class Nodes:
    """Two nodes of a job. Each has its client of the store, as its agent has.

    Args:
        own_store: the first worker makes a store of its own.
        timeout: seconds that a node waits for the others.
    """

    def __init__(self, *, own_store: bool = False, timeout: float = SOON) -> None:
        self.own_store, self.timeout = own_store, timedelta(seconds=timeout)
        self._server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._pool = ThreadPoolExecutor(4)
        self.workers = self._client()

    def meets(self, rank: int) -> Future[None]:
        """A node is about to start its workers."""
        handler = SimpleNamespace(use_agent_store=not self.own_store, get_run_id=lambda: RUN)
        group = SimpleNamespace(
            group_rank=rank,
            group_world_size=2,
            master_addr="127.0.0.1",
            master_port=self._server.port,
            spec=SimpleNamespace(rdzv_handler=handler),
            store=PrefixStore(f"{RUN}/agents", self._client()),
        )
        return self._pool.submit(clean_store.meet, group)

    def known(self) -> set[str]:
        """All keys but those of torch's own."""
        return {key for key in self.workers.list_keys() if not key.startswith("init/")}

    def asks(self) -> bytes:
        """The last question of node 1; empty without one."""
        key = f"{RUN}/agents/{clean_store.ASKS}/1"
        return bytes(self.workers.get(key)) if self.workers.check([key]) else b""

    def _client(self) -> Any:
        return TCPStore("127.0.0.1", self._server.port, is_master=False, wait_for_workers=False, timeout=self.timeout)

    def close(self) -> None:
        self._pool.shutdown()
        del self.workers, self._server


@pytest.fixture
def nodes() -> Iterator[Callable[..., Nodes]]:
    """Make the nodes of a test."""
    made: list[Nodes] = []

    def make(**more: Any) -> Nodes:
        made.append(Nodes(**more))
        made[0].workers.set(OLD, "127.0.0.1:1")
        return made[0]

    yield make
    made[0].close()


def test_no_node_goes_on_before_all_have_come_and_no_key_of_workers_is_left(nodes: Callable[..., Nodes]) -> None:
    two = nodes()
    two.workers.set(f"{RUN}/agents/more", "of the agents")
    kept = two.known() - {OLD}
    for _ in range(2):  # a restart meets again
        one = two.meets(1)
        asyncio.run(until(lambda: two.asks() != b"", SOON))
        assert not one.done() and OLD in two.known()
        two.meets(0).result(SOON)
        one.result(SOON)
        assert two.known() == kept
        two.workers.set(OLD, "127.0.0.1:2")


def test_node_0_waits_for_the_others(nodes: Callable[..., Nodes]) -> None:
    two = nodes(timeout=1.0)
    with pytest.raises(DistError):
        two.meets(0).result(SOON)
    assert OLD in two.known(), "workers of node 1 may run still"


def test_last_question_of_a_node_counts(nodes: Callable[..., Nodes]) -> None:
    """Node 1 was killed while it waited, and asks in its next life; its first life waits for nobody's answer."""
    two = nodes(timeout=2.0)
    dead = two.meets(1)
    asyncio.run(until(lambda: two.asks() != b"", SOON))
    first = two.asks()
    alive = two.meets(1)
    asyncio.run(until(lambda: two.asks() != first, SOON))
    two.meets(0).result(SOON)
    alive.result(SOON)
    with pytest.raises(DistError):
        dead.result(SOON)


def test_store_that_the_workers_make_themselves_is_left_alone(nodes: Callable[..., Nodes]) -> None:
    two = nodes(own_store=True)
    one = two.meets(1)
    two.meets(0).result(SOON)
    one.result(SOON)
    assert OLD in two.known()


def test_single_node_meets_nobody(nodes: Callable[..., Nodes], monkeypatch: pytest.MonkeyPatch) -> None:
    two = nodes()
    store = two._client()
    spec = SimpleNamespace(rdzv_handler=SimpleNamespace(use_agent_store=True, get_run_id=lambda: RUN))
    address = {"master_addr": "127.0.0.1", "master_port": two._server.port}
    clean_store.meet(SimpleNamespace(group_rank=0, group_world_size=1, spec=spec, store=store, **address))
    assert OLD not in two.known()
