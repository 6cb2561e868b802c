"""NATS: request and reply through `nats-server`. The server is in the Proxy's place."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import re
import signal
import ssl

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from benchmarks import requirements
from benchmarks.systems.member import SEND_S, Member, NotAcknowledged, Spec

START_S = 20.0


class NatsServer(Member):
    """The server, with its own defaults, over mutual TLS where there are certificates. It ends with this process."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        folder = spec["certificates"]
        files = {"--tlscert": "node.crt", "--tlskey": "node.key", "--tlscacert": "ca.crt"} if folder else {}
        self._tls = [text for flag, name in files.items() for text in (flag, f"{folder}/{name}")]
        if folder:
            self._tls += ["--tls", "--tlsverify"]
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Start the server on a free port."""
        program = requirements.program("nats-server")
        if program is None:
            raise RuntimeError("nats-server is not installed")
        libc = ctypes.CDLL(None)
        self._process = await asyncio.create_subprocess_exec(
            program,
            *("--addr", "127.0.0.1", "--port", "-1", *self._tls),
            stderr=asyncio.subprocess.PIPE,
            # PR_SET_PDEATHSIG
            preexec_fn=lambda: libc.prctl(1, signal.SIGKILL),
        )
        assert self._process.stderr is not None
        self.pids = (self._process.pid,)
        async with asyncio.timeout(START_S):
            async for line in self._process.stderr:
                if found := re.search(rb"client connections on (127\.0\.0\.1:\d+)", line):
                    self._reader = asyncio.create_task(_drop(self._process.stderr))
                    return found[1].decode()
        raise RuntimeError("nats-server has ended")

    async def close(self) -> None:
        """End the server."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()


class NatsClient(Member):
    """A client of nats-py that listens on the subject of its position, and answers each request."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._subject = _subject(spec["positions"][0])
        self._server = spec["upstream"]
        self._certificates = spec["certificates"]
        self._client: Client | None = None

    async def start(self) -> str:
        """Connect and subscribe."""
        folder, context = self._certificates, None
        if folder:
            context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
            context.load_cert_chain(f"{folder}/node.crt", f"{folder}/node.key")
        # The fastest settings: no answer of the server to each command, no check of subjects. asyncio sets TCP_NODELAY.
        server = f"{'tls' if folder else 'nats'}://{self._server}"
        self._client = await nats.connect(server, tls=context, verbose=False, pedantic=False)
        await self._client.subscribe(self._subject, cb=self._answer)
        return ""

    async def ready(self) -> None:
        """Wait until the server has the subscription."""
        assert self._client is not None
        await self._client.flush()

    async def send(self, to: str, body: str | bytes) -> None:
        """Request and reply."""
        assert self._client is not None and isinstance(body, bytes)
        try:
            await self._client.request(_subject(to), body, timeout=SEND_S)
        except Error as error:
            raise NotAcknowledged(f"{to}: {error!r}") from error

    async def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            await self._client.close()

    async def _answer(self, message: Msg) -> None:
        self.received += 1
        await message.respond(b"")


def _subject(position: str) -> str:
    return position.replace("/", ".")


async def _drop(stream: asyncio.StreamReader) -> None:
    async for _ in stream:
        pass
