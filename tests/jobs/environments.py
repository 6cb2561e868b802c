"""Environments of nodes, as platforms really set them: what a node's launcher needs, and what leads it astray.

Each function takes the number of nodes and the rank of a node, and returns the environment and the name of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Environment = dict[str, str]
Node = tuple[Environment, str]
DOMAIN: Final = "train.default.svc.cluster.local"


def slurm(nodes: int, rank: int) -> Node:
    """A task of `srun` on the last nodes of a larger allocation, after two requeues."""
    listed = f"n[2-{1 + nodes}]" if nodes > 1 else "n2"
    allocation = {
        "SLURM_JOB_ID": "41",
        "SLURM_JOB_NUM_NODES": str(nodes + 1),
        "SLURM_NNODES": str(nodes + 1),
        "SLURM_JOB_NODELIST": f"n[1-{1 + nodes}]",
        "SLURM_NODELIST": f"n[1-{1 + nodes}]",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_RESTART_COUNT": "2",
    }
    step = {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_NUM_TASKS": str(nodes),
        "SLURM_STEP_NODELIST": listed,
        "SLURM_NODEID": str(rank),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": "0",
        # The plugin pmi2 sets these for any program.
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(nodes),
    }
    return {**allocation, **step}, f"n{2 + rank}"


def salloc() -> Environment:
    """A shell of `salloc` for two nodes: it is no task."""
    return {"SLURM_JOB_ID": "4", "SLURM_NNODES": "2", "SLURM_NTASKS": "2", "SLURM_JOB_NAME": "interactive"}


def srun_pty() -> Environment:
    """The shell of `srun -N1 --pty` in one of `salloc`: a step of one node."""
    step = {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_NUM_TASKS": "1",
        "SLURM_STEP_NODELIST": "n2",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    return {**salloc(), **step}


def heterogeneous(rank: int) -> Node:
    """A task of `srun --het-group=0,1`, with one node in the first component and two in the second.

    Nodes and tasks are numbered through both, and the size and the hosts are those of its component.
    """
    own, hosts = ("1", "n1") if rank == 0 else ("2", "n[2-3]")
    step = {
        "SLURM_JOB_ID": "41",
        "SLURM_HET_SIZE": "2",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_NODES": own,
        "SLURM_STEP_NUM_TASKS": own,
        "SLURM_STEP_NODELIST": hosts,
        "SLURM_NODEID": str(rank),
        "SLURM_PROCID": str(rank),
    }
    return step, f"n{1 + rank}"


def indexed_job(nodes: int, rank: int) -> Node:
    """A pod of an indexed Job or a JobSet, which does not know the number of pods."""
    del nodes
    return {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "JOB_COMPLETION_INDEX": str(rank)}, f"train-node-0-{rank}.{DOMAIN}"


def jobset(nodes: int, rank: int) -> Node:
    """A pod of a JobSet whose manifest gives the number of nodes."""
    environment, host = indexed_job(nodes, rank)
    return {**environment, "TASKD_NET_NNODES": str(nodes)}, host


def jobset_of_jobs(nodes: int, rank: int) -> Node:
    """A pod of a JobSet with two nodes in each Job, whose manifest gives everything."""
    job, index = divmod(rank, 2)
    own = {
        "JOB_COMPLETION_INDEX": str(index),
        "TASKD_NET_NNODES": str(nodes),
        "TASKD_NET_NODE_RANK": str(rank),
        "TASKD_NET_MASTER_ADDR": "train-node-0-0.train",
    }
    return own, f"train-node-{job}-{index}.{DOMAIN}"


def trainer(nodes: int, rank: int) -> Node:
    """A pod of Kubeflow's Trainer with the policy for torch."""
    environment, host = indexed_job(nodes, rank)
    torchrun = {
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": "train-node-0-0.train",
        "PET_MASTER_PORT": "29500",
        "PET_NPROC_PER_NODE": "2",
    }
    return {**environment, **torchrun}, host


