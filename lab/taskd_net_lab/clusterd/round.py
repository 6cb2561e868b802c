"""The facts of one round of recovery, and the strategy that follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net_lab.clusterd.messages import Operation, Report

RETRY: Final = "retry"
IN_PLACE: Final = "recover-in-place"
RECOVER: Final = "recover"
DOWNGRADE: Final = "downgrade"
DUMP: Final = "dump"
EXIT: Final = "exit"
UPGRADE: Final = "upgrade"

STRATEGIES: Final = (RETRY, IN_PLACE, RECOVER, DOWNGRADE, DUMP, EXIT)
"""Strategies that a job may have, the most welcome first. `exit` is always possible."""

MEMORY: Final = 0
NETWORK: Final = 2
RETRYABLE: Final = (MEMORY, NETWORK)
"""Types of fault that a step can be retried after."""

OTHER: Final = 1
"""Any other type of fault."""

ISOLATE: Final = 201
NOT_READY: Final = 404
RECOVERABLE: Final = 405
UNRECOVERABLE: Final = 406
CLIENT_ERROR: Final = 499


@dataclass(slots=True)
class Job:
    """A job as the platform knows it.

    Attributes:
        job_id: its name.
        strategies: enabled for it, in any order.
        nodes, processes: its size.
        known: the platform has it.
        enabled: process recovery or hot switch is on, and not paused. ClusterD pauses it while it ends a round, and
            leaves it so where it is killed then.
        writable: the kube API takes ClusterD's writes.
        loses: a stress test with result 3 or 4 loses the round that follows, as it does in 8 of 10.
    """

    job_id: str
    strategies: tuple[str, ...] = (EXIT,)
    nodes: int = 1
    processes: int = 1
    known: bool = True
    enabled: bool = True
    writable: bool = True
    loses: bool = True

    def node_of(self, rank: int) -> int:
        """The node of a global rank."""
        return rank // self.processes

    def neighbours(self, ranks: Iterable[int]) -> list[int]:
        """All ranks of the nodes of these ranks."""
        nodes = sorted({self.node_of(rank) for rank in ranks})
        return [node * self.processes + local for node in nodes for local in range(self.processes)]


@dataclass(slots=True)
class Round:
    """One round, from the event that leaves `init` to the return there.

    Attributes:
        job: the job.
        uuid: of its orders.
        faults: type of fault by rank.
        in_place: the faulty processes can be restarted in their pods.
        absent: nodes whose pod has gone.
        offered: strategies that the client has reported.
        struck: strategies that earlier results have ruled out.
        decided: strategies, in the order of their decisions.
        bare: its `exit` names no nodes, since it came in place of a retry that the client does not offer.
        status: the last status that was read.
        operation: that pauses the training; None for a fault.
        ranks, ops: of the switch of cards. tests: operations of the stress test, by rank.
        told: the operator has the result of the operation.
        lost: ClusterD loses the round after StopComplete.
    """

    job: Job
    uuid: str = ""
    faults: dict[int, int] = field(default_factory=dict)
    in_place: bool = False
    absent: frozenset[int] = frozenset()
    offered: tuple[str, ...] = ()
    struck: set[str] = field(default_factory=set)
    decided: list[str] = field(default_factory=list)
    bare: bool = False
    status: Report | None = None
    operation: Operation | None = None
    ranks: tuple[int, ...] = ()
    ops: tuple[bool, ...] = ()
    tests: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    told: bool = False
    lost: bool = False

    @property
    def retryable(self) -> bool:
        """True where a retry of the step is the first thing to try."""
        types = set(self.faults.values())
        return RETRY in self.job.strategies and not self.decided and len(types) == 1 and types <= set(RETRYABLE)

    @property
    def of_network(self) -> bool:
        """True where a retry follows a fault of the network."""
        return self.retryable and NETWORK in self.faults.values()

    @property
    def restarts(self) -> bool:
        """True where the faulty processes are restarted, and not their pods."""
        return self.in_place and IN_PLACE in self.job.strategies and IN_PLACE not in self.struck

    @property
    def ranks_lost(self) -> dict[int, int]:
        """Faulty ranks, with all ranks of their nodes where the pods are replaced."""
        if self.retryable or self.restarts:
            return dict(self.faults)
        return dict.fromkeys(self.job.neighbours(self.faults), OTHER)

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes of the faulty ranks."""
        return tuple(sorted({self.job.node_of(rank) for rank in self.faults}))

    @property
    def present(self) -> tuple[int, ...]:
        """Nodes of the faulty ranks that still have their pod."""
        return tuple(node for node in self.nodes if node not in self.absent)

    @property
    def saves_only(self) -> bool:
        """True where the job has no strategy but `dump`, with or without `exit`."""
        return DUMP in self.job.strategies and set(self.job.strategies) <= {DUMP, EXIT}

    @property
    def strategy(self) -> str:
        """The strategy that was decided last; empty for none."""
        return self.decided[-1] if self.decided else ""

    @property
    def code(self) -> int:
        """The code of the last status."""
        return self.status.code if self.status is not None else CLIENT_ERROR

    def choose(self) -> str:
        """The strategy to decide now: the first that the job and the client have, and that no result has ruled out."""
        if self.retryable and RETRY not in self.offered:
            self.strike(IN_PLACE, RECOVER, DOWNGRADE)
        for strategy in STRATEGIES[:-1]:
            offered = strategy in self.offered or (strategy == IN_PLACE and RECOVER in self.offered)
            if strategy in self.job.strategies and offered and self._is_possible(strategy):
                return strategy
        return EXIT

    def strike(self, *strategies: str) -> None:
        """Rule strategies out for the rest of the round."""
        self.struck.update(strategies)

    def _is_possible(self, strategy: str) -> bool:
        if strategy in self.struck or strategy in self.decided:
            return False
        if strategy == RETRY:
            return self.retryable
        return strategy != IN_PLACE or self.in_place
