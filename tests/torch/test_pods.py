"""Two pods of this machine, each with a network, a name and a file of hosts of its own: names come late there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.network import Machines
from tests.jobs.environments import DOMAIN, Node, jobset, trainer
from tests.torch.cluster import PLAIN, SOON
from tests.torch.two_nodes import await_line

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces here")

OWN = ("TASKD_", "RANK", "MASTER_", "PET_", "SLURM_", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "POD_IP")
POD = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
"""Commands of a pod: its name, and its file of hosts."""


class Pods:
    """Two pods with a launcher each.

    Args:
        folder: of the test.
        machines: their networks.
    """

    def __init__(self, folder: Path, machines: Machines) -> None:
        self.folder = folder
        self.machines = machines
        self.launchers: list[subprocess.Popen[bytes]] = []

    def hosts(self, pod: int) -> Path:
        return self.folder / f"hosts-{pod}"

    def start(self, pod: int, environment: dict[str, str]) -> None:
        """Start a launcher in a pod that knows its own name with its domain alone, as Kubernetes sets it."""
        name = f"train-node-0-{pod}"
        own = f"{self.machines.host(pod)} {name}.{DOMAIN} {name}"
        self.hosts(pod).write_text(f"127.0.0.1 localhost\n{own}\n")
        shell = ("unshare", "--uts", "--mount", "sh", "-c", POD, "pod", name, str(self.hosts(pod)))
        run = (sys.executable, "-m", "taskd_net.cli", "run", "--nproc-per-node=1", "--monitor-interval=0.1", str(PLAIN))
        variables = {key: value for key, value in os.environ.items() if not key.startswith(OWN)}
        with (self.folder / f"out-{pod}").open("wb") as out:
            self.launchers.append(
                subprocess.Popen(
                    [*self.machines.wrapper(pod), *shell, *run],
                    cwd=self.folder,
                    env=variables | environment | {"PYTHONWARNINGS": "ignore", "TASKD_STD_LOG_LEVEL": "INFO"},
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )

    def know(self, name: str) -> None:
        """The name of pod 0 is known, in both pods."""
        for pod in (0, 1):
            with self.hosts(pod).open("a") as hosts:
                hosts.write(f"{self.machines.host(0)} {name}\n")

    def finish(self) -> list[int]:
        """Let the workers end. Returns the exit statuses of the launchers."""
        for rank in (0, 1):
            (self.folder / f"end-{rank}").write_text("0\n")
        return [launcher.wait(SOON) for launcher in self.launchers]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    """Pods that end with the test."""
    with Machines() as machines:
        made = Pods(tmp_path, machines)
        yield made
        for launcher in made.launchers:
            launcher.kill()
            launcher.wait(SOON)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("environment", "name"), [(trainer, "train-node-0-0.train"), (jobset, f"train-node-0-0.{DOMAIN}")]
)
def test_two_pods_become_one_training_when_the_name_of_the_first_comes(
    environment: Callable[[int, int], Node], name: str, pods: Pods
) -> None:
    """The Manager listens before anything knows its name."""
    for pod in (0, 1):
        pods.start(pod, environment(2, pod)[0])
    await_line(pods.folder / "out-0", "manager_started")
    await_line(pods.folder / "out-1", "join_failed")
    pods.know(name)
    assert pods.finish() == [0, 0], [(pods.folder / f"out-{pod}").read_text() for pod in (0, 1)]
    started = [
        line.split()[1:4:2]
        for pod in (0, 1)
        for line in (pods.folder / f"out-{pod}").read_text().splitlines()
        if len(line.split()) == 6 and line.split()[0].isdigit()
    ]
    assert sorted(started) == [["0", "2"], ["1", "2"]]