def jax(nodes: int, rank: int) -> Node:
    """A pod of Kubeflow's Trainer with the policy for JAX."""
    environment, host = indexed_job(nodes, rank)
    own = {"JAX_PROCESS_ID": str(rank), "JAX_NUM_PROCESSES": str(nodes)}
    return {**environment, **own, "JAX_COORDINATOR_ADDRESS": "train-node-0-0.train:29500"}, host


def pytorchjob(nodes: int, rank: int) -> Node:
    """A pod of a PyTorchJob with a Master. Its WORLD_SIZE is that of all processes."""
    own = {
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": "train-master-0",
        "PET_MASTER_PORT": "23456",
        "PET_NPROC_PER_NODE": "4",
        "MASTER_ADDR": "train-master-0",
        "MASTER_PORT": "23456",
        "RANK": str(rank),
        "WORLD_SIZE": str(4 * nodes),
    }
    return own, "train-master-0" if rank == 0 else f"train-worker-{rank - 1}"


def pytorchjob_workers(nodes: int, rank: int) -> Node:
    """A pod of a PyTorchJob without a Master and without an elastic policy."""
    return {"PET_NNODES": str(nodes), "PET_NPROC_PER_NODE": "4"}, f"train-worker-{rank}"


def pytorchjob_elastic(nodes: int, rank: int) -> Node:
    """A pod of an elastic PyTorchJob."""
    own = {
        "PET_NNODES": f"1:{nodes}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "train-worker-0:23456",
        "PET_NPROC_PER_NODE": "4",
        "PET_MAX_RESTARTS": "10",
        "PET_STANDALONE": "",
    }
    return own, f"train-worker-{rank}"


def volcano(nodes: int, rank: int) -> Node:
    """A pod of a Volcano job with one task, by the plugins env and svc."""
    hosts = [f"train-worker-{number}.train" for number in range(nodes)]
    own = {"VC_TASK_INDEX": str(rank), "VK_TASK_INDEX": str(rank), "VC_WORKER_NUM": str(nodes)}
    return {**own, "VC_WORKER_HOSTS": ",".join(hosts)}, f"train-worker-{rank}"


def volcano_tasks(nodes: int, rank: int) -> Node:
    """A pod of a Volcano job with a master and workers: index 0 comes twice."""
    hosts = [f"train-worker-{number}.train" for number in range(nodes - 1)]
    index = "0" if rank == 0 else str(rank - 1)
    own = {
        "VC_TASK_INDEX": index,
        "VK_TASK_INDEX": index,
        "VC_MASTER_NUM": "1",
        "VC_MASTER_HOSTS": "train-master-0.train",
    }
    if nodes > 1:
        own |= {"VC_WORKER_NUM": str(nodes - 1), "VC_WORKER_HOSTS": ",".join(hosts)}
    return own, "train-master-0" if rank == 0 else f"train-worker-{rank - 1}"


def volcano_pytorch(nodes: int, rank: int) -> Node:
    """A pod of a Volcano job with the plugin pytorch. Its WORLD_SIZE is the number of pods."""
    own, host = volcano_tasks(nodes, rank)
    named = {"MASTER_ADDR": "train-master-0.train", "MASTER_PORT": "23456", "RANK": str(rank), "WORLD_SIZE": str(nodes)}
    return {**own, **named}, host


def volcano_pytorch_named(nodes: int, rank: int) -> Node:
    """A pod of a Volcano job with the plugin pytorch, whose arguments are `--master=chief --worker=actor`."""
    environment, host = volcano_pytorch(nodes, rank)
    named = {
        name.replace("MASTER_NUM", "CHIEF_NUM").replace("MASTER_HOSTS", "CHIEF_HOSTS").replace("WORKER", "ACTOR"): (
            value.replace("-master-", "-chief-").replace("-worker-", "-actor-")
        )
        for name, value in environment.items()
    }
    return named, host.replace("-master-", "-chief-").replace("-worker-", "-actor-")


def without_index(node: Node) -> Node:
    """The pod of Volcano without the plugin env."""
    environment, host = node
    return {name: value for name, value in environment.items() if "_INDEX" not in name}, host


