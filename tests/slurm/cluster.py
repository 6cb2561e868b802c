"""A real Slurm on this machine: a controller and two nodes, each with a network and a name of its own.

Debian's packages are unpacked in `build/slurm`, and all state lies in a folder of the test, so no Slurm of the machine
is touched. Without munge Slurm believes each process, which is safe in a network that only the tests have.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from tests.faults.network import Machines, why_not

ROOT: Final = Path(__file__).parents[2]
UNPACKED: Final = ROOT / "build" / "slurm" / "usr"
LIBRARIES: Final = UNPACKED / "lib" / f"{os.uname().machine}-linux-gnu"
PLUGINS: Final = LIBRARIES / "slurm-wlm"

NAMES: Final = ("n1", "n2")
"""Names of the nodes. The controller and all commands of users run on the first one."""

STARTS_S: Final = 30.0
"""Seconds until both nodes are ready, on a busy machine."""

ENDS_S: Final = 20.0
"""Seconds for a daemon to end."""

KILL_WAIT_S: Final = 5
"""Slurm's seconds from SIGTERM to SIGKILL."""

SILENCE_S: Final = 15
"""Slurm's seconds without an answer after which a node is lost."""

NODE: Final = 'hostname "$1"; mount --bind "$2" /etc/hosts; cd "$3"; shift 3; exec "$@"'
"""Commands of a process on a node: its name, its file of hosts and its folder."""

SHELL: Final = ("#!/bin/sh", 'while [ "${1#-}" != "$1" ]; do shift; done', "node=$1", "shift", "case $node in")
"""The beginning of a program with the arguments of `ssh`: options, a node, and words for its shell."""

