"""The processes of one scenario: a Manager, and `taskd-net run` on two nodes of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import taskd_net
from taskd_net_lab.clusterd.reader import SCENARIOS
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.job.terms import PARENT
from taskd_net_lab.demos.job.witness import program
from taskd_net_lab.demos.training.evidence import STEPS, Evidence, Step

CLI: Final = "taskd_net.cli"
CLUSTERD: Final = "ClusterD"
NODES: Final = 2
LOCAL: Final = 2
SCRIPT: Final = Path(taskd_net.__file__).parent / "torch" / "small_training.py"
NEXT_CHECKPOINT: Final = "checkpoint.new"
"""The file to which `small_training` writes a checkpoint, before it renames it."""

PAUSE_S: Final = 0.1
"""Seconds of the training after a step."""

PATIENCE_S: Final = 120.0
"""Seconds for one step of a scenario: four processes import torch in it, on a busy machine."""

LOOK_S: Final = 0.02
STALLED_S: Final = 1.0
"""Seconds without a step in which a training counts as hanging."""

LEFT_S: Final = 3.0
"""Seconds after the last launcher's end until nothing is left."""

STDERR_LINES: Final = 6


class Stage:
    """The processes of one scenario. None is left after `async with`.

    Args:
        restarts: restarts of the job.
        patience: seconds for one step.
        in_place: the Manager restarts failed workers alone.
        clusterd: ClusterD decides on faults.
        alone: no platform and no Manager of ours: node 0 starts it, and it restarts what fails.

    Attributes:
        evidence: everything that was seen from outside.
        folder: the folder in which all processes work.
        host: the first three numbers of their addresses.
    """

    def __init__(
        self,
        restarts: int = 3,
        patience: float = PATIENCE_S,
        *,
        in_place: bool = False,
        clusterd: bool = False,
        alone: bool = False,
    ) -> None:
        self.evidence = Evidence()
        self._restarts = restarts
        self._patience = patience
        self._in_place = in_place
        self._clusterd = clusterd
        self._alone = alone
        self._folder = tempfile.TemporaryDirectory(prefix="taskd-net-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self._mark = str(self.folder)
        # Own addresses, so that the ports are free.
        self.host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
        with socket.socket() as free:
            free.bind((f"{self.host}.1", 0))
            self._port: int = free.getsockname()[1]
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._started: list[asyncio.subprocess.Process] = []  # also those whose name a successor has taken over

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                process.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEFT_S):
                    await process.wait()
        # The guardians end the training processes of launchers that were killed.
        with suppress(Missed):
            await self.until(lambda: not list(self._ours()), "nothing is left", LEFT_S)
        for pid in self._ours():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._folder.cleanup()

    async def start_mgr(self, *, operated: bool = False) -> None:
        """Start the Manager, and wait until it listens.

        Args:
            operated: it sends what `command` says, too.
        """
        if operated:
            await self._start("Mgr", "taskd_net_lab.demos.training.manager", "--listen", f"{self.host}.1:9601")
            await self._listens("Mgr")
            return
        arguments = ["--listen", f"{self.host}.1:9601", "--job-id", "demo", "--expect", f"{NODES}x{LOCAL}"]
        more = ["--in-place", "--restarts=platform"] if self._in_place else []
        more += ["--fault-recover", "on", "--clusterd-addr", f"{self.host}.1:8899"] if self._clusterd else []
        await self._start("Mgr", CLI, "mgr", *arguments, "--state", "state", "--reset-file", "none", *more)
        await self._listens("Mgr")

    async def start_clusterd(self, scenario: str | Mapping[str, object]) -> None:
        """Start ClusterD's stand-in, and wait until it listens.

        Args:
            scenario: the name of one of the package, or its content.
        """
        path = SCENARIOS / f"{scenario}.yaml"
        if not isinstance(scenario, str):
            path = self.folder / "scenario.yaml"
            path.write_text(json.dumps(scenario))
        await self._start(
            CLUSTERD, CLI, "clusterd-sim", "--scenario", str(path), "--listen", f"{self.host}.1:8899", "--speed", "20"
        )
        await self._listens(CLUSTERD)

    async def start_proxy(self, node: int) -> None:
        """Start the Proxy of a node in a process of its own, and wait until it listens."""
        who = f"Proxy/{node}"
        addresses = ["--listen", self._proxy(node), "--upstream", f"{self.host}.1:9601"]
        await self._start(who, CLI, "proxy", "--server-rank", str(node), *addresses)
        await self._listens(who)

    async def launch(self, node: int) -> None:
        """Start the launcher of a node, as the platform does, also again after it has left."""
        who = f"Agent/{node}"
        torchrun = [f"--nnodes={NODES}", f"--node-rank={node}", f"--nproc-per-node={LOCAL}", "--redirects=3"]
        torchrun += [f"--master-addr={self.host}.1", f"--master-port={self._port}", f"--log-dir={self.folder}/logs"]
        script = [str(SCRIPT), f"--steps={STEPS}", f"--pause={PAUSE_S}"]
        more = [] if self._alone else ["--no-mgr", f"--max-restarts={self._restarts}"]
        own = {"TASKD_NET_UPSTREAM": self._proxy(node), "TMPDIR": str(self.folder)}
        await self._start(who, CLI, "run", *torchrun, *more, *script, **own)

    async def start_job(self, *, operated: bool = False) -> None:
        """Start the Manager and both nodes."""
        if not self._alone:
            await self.start_mgr(operated=operated)
        for node in range(NODES):
            await self.launch(node)

    async def ended(self, who: int | str) -> None:
        """Wait until the launcher of a node, or another process, has ended."""
        who = f"Agent/{who}" if isinstance(who, int) else who
        process = self._processes[who]
        await self.until(lambda: process.returncode is not None, f"{who} ends")
        self.evidence.exits.setdefault(who, []).append(await process.wait())

    def kill(self, rank: int) -> None:
        """End a training process as a crash does."""
        os.kill(self.evidence.pids[rank][-1], signal.SIGKILL)

    def freeze(self, rank: int) -> None:
        """Stop a training process where it stands."""
        os.kill(self.evidence.pids[rank][-1], signal.SIGSTOP)

    async def kill_daemon(self, who: str) -> None:
        """End the Mgr, a Proxy or a launcher as a crash does."""
        process = self._processes[who]
        process.kill()
        self.evidence.exits.setdefault(who, []).append(await process.wait())

    def end(self, node: int) -> None:
        """Ask the launcher of a node to end, as the platform does, unless it has ended."""
        with suppress(ProcessLookupError):
            self._processes[f"Agent/{node}"].terminate()

    def interrupt(self, node: int) -> None:
        """Send the launcher of a node what Ctrl-C sends."""
        self._processes[f"Agent/{node}"].send_signal(signal.SIGINT)

    async def block_checkpoints(self) -> None:
        """Have the training fail at each further checkpoint: a folder has the place of its file."""

        def blocked() -> bool:
            with suppress(FileExistsError):  # the file of a checkpoint that is being written
                (self.folder / NEXT_CHECKPOINT).mkdir()
                return True
            return False

        await self.until(blocked, "checkpoints are blocked")

    def command(self, to: str, code: int, message: str = "", msg_type: str = "ACTION") -> None:
        """Have an operated Manager send a command."""
        stdin = self._processes["Mgr"].stdin
        assert stdin is not None
        command = {"to": to, "msg_type": msg_type, "code": code, "message": message}
        stdin.write(json.dumps(command).encode() + b"\n")

    async def settle(self) -> None:
        """Wait until nothing is left of the launchers, within 3 s, and read what is on disk."""
        self._look()
        with suppress(Missed):
            await self.until(lambda: not self._left(), "nothing is left", LEFT_S)
        self.evidence.left = self._left()
        for file in self.folder.glob("Agent-*.stderr"):
            _, said, words = file.read_text(errors="replace").rpartition("taskd-net run: ")
            self.evidence.words[file.stem.replace("-", "/")] = words if said else ""
        self.evidence.logs = len(list(self.folder.glob("logs/*/attempt_*/*/stdout.log*")))

    async def until(self, holds: Callable[[], bool], what: str, patience: float | None = None) -> None:
        """Wait for evidence.

        Raises:
            Missed: it has not come in time.
        """
        seconds = self._patience if patience is None else patience
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await asyncio.sleep(LOOK_S)
                    self._look()
        except TimeoutError:
            raise Missed(f"not within {seconds:g} s: {what}{self._last_words()}") from None

    async def until_step(self, step: int, lives: int = 1) -> None:
        """Wait until all ranks have done a step, each in its process of this number."""

        def done() -> bool:
            current = {pids[-1] for pids in self.evidence.pids.values() if len(pids) >= lives}
            at = {each.pid for each in self.evidence.steps if each.step >= step and each.pid in current}
            return len(at) == NODES * LOCAL

        await self.until(done, f"all ranks have done step {step}")

    async def until_lives(self, rank: int, number: int) -> None:
        """Wait until the process of this number of a rank runs."""
        await self.until(lambda: len(self.evidence.pids[rank]) >= number, f"rank {rank} has {number} processes")

    async def until_no_worker(self) -> None:
        """Wait until no training process runs."""
        await self.until(lambda: not list(self._workers()), "no training process runs")

    async def until_stalled(self) -> None:
        """Wait until the training hangs: no rank does a step."""
        seen, since = -1, 0.0

        def stalled() -> bool:
            nonlocal seen, since
            if len(self.evidence.steps) != seen:
                seen, since = len(self.evidence.steps), time.monotonic()
            return time.monotonic() - since >= STALLED_S

        await self.until(stalled, "the training hangs")

    def _proxy(self, node: int) -> str:
        """The address of a node's Proxy."""
        return f"{self.host}.{10 + node}:9602"

    async def _listens(self, who: str) -> None:
        stdout = self._processes[who].stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(self._patience):
                line = await stdout.readline()
        except TimeoutError:
            line = b""
        if not line:
            raise Missed(f"{who} does not listen{self._last_words()}")

    def _look(self) -> None:
        """Take in the processes and the steps."""
        for rank, pid in self._workers():
            pids = self.evidence.pids.setdefault(rank, [])
            if pid not in pids:
                pids.append(pid)
        steps = []
        for rank in range(NODES * LOCAL):
            with suppress(FileNotFoundError):
                lines = (self.folder / f"steps-{rank}").read_text().splitlines(keepends=True)
                steps += [Step(rank, **json.loads(line)) for line in lines if line.endswith("\n")]
        self.evidence.steps = steps

    def _workers(self) -> Iterator[tuple[int, int]]:
        """The training processes that run: rank and pid."""
        for pid in self._ours():
            with suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                # torch gives each a session of its own; a program that it starts for a moment has its environment too.
                if b"TORCHELASTIC_RESTART_COUNT" in b"".join(environment) and os.getsid(pid) == pid:
                    (rank,) = [int(each.removeprefix(b"RANK=")) for each in environment if each.startswith(b"RANK=")]
                    yield rank, pid

    def _left(self) -> list[int]:
        """The processes that run without having been started here: those of launchers, with their guardians."""
        started = {process.pid for process in self._processes.values()}
        return [pid for pid in self._ours() if pid not in started]

    def _ours(self) -> Iterator[int]:
        """The processes that work in the folder of this stage, and have not ended."""
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if str((path / "cwd").readlink()) == self._mark:
                    yield int(path.name)

    async def _start(self, who: str, module: str, *arguments: str, **variables: str) -> None:
        ours = ("TASKD_", "MS_", "RANK", "LOCAL_", "POD_IP", "PROCESS_RECOVER", "MASTER_", "TORCHELASTIC_", "PET_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        logs = {"TASKD_LOG_PATH": str(self.folder / "log"), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{who.replace('/', '-')}.stderr").open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *program(module, *arguments),
                stdin=asyncio.subprocess.PIPE if module != CLI else asyncio.subprocess.DEVNULL,
                stdout=stderr if who.startswith("Agent/") else asyncio.subprocess.PIPE,
                stderr=stderr,
                env={**clean, **logs, **variables, PARENT: str(os.getpid())},
                cwd=self.folder,
                start_new_session=True,
            )
        self._processes[who] = process
        self._started.append(process)

    def _last_words(self) -> str:
        words = ""
        for file in sorted(self.folder.glob("*.stderr")):
            if lines := file.read_text(errors="replace").splitlines()[-STDERR_LINES:]:
                words += "".join(f"\n    {file.stem}: {line}" for line in lines)
        return words