def volcano_svc(nodes: int, rank: int) -> Node:
    """A pod of Volcano with the plugin svc alone."""
    return without_index(volcano_tasks(nodes, rank))


def volcano_pytorch_alone(nodes: int, rank: int) -> Node:
    """A pod of Volcano with the plugin pytorch alone, which brings svc with it."""
    return without_index(volcano_pytorch(nodes, rank))


def open_mpi(nodes: int, rank: int) -> Node:
    """A process of Open MPI's mpirun, with the first host in MASTER_ADDR."""
    own = {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(nodes),
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_NODE_RANK": "0",
        "PMIX_NAMESPACE": "prterun-head-712@1",
        "PMIX_RANK": str(rank),
        "PRTE_LAUNCHED": "1",
        "MASTER_ADDR": "n1",
    }
    return own, f"n{1 + rank}"


def mpirun_in_a_job(nodes: int, rank: int) -> Node:
    """A process of Open MPI's mpirun in a batch script of Slurm: the step of MPI's daemons is on the other nodes."""
    environment, host = open_mpi(nodes, rank)
    job = {"SLURM_JOB_ID": "41", "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NODEID": "0", "SLURM_PROCID": "0"}
    if rank:
        job |= {
            "SLURM_STEP_ID": "0",
            "SLURM_STEP_NUM_NODES": str(nodes - 1),
            "SLURM_STEP_NUM_TASKS": str(nodes - 1),
            "SLURM_STEP_NODELIST": f"n[2-{nodes}]" if nodes > 2 else "n2",
            "SLURM_NODEID": str(rank - 1),
            "SLURM_PROCID": str(rank - 1),
        }
    return {**environment, **job}, host


def hydra(nodes: int, rank: int) -> Node:
    """A process of MPICH's mpiexec, with the first host in MASTER_ADDR."""
    own = {"PMI_RANK": str(rank), "PMI_SIZE": str(nodes), "MPI_LOCALNRANKS": "1", "PMI_HOSTNAME": f"n{1 + rank}"}
    return {**own, "MASTER_ADDR": "n1"}, f"n{1 + rank}"


def skypilot(nodes: int, rank: int) -> Node:
    """A node of SkyPilot."""
    own = {
        "SKYPILOT_NODE_RANK": str(rank),
        "SKYPILOT_NUM_NODES": str(nodes),
        "SKYPILOT_NODE_IPS": "\n".join(f"10.0.0.{5 + number}" for number in range(nodes)),
        "SKYPILOT_NUM_GPUS_PER_NODE": "8",
        "SKYPILOT_TASK_ID": "sky-managed-2026-11-01_train-0",
    }
    return own, f"head-{rank}"


def dstack(nodes: int, rank: int) -> Node:
    """A node of dstack without GPUs."""
    own = {
        "DSTACK_NODE_RANK": str(rank),
        "DSTACK_NODES_NUM": str(nodes),
        "DSTACK_MASTER_NODE_IP": "10.0.0.5",
        "DSTACK_GPUS_PER_NODE": "0",
        "DSTACK_RUN_NAME": "quick-fox-1",
    }
    return own, f"node-{rank}"


def variables(nodes: int, rank: int) -> Node:
    """A node whose manifest gives everything."""
    own = {
        "TASKD_NET_NNODES": str(nodes),
        "TASKD_NET_NODE_RANK": str(rank),
        "TASKD_NET_MASTER_ADDR": "first",
        "TASKD_NET_ATTEMPT": "3",
    }
    return own, f"any-{rank}"


COMPLETE: Final[dict[str, Callable[[int, int], Node]]] = {
    make.__name__: make
    for make in (
        slurm,
        jobset,
        trainer,
        jax,
        pytorchjob,
        pytorchjob_workers,
        pytorchjob_elastic,
        volcano,
        volcano_tasks,
        volcano_pytorch,
        volcano_pytorch_named,
        open_mpi,
        hydra,
        skypilot,
        dstack,
        variables,
    )
}
"""Environments from which a node can start, by name."""
