"""The processes of one scenario on this machine: a Mgr, a Proxy, msrun or its double, and what these start."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.job.terms import PARENT
from taskd_net_lab.demos.job.witness import program
from taskd_net_lab.demos.mindspore import names, trainee
from taskd_net_lab.demos.mindspore.evidence import Evidence

DOUBLE: Final = "taskd_net_lab.demos.mindspore.msrun"
REAL: Final = "mindspore.parallel.cluster.run"
MANAGER: Final = "taskd_net_lab.demos.mindspore.manager"
CLI: Final = "taskd_net.cli"

LOCAL: Final = 2
"""Workers of the node."""

PATIENCE_S: Final = 60.0
"""Seconds for one step: an import of mindspore takes half a minute on a busy machine."""

LOOK_S: Final = 0.02
LEFT_S: Final = 3.0
"""Seconds after the launcher's end until nothing is left."""

STDERR_LINES: Final = 6
CLEARED: Final = ("TASKD_", "MS_", "RANK", "LOCAL_", "POD_IP", "PROCESS_RECOVER", "MASTER_", "MINDX_", "ENABLE_RESTART")


def has_mindspore() -> bool:
    """True where the real msrun is installed."""
    return find_spec("mindspore") is not None


class Stage:
    """The processes of one scenario. None is left after `async with`.

    Args:
        real: the launcher is MindSpore's own.
        patience: seconds for one step.

    Attributes:
        evidence: everything that was seen from outside.
        folder: the folder in which all processes work.
    """

    def __init__(self, *, real: bool = False, patience: float = PATIENCE_S) -> None:
        self.evidence = Evidence()
        self._launcher = REAL if real else DOUBLE
        self._patience = patience
        self._folder = tempfile.TemporaryDirectory(prefix="taskd-net-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.reset_file = self.folder / "reset.json"
        # Own addresses, so that the ports are free.
        self.host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self.write_reset()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEFT_S):
                    await process.wait()
        # The trainees end with their launcher.
        with suppress(Missed):
            await self.until(lambda: not list(self._ours()), "nothing is left", LEFT_S)
        for pid in self._ours():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._reading:
            await asyncio.wait(self._reading)
        self._folder.cleanup()

    async def start_mgr(self) -> None:
        """Start the Mgr, with the state of the one before, and wait until it listens."""
        process = await self._start("Mgr", MANAGER, "--listen", f"{self.host}:9601", "--state", "state")
        assert process.stdout is not None
        await self._first_line(process.stdout, "Mgr")
        reading = asyncio.create_task(self._read_faults(process.stdout))
        self._reading.add(reading)

    async def start_proxy(self) -> None:
        """Start the Proxy of the node, and wait until it listens."""
        addresses = ["--listen", f"{self.host}:9602", "--upstream", f"{self.host}:9601"]
        process = await self._start("Proxy", CLI, "proxy", "--server-rank", "0", *addresses)
        assert process.stdout is not None
        await self._first_line(process.stdout, "Proxy")

    async def launch(self, *modules: str, **variables: str) -> None:
        """Start msrun, and wait until the workers have begun.

        Args:
            modules: those of TaskD that it finds, see `names`.
            variables: of its environment.
        """
        found = self.folder / "names"
        names.write(found, *modules)
        before = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        node = ["--worker_num=2", f"--local_worker_num={LOCAL}", "--node_rank=0", "--master_addr=127.0.0.1"]
        script = ["--log_dir=logs", str(Path(trainee.__file__)), str(self.folder)]
        await self._start(
            "msrun",
            self._launcher,
            *node,
            *script,
            MS_ENABLE_TFT="{ARF:1}",
            MS_NODE_RANK="0",
            MS_LOCAL_WORKER=str(LOCAL),
            PATH=path,
            PYTHONPATH=os.pathsep.join([str(found), *([before] if before else [])]),
            TASKD_NET_UPSTREAM=f"{self.host}:9602",
            TASKD_NET_RESET_FILE=str(self.reset_file),
            TASKD_NET_FINISH_PAUSE="0.2",
            TASKD_NET_RESTART_PAUSE="0.2",
            TASKD_NET_FAILURE_PAUSE="0.2",
            **variables,
        )
        await self.until_lives(1)

    async def start_job(self) -> None:
        """Start a Mgr, a Proxy, and msrun with an Agent."""
        await self.start_mgr()
        await self.start_proxy()
        await self.launch(names.AGENT)

    async def start_without_mgr(self) -> None:
        """Start msrun with MSRunPlugin, below a Proxy that finds no Mgr."""
        await self.start_proxy()
        await self.launch(names.PLUGIN)

    def command(self, code: int, message: str = "") -> None:
        """Have the Mgr send a command to the Agent."""
        stdin = self._processes["Mgr"].stdin
        assert stdin is not None
        command = {"to": "Agent/0", "msg_type": "ACTION", "code": code, "message": message}
        stdin.write(json.dumps(command).encode() + b"\n")

    async def kill_mgr(self) -> None:
        """End the Mgr as a crash does."""
        process = self._processes["Mgr"]
        process.kill()
        self.evidence.exits.setdefault("Mgr", []).append(await process.wait())

    def finish(self, *ranks: int) -> None:
        """Let workers finish."""
        self._signal(signal.SIGUSR1, ranks)

    def fail(self, *ranks: int) -> None:
        """Have workers exit with 1."""
        self._signal(signal.SIGUSR2, ranks)

    def write_reset(self, *listed: tuple[int, str], **fields: object) -> None:
        """Replace the platform's reset file: ranks with their status, and other fields."""
        entries = [{"RankId": rank, "Status": status} for rank, status in listed]
        new = self.folder / "new"
        new.write_text(json.dumps({"RankList": entries, "RetryTime": 0, **fields}))
        new.rename(self.reset_file)

    async def ended(self) -> None:
        """Wait until msrun has ended."""
        process = self._processes["msrun"]
        await self.until(lambda: process.returncode is not None, "msrun ends")
        self.evidence.exits.setdefault("msrun", []).append(await process.wait())

    async def settle(self) -> None:
        """Look at what is left of the launcher after 3 s, and count all processes."""
        running = self._processes.get("msrun")
        others = {process.pid for name, process in self._processes.items() if name != "msrun"}
        if running is not None and running.returncode is not None:
            with suppress(Missed):
                await self.until(lambda: not set(self._ours()) - others, "nothing is left", LEFT_S)
        self.evidence.left = sorted(set(self._ours()) - others)
        self.evidence.lives = {rank: len(pids) for rank, pids in self._pids().items()}
        self.evidence.schedulers = len(list(self.folder.glob("began-MS_SCHED-*")))
        self.evidence.asked = [int(file.name.split("-")[1]) for file in self.folder.glob("asked-*")]

    async def until(self, holds: Callable[[], bool], what: str, patience: float | None = None) -> None:
        """Wait for evidence.

        Raises:
            Missed: it has not come in time.
        """
        seconds = self._patience if patience is None else patience
        try:
            async with asyncio.timeout(seconds):
                while not holds():  # noqa: ASYNC110 - no event tells of processes
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise Missed(f"not within {seconds:g} s: {what}{self._last_words()}") from None

    async def until_lives(self, lives: int, *ranks: int) -> None:
        """Wait until ranks, or all of them, have begun for this time."""
        wanted = ranks or range(LOCAL)
        await self.until(
            lambda: all(len(self._pids().get(rank, ())) >= lives for rank in wanted),
            f"ranks {', '.join(map(str, wanted))} have begun {lives} times",
        )

    async def until_no_worker(self) -> None:
        """Wait until no worker runs."""
        await self.until(
            lambda: not {pid for pids in self._pids().values() for pid in pids} & set(self._ours()), "no worker runs"
        )

    async def until_fault(self, *ranks: int) -> None:
        """Wait until the Mgr has got a report of these failed ranks."""
        await self.until(lambda: sorted(ranks) in self.evidence.faults, f"202 with ranks {sorted(ranks)}")

    def _signal(self, number: signal.Signals, ranks: tuple[int, ...]) -> None:
        pids = self._pids()
        for rank in ranks:
            os.kill(pids[rank][-1], number)

    def _pids(self) -> dict[int, list[int]]:
        """The workers by rank, in the order of their starts."""
        files = sorted(self.folder.glob("began-MS_WORKER-*"), key=lambda file: file.stat().st_mtime_ns)
        pids: dict[int, list[int]] = {}
        for file in files:
            _, _, rank, pid = file.name.split("-")
            pids.setdefault(int(rank), []).append(int(pid))
        return pids

    def _ours(self) -> Iterator[int]:
        """The processes that work in the folder of this stage, and have not ended."""
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (path / "cwd").readlink() == self.folder:
                    yield int(path.name)

    async def _read_faults(self, stdout: asyncio.StreamReader) -> None:
        while line := await stdout.readline():
            self.evidence.faults.append(sorted(json.loads(line)))

    async def _first_line(self, stdout: asyncio.StreamReader, who: str) -> None:
        try:
            async with asyncio.timeout(self._patience):
                line = await stdout.readline()
        except TimeoutError:
            line = b""
        if not line:
            raise Missed(f"{who} does not listen{self._last_words()}")

    async def _start(self, who: str, module: str, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}
        logs = {"TASKD_LOG_PATH": str(self.folder / "log"), "PYTHONWARNINGS": "ignore"}
        launches = who == "msrun"
        with (self.folder / f"{who}.stderr").open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *program(module, *arguments),
                stdin=asyncio.subprocess.PIPE if who == "Mgr" else asyncio.subprocess.DEVNULL,
                stdout=stderr if launches else asyncio.subprocess.PIPE,
                stderr=stderr,
                env={**clean, **logs, **variables, PARENT: str(os.getpid())},
                cwd=self.folder,
            )
        self._processes[who] = process
        return process

    def _last_words(self) -> str:
        words = ""
        for file in sorted(self.folder.glob("*.stderr")):
            if lines := file.read_text(errors="replace").splitlines()[-STDERR_LINES:]:
                words += "".join(f"\n    {file.stem}: {line}" for line in lines)
        return words
