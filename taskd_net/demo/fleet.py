"""The processes of a demo: started, asked, watched, and ended in every case.

Every request has a bounded wait. A process that ends unexpectedly ends the demo at once, with its last words.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, Self, TypeVar, cast

from taskd_net import Position, TaskdNetError
from taskd_net.demo.process import CLOSE_S, LINE_BYTES, DemoNode, Started

P = ParamSpec("P")
T = TypeVar("T")

START_S: Final = 60.0
"""Seconds for the start of a process, beside all others."""

ANSWER_S: Final = 20.0
"""Seconds for an answer, beyond the timeout of the request itself."""

STDERR_LINES: Final = 12
"""Lines of a process's stderr to show if it dies."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a demo."""


def on_interrupt(call: Callable[[signal.Signals], object]) -> None:
    """Have each of `SIGNALS` call this in the running loop. One that is ignored, as by nohup, stays ignored."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, call, number)


class DemoFailed(TaskdNetError):
    """The demo cannot go on; the text says why."""


class Interrupted(DemoFailed):
    """A signal asks the demo to end.

    Attributes:
        exit_code: the shell's code for a process ended by the signal.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"interrupted by {number.name}")
        self.exit_code = 128 + number


class NodeProcess:
    """One process with one Node in it, which gets one request at a time. Made by `Fleet.start`."""

    def __init__(self, position: Position, process: asyncio.subprocess.Process, fleet: Fleet) -> None:
        self.position = position
        self.address = ""
        self.started_at = 0.0
        self.ending = False
        self._process = process
        self._fleet = fleet
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._watcher = asyncio.create_task(self._watch(), name=f"watcher of {position}")

    async def started(self) -> None:
        """Wait until the node has started; then `address` and `started_at` (`time.monotonic`) are set."""
        started = cast(Started, await self._answer_to("start", START_S))
        self.address, self.started_at = started["address"] or "", started["at"]

    async def ask(self, call: Callable[Concatenate[DemoNode, P], Awaitable[T]], *_: P.args, **arguments: P.kwargs) -> T:
        """Have the node carry out a method of `DemoNode`, whose arguments are named. Returns its answer.

        An argument `timeout` is added to the bounded wait.
        """
        if self._watcher.done():
            raise DemoFailed(self.obituary())
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": call.__name__, "arguments": arguments}).encode() + b"\n")
        timeout = arguments.get("timeout", 0.0)
        assert isinstance(timeout, float)
        return cast(T, await self._answer_to(call.__name__, timeout + ANSWER_S))

    async def kill(self) -> None:
        """End the process as a crash would."""
        self.ending = True
        if self._process.returncode is None:
            self._process.kill()
        await asyncio.wait([self._watcher], timeout=CLOSE_S)

    async def close(self, timeout: float) -> str | None:
        """End the process in order: its node leaves the mesh. Returns the problem, or None."""
        self.ending = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait([self._watcher], timeout=timeout)
        if self._process.returncode == 0:
            return None
        trouble = f"{self.position} did not end within {timeout:.0f} s" if self.alive else self.obituary()
        await self.kill()
        return trouble

    @property
    def alive(self) -> bool:
        """True until the process has ended."""
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def obituary(self) -> str:
        """The end of the process, in words, with the end of its stderr."""
        code = self._process.returncode
        how = (
            f"ended with exit code {code}"
            if code is None or code >= 0
            else f"was ended by {signal.Signals(-code).name}"
        )
        words = "".join(f"\n    {line}" for line in self._stderr) or " nothing"
        return f"{self.position} (pid {self.pid}) {how}; the end of its stderr:{words}"

    async def _answer_to(self, do: str, wait: float) -> object:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(wait):
                line = await self._process.stdout.readline()
                if not line:
                    await asyncio.shield(self._watcher)
                    raise DemoFailed(self.obituary())
                answer = json.loads(line)
        except TimeoutError:
            raise DemoFailed(f"{self.position} (pid {self.pid}) did not answer {do!r} within {wait:.0f} s") from None
        except ValueError as error:
            raise DemoFailed(f"{self.position} (pid {self.pid}) said something unreadable: {error}") from None
        if "error" in answer:
            raise DemoFailed(f"{self.position}: {answer['error']}")
        return answer["value"]

    async def _watch(self) -> None:
        """Read the stderr of the process, until it has ended."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self._stderr.append(line.decode(errors="replace").rstrip())
        await self._process.wait()
        if not self.ending:
            self._fleet.abort(DemoFailed(self.obituary()))


class Fleet:
    """All processes of a demo. After `async with` none is left; `close` in its body ends them in order.

    `abort` ends the body of the `async with`.
    """

    def __init__(self) -> None:
        self.processes: list[NodeProcess] = []
        self._task: asyncio.Task[object] | None = None
        self._reason: DemoFailed | None = None
        self._settled = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        await asyncio.gather(*(process.kill() for process in self.processes))
        if task is not None and self._reason is not None and isinstance(error, asyncio.CancelledError):
            task.uncancel()
            raise self._reason from None

    def abort(self, reason: DemoFailed) -> None:
        """End the demo with this reason; the first one counts, before the processes are being ended."""
        if self._task is not None and self._reason is None:
            self._reason = reason
            self._task.cancel()

    def settle(self) -> None:
        """From now on a process may end without a problem, as when somebody kills it to see what follows."""
        self._task, self._settled = None, True

    async def start(self, position: Position, *, listen: str | None = None, upstream: str | None = None) -> NodeProcess:
        """Start one process; its Node starts by itself."""
        addresses = {"--listen": listen, "--upstream": upstream}
        arguments = [part for option, address in addresses.items() if address for part in (option, address)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "taskd_net.demo.process", str(position), *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            # Ctrl-C goes to the controller alone, which ends the others.
            start_new_session=True,
        )
        started = NodeProcess(position, process, self)
        self.processes.append(started)
        return started

    async def close(self) -> list[str]:
        """End every process in order. Returns the problems."""
        self._task = None
        left = [each for each in self.processes if not each.ending and (each.alive or not self._settled)]
        closing = [process.close(CLOSE_S) for process in left]
        return [trouble for trouble in await asyncio.gather(*closing) if trouble]
