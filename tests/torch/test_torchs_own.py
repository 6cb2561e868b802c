"""Parts of torch's start of workers that stay torch's: the calls are those of its own agent, rank by rank."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed.elastic.agent.server import WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server import local_elastic_agent as torchs
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import api as processes
from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, Std
from torch.numa.binding import AffinityMode, NumaOptions

from taskd_net.torch import ElasticAgent, context
from taskd_net.torch.guardian import Guardian

NUMA = NumaOptions(affinity_mode=AffinityMode.NODE)
TERM = 10.0
D_STATE_S = 7.0

Calls = list[dict[str, Any]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls that start a process, in torch's own context and in ours. A machine without GPUs binds nothing."""
    seen: Calls = []
    original = processes.get_subprocess_handler

    @wraps(original)  # it has to have torch's parameters
    def recorded(**arguments: Any) -> Any:
        seen.append(arguments)
        return original(**{**arguments, "numa_options": None})

    monkeypatch.setattr(processes, "get_subprocess_handler", recorded)
    monkeypatch.setattr(context, "get_subprocess_handler", recorded)
    return seen


def started(kind: Callable[..., Any], folder: Path, **more: Any) -> Any:
    """An agent of two workers, after a rendezvous."""
    rendezvous = SimpleNamespace(use_agent_store=True, get_run_id=lambda: "run")
    spec = WorkerSpec(
        role="trainer",
        local_world_size=2,
        rdzv_handler=rendezvous,
        entrypoint="/bin/sh",
        args=("-c", "sleep 1000", "${local_rank}"),
        numa_options=NUMA,
        **more,
    )
    logs = DefaultLogsSpecs(log_dir=str(folder), redirects=Std.ALL)
    agent = kind(spec=spec, logs_specs=logs)
    group = agent._worker_group
    group.store, group.group_rank, group.group_world_size = object(), 3, 5
    group.master_addr, group.master_port = "127.0.0.1", 1
    for worker in group.workers:
        worker.global_rank = worker.role_rank = 6 + worker.local_rank
        worker.world_size = worker.role_world_size = 10
    for local_rank, pid in agent._start_workers(group).items():
        group.workers[local_rank].id = pid
    return agent


def ours(**arguments: Any) -> ElasticAgent:
    """An agent of this package, as `run` prepares it."""
    agent = ElasticAgent(**arguments, node_rank=3)
    agent._guardian = Guardian()
    return agent


@pytest.mark.parametrize("virtual", [False, True], ids=["local-ranks", "virtual-local-ranks"])
def test_each_rank_is_started_as_by_torchs_own_agent(
    virtual: bool, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,9")
    plain = started(LocalElasticAgent, tmp_path, virtual_local_rank=virtual)
    plain._shutdown()
    expected = [dict(call) for call in calls]
    calls.clear()
    agent = started(ours, tmp_path, virtual_local_rank=virtual)
    try:
        folders = plain._logs_specs._run_log_dir, agent._logs_specs._run_log_dir
        theirs = [moved(call, *folders) for call in expected]
        for call in theirs:
            call["env"]["TASKD_NET_RESTARTS_IN_PLACE"] = "0"
        for variable in ("TASKD_NET_RANK_RECORD", "TASKD_NET_STACKS"):
            places = [call["env"].pop(variable) for call in calls]
            assert len({Path(path).readlink() for path in places}) == 1 and len(set(places)) == 2
        assert calls == theirs
        assert [call["local_rank_id"] for call in calls] == [0, 1]
        assert all(call["numa_options"] is NUMA for call in calls)
        assert [call["args"][-1] for call in calls] == ["0", "1"]
        local_ranks, devices = (["0", "0"], ["4", "9"]) if virtual else (["0", "1"], ["4,9", "4,9"])
        assert [call["env"]["LOCAL_RANK"] for call in calls] == local_ranks
        assert [call["env"]["CUDA_VISIBLE_DEVICES"] for call in calls] == devices
        assert {call["env"]["TORCH_NCCL_ASYNC_ERROR_HANDLING"] for call in calls} == {"1"}
        calls.clear()
        agent._context.restart_ranks([1], TERM)
        theirs[1]["env"]["TASKD_NET_RESTARTS_IN_PLACE"] = "1"
        for variable in ("TASKD_NET_RANK_RECORD", "TASKD_NET_STACKS"):
            assert calls[0]["env"].pop(variable).startswith(f"/proc/{os.getpid()}/fd/")
        assert calls == theirs[1:], "a rank that is restarted alone keeps its number"
    finally:
        agent._shutdown()
        agent._guardian.close()
        agent.records.close()


def moved(call: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """A call with the files of another run."""

    def at(value: Any) -> Any:
        return value.replace(old, new) if isinstance(value, str) else value

    return {**{name: at(value) for name, value in call.items()}, "env": {k: at(v) for k, v in call["env"].items()}}


def test_worker_in_uninterruptible_sleep_is_unhealthy_after_torchs_timeout(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch looks at the processes of our context, and finds no restart useful."""
    monkeypatch.setenv("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", str(D_STATE_S))
    agent = started(ours, tmp_path)
    try:
        stuck = agent._worker_group.workers[1].id
        monkeypatch.setattr(torchs, "read_proc_state", lambda pid: "D" if pid == stuck else "S")
        now = [100.0]
        monkeypatch.setattr(torchs, "time", SimpleNamespace(monotonic=lambda: now[0]))
        assert agent._monitor_workers(agent._worker_group).state == WorkerState.HEALTHY
        now[0] += D_STATE_S
        assert agent._monitor_workers(agent._worker_group).state == WorkerState.UNHEALTHY
        assert agent._remaining_restarts == 0
    finally:
        agent._shutdown()
        agent._guardian.close()
        agent.records.close()
    assert not any(Path(f"/proc/{worker.id}").exists() for worker in agent._worker_group.workers)
