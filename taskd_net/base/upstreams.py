"""The addresses of a node's parent: one, or several that are tried in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown

UPSTREAMS: Final = 8
"""Addresses of a node's parent. Each costs a round at least one attempt."""


def parse(text: str, field: str = "upstream") -> tuple[Address, ...]:
    """Read `node-0:9601`, or several with commas: `node-0:9601,[::1]:9601`.

    Args:
        text: the addresses, in the order of preference. Spaces around one are ignored.
        field: name of the setting, for the error.

    Raises:
        ConfigError: an address is empty, wrong, with port 0 or there twice, or there are too many.
    """
    parts = text.split(",")
    if len(parts) > UPSTREAMS:
        raise ConfigError(f"{field} has {len(parts)} addresses; expected at most {UPSTREAMS}")
    found: list[Address] = []
    for part in parts:
        if len(parts) > 1 and not part.strip():
            raise ConfigError(f"{field} is {shown(text)}: an address is empty; expected host:port,host:port")
        address = Address.parse(part, field)
        if address.port == 0:
            raise ConfigError(f"{field} is {shown(part)}: port 0 is not a port to connect to")
        if address in found:
            raise ConfigError(f"{field} is {shown(text)}: {address} is there twice; expected each address once")
        found.append(address)
    return tuple(found)


class Rounds:
    """The order of the attempts at several addresses: each once in a round, and a pause between rounds alone.

    Args:
        count: number of addresses, at least 1. They are named by their index.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._left = list(range(count))

    @property
    def current(self) -> int:
        """The address to try, or the one in use."""
        return self._left[0]

    def failed(self) -> bool:
        """The attempt at the current address has failed. Returns whether the round ended with it."""
        if len(self._left) > 1:
            self._left.pop(0)
            return False
        self._left = list(range(self._count))
        return True

    def begin(self, first: Sequence[int] = (), last: int | None = None) -> None:
        """Begin a round.

        Args:
            first: addresses to try before the others, in this order.
            last: the address to try after the others; None for none.
        """
        order = [*first, *(each for each in range(self._count) if each not in first)]
        self._left = [each for each in order if each != last] + [each for each in order if each == last]
