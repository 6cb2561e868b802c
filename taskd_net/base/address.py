"""Addresses of nodes: `host:port`, with IPv6 hosts in brackets."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import natural, shown


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address. `host` is a name or an IP address without brackets; port 0 (listening only): any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, field: str = "address") -> Address:
        """Read `127.0.0.1:9602`, `node-0:9602` or `[::1]:9602`.

        Raises:
            ConfigError: no port, a port that is not 0-65535, or an IPv6 address without brackets.
        """
        expected = "expected host:port, e.g. 127.0.0.1:9602 or [::1]:9602"
        if not isinstance(text, str):
            raise ConfigError(f"{field} is {shown(text)}; {expected}")
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host:
            raise ConfigError(f"{field} is {shown(text)}; {expected}")
        number, said = natural(port, 65535), f"{field} is {shown(text)}"
        if number is None:
            raise ConfigError(f"{said}: the port {shown(port)} is not a number from 0 to 65535; {expected}")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
            try:
                ipaddress.IPv6Address(host)
            except ValueError as error:
                raise ConfigError(f"{said}: {shown(host)} is not an IPv6 address; {expected}") from error
        elif ":" in host:
            raise ConfigError(f"{said}: an IPv6 address goes in brackets; {expected}")
        elif any(c.isspace() or not c.isprintable() or c in "/[],$()" for c in host):
            raise ConfigError(f"{said}: {shown(host)} is not a host name or an IP address; {expected}")
        return cls(host, number)

    @property
    def is_loopback(self) -> bool:
        """True if only processes of this machine can connect there; of names, `localhost` alone."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
