"""Slurm. Only the variables of a step say where a process is: those of the allocation are the same in every step.

A heterogeneous job has components, and a step may run in several of them. Its tasks are numbered through, and the size
and the hosts that they see are those of one component. So such a step states nothing.
"""

from __future__ import annotations

from typing import Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import ATTEMPTS_MOST
from taskd_net.base.untrusted import shown
from taskd_net.job.platforms.facts import CROWD, Environment, Said, Seen, count, devices, number, text

JOB: Final = "SLURM_JOB_ID"
STEP: Final = "SLURM_STEP_ID"
TASK: Final = "SLURM_PROCID"
NODE_LIST: Final = "SLURM_STEP_NODELIST"
RESTARTS: Final = "SLURM_RESTART_COUNT"
COMPONENTS: Final = "SLURM_HET_SIZE"

STARTERS: Final = ("slurmstepd",)
"""Beginnings of the names of Slurm's programs that start a task. Debian's is called `slurmstepd-wlm`."""


def step(environment: Environment, _host: str) -> Seen | None:
    """A task of `srun`."""
    job, own = text(environment, JOB), text(environment, STEP)
    if own is None:
        return None
    if (components := _components(environment)) is not None:
        said = f"{components.by} is {components.value}, and a step states no size of all"
        hint = f"{said}: give --nnodes, --node-rank and --master-addr"
        refusal = f"is of a heterogeneous job: {hint}, or --standalone for one node"
        return Seen("Slurm step", hint=hint, refusal=refusal, starters=STARTERS)
    nodes, tasks = count(environment, "SLURM_STEP_NUM_NODES"), count(environment, "SLURM_STEP_NUM_TASKS")
    refusal = ""
    if nodes is not None and tasks is not None and nodes.value != tasks.value:
        said = f"{tasks.by} is {tasks.value}, and {nodes.by} is {nodes.value}"
        refusal = f"{CROWD}: {said}: expected srun --ntasks-per-node=1"
    return Seen(
        "Slurm step",
        number(environment, "SLURM_NODEID"),
        nodes,
        first_name(text(environment, NODE_LIST)),
        devices(environment, "SLURM_GPUS_ON_NODE"),
        None if job is None else Said(f"{job.value}.{own.value}", f"{JOB}.{STEP}"),
        number(environment, RESTARTS, most=ATTEMPTS_MOST) or Said(0, f"no {RESTARTS}"),
        refusal=refusal,
        starters=STARTERS,
    )


def batch(environment: Environment, _host: str) -> Seen | None:
    """A batch script of several nodes outside of `srun`: it runs on the first node only.

    A shell of `salloc` has no task, so it is none.
    """
    if text(environment, JOB) is None or text(environment, STEP) or text(environment, TASK) is None:
        return None
    nodes = _components(environment) or count(environment, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    if nodes is None or nodes.value == 1:
        return None
    hint = f"{nodes.by} is {nodes.value}: start it with srun --ntasks-per-node=1"
    return Seen("Slurm batch script outside of srun", hint=hint, starters=STARTERS)


def _components(environment: Environment) -> Said[int] | None:
    """The components of a heterogeneous job, each with nodes of its own; None for another job."""
    components = number(environment, COMPONENTS)
    return components if components is not None and components.value > 1 else None


def first_name(nodes: Said[str] | None) -> Said[str] | None:
    """The first host of a list such as `n[1-2,7],login`.

    Raises:
        ConfigError: it has another form.
    """
    if nodes is None:
        return None
    name, rest = "", nodes.value
    while rest:
        before, bracket, rest = rest.partition("[")
        plain, comma, _ = before.partition(",")
        name += plain
        if comma or not bracket:
            break
        inside, closed, rest = rest.partition("]")
        name += inside.partition(",")[0].partition("-")[0]
        if not closed:
            raise ConfigError(f"{nodes.by} is {shown(nodes.value)}; expected names of hosts, such as n[1-2]")
    return Said(name, nodes.by) if name else None
