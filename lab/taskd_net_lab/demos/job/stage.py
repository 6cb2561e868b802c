"""The processes of one scenario: started, told, frozen, killed, watched, and ended in every case."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from taskd_net import TaskdNetError
from taskd_net_lab.demos.job.evidence import Evidence, Seen
from taskd_net_lab.demos.job.terms import ASKS, BEGAN, ENDED, LOCAL, NODES, PARENT, SOCKET
from taskd_net_lab.demos.job.witness import program

PATIENCE_S: Final = 20.0
"""Seconds for one step of a scenario, beside two others on a busy machine."""

SETTLE_S: Final = 0.5
"""Seconds after the last step, in which a command that comes twice is seen."""

END_S: Final = 5.0
STDERR_LINES: Final = 6
_OURS: Final = ("TASKD_", "MS_", "RANK", "LOCAL_", "POD_IP", "PROCESS_RECOVER")
"""Beginnings of variables that would change the demo's processes."""

_PEER: Final = struct.Struct("3i")
"""Linux's `ucred`: pid, uid, gid."""


class Missed(TaskdNetError):
    """A step has not happened in time; the text says which."""


class Stage:
    """The processes of one scenario. None is left after `async with`.

    Args:
        restarts: restarts that each launcher has left.
        patience: seconds for one step.
        variables: further environment of all processes.

    Attributes:
        evidence: everything that was seen.
        folder: files of the processes.
        plugins: folder with the Manager's plugins, if it has one.
        faults: settings of the Manager for faults of devices.
        host: address of the processes.
    """

    def __init__(self, restarts: int = 3, patience: float = PATIENCE_S, **variables: str) -> None:
        self.evidence = Evidence()
        self._restarts = restarts
        self._patience = patience
        self._variables = variables
        self._changed = asyncio.Event()
        # A process that the kernel is ending may still write into it.
        self._folder = tempfile.TemporaryDirectory(prefix="taskd-net-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.plugins: Path | None = None
        self.faults: dict[str, object] = {}
        # Own addresses, so that the ports are free.
        self.host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._ending = False

    async def __aenter__(self) -> Self:
        self.set_retry_time(0)
        self._server = await asyncio.start_unix_server(self._witness, self.folder / "socket")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending = True
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.kill()  # the kernel ends the training processes with their launchers
        if self._server is not None:
            self._server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_S)
        self._folder.cleanup()

    async def start_mgr(self) -> None:
        """Start the Mgr, with the state of the one before."""
        before = self.evidence.count("Mgr", BEGAN)
        arguments = ["--listen", f"{self.host}:9601", "--state", "state", "--reset-file", "reset.json"]
        more = ["--plugins", str(self.plugins)] if self.plugins else []
        more += ["--faults", json.dumps(self.faults)] if self.faults else []
        await self.start("Mgr", "taskd_net_lab.demos.job.manager", *arguments, *more)
        await self.until(lambda seen: seen.count("Mgr", BEGAN) > before, "the Mgr listens")

    async def launch(self, node: int, restarts: int | None = None) -> None:
        """Start the launcher of a node, as the platform does, also again after it has left.

        Args:
            node: rank of the node.
            restarts: restarts that it has left; None for those of the job.
        """
        proxy = f"{self.host}:{9610 + node}"
        left = self._restarts if restarts is None else restarts
        arguments = ["--upstream", f"{self.host}:9601", "--listen", proxy, "--restarts", str(left)]
        launcher = "taskd_net_lab.demos.job.launcher"
        await self.start(f"Agent/{node}", launcher, str(node), *arguments, TASKD_NET_UPSTREAM=proxy)

    async def start_job(self) -> None:
        """Start the Mgr and both nodes, until all training processes run and are known."""
        await self.start_mgr()
        for node in range(NODES):
            await self.launch(node)
        await self.all_registered()

    async def all_registered(self) -> None:
        """Wait until all Agents and Workers have joined the Mgr, and are registered."""
        everybody = NODES + NODES * LOCAL
        await self.until(lambda seen: seen.registered == everybody, "all Agents and Workers are registered")

    async def kill(self, who: str) -> None:
        """End a process as a crash does, and wait until it has ended."""
        pid = self.evidence.pid(who)
        os.kill(pid, signal.SIGKILL)
        await self.until(lambda seen: any(each.what == ENDED and each.pid == pid for each in seen.seen), f"{who} ends")

    async def replace_mgr(self) -> None:
        """Kill the Mgr and start another one."""
        await self.kill("Mgr")
        await self.start_mgr()

    def freeze(self, who: str) -> None:
        """Stop a process where it stands."""
        os.kill(self.evidence.pid(who), signal.SIGSTOP)

    def thaw(self, who: str) -> None:
        """Let a process go on."""
        os.kill(self.evidence.pid(who), signal.SIGCONT)

    def signal(self, event: str, **fields: object) -> None:
        """Let ClusterD say something to the Mgr: a class of `taskd_net.job.decide.events`, and its fields."""
        stdin = self._processes["Mgr"].stdin
        assert stdin is not None
        stdin.write(json.dumps({"event": event, **fields}).encode() + b"\n")

    def set_retry_time(self, value: int) -> None:
        """Write the platform's reset file."""
        new = self.folder / "reset.json.new"
        new.write_text(json.dumps({"RankList": [], "RetryTime": value}))
        new.rename(self.folder / "reset.json")

    async def until(self, holds: Callable[[Evidence], bool], what: str) -> None:
        """Wait for evidence.

        Raises:
            Missed: it has not come in time.
        """
        try:
            async with asyncio.timeout(self._patience):
                while not holds(self.evidence):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise Missed(f"not within {self._patience:g} s: {what}{self._last_words()}") from None

    async def settle(self) -> None:
        """Wait for events that must not come."""
        await asyncio.sleep(SETTLE_S)

    def _see(self, event: Seen) -> None:
        if not self._ending:
            self.evidence.seen.append(event)
            self._changed.set()

    async def start(self, who: str, module: str, *arguments: str, **more: str) -> None:
        """Start a process.

        Args:
            who: its name in the evidence.
            module: its program.
            arguments: of the program.
            more: further environment.
        """
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        logs = {"TASKD_LOG_PATH": str(self.folder), "TASKD_LOG_STDOUT": "False"}
        variables = {
            **clean,
            **logs,
            **self._variables,
            **more,
            SOCKET: str(self.folder / "socket"),
            PARENT: str(os.getpid()),
        }
        with (self.folder / f"{who.replace('/', '-')}.stderr").open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *program(module, *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env=variables,
                cwd=self.folder,
                start_new_session=True,
            )
        self._processes[who] = process
        task = asyncio.create_task(self._watch(who, process), name=f"watches {who}")
        self._tasks.add(task)

    async def _watch(self, who: str, process: asyncio.subprocess.Process) -> None:
        """Take in the lines of a process, and its exit code.

        Its stdin is closed here: a pipe that is still open when the loop closes says "Event loop is closed" when it is
        collected.
        """
        assert process.stdout is not None and process.stdin is not None
        async for line in process.stdout:
            if (event := self.read(line, process.pid)) is not None:
                self._see(event)
        code = await process.wait()
        process.stdin.close()
        with suppress(OSError):
            await process.stdin.wait_closed()
        self._see(Seen(who, ENDED, process.pid, code))

    def read(self, line: bytes, pid: int) -> Seen | None:
        """The event in a line of a process; None for a line without one."""
        return Seen(**json.loads(line), pid=pid)

    async def _witness(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take in what a process reports; its end ends the connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer: socket.socket = writer.get_extra_info("socket")
        pid, _, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        who = ""
        with suppress(ConnectionResetError):  # the end of a process that is killed before it has read its answer
            async for line in reader:
                event = Seen(**json.loads(line), pid=pid)
                who = event.who
                self._see(event)
                self.answer(event, writer)
        if who.startswith("Worker/"):
            self._see(Seen(who, ENDED, pid))
        writer.close()

    def answer(self, event: Seen, writer: asyncio.StreamWriter) -> None:
        """Let a process go on that waits for it."""
        if event.what == ASKS:
            writer.write(b"\n")

    def _last_words(self) -> str:
        """The end of what the processes have complained of."""
        words = ""
        for file in sorted(self.folder.glob("*.stderr")):
            if lines := file.read_text(errors="replace").splitlines()[-STDERR_LINES:]:
                words += "".join(f"\n    {file.stem}: {line}" for line in lines)
        return words