CONFIG: Final = """\
ClusterName=tests
SlurmctldHost={first}({address})
SlurmUser=root
AuthType=auth/none
CredType=cred/none
CryptoType=crypto/none
# A job that is queued again waits for as long as a credential is valid.
AuthInfo=cred_expire=5
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait={kill_wait}
SlurmdTimeout={silence}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def lacking() -> str:
    """The reason why no Slurm can run here; empty if one can."""
    if os.geteuid() != 0:
        return "only root may make namespaces here"
    if not (UNPACKED / "sbin" / "slurmd-wlm").exists():
        return "there is no Slurm; `make slurm` unpacks Debian's"
    return why_not()


class Cluster:
    """Slurm with two nodes, which exists within the context. No process is left after it.

    Args:
        folder: for state, logs and the configuration.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines = Machines()
        self.config = folder / "slurm.conf"
        self._hosts = folder / "hosts"
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._own: set[int] = set()

    def __enter__(self) -> Self:
        self.machines.__enter__()
        try:
            self._configure()
            self._daemon(0, UNPACKED / "sbin" / "slurmctld-wlm", "-D", "-f", self.config)
            for node in range(len(NAMES)):
                self._begin_node(node)
            self.until_idle(STARTS_S)
            self._own = self.jobs()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _configure(self) -> None:
        addresses = [self.machines.host(node) for node in range(len(NAMES))]
        lines = [f"{address} {name}\n" for address, name in zip(addresses, NAMES, strict=True)]
        self._hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))
        (self.folder / "state").mkdir()
        config = CONFIG.format(
            first=NAMES[0],
            address=addresses[0],
            plugins=PLUGINS,
            folder=self.folder,
            kill_wait=KILL_WAIT_S,
            silence=SILENCE_S,
        )
        for name, address in zip(NAMES, addresses, strict=True):
            config += f"NodeName={name} NodeAddr={address} CPUs=4\n"
        self.config.write_text(config)
        # The plugin of cgroups begins also where nothing uses it, and finds no mounts in a namespace.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def _begin_node(self, node: int) -> None:
        sbin = UNPACKED / "sbin"
        self._daemon(node, sbin / "slurmd-wlm", "-D", "-f", self.config, "-d", sbin / "slurmstepd-wlm")

    def _daemon(self, node: int, *command: object) -> None:
        out = self.folder / f"out-{len(self._daemons)}"
        self._daemons.append(self.begin(node, [str(word) for word in command], out, self.folder))

    @property
    def environment(self) -> dict[str, str]:
        """Variables of all processes of this Slurm, without those of a Slurm or a job around the tests."""
        own = ("TASKD_", "RANK", "MASTER_", "PET_", "SLURM", "SRUN", "SBATCH", "SALLOC", "OMPI_", "PMI", "PRTE_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        path = f"{UNPACKED / 'bin'}:{clean['PATH']}"
        libraries = f"{PLUGINS}:{LIBRARIES}"
        return clean | {"PATH": path, "LD_LIBRARY_PATH": libraries, "SLURM_CONF": str(self.config)}

    def wrapper(self, node: int, folder: Path) -> list[str]:
        """The command that runs another one on a node, by exec, so that signals reach it."""
        network = self.machines.wrapper(node)
        shell = ("unshare", "--uts", "--mount", "sh", "-c", NODE, "node")
        return [*network, *shell, NAMES[node], str(self._hosts), str(folder)]

    def shell(self) -> Path:
        """A program that runs a command on another node, with the arguments of `ssh`."""
        program = self.folder / "shell"
        cases = [
            f'{name}) exec {shlex.join(self.wrapper(node, ROOT))} sh -c "$*" ;;' for node, name in enumerate(NAMES)
        ]
        program.write_text("\n".join([*SHELL, *cases, "esac", ""]))
        program.chmod(0o755)
        return program

    def begin(
        self, node: int, command: Sequence[str], out: Path, folder: Path, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command on a node.

        Args:
            node: its number.
            command: with its arguments.
            out: file for its output.
            folder: in which it runs.
            variables: more of its environment.
        """
        with out.open("ab") as file:
            return subprocess.Popen(
                [*self.wrapper(node, folder), *command],
                env=self.environment | dict(variables or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for the tests, which end all
            )

    def ask(self, *command: str) -> str:
        """The output of a command of Slurm's."""
        asked = subprocess.run(
            [*self.wrapper(0, self.folder), *command], env=self.environment, capture_output=True, text=True, check=False
        )
        return asked.stdout

    def until_idle(self, seconds: float) -> None:
        """Wait until both nodes are ready and have no job."""
        give_up_at = time.monotonic() + seconds
        while (states := self.ask("sinfo", "--noheader", "--Node", "--format=%T").split()) != ["idle"] * len(NAMES):
            assert time.monotonic() < give_up_at, f"{states}\n{self.words()}"
            time.sleep(0.1)

    def words(self) -> str:
        """The last lines of all logs."""
        paths = sorted([*self.folder.glob("*.log"), *self.folder.glob("out-*")])
        return "\n".join(f"{path.name}: {line}" for path in paths for line in path.read_text().splitlines()[-15:])

    def pids(self, node: int) -> list[int]:
        """All processes of a node."""
        network = self.machines.wrapper(node)[-1]
        found = subprocess.run(["ip", "netns", "pids", network], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def jobs(self) -> set[int]:
        """The processes of both nodes that are none of Slurm's daemons."""
        return {pid for node in range(len(NAMES)) for pid in self.pids(node)} - self._own

    @contextmanager
    def without_power(self, node: int) -> Iterator[None]:
        """Cut the power of a node for the time of a block. Neither an end nor a word of its processes gets out."""
        self.machines.link(up=False)
        self._kill(node)
        try:
            yield
        finally:
            self.machines.link(up=True)
            self._begin_node(node)
            self._own |= {self._daemons[-1].pid}

    def _kill(self, node: int) -> None:
        while pids := self.pids(node):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for daemon in self._daemons:
                daemon.poll()
            time.sleep(0.05)

    def close(self) -> None:
        """End all processes of both nodes, and remove the networks."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
        give_up_at = time.monotonic() + ENDS_S
        for daemon in self._daemons:
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(max(0.0, give_up_at - time.monotonic()))
        for node in range(len(NAMES)):
            self._kill(node)
        self.machines.close()
