"""Checks and conversions of the values that the documented calls get, from arguments, `config` or the environment.

Every function raises `ConfigError` with a text that names the setting, its value and the expected one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from taskd_net.base import limits, upstreams
from taskd_net.base.address import Address
from taskd_net.base.codes import ArgumentError, ConfigError
from taskd_net.base.job_id import require_job_id
from taskd_net.base.position import RANK_CHARS
from taskd_net.base.schema import Kind
from taskd_net.base.untrusted import natural, shown
from taskd_net.net.tls import files as tls_files
from taskd_net.net.tls.files import Tls
from taskd_net.node import sending

LOOPBACK: Final = "127.0.0.1"
MGR_PORT: Final = 9601
"""TCP port of the Mgr, as with TaskD."""
MGR_PORT_SET: Final = "TASKD_NET_MGR_PORT"
"""Variable with another one, for the Proxies that Agents start."""
PROXY_PORT: Final = 9602
"""TCP port of a Proxy, as with TaskD."""
UPSTREAM_ADDR: Final = "UpstreamAddr"
ENVIRONMENT: Final = "TASKD_NET_"
UPSTREAM: Final = f"{ENVIRONMENT}UPSTREAM"
"""Variable with the Proxy of this node, for its Workers and its Agent."""

NODE_TIMEOUT: Final = f"{ENVIRONMENT}NODE_TIMEOUT"
"""Variable with the seconds for which the nodes of a job wait for one that has not come, or is lost."""

HANG_TIMEOUT: Final = f"{ENVIRONMENT}HANG_TIMEOUT"
"""Variable with the seconds without a mark after which a job counts as hung, for the Manager of a launcher."""

ON_HANG_SET: Final = f"{ENVIRONMENT}ON_HANG"
"""Variable with that Manager's answer to a hang."""

JOB_ID: Final = f"{ENVIRONMENT}JOB_ID"
"""Variable with the id of the job, for all nodes of it."""

IN_PLACE: Final = f"{ENVIRONMENT}IN_PLACE"
"""Variable of a Manager's setting, which an Agent sets for its workers where the Manager says so: `on`."""
AGENT_PID: Final = "TASKD_NET_AGENT_PID"
"""Variable that an Agent sets with it: its pid. A process below it is a worker where this is its parent."""

MGR_PATIENCE: Final = "TASKD_NET_MGR_PATIENCE"
"""Variable that an Agent sets with it where no platform brings a Manager back: seconds for which one may be away."""

_MOST: Final = 10**RANK_CHARS - 1
_SWITCHES: Final = dict.fromkeys(("true", "on", "1", "yes"), True) | dict.fromkeys(("false", "off", "0", "no"), False)

Settings = Mapping[str, object]
"""The `config` of a call."""


def checked(config: object) -> Settings:
    """The `config` of a call, if it is a dict. Unknown keys are ignored, and None is a value that is missing.

    Scripts pass `os.getenv(…)`, which gives None for a variable that is not set. A rank alone stays None, and is
    refused: its default would be the rank of another node.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"config is {shown(config)}; expected a dict")
    return {key: value for key, value in config.items() if value is not None or key == "ServerRank"}


def whole(value: object, name: str) -> int:
    """A whole number of at least 0, as an int."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ConfigError(f"{name} is {shown(value)}; expected a whole number, at least 0")
    return value


def read(text: str, kind: Kind) -> object:
    """The value of a setting in the text of a variable; the text itself where it is none of this kind."""
    found: object = None
    if kind is Kind.WHOLE:
        found = natural(text.strip(), _MOST)
    elif kind is Kind.SWITCH:
        found = _SWITCHES.get(text.strip().lower())
    elif kind is Kind.SECONDS:
        with suppress(ValueError):
            found = float(text)
    return text if found is None else found


def seconds(value: object, name: str) -> float:
    """A number of seconds above 0, at most a day."""
    try:
        number = sending.seconds(str(value) if isinstance(value, bool) else value)
    except ArgumentError:
        raise ConfigError(f"{name} is not a number of seconds, but {shown(value)}") from None
    if number <= 0:
        raise ConfigError(f"{name} is {value!r}; expected a number of seconds above 0")
    return number


def rank(value: object, name: str) -> int:
    """A rank: a whole number of at least 0, as an int or as a text of digits."""
    number = natural(value.strip(), _MOST) if isinstance(value, str) else None
    return whole(value, name) if number is None else number


