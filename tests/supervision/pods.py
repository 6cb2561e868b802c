"""Pods of this machine on one network. Each has an address, a name, files of its own and a first process.

A name server knows the names of the pods, and resolvers may keep its answers for minutes. A pod that takes the place of
another one has its name, and another address.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from benchmarks.supervision.job import Addresses, Column, Job
from tests.supervision import names

DOMAIN: Final = "train.default.svc.cluster.local"
"""Domain of the pods in their own files of hosts."""

STEP_S: Final = 60.0
"""Seconds for one step on a busy machine."""

_NETWORK: Final = "10.211.38"
_NAMES: Final = f"{_NETWORK}.254"
"""Address of the name server."""

# A locally administered address without an owner: packets to it are lost.
_NOBODY: Final = "02:00:00:00:00:99"

_SWITCH: Final = "02:00:00:00:00:01"

_POD: Final = """
hostname "$1"
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/resolv.conf" /etc/resolv.conf
shift 2
exec "$@"
"""
"""Commands of a pod: its name, and its files."""

_numbers: Final = itertools.count()


def why_not() -> str:
    """The reason why pods are not available here; empty if they are."""
    if missing := [each for each in ("ip", "unshare") if shutil.which(each) is None]:
        return f"the command {missing[0]} is not installed"
    if os.geteuid() != 0:
        return "only root may make namespaces here"
    try:
        with Switch():
            return ""
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted here: {error.stderr.decode().strip()}"


@dataclass(eq=False)
class Pod:
    """A pod.

    Args:
        name: of its host.
        space: its network namespace.
        address: in the network.
        folder: for its files.
    """

    name: str
    space: str
    address: str
    folder: Path

    def begin(self, own: str = "") -> None:
        """Write its files.

        Args:
            own: line about its own name; empty for that of Kubernetes, which has the domain.
        """
        self.folder.mkdir()
        own = own or f"{self.address} {self.name}.{DOMAIN} {self.name}"
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{own}\n")
        (self.folder / "resolv.conf").write_text(f"nameserver {_NAMES}\n")

    @property
    def wrapper(self) -> list[str]:
        """The command that runs another one as the first process of the pod. All processes of the pod end with it."""
        spaces = ("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        return ["ip", "netns", "exec", self.space, *spaces, "sh", "-c", _POD, "pod", self.name, str(self.folder)]


class Switch:
    """The network of the pods, which exists within the context."""

    def __init__(self) -> None:
        self._space = f"tn{os.getpid()}n{next(_numbers)}"
        self.pods: list[Pod] = []
        self._lost: list[str] = []

    def __enter__(self) -> Self:
        try:
            _ip("netns", "add", self._space)
            # An address of its own: a bridge takes that of a port else, and changes it with the next one.
            _ip("-n", self._space, "link", "add", "br0", "address", _SWITCH, "type", "bridge")
            _ip("-n", self._space, "addr", "add", f"{_NAMES}/24", "dev", "br0")
            _ip("-n", self._space, "link", "set", "br0", "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for space in (*(each.space for each in self.pods), self._space):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def inside(self, *command: str) -> list[str]:
        """The command that runs another one beside the pods."""
        return ["ip", "netns", "exec", self._space, *command]

    def pod(self, name: str, folder: Path, own: str = "") -> Pod:
        """Make a pod with a fresh address.

        Args:
            name: of its host.
            folder: of the test.
            own: as of `Pod.begin`.
        """
        number = len(self.pods) + 1
        made = Pod(name, f"{self._space}p{number}", f"{_NETWORK}.{number}", folder / f"pod-{number}")
        made.begin(own)
        self.pods.append(made)
        space, port = made.space, f"port{number}"
        _ip("netns", "add", space)
        _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self._space)
        _ip("-n", self._space, "link", "set", port, "master", "br0", "up")
        _ip("-n", space, "addr", "add", f"{made.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", space, "link", "set", device, "up")
        _ip("-n", space, "route", "add", "default", "via", _NAMES)
        for address in self._lost:
            _lose_packets(made, address)
        return made

    def lose(self, pod: Pod) -> None:
        """Lose the host of a pod: packets to its address and from it are lost, and nothing says so."""
        _ip("-n", pod.space, "link", "set", "eth0", "down")
        self._lost.append(pod.address)
        for each in self.pods:
            if each is not pod:
                _lose_packets(each, pod.address)


def _lose_packets(pod: Pod, address: str) -> None:
    place = ("lladdr", _NOBODY, "dev", "eth0", "nud", "permanent")
    _ip("-n", pod.space, "neigh", "replace", address, *place)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class Names(Addresses):
    """Addresses of a job in pods: each pod has its own loopback interface."""

    @property
    def first(self) -> str:
        """Name of node 0, as JobSet gives it."""
        return f"{self.hosts}-0.train"

    def of_proxy(self, node: int) -> str:
        """Address of the Proxy of a node."""
        return "127.0.0.1:9602"


class PodsJob(Job):
    """A training whose nodes are pods. No process, namespace or link is left after `with`.

    Args:
        column: its launcher.
        patience: seconds for which launchers wait for a node; 0 for their default.
        own: lines about the pods' own names, by node, as of `Pod.begin`.
    """

    def __init__(self, column: Column, *, patience: int = 0, own: Mapping[int, str] | None = None) -> None:
        super().__init__(column, addresses=Names("train-node-0", "train", 0, 9601, 9602), patience=patience)
        self._own = own or {}
        self.pods: dict[int, Pod] = {}
        self._stack = ExitStack()
        self._known: dict[str, str] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._switch = self._stack.enter_context(Switch())
            self._tell_names()
            command = [sys.executable, "-I", "-S", names.__file__, _NAMES, str(self._file)]
            server = subprocess.Popen(self._switch.inside(*command), stdout=subprocess.PIPE)
            self._stack.callback(server.communicate)
            self._stack.callback(server.kill)
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            for node in range(len(self.processes)):
                self.replace(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        finally:
            self._stack.close()

    @property
    def _file(self) -> Path:
        return self.folder / "names"

    def replace(self, node: int) -> None:
        """Give a node a fresh pod, whose address its name does not lead to yet."""
        self.pods[node] = self._switch.pod(f"train-node-0-{node}", self.folder, self._own.get(node, ""))

    def know(self, node: int, name: str = "") -> None:
        """The name of a node, or another name, leads to its present pod."""
        self._known[name or f"train-node-0-{node}.train"] = self.pods[node].address
        self._tell_names()

    def _tell_names(self) -> None:
        new = self._file.with_name("names.new")
        new.write_text("".join(f"{address} {name}\n" for name, address in self._known.items()))
        new.rename(self._file)

    def lose(self, node: int) -> None:
        """Lose the host of a node with all of its processes. Nobody hears of their end."""
        self._switch.lose(self.pods[node])
        self.launchers[node].kill()
        self.launchers[node].wait()
        self.look()

    def first_process(self, node: int) -> psutil.Process:
        """The first process of a pod: the launcher's own, which has started it as its child."""
        (first,) = psutil.Process(self.launchers[node].pid).children()
        return first

    def says(self, node: int, text: str, times: int = 1) -> None:
        """Wait until a launcher has said something."""
        self.until(lambda: (self.folder / f"out-{node}").read_text(errors="replace").count(text) >= times, text)

    def until(self, holds: Callable[[], bool], words: str) -> None:
        """Wait until a condition holds."""
        give_up_at = time.monotonic() + STEP_S
        while not holds():
            assert time.monotonic() < give_up_at, f"{words}\n{self.words()}"
            self.wait()

    def _begin(
        self, out: str, command: list[str], variables: Mapping[str, str], within: Iterable[str] = ()
    ) -> subprocess.Popen[bytes]:
        pod = self.pods[int(variables["BENCH_NODE"])]
        return super()._begin(out, command, {**variables, "TMPDIR": str(pod.folder)}, [*within, *pod.wrapper])


def terminated(job: PodsJob, node: int) -> int:
    """End a pod as Kubernetes does. Returns the exit status of its first process."""
    job.first_process(node).terminate()
    return job.launchers[node].wait(STEP_S)


def leaves_in_each_wait(job: PodsJob) -> None:
    """Assert that SIGTERM to the first process of a pod ends it with 143: in each wait of a job, and in training."""
    job.start(1)
    job.says(1, "is not known yet")
    assert terminated(job, 1) == 143
    job.know(0)
    job.start(0)
    job.says(0, "waits_for_nodes")
    assert terminated(job, 0) == 143
    job.start()
    job.until_training(5)
    since = time.monotonic()
    assert terminated(job, 1) == 143
    job.start(1)
    job.until(lambda: job.stepped(since) is not None, "the training does not go on")
    (job.folder / f"hang-{job.of_node(1)[0]}").touch()
    job.finish()
    job.says(0, "waits_for_release")
    assert terminated(job, 0) == 143
