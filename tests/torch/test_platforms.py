"""`taskd-net run` under the environments of platforms: real launchers become one training, or stop in one line."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.environments import COMPLETE
from tests.ports import free_port
from tests.torch.cluster import PLAIN, SOON
from tests.torch.two_nodes import await_line

OWN = ("TASKD_", "RANK", "MASTER_", "PET_", "SLURM_", "PMI_", "JOB_COMPLETION_INDEX", "WORLD_SIZE")


def launch(folder: Path, environment: dict[str, str], node: int, *flags: str) -> subprocess.Popen[str]:
    """Start a launcher with this environment, and with one process."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    variables |= environment | {"PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "taskd_net.cli", "run", "--monitor-interval=0.1", *flags, str(PLAIN)]
    with (folder / f"out-{node}").open("w") as out:
        return subprocess.Popen(command, cwd=folder, env=variables, stdout=out, stderr=subprocess.STDOUT, text=True)


def environments(platform: str, host: str, port: int) -> list[dict[str, str]]:
    """The environments of two nodes, with addresses of this machine in place of names."""
    found = [COMPLETE[platform](2, rank)[0] for rank in (0, 1)]
    hosts = {
        "slurm": {"SLURM_STEP_NODELIST": f"{host},n3"},
        "jobset": {"MASTER_ADDR": host},
        "trainer": {"PET_MASTER_ADDR": host, "PET_MASTER_PORT": str(port), "PET_NPROC_PER_NODE": "1"},
        "volcano": {"VC_WORKER_HOSTS": f"{host},train-worker-1.train"},
        "volcano_pytorch": {"MASTER_ADDR": host, "VC_MASTER_HOSTS": host},
        "pytorchjob_elastic": {"PET_RDZV_ENDPOINT": f"{host}:{port}", "PET_NPROC_PER_NODE": "1"},
        "open_mpi": {"MASTER_ADDR": host},
    }
    return [each | hosts[platform] for each in found]


@pytest.mark.parametrize(
    "platform", ["slurm", "jobset", "trainer", "volcano", "volcano_pytorch", "pytorchjob_elastic", "open_mpi"]
)
def test_two_launchers_become_one_training(platform: str, tmp_path: Path) -> None:
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
    for rank in (0, 1):
        (tmp_path / f"end-{rank}").write_text("0\n")
    nodes = environments(platform, host, free_port(host))
    port = free_port(host)
    ids = {} if platform in ("slurm", "open_mpi", "pytorchjob_elastic") else {"TASKD_NET_MGR_PORT": str(port)}
    launchers = [
        launch(tmp_path, {**environment, **ids, "TASKD_NET_UPSTREAM": f"{host}:{free_port(host)}"}, node)
        for node, environment in enumerate(nodes)
    ]
    try:
        codes = [launcher.wait(SOON) for launcher in launchers]
    finally:
        for launcher in launchers:
            launcher.kill()
    said = [(tmp_path / f"out-{node}").read_text() for node in (0, 1)]
    assert codes == [0, 0], said
    started = [line.split() for text in said for line in text.splitlines() if len(line.split()) == 6]
    ranks = sorted((int(words[1]), int(words[3])) for words in started if words[1].isdigit())
    assert ranks == [(0, 2), (1, 2)], said
    assert all(text.count("node_placed") == 1 for text in said)
    # Without ranks both launchers on the host of the endpoint try, and one is faster.
    assert sum(text.count("starts_manager") - text.count("it was faster") for text in said) == 1


@pytest.mark.parametrize("platform", ["jobset", "slurm", "volcano"])
def test_launchers_without_a_whole_set_stop_in_one_line(platform: str, tmp_path: Path) -> None:
    removed = {"jobset": "TASKD_NET_NNODES", "slurm": "SLURM_STEP_NODELIST", "volcano": "VC_WORKER_HOSTS"}[platform]
    for node in (0, 1):
        environment, _ = COMPLETE[platform](2, node)
        del environment[removed]
        assert launch(tmp_path, environment, node).wait(SOON) == 2
        (line,) = (tmp_path / f"out-{node}").read_text().splitlines()
        assert line.startswith("taskd-net run: ") and "--standalone for one node" in line


def test_place_is_shown_and_nothing_starts(tmp_path: Path) -> None:
    environment, _ = COMPLETE["slurm"](2, 1)
    assert launch(tmp_path, environment, 1, "--show-launcher", "--json").wait(SOON) == 0
    shown = json.loads((tmp_path / "out-1").read_text())
    assert [shown[name] for name in ("platform", "node_rank", "nodes", "first_host", "job_id", "attempt")] == [
        *("Slurm step", 1, 2, "n2", "41.0", 2)
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"out-1"}


def test_later_attempt_begins_clean_and_an_earlier_one_that_comes_late_ends(tmp_path: Path) -> None:
    """A Slurm job is requeued while launchers of the start before still come: they take no place in the later one."""
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
    nodes = environments("slurm", host, 0)
    proxies = [f"{host}:{free_port(host)}" for _ in range(4)]
    early = launch(tmp_path, nodes[1] | {"SLURM_RESTART_COUNT": "1", "TASKD_NET_UPSTREAM": proxies[3]}, 3)
    launchers = [early]
    try:
        await_line(tmp_path / "out-3", "join_failed")
        launchers.insert(0, launch(tmp_path, nodes[0] | {"TASKD_NET_UPSTREAM": proxies[0]}, 0))
        await_line(tmp_path / "out-0", "starts_manager")
        await_line(tmp_path / "out-0", "waits_for_nodes")
        late = nodes[1] | {"SLURM_RESTART_COUNT": "1", "TASKD_NET_UPSTREAM": proxies[1]}
        launchers.append(launch(tmp_path, late, 1))
        for launcher, number in ((launchers[2], 1), (early, 3)):
            assert launcher.wait(SOON) == 1
            last = (tmp_path / f"out-{number}").read_text().splitlines()[-1]
            assert last.startswith("taskd-net run: this is attempt 1 of job '41.0', and Mgr/0 at ")
            assert last.endswith(" is of attempt 2")
        for rank in (0, 1):
            (tmp_path / f"end-{rank}").write_text("0\n")
        launchers.append(launch(tmp_path, nodes[1] | {"TASKD_NET_UPSTREAM": proxies[2]}, 2))
        assert [launchers[number].wait(SOON) for number in (0, 3)] == [0, 0], (tmp_path / "out-0").read_text()
    finally:
        for launcher in launchers:
            launcher.kill()
