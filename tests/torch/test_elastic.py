"""Elastic-Agent's documented start: `import mindx_elastic.api` in torch/distributed/run.py, and the reset files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from torch.distributed.launcher import api as launcher

import mindx_elastic
from mindx_elastic.reset_agent import ResetAgent, patch_torch_methods
from taskd_net.job.clusterd import rpcs
from taskd_net.net.wire import recover_pb2 as wire
from taskd_net.torch import ElasticAgent, patch, unpatch
from tests.peers.clusterd import ClusterD
from tests.ports import free_port
from tests.torch.cluster import PLAIN, SOON, await_end, kill
from tests.torch.start import Pod, until

LINE = "import mindx_elastic.api"
SCRIPT = f"sed -i '/import os/i {LINE}' run.py\nexec torchrun --nproc_per_node 2 {{}} {PLAIN}\n"


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    """One node, with reset files in its folder."""
    folder = tmp_path / "node"
    variables = {
        "TASKD_NET_RESET_FILE": str(folder / "reset.json"),
        "TASKD_NET_RANK_TABLE_VERSION": str(folder / "version"),
        "TASKD_NET_FAILURE_PAUSE": "0",
        "TASKD_NET_FINISH_PAUSE": "0",
        "TASKD_NET_RESTART_PAUSE": "0",
        "ELASTIC_LOG_PATH": str(folder / "elastic_log"),
    }
    torchrun = f"--master_port {free_port('127.0.0.1')} --log-dir {folder / 'out'} --redirects 3"
    pod = Pod(folder, 0, variables, {"start.sh": SCRIPT.format(torchrun)})
    yield pod
    pod.close()


def pids(pod: Pod, attempt: int) -> list[int]:
    """The processes of an attempt that have begun."""
    files = sorted((pod.folder / "out").glob(f"*/attempt_{attempt}/*/stdout.log"))
    return [int(text.split()[0]) for text in (file.read_text() for file in files) if text.endswith("\n")]


def test_workers_train_to_the_end_and_again_at_a_new_retry_time(pod: Pod) -> None:
    (pod.folder / "reset.json").write_text(json.dumps({"RankList": [], "RetryTime": 1}))
    process = pod.start()
    until(lambda: len(pids(pod, 0)) == 2, pod)
    first = pids(pod, 0)
    (pod.folder / "reset.json").write_text(json.dumps({"RankList": [], "RetryTime": 2}))
    await_end(*first)
    until(lambda: len(pids(pod, 0)) == 2 and not set(pids(pod, 0)) & set(first), pod)
    for rank in range(2):
        (pod.folder / f"end-{rank}").write_text("0\n")
    assert process.wait(SOON) == 0, pod.said()
    log = (pod.folder / "elastic_log" / "agent-0.log").read_text()
    assert "RetryTime went from 1 to 2" in log and "all workers have finished" in log
    assert not (pod.folder / "taskd_log").exists()


def test_fault_of_a_worker_ends_the_node(pod: Pod) -> None:
    process = pod.start()
    until(lambda: len(pids(pod, 0)) == 2, pod)
    killed, other = pids(pod, 0)
    kill(killed)
    assert process.wait(SOON) == 1, pod.said()
    await_end(other)
    assert "exitcode  : -9" in pod.said()


def test_clusterd_ends_the_first_node(pod: Pod) -> None:
    with ClusterD() as clusterd:
        pod.environment |= {
            "ELASTIC_PROCESS_RECOVER_ENABLE": "1",
            "MINDX_TASK_ID": "J",
            "TASKD_NET_CLUSTERD_ADDR": clusterd.address,
        }
        process = pod.start()
        until(lambda: len(pids(pod, 0)) == 2, pod)
        workers = pids(pod, 0)
        assert clusterd.wait_for(rpcs.REGISTER) == [wire.ClientInfo(jobId="J", role="master agent")]
        kill_master = wire.ProcessManageSignal(uuid="u", jobId="J", signalType="killMaster", actions=["killMaster"])
        clusterd.send(rpcs.SIGNALS, kill_master)
        assert process.wait(SOON) == 1, pod.said()
    await_end(*workers)


def test_last_patch_counts() -> None:
    original = launcher.LocalElasticAgent
    try:
        for make, kind in ((patch, ElasticAgent), (patch_torch_methods, ResetAgent), (patch, ElasticAgent)):
            make()
            agent = launcher.LocalElasticAgent
            assert isinstance(agent, partial) and agent.func is kind
    finally:
        unpatch()
    assert launcher.LocalElasticAgent is original


def test_import_patches() -> None:
    from mindx_elastic import api

    try:
        assert launcher.LocalElasticAgent.func is ResetAgent
        assert api.patch_torch_methods is patch_torch_methods
    finally:
        unpatch()
    assert mindx_elastic.__version__
