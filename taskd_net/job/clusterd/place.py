"""The address of ClusterD, as the platform's variables say it. The settings of a Manager read it, without gRPC."""

from __future__ import annotations

import os
from typing import Final

from taskd_net.base.address import Address

PORT: Final = 8899
"""TCP port of ClusterD."""

VARIABLE: Final = "TASKD_NET_CLUSTERD_ADDR"


def at_clusterd(host: str) -> str | None:
    """The address of ClusterD on a host, at its own port; None for an empty text."""
    return str(Address(host.strip("[]"), PORT)) if host else None


def _local(text: str) -> str | None:
    return at_clusterd("127.0.0.1") if text == "on" else None


CLUSTERD_VARIABLES: Final = {
    "LOCAL_PROXY_ENABLE": _local,
    "MINDX_SERVER_IP": at_clusterd,
    "MINDX_SERVER_DOMAIN": at_clusterd,
}
"""TaskD's variables with the address of ClusterD, in order."""


def clusterd_of_environment() -> str | None:
    """The address of ClusterD in the environment; None where nobody says it."""
    for variable, read in ({VARIABLE: str} | CLUSTERD_VARIABLES).items():
        if (text := os.environ.get(variable)) and (found := read(text)) is not None:
            return found
    return None
