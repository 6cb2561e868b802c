"""`rejoin` in this process, as the only rank, under a Mgr that the test plays; `test_epochs.py` has several ranks."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from queue import SimpleQueue

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore, TCPStore

from taskd_net import BlockingNode, Body, NodeConfig
from taskd_net.base.codes import ArgumentTypeError, ConfigError
from taskd_net.job.api import destroy_taskd_worker, init_taskd_worker, register_handler, start_taskd_worker, worker
from taskd_net.job.arguments import UPSTREAM
from taskd_net.torch import CannotRejoin, UnsupportedTorch, rejoin, seam

SOON = 60.0
HANDLED = 9999
"""A command of the tests' own."""

GLOO = "[/src/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"


class Mgr:
    """The Mgr of one Worker.

    Args:
        node: whose inbox it reads.
    """

    def __init__(self, node: BlockingNode) -> None:
        self.node = node
        self._last = ("", "")

    def part(self) -> tuple[str, str]:
        """The next part that the Worker reports: phase and epoch. The Worker repeats the last one when it registers."""
        while True:
            body = Body.parse(self.node.receive(SOON).body)
            if body.code == 301:
                extension = body.extension or {}
                assert (extension["World"], extension["LocalWorld"]) == ("1", "1")
                if (part := (body.message, extension["Epoch"])) != self._last:
                    self._last = part
                    return part

    def command(self, code: int, message: str, reason: str = "", **more: str) -> None:
        body = Body("ACTION", code, message, {"Reason": reason} | more)
        ack = self.node.send(body.to_json(), to="Worker/0/0", timeout=SOON)
        assert ack.ok, ack

    def settle(self) -> None:
        """Wait until the Worker has handled every command so far: it handles them one after another."""
        handled = threading.Event()
        register_handler(HANDLED, lambda _: handled.set())
        self.command(HANDLED, "")
        assert handled.wait(SOON)
        register_handler(HANDLED, None)


@pytest.fixture
def mgr(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mgr]:
    """The surroundings of a worker that an Agent has started in a job of one rank."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        variables = {
            "RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_WORLD_SIZE": "1",
            "LOCAL_RANK": "0",
            UPSTREAM: node.address,
        }
        store_of_agents = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port, "TORCHELASTIC_USE_AGENT_STORE": True}
        more = {"TASKD_NET_IN_PLACE": "on", "TORCHELASTIC_RESTART_COUNT": 0}
        for name, value in (variables | store_of_agents | more).items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")  # rejoin sets it in this process
        yield Mgr(node)
        if worker.slot.filled:
            destroy_taskd_worker()
    del store
    failed = import_module("taskd_net.torch.rejoin")._failed  # the name in the package is the function's
    while failed:
        failed.pop().forget()
    assert not dist.is_initialized() and not worker._handlers._by_kind


class Training:
    """A function that trains until the test ends its epoch. Collectives of a single rank do not fail."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []
        self._ends: SimpleQueue[Exception | None] = SimpleQueue()

    def __call__(self, epoch: int, reason: str) -> str:
        self.seen.append((epoch, reason))
        total = torch.ones(1)
        dist.all_reduce(total)
        if error := self._ends.get(timeout=SOON):
            raise error
        return f"trained to {epoch}"

    def end(self, error: Exception | None = None) -> None:
        """End the epoch in it."""
        self._ends.put(error)


@pytest.mark.parametrize("own", [False, True], ids=["its-worker", "a-worker-of-the-script"])
def test_function_runs_in_each_epoch_of_one_process(own: bool, mgr: Mgr) -> None:
    if own:
        assert init_taskd_worker(0) and start_taskd_worker()
    train = Training()
    with ThreadPoolExecutor(1) as pool:
        rejoined = pool.submit(rejoin, train, backend="gloo")
        assert mgr.part() == ("new", "0")
        mgr.command(302, "3", "start")
        assert mgr.part() == ("running", "3")
        mgr.command(302, "3", "a repetition")
        mgr.command(302, "2", "older")
        mgr.command(302, "x", "unreadable")
        mgr.command(303, "2", "older")
        mgr.command(303, "3", "rank 5 failed")
        mgr.settle()
        train.end(KeyError("a name that the function gives to the lost peer"))
        assert mgr.part() == ("left", "3")
        mgr.command(302, "4", "rank 5 failed")
        assert mgr.part() == ("running", "4")
        train.end(RuntimeError(GLOO))
        assert mgr.part() == ("left", "4")
        mgr.command(302, "7", "a collective failed")
        assert mgr.part() == ("running", "7")
        mgr.command(302, "8", "later, which ends the one before")
        mgr.settle()
        train.end()
        assert [mgr.part(), mgr.part()] == [("left", "7"), ("running", "8")]
        train.end()
        assert mgr.part() == ("finished", "8")
        assert rejoined.result(SOON) == "trained to 8"
    assert train.seen == [
        *((3, "start"), (4, "rank 5 failed"), (7, "a collective failed")),
        (8, "later, which ends the one before"),
    ]
    assert worker.slot.filled is own


