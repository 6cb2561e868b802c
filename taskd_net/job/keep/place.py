"""The place of a state in etcd, as the setting `state` names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.observe.job_view import ETCD_SCHEME as SCHEME

_EXPECTED: Final = "expected etcd://HOST:PORT[,HOST:PORT…]/PREFIX"
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix in etcd.

    Args:
        members: where etcd's members listen for clients.
        prefix: of all keys, without a slash at either end.
    """

    members: tuple[Address, ...]
    prefix: str

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read `etcd://10.0.0.1:2379,10.0.0.2:2379/taskd/job-7`.

        Raises:
            ConfigError: an address or the prefix is missing or not usable.
        """
        hosts, _, prefix = text.removeprefix(SCHEME).partition("/")
        prefix = prefix.strip("/")
        if not text.startswith(SCHEME) or not hosts:
            raise ConfigError(f"state is {shown(text)}; {_EXPECTED}")
        if not _PREFIX.fullmatch(prefix):
            why = "words of letters, digits and ._- with slashes between"
            raise ConfigError(f"state is {shown(text)}: the prefix is {shown(prefix)}; expected {why}")
        members = tuple(Address.parse(each, "state") for each in hosts.split(","))
        return cls(tuple(dict.fromkeys(members)), prefix)

    def key(self, name: str) -> bytes:
        """The key of a name below the prefix."""
        return f"{self.prefix}/{name}".encode()

    def name(self, key: bytes) -> str:
        """The name of a key below the prefix. A byte of a foreign key that is not UTF-8 stands as `\\xff`."""
        return key.decode(errors="backslashreplace").removeprefix(f"{self.prefix}/")

    def __str__(self) -> str:
        return f"{SCHEME}{','.join(map(str, self.members))}/{self.prefix}"


def is_etcd(state: str | None) -> bool:
    """True where the setting `state` names etcd, and no file."""
    return state is not None and state.startswith(SCHEME)


def end_of(key: bytes) -> bytes:
    """The end of the range of all keys that begin with one: the first key behind them."""
    return key[:-1] + bytes((key[-1] + 1,))
