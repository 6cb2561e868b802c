"""The process group of one epoch, in this process; `test_epochs.py` has several ranks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore, PrefixStore, ProcessGroupGloo

from taskd_net.torch.epoch_group import EpochGroup, EpochOver, lost_a_peer

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


def test_losses_of_a_peer_are_recognised_behind_other_errors() -> None:
    assert lost_a_peer(RuntimeError(GLOO)) and lost_a_peer(dist.DistBackendError("NCCL communicator was aborted"))
    with pytest.raises(KeyError) as hidden:
        raise KeyError("hidden") from RuntimeError(GLOO)
    assert lost_a_peer(hidden.value)
    assert not lost_a_peer(RuntimeError("CUDA out of memory")) and not lost_a_peer(OSError("/gloo/ is no folder"))
