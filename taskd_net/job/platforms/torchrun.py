"""torchrun's own variables, `PET_*`: Kubeflow's Trainer and PyTorchJob set them; and those of the Trainer for JAX.

PyTorchJob sets them in three forms. With a Master each pod has its rank. Without one, the rank is in the host name
only. An elastic job has a rendezvous and no ranks at all. Its `RANK` is a node's rank and its `WORLD_SIZE` may be the
number of nodes or of processes, so neither is read.
"""

from __future__ import annotations

import re
from typing import Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import job_id_of
from taskd_net.base.untrusted import natural, shown
from taskd_net.job.platforms.facts import HOST_NAME, NODES_MOST, Environment, Said, Seen, count, number, text

NODES: Final = "PET_NNODES"
RANK: Final = "PET_NODE_RANK"
ENDPOINT: Final = "PET_RDZV_ENDPOINT"
PROCESSES: Final = "PET_NPROC_PER_NODE"

_WORKER: Final = re.compile(r"(?P<job>.+)-worker-(?P<number>[0-9]+)")
"""Name of a PyTorchJob's host."""


def torchrun(environment: Environment, host: str) -> Seen | None:
    """Kubeflow's Trainer, a PyTorchJob, or a user who has set torchrun's variables."""
    rank, nodes = number(environment, RANK), _nodes(environment)
    processes = text(environment, PROCESSES)
    first_host = text(environment, "PET_MASTER_ADDR")
    endpoint = text(environment, ENDPOINT)
    backend = text(environment, "PET_RDZV_BACKEND")
    if rank is None and endpoint is not None and backend is not None and backend.value != "static":
        job_id = text(environment, "PET_RDZV_ID")
        job_id = job_id if job_id is not None and job_id_of(job_id.value) else None
        name = "torchrun's environment with a rendezvous"
        first_host = Said(endpoint.value.rpartition(":")[0] or endpoint.value, ENDPOINT)
        return Seen(name, None, nodes, first_host, processes, job_id, endpoint=endpoint.value)
    if rank is None and nodes is None:
        return None
    short = host.partition(".")[0]
    if rank is None and first_host is None and (worker := _WORKER.fullmatch(short)):
        return Seen(
            "PyTorchJob without a Master",
            _rank(worker["number"]),
            nodes,
            Said(f"{worker['job']}-worker-0", HOST_NAME),
            processes,
        )
    return Seen("torchrun's environment", rank, nodes, first_host, processes)


def jax(environment: Environment, _host: str) -> Seen | None:
    """Kubeflow's Trainer with the policy for JAX."""
    rank, nodes = number(environment, "JAX_PROCESS_ID"), count(environment, "JAX_NUM_PROCESSES")
    if rank is None and nodes is None:
        return None
    address = text(environment, "JAX_COORDINATOR_ADDRESS")
    first_host = None if address is None else Said(address.value.rpartition(":")[0] or address.value, address.by)
    return Seen("Kubeflow Trainer for JAX", rank, nodes, first_host)


def greatest(nodes: str) -> int | None:
    """The number of nodes in `N` or `MIN:MAX`: the greatest one. None for another form."""
    least, colon, most = nodes.partition(":")
    numbers = [natural(each.strip(), NODES_MOST) for each in ((least, most) if colon else (nodes,))]
    if any(not each for each in numbers) or (numbers[0] or 0) > (numbers[-1] or 0):
        return None
    return numbers[-1]


def _nodes(environment: Environment) -> Said[int] | None:
    said = text(environment, NODES)
    if said is None:
        return None
    nodes = greatest(said.value)
    if nodes is None:
        expected = f"expected a number of nodes, 1 to {NODES_MOST}, such as 2"
        raise ConfigError(f"{NODES} is {shown(said.value)}; {expected}")
    return Said(nodes, NODES)


def _rank(digits: str) -> Said[int] | None:
    value = natural(digits, NODES_MOST)
    return None if value is None else Said(value, HOST_NAME)
