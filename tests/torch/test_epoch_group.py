"""The process group of one epoch, in this process; `test_epochs.py` has several ranks."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import select
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore, PrefixStore, ProcessGroupGloo

from taskd_net.torch.epoch_group import EpochGroup, EpochOver, _end, _end_reading, lost_a_peer, prepare
from tests.polling import until

SOON = 60.0
GLOO = "[/src/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"


@pytest.mark.parametrize("interfaces", ["", "lo", "lo,lo"])
def test_groups_are_made_until_the_end_and_none_after_it(interfaces: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", interfaces)
    original, group = ProcessGroupGloo.__init__, EpochGroup()
    with group.joined(PrefixStore("epoch", HashStore()), 0, 1, backend="gloo"):
        dist.new_group([0])
        dist.barrier()
        group.abort()
        group.abort()
        with pytest.raises(EpochOver, match="no group can be made"):
            dist.new_group([0])
    assert group.over and not dist.is_initialized() and ProcessGroupGloo.__init__ is original
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()


def test_function_may_destroy_its_group() -> None:
    with EpochGroup().joined(PrefixStore("epoch", HashStore()), 0, 1, backend="gloo"):
        dist.destroy_process_group()
    assert not dist.is_initialized()


def test_group_outlives_its_models() -> None:
    """The end of a DDP model that holds the last reference waits for gloo's threads with the interpreter's lock."""
    group = EpochGroup()
    with group.joined(PrefixStore("epoch", HashStore()), 0, 1, backend="gloo"):
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    assert any(backend is each for each in group._groups)
    group.forget()
    assert not group._groups


def test_rank_that_waits_for_others_to_join_leaves_at_the_order() -> None:
    group = EpochGroup()

    def join() -> None:
        with group.joined(PrefixStore("epoch", HashStore()), 0, 2, backend="gloo"):
            raise AssertionError("rank 1 never comes")

    with ThreadPoolExecutor(1) as pool:
        joined = pool.submit(join)
        with pytest.raises(TimeoutError):
            joined.result(0.2)
        group.abort()
        with pytest.raises(EpochOver):
            joined.result(SOON)
    assert not dist.is_initialized()


def test_rank_that_waits_for_others_to_make_a_group_leaves_at_the_order() -> None:
    group = EpochGroup()

    def make() -> None:
        with group.joined(PrefixStore("epoch", HashStore()), 0, 1, backend="gloo"):
            ProcessGroupGloo(PrefixStore("further", HashStore()), 0, 2, timedelta(minutes=30))

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(make)
        with pytest.raises(TimeoutError):
            made.result(0.2)
        group.abort()
        with pytest.raises(EpochOver):
            made.result(SOON)
    assert not dist.is_initialized()


def test_group_that_becomes_whole_after_the_end_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    group, original = EpochGroup(), ProcessGroupGloo.__init__

    def slow(made: Any, store: Any, rank: int, size: int, options: Any) -> None:
        original(made, store, rank, size, options)
        if size == 1 and dist.is_initialized():
            group.abort()  # of another thread, in a training

    monkeypatch.setattr(ProcessGroupGloo, "__init__", slow)
    with group.joined(PrefixStore("epoch", HashStore()), 0, 1, backend="gloo"):
        epolls = len(group._epolls)
        with pytest.raises(EpochOver, match="while a group was made"):
            dist.new_group([0])
        assert len(group._epolls) == epolls


def test_connection_ends_when_the_peer_has_read_the_rest() -> None:
    """A write of the peer's before that would fail, and gloo would forget the send."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, select.epoll() as epoll, socket.create_connection(listener.getsockname()) as peer:
        ours = listener.accept()[0]
        epoll.register(ours, select.EPOLLIN)
        ours.sendall(b"the rest")
        peer.sendall(b"ready")
        connections = _end_reading(epoll.fileno())
        assert [ours.recv(16), ours.recv(16)] == [b"ready", b""]
        ours.close()  # as gloo does
        for _ in range(3):
            peer.sendall(b"a send")
        assert peer.recv(16) == b"the rest"
        assert not select.select([peer], [], [], 0)[0]
        _end(connections)
        assert select.select([peer], [], [], SOON)[0]
        with suppress(ConnectionResetError):
            assert peer.recv(16) == b""


