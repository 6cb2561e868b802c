"""Facts of a node as a platform states them, each with the name of its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import natural, shown

T = TypeVar("T")

CROWD: Final = "starts several launchers on a node"
"""Beginning of a refusal."""

NODES_MOST: Final = 65_536
"""Nodes of a job, as many as a Manager keeps records of."""

HOST_NAME: Final = "the host name"
"""Source of a fact that the name of this host has."""


class Said(NamedTuple, Generic[T]):
    """A fact and its source.

    Args:
        value: of the fact.
        by: name of the variable, the flag, or what else states it.
    """

    value: T
    by: str


@dataclass(frozen=True)
class Seen:
    """A platform that has started this launcher, and the facts that it states. None for a fact that it lacks.

    Args:
        name: of the platform.
        rank: of this node.
        nodes: number of nodes.
        first_host: of the node with rank 0.
        processes: of each node, as a text for `--nproc-per-node`.
        job_id: of the job, the same on all nodes.
        attempt: number of the job's start.
        endpoint: for `--rdzv-endpoint`: the Manager gives ranks in the order of arrival.
        doubt: reason why other nodes may have this rank, too, so that it counts as missing; empty for none.
        refusal: what the name of the platform begins, and what stops a start without a stated rank; empty for none.
        hint: what to do where facts lack, in place of a list of flags.
        starters: beginnings of the names of its programs that start launchers.
    """

    name: str
    rank: Said[int] | None = None
    nodes: Said[int] | None = None
    first_host: Said[str] | None = None
    processes: Said[str] | None = None
    job_id: Said[str] | None = None
    attempt: Said[int] | None = None
    endpoint: str = ""
    doubt: str = ""
    refusal: str = ""
    hint: str = ""
    starters: tuple[str, ...] = ()


Environment = Mapping[str, str]
"""Variables by name."""

Read = Callable[[Environment, str], Seen | None]
"""Read an environment and the name of this host; None for another platform.

Raises ConfigError for a variable of the platform that has no value of its kind.
"""


def text(environment: Environment, *names: str) -> Said[str] | None:
    """The first of these variables that has a text. An empty variable counts as missing."""
    for name in names:
        if value := environment.get(name, "").strip():
            return Said(value, name)
    return None


def number(environment: Environment, *names: str, most: int = NODES_MOST) -> Said[int] | None:
    """The first of these variables that is set, as a whole number.

    Raises:
        ConfigError: it is none.
    """
    said = text(environment, *names)
    if said is None:
        return None
    value = natural(said.value, most)
    if value is None:
        raise ConfigError(f"{said.by} is {shown(said.value)}; expected a whole number from 0 to {most}")
    return Said(value, said.by)


def count(environment: Environment, *names: str) -> Said[int] | None:
    """The first of these variables that is set, as a number of at least 1.

    Raises:
        ConfigError: it is none.
    """
    said = number(environment, *names)
    if said is not None and said.value == 0:
        raise ConfigError(f"{said.by} is '0'; expected a whole number from 1 to {NODES_MOST}")
    return said


def devices(environment: Environment, name: str) -> Said[str] | None:
    """A number of devices as a number of processes; None where it is 0 or no number: a node may have none."""
    said = text(environment, name)
    return said if said is not None and natural(said.value, NODES_MOST) else None
