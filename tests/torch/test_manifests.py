"""The manifests of deploy/ on two pods of this machine: real launchers in containers as strict as theirs.

A pod has a network, a name and a file of hosts of its own. Its root file system is read-only, its user has no entry in
`/etc/passwd` and no capabilities, and only `/tmp` and a volume for the training can be written.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from taskd_net.base.cause import NEVER_AGAIN
from tests.deploy import controllers
from tests.deploy.controllers import POD_IP, Node
from tests.deploy.manifests import Resource, changed
from tests.deploy.test_kubernetes import JOBSET, RUNTIME, TEMPLATE, TRAIN_JOB, VOLCANO, WRONG_ARGUMENT
from tests.deploy.test_kustomize import TLS, the
from tests.faults.network import Machines
from tests.peers.certificates import Folder
from tests.torch.cluster import PLAIN, SOON
from tests.torch.two_nodes import await_line

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces here"),
    pytest.mark.timeout(240),
]

CONTAINER: Final = """
mount --make-rprivate /
hostname "$1"
mount --bind "$2" /etc/hosts
mount --bind "$3" /mnt
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p "$3"
mount --bind /mnt "$3"
mount -o remount,bind,ro /
cd "$3"
touch /etc/written 2>/dev/null && exit 99
shift 3
exec unshare --map-user=65532 --map-group=65532 setpriv --no-new-privs --bounding-set=-all "$@"
"""
"""Commands of a container: the name of the pod, its file of hosts, the volume, and then the command."""
COUNT: Final = ("template", "spec", "containers", 0, "env", 0)
"""Place of the JobSet's TASKD_NET_NNODES in the template."""


def jobset(resource: Resource = JOBSET) -> list[Node]:
    """The pods of a JobSet, with two nodes in place of four."""
    smaller = changed(resource, *TEMPLATE, *COUNT, "value", value="2")
    for name in ("completions", "parallelism"):
        smaller = changed(smaller, *TEMPLATE, name, value=2)
    return controllers.jobset(smaller)


def trainer() -> list[Node]:
    """The pods of the TrainJob, with two nodes in place of four."""
    return controllers.trainer(RUNTIME, changed(TRAIN_JOB, "spec", "trainer", "numNodes", value=2))


def volcano() -> list[Node]:
    """The pods of Volcano's Job, with two nodes in place of four."""
    smaller = changed(VOLCANO, "spec", "tasks", 0, "replicas", value=2)
    return controllers.volcano(changed(smaller, "spec", "minAvailable", value=2))


