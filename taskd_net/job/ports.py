"""Ports of a job that has an id: of two jobs on one machine, each has its own.

`taskd-net run` starts all nodes of a job, and each of them knows the id. So the ports follow from it, and nothing
has to be told. A job without an id has the Mgr's port and the Proxy's, as with TaskD.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from taskd_net.job.arguments import MGR_PORT, PROXY_PORT

FIRST_PORT: Final = 20_000
"""The lowest of these ports."""

PAIRS: Final = 4_096
"""Pairs of ports, 20000 to 28191: below torch's 29500, and those that Kubernetes (30000) and Linux (32768) give out. Of
4,096 pairs of jobs, one pair has the same ports by chance. The second job is refused, and `--mgr-port` helps."""


class Ports(NamedTuple):
    """The ports of a job.

    Attributes:
        mgr: of its Mgr.
        proxy: of the Proxy on each node.
    """

    mgr: int
    proxy: int


def ports_of(job_id: str) -> Ports:
    """The ports of a job; those of TaskD for an empty id."""
    if not job_id:
        return Ports(MGR_PORT, PROXY_PORT)
    number = int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:8]) % PAIRS
    return Ports(FIRST_PORT + 2 * number, FIRST_PORT + 2 * number + 1)
