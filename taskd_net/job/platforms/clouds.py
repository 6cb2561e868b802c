"""Launchers of jobs on clouds: SkyPilot and dstack."""

from __future__ import annotations

from taskd_net.job.platforms.facts import Environment, Said, Seen, count, devices, number, text


def skypilot(environment: Environment, _host: str) -> Seen | None:
    """A node of SkyPilot, which lists the addresses of all nodes, one a line."""
    rank, nodes = number(environment, "SKYPILOT_NODE_RANK"), count(environment, "SKYPILOT_NUM_NODES")
    if rank is None and nodes is None:
        return None
    addresses = text(environment, "SKYPILOT_NODE_IPS")
    return Seen(
        "SkyPilot",
        rank,
        nodes,
        None if addresses is None else Said(addresses.value.split()[0], addresses.by),
        devices(environment, "SKYPILOT_NUM_GPUS_PER_NODE"),
        text(environment, "SKYPILOT_TASK_ID"),
    )


def dstack(environment: Environment, _host: str) -> Seen | None:
    """A node of dstack."""
    rank, nodes = number(environment, "DSTACK_NODE_RANK"), count(environment, "DSTACK_NODES_NUM")
    if rank is None and nodes is None:
        return None
    return Seen(
        "dstack",
        rank,
        nodes,
        text(environment, "DSTACK_MASTER_NODE_IP"),
        devices(environment, "DSTACK_GPUS_PER_NODE"),
        text(environment, "DSTACK_RUN_NAME"),
    )
