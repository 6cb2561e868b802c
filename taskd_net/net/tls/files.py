"""The settings of mutual TLS: files, and the links of a node that use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from typing import Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.schema import ASKING, DAEMONS, JOINING, Group, Kind, Reload, setting

_file: Final = partial(setting, Kind.FILE, None, unset="none", reload=Reload.WATCHED, group=Group.TLS)
_CLIENTS: Final = ("proxy", *JOINING, *ASKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The files of mutual TLS, in PEM. Both ends of a link show a certificate, and each checks the other's.

    With `server_key` and `server_crt` a node accepts TLS alone where it listens. With `client_key` and `client_crt` it
    uses TLS towards its parent. A Proxy may have either pair or both. The files are read when the node starts and when
    they change. Links then move to a new connection without losing a message.

    Args:
        ca: PEM file with the certificates of the mesh's signers. A certificate of any other signer is refused.
        server_key: PEM file with the key for children, which only the owner and the group may open. With it `listen`
            accepts nothing but TLS and a certificate.
        server_crt: PEM file with the certificate for children, followed by those of intermediate CAs. It names the
            address that children connect to.
        client_key: PEM file with the key for the parent. With it this node speaks TLS to its parent.
        client_crt: PEM file with the certificate for the parent.
        server_name: Name in the parent's certificate. Needed where the certificate does not name the address of the
            parent.

    Raises:
        ConfigError: names the field, its value and what was expected.
    """

    ca: str = setting(
        Kind.FILE,
        MISSING,
        unset="none",
        reload=Reload.WATCHED,
        group=Group.TLS,
        matters=True,
        of=(*DAEMONS, *JOINING, *ASKING),
    )
    server_key: str | None = _file(matters=True)
    server_crt: str | None = _file(matters=True)
    client_key: str | None = _file(matters=True, of=_CLIENTS)
    client_crt: str | None = _file(matters=True, of=_CLIENTS)
    server_name: str | None = setting(Kind.TEXT, None, unset="the host of --upstream", group=Group.TLS, of=_CLIENTS)

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Check that keys, certificates and CA are given together. The files are read when a node starts.

        Raises:
            ConfigError: names the field, its value and what was expected.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name != "ca":
                continue
            if not isinstance(value, str) or not value.strip():
                expected = "a name" if field.name == "server_name" else "the path of a file"
                raise ConfigError(f"{field.name} is {value!r}; expected {expected}")
        for key, crt in (("server_key", "server_crt"), ("client_key", "client_crt")):
            for missing, given in ((key, crt), (crt, key)):
                if getattr(self, missing) is None and getattr(self, given) is not None:
                    raise ConfigError(f"{missing} is missing; it belongs to {given}, {getattr(self, given)!r}")
        if not self.listens and not self.connects:
            raise ConfigError("server_key and client_key are missing; expected at least one, with its certificate")

    @property
    def listens(self) -> bool:
        """True if children use TLS."""
        return self.server_key is not None

    @property
    def connects(self) -> bool:
        """True if the node uses TLS towards its parent."""
        return self.client_key is not None


FILES: Final = ("ca", "server_key", "server_crt", "client_key", "client_crt")
"""The fields that name a file."""

NAMES: Final = (*FILES, "server_name")
"""All fields."""


def chosen(enabled: bool | None, said: Mapping[str, str | None], *, listens: bool, connects: bool) -> Tls | None:
    """The TLS of a node, from a switch and from files that may be for other nodes as well.

    Args:
        enabled: the switch. None turns TLS on where files are named, so that a forgotten switch never leads to plain
            text.
        said: the fields of `Tls` that have a value.
        listens, connects: the links that the node has; files for other links are ignored.

    Raises:
        ConfigError: it is on, and files for the links of this node are missing.
    """
    own = (("server_key", "server_crt") if listens else ()) + (("client_key", "client_crt") if connects else ())
    given = {name: said.get(name) for name in own if said.get(name)}
    ca = said.get("ca")
    if enabled is False or not (enabled or given or ca):
        return None
    if not given:
        why = "enable_tls is on" if enabled else f"ca is {ca!r}"
        raise ConfigError(f"{own[0]} is missing; {why}, so expected {' and '.join(own)}, or enable_tls off")
    if not ca:
        raise ConfigError(f"ca is missing; it belongs to {next(iter(given))}, {next(iter(given.values()))!r}")
    name = said.get("server_name") if "client_key" in given else None
    return Tls(ca=ca, **given, server_name=name)
