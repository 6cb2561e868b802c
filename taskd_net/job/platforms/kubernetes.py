"""Kubernetes' indexed Job, also as a part of a JobSet. Its pods know their index, and not the number of pods.

The index is the rank of a node within its Job. The Jobs of one JobSet repeat each index. A host name that ends in two
numbers, such as `train-node-1-0`, may be of such a further Job, or of a plain Job `train-node-1`. Nothing tells them
apart, so neither the rank nor the first host is known there.
"""

from __future__ import annotations

import re
from typing import Final

from taskd_net.base.untrusted import shown
from taskd_net.job.platforms.facts import HOST_NAME, Environment, Said, Seen, number

INDEX: Final = "JOB_COMPLETION_INDEX"
NAME: Final = "Kubernetes indexed Job"

_FURTHER: Final = re.compile(r".*-0*[1-9][0-9]*")
"""Name of a JobSet's Job whose index is not 0."""


def indexed_job(environment: Environment, host: str) -> Seen | None:
    """A pod of an indexed Job. `host` has the domain of the pod where its Service gives one."""
    rank = number(environment, INDEX)
    if rank is None:
        return None
    own, _, domain = host.partition(".")
    job, _, last = own.rpartition("-")
    if last != str(rank.value):
        return Seen(NAME, rank)
    if _FURTHER.fullmatch(job):
        why = f"{rank.by} is {rank.value} within its Job, and by the host name {shown(own)} a JobSet may have several"
        return Seen(NAME, rank, doubt=why)
    # A name without a domain is unknown to other pods.
    return Seen(NAME, rank, first_host=Said(f"{job}-0.{domain}", HOST_NAME) if domain else None)
