"""A status page of a node, from its opening to its end."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Self

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.faces.page.looking import Looking
from taskd_net.faces.page.paces import PACES, Paces
from taskd_net.faces.page.recorder import Recorder
from taskd_net.node.node import Node

if TYPE_CHECKING:
    from taskd_net.faces.side_port import PortBounds, SidePort


class StatusPage:
    """The status page of a node of one's own, served in the node's event loop. As a context it is closed at the end.

    Args:
        node: a Mgr or a Proxy that was started; for `bind` alone, one that will be.
        listen: `host:port` for browsers; port 0 takes any free one. Whoever reaches it sees the whole tree: nobody is
            asked who they are, and nothing is encrypted.
        allowed_hosts: host names by which browsers reach it; IP addresses and `localhost` always pass.
        paces: its times, which tests shorten.
        bounds: bounds of its port, the same.
    """

    def __init__(
        self,
        node: Node,
        listen: str = "127.0.0.1:0",
        allowed_hosts: Collection[str] = (),
        *,
        paces: Paces = PACES,
        bounds: PortBounds | None = None,
    ) -> None:
        self._listen = Address.parse(listen, "http_port")
        self._recorder = Recorder(node, paces)
        self._looking = Looking(node, self._recorder.strained, paces)
        self._allowed_hosts = allowed_hosts
        self._bounds = bounds
        self._port: SidePort | None = None
        self.url = ""
        """The URL of the page, once its address is bound."""

    def bind(self) -> None:
        """Bind the address, before the node itself listens. Browsers wait until the context is entered.

        Raises:
            ConfigError: the address cannot be bound, or the extra `page` is not installed.
        """
        try:
            from taskd_net.faces.page.app import PageApp
            from taskd_net.faces.side_port import SidePort
        except ModuleNotFoundError as error:
            text = f"http_port is {self._listen}; a status page needs {error.name}: pip install 'taskd-net[page]'"
            raise ConfigError(text) from None
        app = PageApp(self._looking.answer, self._recorder.answer)
        self._port = SidePort(app, self._listen, "http_port", self._allowed_hosts, self._bounds)
        self.url = f"http://{self._port.address}/"

    def lead_to_metrics(self, listen: Address) -> None:
        """Show where the node's metrics are served, in its details."""
        self._looking.metrics = str(listen)

    def lead_to_documents(self, url: str) -> None:
        """Link to documents in a node's details.

        Args:
            url: address of the site that `make docs` builds.

        Raises:
            ConfigError: it is no address of the web.
        """
        if not re.match(r"https?://[^/\s]", url):
            raise ConfigError(f"docs_url is {shown(url)}; expected http://HOST/PATH or https://HOST/PATH")
        self._looking.documents = url.rstrip("/")

    async def __aenter__(self) -> Self:
        """Open the page.

        Raises:
            ConfigError: as for `bind`, if that was not called.
        """
        if self._port is None:
            self.bind()
        assert self._port is not None
        self._port.serve()
        self._recorder.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the page, whoever is looking. Idempotent."""
        if self._port is not None:
            await self._port.close()
        await self._looking.close()
        await self._recorder.close()
