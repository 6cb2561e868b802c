"""Kubernetes' indexed Job, also as a part of a JobSet. Its pods know their index, and not the number of pods.

The index is the rank of a node within its Job. The Jobs of one JobSet repeat each index. A host name that ends in two
numbers, such as `train-node-1-0`, may be of such a further Job. Its first host is that of another Job, so it is
unknown.
"""

from __future__ import annotations

import re
from typing import Final

from taskd_net.job.platforms.facts import HOST_NAME, Environment, Said, Seen, number

INDEX: Final = "JOB_COMPLETION_INDEX"

_FURTHER: Final = re.compile(r".*-0*[1-9][0-9]*")
"""Name of a JobSet's Job whose index is not 0."""


def indexed_job(environment: Environment, host: str) -> Seen | None:
    """A pod of an indexed Job. `host` has the domain of the pod where its Service gives one."""
    rank = number(environment, INDEX)
    if rank is None:
        return None
    return Seen("Kubernetes indexed Job", rank, first_host=_first_host(host, rank.value))


def _first_host(host: str, index: int) -> Said[str] | None:
    """The name of the pod with index 0. A name without a domain is unknown to other pods."""
    own, _, domain = host.partition(".")
    job, _, last = own.rpartition("-")
    if not domain or last != str(index) or _FURTHER.fullmatch(job):
        return None
    return Said(f"{job}-0.{domain}", HOST_NAME)
