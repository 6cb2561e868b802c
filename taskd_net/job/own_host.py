"""The name of this host as other nodes know it: with the domain that a pod has in its own `/etc/hosts`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from taskd_net.base.bounded_file import read_file

HOSTS: Final = Path("/etc/hosts")
_BYTES: Final = 1_048_576
_READ_S: Final = 2.0


def own_name() -> str:
    """The name of this host, with its domain where `/etc/hosts` has it. No name server is asked: it may be slow."""
    name = socket.gethostname()
    try:
        hosts = read_file(HOSTS, _BYTES, _READ_S, regular=True).data.decode()
    except (OSError, ValueError):  # a container without one
        return name
    return full_name(name, hosts)


def full_name(name: str, hosts: str) -> str:
    """The name with the domain that it has in the text of a file such as `/etc/hosts`; the name where it has none."""
    for line in hosts.splitlines():
        names = line.partition("#")[0].split()[1:]
        if name in names:
            for each in names:
                if each.startswith(f"{name}."):
                    return each
    return name
