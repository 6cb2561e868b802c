"""Rotation of a node's certificates: they are read at its start, and again when the files change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from taskd_net import limits
from taskd_net.codes import ConfigError
from taskd_net.tls.certificates import MISSING, Certificates, read
from taskd_net.tls.contexts import client_context, server_context
from taskd_net.tls.credentials import ServerCredentials, channel_credentials
from taskd_net.tls.files import FILES, Tls

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger


class Rotation:
    """The credentials of a node, renewed from its files.

    Args:
        tls: the files.
        log: the node's.

    Attributes:
        server: credentials of the node's server; None for plain text.
        client: credentials of the next channel to the parent; None for plain text.
        server_context, client_context: those of sockets that are not gRPC's.

    Raises:
        ConfigError: a file is not usable; names it and says what is wrong.
    """

    def __init__(self, tls: Tls, log: BoundLogger) -> None:
        try:
            import watchfiles  # noqa: F401 - missing while the node runs, it would be too late
        except ModuleNotFoundError:
            raise ConfigError(MISSING.format(name="watchfiles")) from None
        self.tls = tls
        self._log = log
        self._certificates = read(tls)
        self._refused = ""
        self._folders = {Path(path).absolute().parent for name in FILES if (path := getattr(tls, name)) is not None}
        self.server = ServerCredentials(self._certificates) if tls.listens else None
        self.client: grpc.ChannelCredentials | None = None
        if tls.connects:
            self.client = channel_credentials(self._certificates)
        self.server_context: ssl.SSLContext | None = None
        self.client_context: ssl.SSLContext | None = None
        try:
            self._renew_contexts(self._certificates)
        except OSError as error:
            raise ConfigError(f"a file of TLS cannot be used: {error}") from error

    def _renew_contexts(self, certificates: Certificates) -> None:
        server = server_context(self.tls, certificates) if self.tls.listens else None
        client = client_context(self.tls, certificates) if self.tls.connects else None
        self.server_context, self.client_context = server, client

    async def watch(self, client_changed: Callable[[], None]) -> None:
        """Renew the credentials when the files change, until cancelled.

        Folders are watched, because files are replaced, in Kubernetes by a link that changes its target. The files are
        also read from time to time, because not every file system tells of changes.

        Args:
            client_changed: called when the credentials towards the parent have changed.
        """
        from watchfiles import awatch

        while True:
            try:
                async for _ in awatch(
                    *self._folders,
                    watch_filter=None,
                    recursive=False,
                    rust_timeout=int(limits.CERTIFICATES_LOOK_S * 1000),
                    yield_on_timeout=True,
                ):
                    await self._look(client_changed)
            except OSError as error:
                # The folder is gone, or this system cannot watch it.
                self._log.debug("watch_failed", reason=str(error))
                await asyncio.sleep(limits.CERTIFICATES_LOOK_S)
                await self._look(client_changed)

    async def _look(self, client_changed: Callable[[], None]) -> None:
        before = self._certificates
        try:
            now = await asyncio.to_thread(read, self.tls)
        except ConfigError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                self._log.warning("certificates_refused", reason=self._refused)
            return
        self._refused = ""
        if now == before:
            return
        try:
            self._renew_contexts(now)
        except OSError as error:
            # They are replaced at this moment; the next look finds them whole.
            self._log.debug("certificates_changing", reason=str(error))
            return
        self._certificates = now
        ca = now.ca != before.ca
        if self.server is not None and (ca or now.server != before.server):
            self.server.change(now)
            self._log.info("certificates_changed", towards="children")
        if self.client is not None and (ca or now.client != before.client):
            self.client = channel_credentials(now)
            self._log.info("certificates_changed", towards="parent")
            client_changed()
