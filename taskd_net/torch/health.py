"""Health of an Agent, by HTTP: torch leaves its `HealthCheckServer` to be extended, and this is the extension.

`GET /healthz` at the port `TORCHELASTIC_HEALTH_CHECK_PORT` answers 200, or 503 when the Agent's loop stands still. The
server has a thread and an event loop of its own, so it answers also when those of the Agent do not move.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Final

from torch.distributed.elastic.agent.server.health_check_server import HealthCheckServer

from taskd_net.base import threads
from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError, NodeError
from taskd_net.base.logger import late_logger
from taskd_net.job.arguments import joined

if TYPE_CHECKING:
    from taskd_net.faces.side_port import Event, Receive, Send, SidePort

log: Final = late_logger()

PATH: Final = "/healthz"
PORT: Final = "TORCHELASTIC_HEALTH_CHECK_PORT"
ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - probes come from outside of the pod


class Loop:
    """The Agent's loop, as another thread sees it: it looks at the workers once a second, from their start on."""

    def __init__(self) -> None:
        self._moved_at: float | None = None

    def move(self) -> None:
        """A turn of the loop has ended."""
        self._moved_at = time.monotonic()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The loop is in a call that has a time limit of its own, such as a rendezvous."""
        self._moved_at = None
        try:
            yield
        finally:
            self.move()

    @property
    def seconds(self) -> float:
        """Seconds since its last move; 0 before the first start of the workers, and while it is busy."""
        moved_at = self._moved_at
        return 0.0 if moved_at is None else time.monotonic() - moved_at


class HealthServer(HealthCheckServer):
    """The server, from `start` to `stop`. It listens at the variable `POD_IP`, or else at all addresses.

    Args:
        alive_callback: gives the time of the loop's last move, in seconds since the epoch.
        port: TCP port.
        timeout: seconds that the loop may stand still.
        describe: gives the body of the answer.
    """

    def __init__(
        self, alive_callback: Callable[[], int], port: int, timeout: int, describe: Callable[[], Mapping[str, object]]
    ) -> None:
        super().__init__(alive_callback, port, timeout)
        self._describe = describe
        self._thread: Thread | None = None

    def start(self) -> None:
        """Listen. A port that cannot be used is one line in the log, and there is no server."""
        started: Future[None] = Future()
        thread: Thread | None = None
        try:
            thread = threads.start(lambda: asyncio.run(self._serve(started)), "taskd_net_health")
            started.result()
        except (ConfigError, ImportError, NodeError) as error:
            log.warning("no_health_check", reason=str(error))
            if thread is not None:
                thread.join()
            return
        self._thread = thread

    def stop(self) -> None:
        """Stop listening; stopping twice is stopping once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            thread.join()

    async def _serve(self, started: Future[None]) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        try:
            port = self._open()
            started.set_result(None)
        except (ConfigError, ImportError) as error:
            started.set_exception(error)
            return
        finally:
            started.cancel()  # `start` hears of any other error, too; a future with an outcome keeps it
        await self._end.wait()
        await port.close()

    def _open(self) -> SidePort:
        from taskd_net.faces.side_port import SidePort

        listen = joined(os.environ.get("POD_IP") or ALL_ADDRESSES, "POD_IP", self._port, PORT)
        return SidePort(self._answer, Address.parse(listen, PORT), PORT).serve()

    async def _answer(self, scope: Event, _: Receive, send: Send) -> None:
        from taskd_net.faces.side_port import answer

        if scope["path"] != PATH or scope["method"] not in ("GET", "HEAD"):
            await answer(send, 404, "text/plain", f"GET {PATH}\n".encode())
            return
        alive = time.time() - self._alive_callback() <= self._timeout
        body = json.dumps({"ok": alive, **self._describe()}) + "\n"
        await answer(send, 200 if alive else 503, "application/json", body.encode())