def test_manager_that_stays_away_ends_the_wait_for_an_epoch(mgr: Mgr, monkeypatch: pytest.MonkeyPatch) -> None:
    """No platform brings it back. While it is there the wait has no end of its own."""
    monkeypatch.setenv("TASKD_NET_MGR_PATIENCE", "0.5")
    with ThreadPoolExecutor(1) as pool:
        rejoined = pool.submit(rejoin, Training(), backend="gloo")
        assert mgr.part() == ("new", "0")
        with pytest.raises(TimeoutError):
            rejoined.result(2.5)
        mgr.node.close()
        with pytest.raises(CannotRejoin, match=r"the Manager has been away for 0\.5 s"):
            rejoined.result(SOON)


@pytest.fixture
def short_wait_for_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store has two seconds to answer. No thread waits for one after the test."""
    monkeypatch.setattr(import_module("taskd_net.torch.rejoin"), "STORE_S", 2.0)
    yield
    for thread in threading.enumerate():
        if thread.name == "connects-store":
            thread.join(SOON)


@pytest.mark.usefixtures("short_wait_for_stores")
def test_each_epoch_has_the_store_of_the_present_node_0(mgr: Mgr) -> None:
    """One that does not answer while the epoch lasts ends the epoch, and not the process."""
    before = os.environ["MASTER_PORT"]
    second = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    train = Training()
    with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", 0)) as silent:
        rejoined = pool.submit(rejoin, train, backend="gloo")
        assert mgr.part() == ("new", "0")
        mgr.command(302, "1")
        assert mgr.part() == ("running", "1") and os.environ["MASTER_PORT"] == before
        mgr.command(303, "1")
        mgr.settle()
        train.end()
        assert mgr.part() == ("left", "1")
        mgr.command(302, "2", Store=f"127.0.0.1:{silent.getsockname()[1]}")
        mgr.command(303, "2")
        assert mgr.part() == ("left", "2")
        mgr.command(302, "3", Store=f"127.0.0.1:{second.port}")
        assert mgr.part() == ("running", "3") and os.environ["MASTER_PORT"] == str(second.port)
        assert any("taskd-net/epoch-3" in key for key in second.list_keys())
        mgr.command(303, "3")
        mgr.settle()
        train.end()
        assert mgr.part() == ("left", "3")
        mgr.command(302, "4", Store="unreadable")
        assert mgr.part() == ("running", "4") and os.environ["MASTER_PORT"] == str(second.port)
        train.end()
        assert mgr.part() == ("finished", "4")
        assert rejoined.result(SOON) == "trained to 4"


@pytest.mark.usefixtures("short_wait_for_stores")
def test_store_that_does_not_answer_in_time_ends_the_epoch(mgr: Mgr) -> None:
    train = Training()
    with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", 0)) as taken:
        rejoined = pool.submit(rejoin, train, backend="gloo")
        mgr.part()
        mgr.command(302, "1", Store=f"127.0.0.1:{taken.getsockname()[1]}")
        assert mgr.part() == ("left", "1")
        mgr.command(302, "2", Store="")
        assert mgr.part() == ("running", "2")
        train.end()
        assert rejoined.result(SOON) == "trained to 2"


@pytest.mark.parametrize("kind", [ZeroDivisionError, RuntimeError])
def test_error_of_the_function_is_the_callers(kind: type[Exception], mgr: Mgr) -> None:
    train = Training()
    train.end(kind("its own"))
    with ThreadPoolExecutor(1) as pool:
        rejoined = pool.submit(rejoin, train, backend="gloo")
        mgr.part()
        mgr.command(302, "1")
        assert mgr.part() == ("running", "1")
        with pytest.raises(kind, match="its own"):
            rejoined.result(SOON)


def test_without_a_manager_in_place_the_function_runs_once(mgr: Mgr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKD_NET_IN_PLACE")

    def train(epoch: int, reason: str) -> float:
        total = torch.ones(1)
        dist.all_reduce(total)
        return epoch + float(total)

    assert rejoin(train, backend="gloo") == 2.0
    assert not worker.slot.filled


def test_arguments_and_surroundings_that_are_refused(mgr: Mgr, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentTypeError, match="train_fn is 3; expected a function"):
        rejoin(3)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.delenv("TORCHELASTIC_USE_AGENT_STORE")
        with pytest.raises(CannotRejoin, match="TORCHELASTIC_USE_AGENT_STORE is not True"):
            rejoin(lambda *_: None)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT"):
        with monkeypatch.context() as patch:
            patch.delenv(name)
            with pytest.raises(ConfigError, match=f"{name} is not set"):
                rejoin(lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setenv(UPSTREAM, "nowhere")
        with pytest.raises(CannotRejoin, match="cannot become a Worker"):
            rejoin(lambda *_: None)
    with monkeypatch.context() as patch:

        def refuse() -> None:
            raise UnsupportedTorch("torch is 1.0")

        patch.setattr(seam, "check", refuse)
        with pytest.raises(UnsupportedTorch):
            rejoin(lambda *_: None)
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    with pytest.raises(CannotRejoin, match="there is a process group"):
        rejoin(lambda *_: None)
    dist.destroy_process_group()
