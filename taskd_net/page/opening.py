"""A status page of a node, from its opening to its end."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Self

from taskd_net import limits
from taskd_net.address import Address
from taskd_net.codes import ConfigError
from taskd_net.node import Node
from taskd_net.page.looking import Looking

if TYPE_CHECKING:
    from taskd_net.page.serving import Serving


class StatusPage:
    """The status page of a node of one's own, served in the node's event loop. As a context it is closed at the end.

    Args:
        node: a Mgr or a Proxy that was started.
        listen: `host:port` for browsers; port 0 takes any free one. Whoever reaches it sees the whole tree: nobody is
            asked who they are, and nothing is encrypted.
    """

    def __init__(self, node: Node, listen: str = "127.0.0.1:0") -> None:
        self._listen = Address.parse(listen, "http_port")
        self._looking = Looking(node)
        self._serving: Serving | None = None
        self.url = ""
        """The URL of the page, once it is open."""

    async def __aenter__(self) -> Self:
        """Open the page.

        Raises:
            ConfigError: the address cannot be bound, or the extra `page` is not installed.
        """
        try:
            from taskd_net.page.app import PageApp
            from taskd_net.page.serving import Serving
        except ModuleNotFoundError as error:
            text = f"http_port is {self._listen}; a status page needs {error.name}: pip install 'taskd-net[page]'"
            raise ConfigError(text) from None
        listening = self._bind()
        host, port = listening.getsockname()[:2]
        self.url = f"http://{Address(host, port)}/"
        self._serving = Serving(PageApp(self._looking.answer), listening)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the page, whoever is looking."""
        if self._serving is not None:
            await self._serving.close()
        await self._looking.close()

    def _bind(self) -> socket.socket:
        address = self._listen
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, name = found[0]
            listening = socket.socket(family, kind, protocol)
        except OSError as error:
            raise ConfigError(f"http_port is {address}; cannot listen there: {error.strerror}") from None
        except UnicodeError as error:  # a name that DNS cannot have
            raise ConfigError(f"http_port is {address}; cannot listen there: {error}") from None
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(name)
            # From here on nobody is refused, also before the server has its first turn.
            listening.listen(limits.PAGE_CONNECTIONS)
        except OSError as error:
            listening.close()
            raise ConfigError(f"http_port is {address}; cannot listen there: {error.strerror}") from None
        return listening
