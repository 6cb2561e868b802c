"""Two machines made of network namespaces, with a link that can go down or lose packets one way.

The relay stands in for a network where namespaces are not available. Here the kernel's own TCP meets a dead link: no
answer to a connection's first packet, and retransmissions with growing pauses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType
from typing import Final, Self

_HOSTS: Final = ("10.211.37.1", "10.211.37.2")
# A locally administered address without an owner: packets to it are lost.
_NOBODY: Final = "02:00:00:00:00:99"


class Machines:
    """Two machines, which exist within the context."""

    def __init__(self) -> None:
        self._names = tuple(f"tn{os.getpid()}{letter}" for letter in "ab")

    def __enter__(self) -> Self:
        a, b = self._names
        try:
            for name in self._names:
                _ip("netns", "add", name)
            _ip("-n", a, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", b)
            for name, host in zip(self._names, _HOSTS, strict=True):
                _ip("-n", name, "addr", "add", f"{host}/24", "dev", "veth0")
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "link", "set", "veth0", "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the machines and their link."""
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def host(self, machine: int) -> str:
        """The address of a machine."""
        return _HOSTS[machine]

    def wrapper(self, machine: int) -> tuple[str, ...]:
        """The command that runs another one there, by exec, so that signals reach it."""
        return ("ip", "netns", "exec", self._names[machine])

    def link(self, *, up: bool) -> None:
        """Set the link up or down."""
        _ip("-n", self._names[0], "link", "set", "veth0", "up" if up else "down")

    def drop_packets(self, machine: int) -> None:
        """Lose the packets from this machine to the other one, and not those back."""
        other = _HOSTS[1 - machine]
        _ip(
            *("-n", self._names[machine], "neigh", "replace", other),
            *("lladdr", _NOBODY, "dev", "veth0", "nud", "permanent"),
        )

    def pass_packets(self, machine: int) -> None:
        """Undo `drop_packets`."""
        _ip("-n", self._names[machine], "neigh", "del", _HOSTS[1 - machine], "dev", "veth0")


def why_not() -> str:
    """The reason why namespaces are not available here; empty if they are."""
    if shutil.which("ip") is None:
        return "the command `ip` (iproute2) is not installed"
    try:
        with Machines():
            return ""
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted here: {error.stderr.decode().strip()}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
