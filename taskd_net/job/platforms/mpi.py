"""Launchers of MPI, with one process for each node. None of them names the first host.

`OMPI_MCA_*` is set in pods that no `mpirun` has started, and `PMI_*` by every `srun` with the plugin pmi2. Neither is a
sign of MPI by itself.
"""

from __future__ import annotations

from typing import Final

from taskd_net.job.platforms.facts import CROWD, Environment, Said, Seen, count, number, text

RANK: Final = "OMPI_COMM_WORLD_RANK"
SIZE: Final = "OMPI_COMM_WORLD_SIZE"

STARTERS: Final = ("prted", "prterun", "orted", "orterun", "mpirun", "mpiexec", "hydra_pmi_proxy", "pmi_proxy")
"""Beginnings of the names of MPI's programs that start a process: on each node a daemon, or `mpirun` itself."""


def open_mpi(environment: Environment, _host: str) -> Seen | None:
    """A process of Open MPI's `mpirun`."""
    rank, nodes = number(environment, RANK), count(environment, SIZE)
    if rank is None and nodes is None:
        return None
    local, job_id = count(environment, "OMPI_COMM_WORLD_LOCAL_SIZE"), text(environment, "PMIX_NAMESPACE")
    refusal = _crowd(local, "mpirun --map-by ppr:1:node")
    return Seen("Open MPI", rank, nodes, job_id=job_id, refusal=refusal, starters=STARTERS)


def prrte(environment: Environment, _host: str) -> Seen | None:
    """A process of a plain `prterun`, which states no number of processes."""
    if text(environment, "PRTE_LAUNCHED") is None or text(environment, RANK, SIZE) is not None:
        return None
    rank, job_id = number(environment, "PMIX_RANK"), text(environment, "PMIX_NAMESPACE")
    return Seen("prterun", rank, job_id=job_id, starters=STARTERS)


def hydra(environment: Environment, _host: str) -> Seen | None:
    """A process of the `mpiexec` of MPICH or Intel MPI."""
    local = count(environment, "MPI_LOCALNRANKS")
    if local is None:
        return None
    rank, nodes = number(environment, "PMI_RANK"), count(environment, "PMI_SIZE")
    return Seen("MPICH or Intel MPI", rank, nodes, refusal=_crowd(local, "mpiexec -ppn 1"), starters=STARTERS)


def _crowd(local: Said[int] | None, expected: str) -> str:
    if local is None or local.value == 1:
        return ""
    return f"{CROWD}: {local.by} is {local.value}: expected {expected}"
