"""Rotation of a node's certificates: they are read at its start, and again when the files change."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import grpc

from taskd_net.base import limits
from taskd_net.base.codes import ConfigError
from taskd_net.base.logger import Logger
from taskd_net.base.times import LinkTimes
from taskd_net.net.tls.certificates import MISSING, read
from taskd_net.net.tls.contexts import client_context, server_context
from taskd_net.net.tls.credentials import ServerCredentials, channel_credentials
from taskd_net.net.tls.files import FILES, Tls


class Rotation:
    """The credentials of a node, renewed from its files.

    Args:
        tls: the files.
        log: the node's.
        times: the node's.

    Attributes:
        server: credentials of the node's server; None for plain text.
        client: credentials of the next channel to the parent; None for plain text.

    Raises:
        ConfigError: a file is not usable; names it and says what is wrong.
    """

    def __init__(self, tls: Tls, log: Logger, times: LinkTimes) -> None:
        try:
            import watchfiles  # noqa: F401 - missing while the node runs, it would be too late
        except ModuleNotFoundError:
            raise ConfigError(MISSING.format(name="watchfiles")) from None
        files = {name: str(Path(path).absolute()) for name in FILES if (path := getattr(tls, name)) is not None}
        # The application may change its folder.
        self.tls = tls = replace(tls, **files)
        self._log = log
        self._pause = times.certificates_look
        self._certificates = read(tls)
        self._refused = ""
        self._folders = {Path(path).parent for path in files.values()}
        self.server = ServerCredentials(self._certificates) if tls.listens else None
        self.client: grpc.ChannelCredentials | None = None
        if tls.connects:
            self.client = channel_credentials(self._certificates)
        self._server_context: ssl.SSLContext | None = None
        self._client_context: ssl.SSLContext | None = None

    def ends(self) -> Mapping[str, datetime]:
        """The end of the certificates in use, UTC, by their use: `server`, `client`."""
        pairs = (("server", self._certificates.server), ("client", self._certificates.client))
        return {use: pair.end for use, pair in pairs if pair is not None}

    def server_context(self) -> ssl.SSLContext:
        """The context of the next socket of a child, beside gRPC's. Made when it is asked for.

        Raises:
            OSError: as in `contexts.server_context`.
        """
        if self._server_context is None:
            self._server_context = server_context(self.tls, self._certificates)
        return self._server_context

    def client_context(self) -> ssl.SSLContext:
        """The same for a socket to the parent."""
        if self._client_context is None:
            self._client_context = client_context(self.tls, self._certificates)
        return self._client_context

    async def watch(self, client_changed: Callable[[], None]) -> None:
        """Renew the credentials when the files change, until cancelled.

        Folders are watched, because files are replaced, in Kubernetes by a link that changes its target. The files are
        also read from time to time, because not every file system tells of changes.

        Args:
            client_changed: called when the credentials towards the parent have changed.
        """
        ended = asyncio.Event()
        watching = asyncio.create_task(self._watch(client_changed, ended))
        try:
            await asyncio.shield(watching)
        finally:
            # `awatch` that is cancelled leaves its thread in Rust. One that returns from there while the interpreter
            # ends aborts the process.
            ended.set()
            await asyncio.wait([watching], timeout=limits.CLOSE_GRACE_S)
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self, client_changed: Callable[[], None], ended: asyncio.Event) -> None:
        from watchfiles import awatch

        while not ended.is_set():
            try:
                async for _ in awatch(
                    *self._folders,
                    watch_filter=None,
                    recursive=False,
                    rust_timeout=int(self._pause * 1000),
                    yield_on_timeout=True,
                    stop_event=ended,
                ):
                    await self._look(client_changed)
            except (OSError, RuntimeError) as error:
                # The folder is gone, this system cannot watch it, or has no watch left.
                self._log.debug("watch_failed", reason=str(error))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await ended.wait()
                        return
                await self._look(client_changed)

    async def _look(self, client_changed: Callable[[], None]) -> None:
        before = self._certificates
        try:
            now = await asyncio.to_thread(read, self.tls)
        except (ConfigError, RuntimeError) as error:  # at the limit of threads it is a RuntimeError
            if str(error) != self._refused:
                self._refused = str(error)
                self._log.warning("certificates_refused", reason=self._refused)
            return
        self._refused = ""
        if now == before:
            return
        self._certificates = now
        self._server_context = self._client_context = None
        ca = now.ca != before.ca
        if self.server is not None and (ca or now.server != before.server):
            self.server.change(now)
            self._log.info("certificates_changed", towards="children")
        if self.client is not None and (ca or now.client != before.client):
            self.client = channel_credentials(now)
            self._log.info("certificates_changed", towards="parent")
            client_changed()