def rank_of_environment(variable: str) -> int:
    """A rank that the launcher sets in the environment."""
    value = os.environ.get(variable)
    if value is None:
        raise ConfigError(f"{variable} is not set; expected a whole number, at least 0, in the environment")
    return rank(value, variable)


def seconds_of_environment(variable: str, default: float) -> float:
    """A number of seconds of at least 0 from the environment, at most a day."""
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise ConfigError(f"{variable} is {shown(text)}; expected a number of seconds, at least 0")
    return min(value, limits.TIMEOUT_MAX_S)


def mgr_port() -> str:
    """The port of the Mgr in the environment, or that of TaskD."""
    return os.environ.get(MGR_PORT_SET) or str(MGR_PORT)


def job_id() -> str | None:
    """The id of the job in the environment; None where it has none."""
    value = os.environ.get(JOB_ID) or None
    require_job_id(JOB_ID, value)
    return value


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


def upstream(config: Settings) -> str:
    """The Proxy that a leaf connects to: of a config, of `TASKD_NET_UPSTREAM` (several with commas), or the default."""
    if not {"UpstreamAddr", "UpstreamPort"} & config.keys() and (text := os.environ.get(UPSTREAM)):
        return ",".join(map(str, upstreams.parse(text, UPSTREAM)))
    return addresses(config, PROXY_PORT)


def addresses(config: Settings, port: int) -> str:
    """`UpstreamAddr` and `UpstreamPort` of a config; several hosts, with commas, share the port."""
    hosts = config.get(UPSTREAM_ADDR, LOOPBACK)
    if not isinstance(hosts, str) or "," not in hosts:
        return address(config, "Upstream", port)
    found = [address({**config, UPSTREAM_ADDR: host}, "Upstream", port) for host in hosts.split(",")]
    return ",".join(map(str, upstreams.parse(",".join(found), UPSTREAM_ADDR)))


def plain_address(config: Settings, port: int) -> str | None:
    """`PlainListenAddr` and `PlainListenPort` of a config, as `host:port`; None where it has neither."""
    given = "PlainListenAddr" in config or "PlainListenPort" in config
    return address(config, "PlainListen", port) if given else None


def joined(host: object, host_name: str, port: object, port_name: str) -> str:
    """`host:port` of a host name or an IP address (IPv6 with or without brackets) and a port (a text or an int)."""
    number = natural(port.strip(), 65535) if isinstance(port, str) else port
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 65535:
        raise ConfigError(f"{port_name} is {shown(port)}; expected a port, 1 to 65535")
    expected = "expected a host name or an IP address, e.g. 127.0.0.1 or ::1"
    try:
        bare = host.strip().removeprefix("[").removesuffix("]") if isinstance(host, str) else ""
        return str(Address.parse(str(Address(bare, number))))
    except ConfigError:
        raise ConfigError(f"{host_name} is {shown(host)}; {expected}") from None


def secured(config: Settings, *, listens: bool, connects: bool) -> Tls | None:
    """`enable_tls` and `tls_conf` of a config; where it has neither, the environment: `TASKD_NET_ENABLE_TLS`,
    `TASKD_NET_CA`, `TASKD_NET_SERVER_KEY` and so on.

    Args:
        config: where to look.
        listens, connects: which links the node has; files for others are left alone.
    """
    if "enable_tls" in config or "tls_conf" in config:
        files = config.get("tls_conf", {})
        if not isinstance(files, Mapping):
            raise ConfigError(f"tls_conf is {shown(files)}; expected a dict with {', '.join(tls_files.NAMES)}")
        for name, value in files.items():
            if name not in tls_files.NAMES:
                raise ConfigError(f"tls_conf has {shown(name)}; expected {', '.join(tls_files.NAMES)}")
            if value is not None and not isinstance(value, str):
                raise ConfigError(f"{name} is {shown(value)}; expected the path of a file")
        switch = _switch(config.get("enable_tls"), "enable_tls")
        return tls_files.chosen(switch, files, listens=listens, connects=connects)
    said = {name: os.environ.get(f"{ENVIRONMENT}{name.upper()}") for name in tls_files.NAMES}
    enabled = _switch(os.environ.get(f"{ENVIRONMENT}ENABLE_TLS") or None, f"{ENVIRONMENT}ENABLE_TLS")
    return tls_files.chosen(enabled, said, listens=listens, connects=connects)


def _switch(value: object, name: str) -> bool | None:
    """True or False, also as a text, or None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and (text := value.strip().lower()) in _SWITCHES:
        return _SWITCHES[text]
    raise ConfigError(f"{name} is {shown(value)}; expected True or False")
