"""What the documented calls are given, by argument, by a key of `config` or by the environment, checked and converted.

Every function raises `ConfigError` with a text that names the setting, its value and what was expected.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Final

from taskd_net.address import Address
from taskd_net.codes import ConfigError

LOOPBACK: Final = "127.0.0.1"
MGR_PORT: Final = 9601
PROXY_PORT: Final = 9602

Settings = Mapping[str, object]
"""The `config` of a call."""


def checked(config: object) -> Settings:
    """The `config` of a call, if it is one; keys that no call knows are left alone."""
    if not isinstance(config, Mapping):
        raise ConfigError(f"config is {config!r}; expected a dict")
    return config


def whole(value: object, name: str) -> int:
    """A whole number of at least 0, as an int."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{name} is {value!r}; expected a whole number, at least 0")
    return value


def rank(value: object, name: str) -> int:
    """A rank: a whole number of at least 0, as an int or as a text of digits."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value)
    return whole(value, name)


def rank_of_environment(variable: str) -> int:
    """A rank that the launcher has put into the environment."""
    value = os.environ.get(variable)
    if value is None:
        raise ConfigError(f"{variable} is not set; expected a whole number, at least 0, in the environment")
    return rank(value, variable)


def server_rank(config: Settings, *variables: str) -> int:
    """`ServerRank`, or the first of these variables that is set, or 0."""
    if "ServerRank" in config:
        return rank(config["ServerRank"], "ServerRank")
    for variable in variables:
        if os.environ.get(variable):
            return rank_of_environment(variable)
    return 0


def address(config: Settings, end: str, port: int) -> str:
    """`<end>Addr` and `<end>Port` of a config, as `host:port`.

    Args:
        config: where to look; an address that is missing is `127.0.0.1`.
        end: `Upstream` or `Listen`.
        port: the port if it is missing.
    """
    return joined(config.get(f"{end}Addr", LOOPBACK), f"{end}Addr", config.get(f"{end}Port", port), f"{end}Port")


def joined(host: object, host_name: str, port: object, port_name: str) -> str:
    """`host:port` of a host name or an IP address (IPv6 with or without brackets) and a port (a text or an int)."""
    number = int(port) if isinstance(port, str) and port.strip().isascii() and port.strip().isdigit() else port
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 65535:
        raise ConfigError(f"{port_name} is {port!r}; expected a port, 1 to 65535")
    expected = "expected a host name or an IP address, e.g. 127.0.0.1 or ::1"
    if not isinstance(host, str) or not host.strip():
        raise ConfigError(f"{host_name} is {host!r}; {expected}")
    bare = host.strip().removeprefix("[").removesuffix("]")
    if ":" in bare:
        try:
            ipaddress.IPv6Address(bare)
        except ValueError:
            raise ConfigError(f"{host_name} is {host!r}; {expected}") from None
    try:
        return str(Address.parse(str(Address(bare, number))))
    except ConfigError:
        raise ConfigError(f"{host_name} is {host!r}; {expected}") from None