class Double(dist.ProcessGroup):
    """A process group as NCCL's: a collective waits until it is aborted, and `abort` comes from another thread."""

    made: ClassVar[list[Double]] = []

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.waits, self.aborted, self.may_end = (threading.Event() for _ in range(3))
        self.may_end.set()
        self.shut_down = False
        self.made.append(self)

    def allreduce(self, tensors: object, options: object = None) -> Any:
        self.waits.set()
        assert self.aborted.wait(SOON)
        raise dist.DistBackendError("NCCL communicator was aborted")

    def abort(self) -> None:
        self.aborted.set()
        assert self.may_end.wait(SOON)

    def shutdown(self) -> None:
        self.shut_down = True

    def getBackendName(self) -> str:
        return "double"


dist.Backend.register_backend("double", lambda _, rank, size, timeout: Double(rank, size), devices=["cpu"])


def test_double_has_the_form_that_torch_declares() -> None:
    """A build for CPUs has no ProcessGroupNCCL, but its stub declares one."""
    stub = ast.parse((Path(torch.__file__).parent / "_C" / "_distributed_c10d.pyi").read_text())
    classes = {each.name: each for each in stub.body if isinstance(each, ast.ClassDef)}
    declared = {
        (name, each.name): [argument.arg for argument in each.args.args]
        for name in ("ProcessGroup", "Backend", "ProcessGroupNCCL")
        for each in classes[name].body
        if isinstance(each, ast.FunctionDef) and each.name in ("abort", "shutdown")
    }
    assert [ast.unparse(base) for base in classes["ProcessGroupNCCL"].bases] == ["Backend"]
    kinds = {("ProcessGroup", "abort"), ("ProcessGroup", "shutdown"), ("Backend", "abort"), ("Backend", "shutdown")}
    assert declared.keys() == {*kinds, ("ProcessGroupNCCL", "abort")}
    for (_, name), parameters in declared.items():
        assert list(inspect.signature(getattr(Double, name)).parameters) == parameters == ["self"]


def collective(group: EpochGroup) -> None:
    with group.joined(PrefixStore("epoch", HashStore()), 0, 1, backend="double"):
        dist.all_reduce(torch.ones(1))


def test_order_aborts_a_group_that_is_not_gloos() -> None:
    group = EpochGroup()
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(collective, group)
        asyncio.run(until(lambda: bool(Double.made) and Double.made[-1].waits.is_set(), SOON))
        group.abort()
        error = trained.exception(SOON)
    assert error is not None and lost_a_peer(error)
    double = Double.made.pop()
    assert double.aborted.is_set() and not double.shut_down, "shutdown would wait for the peers"
    assert not dist.is_initialized()


def test_next_epoch_waits_for_an_abort_that_takes_long() -> None:
    """torch's abort drops all groups at its end, and would drop those of the next epoch."""
    group = EpochGroup()
    with ThreadPoolExecutor(2) as pool:
        trained = pool.submit(collective, group)
        asyncio.run(until(lambda: bool(Double.made) and Double.made[-1].waits.is_set(), SOON))
        double = Double.made.pop()
        double.may_end.clear()
        aborted = pool.submit(group.abort)
        with pytest.raises(TimeoutError):
            trained.result(0.2)
        double.may_end.set()
        assert aborted.result(SOON) is None and isinstance(trained.exception(SOON), dist.DistBackendError)
    with EpochGroup().joined(PrefixStore("next", HashStore()), 0, 1, backend="gloo"):
        dist.barrier()
    assert not dist.is_initialized()


def test_group_that_is_left_in_good_order_is_not_aborted() -> None:
    with EpochGroup().joined(PrefixStore("epoch", HashStore()), 0, 1, backend="double"):
        pass
    double = Double.made.pop()
    assert double.shut_down and not double.aborted.is_set() and not dist.is_initialized()


@pytest.mark.parametrize(("given", "left"), [(None, "0"), ("1", "0"), ("0", "0"), ("3", "3")])
def test_nccls_watchdog_leaves_errors_to_the_epochs(
    given: str | None, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's agent gives 1 to every worker, so that is nobody's choice."""
    monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "")
    if given is None:
        monkeypatch.delenv("TORCH_NCCL_ASYNC_ERROR_HANDLING")
    else:
        monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", given)
    prepare()
    assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == left


def test_losses_of_a_peer_are_recognised_behind_other_errors() -> None:
    assert lost_a_peer(RuntimeError(GLOO)) and lost_a_peer(dist.DistBackendError("NCCL communicator was aborted"))
    with pytest.raises(KeyError) as hidden:
        raise KeyError("hidden") from RuntimeError(GLOO)
    assert lost_a_peer(hidden.value)
    assert not lost_a_peer(RuntimeError("CUDA out of memory")) and not lost_a_peer(OSError("/gloo/ is no folder"))