class Pods:
    """Two pods of a manifest.

    Args:
        folder: a volume that both have.
        machines: their networks.
    """

    def __init__(self, folder: Path, machines: Machines) -> None:
        self.folder = folder
        self.machines = machines
        self.launchers: dict[int, subprocess.Popen[bytes]] = {}

    def out(self, pod: int) -> Path:
        return self.folder / f"out-{pod}"

    def start(self, nodes: list[Node], *without: str) -> None:
        """Start the pods of the training, without some variables."""
        for pod in range(len(nodes)):
            self.begin(pod, nodes, *without)

    def begin(self, pod: int, nodes: list[Node], *without: str) -> None:
        """Start the container of a pod, with one process."""
        node, names = nodes[pod], [node.host.split(".") for node in nodes]
        hosts, address = self.folder / f"hosts-{pod}", self.machines.host(pod)
        lines = [f"{self.machines.host(each)} {host} {host}.{job}" for each, (host, job, *_) in enumerate(names)]
        hosts.write_text("\n".join(["127.0.0.1 localhost", f"{address} {node.host} {names[pod][0]}", *lines, ""]))
        variables = {key: value.replace(POD_IP, address) for key, value in node.environment.items()}
        variables = {key: value for key, value in variables.items() if key not in without}
        # The machine has no GPUs, for which the manifests name 8 processes.
        command = ["--nproc-per-node=1" if "nproc" in word else word for word in node.arguments[2:-1]]
        variables |= {"PET_NPROC_PER_NODE": "1"} if "PET_NPROC_PER_NODE" in variables else {}
        self._run(pod, names[pod][0], hosts, command, variables)

    def _run(self, pod: int, name: str, hosts: Path, command: list[str], variables: Mapping[str, str]) -> None:
        around = {"PATH": os.environ["PATH"], "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
        around["TASKD_STD_LOG_LEVEL"] = "INFO"  # the tests read the ordinary events
        shell = ("unshare", "--uts", "--mount", "sh", "-e", "-c", CONTAINER, "pod", name, str(hosts), str(self.folder))
        run = (sys.executable, "-m", "taskd_net.cli", "run", *command, "--monitor-interval=0.1", str(PLAIN))
        with self.out(pod).open("wb") as out:
            self.launchers[pod] = subprocess.Popen(
                [*self.machines.wrapper(pod), *shell, *run],
                env={**around, "PYTHONPATH": str(PLAIN.parents[2]), **variables},
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def started(self, pod: int) -> None:
        """Wait until the process of a pod runs."""
        give_up_at = time.monotonic() + SOON
        while not self.ranks(pod):
            assert time.monotonic() < give_up_at, self.said()
            select.select([], [], [], 0.05)

    def ranks(self, pod: int) -> list[list[str]]:
        """Rank and number of ranks of each start of the process of a pod."""
        words = [line.split() for line in self.out(pod).read_text().splitlines()]
        return [line[1:4:2] for line in words if len(line) == 6 and line[0].isdigit()]

    def finish(self, *codes: int) -> list[int]:
        """Let the processes leave with these exit codes. Returns those of the launchers."""
        for rank, code in enumerate(codes):
            (self.folder / f"end-{rank}").write_text(f"{code}\n")
        return [self.launchers[pod].wait(SOON) for pod in sorted(self.launchers)]

    def said(self) -> list[str]:
        return [self.out(pod).read_text() for pod in sorted(self.launchers)]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    """Pods that end with the test."""
    with Machines() as machines:
        made = Pods(tmp_path, machines)
        yield made
        for launcher in made.launchers.values():
            launcher.kill()
            launcher.wait(SOON)


@pytest.mark.parametrize("manifest", [jobset, trainer, volcano])
def test_pods_of_a_manifest_train_together_in_strict_containers(manifest: Callable[[], list[Node]], pods: Pods) -> None:
    pods.start(manifest())
    assert pods.finish(0, 0) == [0, 0], pods.said()
    assert [pods.ranks(pod) for pod in (0, 1)] == [[["0", "2"]], [["1", "2"]]]


@pytest.mark.parametrize("pod", [0, 1])
def test_evicted_pod_starts_again_alone_and_the_other_one_waits_for_it(pod: int, pods: Pods) -> None:
    """Nothing of it is left: /tmp of node 0 had the state of the Manager."""
    nodes = jobset()
    pods.start(nodes)
    for each in (0, 1):
        pods.started(each)
    pods.launchers[pod].send_signal(signal.SIGTERM)
    assert pods.launchers[pod].wait(SOON) == 128 + signal.SIGTERM
    assert pods.launchers[1 - pod].poll() is None
    pods.begin(pod, nodes)
    pods.started(pod)
    assert pods.finish(0, 0) == [0, 0], pods.said()
    assert pods.ranks(1 - pod) == [[str(1 - pod), "2"]] * 2


def test_failure_that_would_come_again_ends_all_pods_with_the_code_of_the_policies(pods: Pods) -> None:
    """All components are there: links have the certificate of the job, and node 0 has the metrics."""
    issued = Folder(pods.folder / "tls")
    files = {f"{TLS}/ca.crt": issued.ca, f"{TLS}/tls.key": issued.key, f"{TLS}/tls.crt": issued.crt}
    nodes = [
        Node(node.host, {name: files.get(value, value) for name, value in node.environment.items()}, node.arguments)
        for node in jobset(the("JobSet"))
    ]
    issued.issue(hosts=(nodes[0].environment["TASKD_NET_MASTER_ADDR"],))
    pods.start(nodes)
    await_line(pods.out(1), "joined node=Agent/1")
    assert pods.finish(0, NEVER_AGAIN) == [NEVER_AGAIN, NEVER_AGAIN], pods.said()
    first, second = pods.said()
    assert "metrics_listening" in first and "page_listening" in first and "metrics_listening" not in second
    assert all("tls=true" in said.lower() and "tls=false" not in said.lower() for said in (first, second))


def test_pod_with_an_incomplete_environment_leaves_with_the_code_of_the_policies(pods: Pods) -> None:
    pods.start(jobset()[:1], "TASKD_NET_NNODES")
    assert pods.finish() == [WRONG_ARGUMENT]
    assert "number of nodes is missing" in pods.said()[0]
