"""Nodes whose training processes have lost MindIO's controller.

A process connects to the controller once, as it starts. So where a controller has ended without its processes (the
Manager was killed, the controller has crashed), they train on unprotected: no order reaches them, until they are
started again.
"""

from __future__ import annotations

from typing import Any, Final

from taskd_net.base.vocabulary import EXIT, RESTART_ALL, START
from taskd_net.job.clusterd.mindio import MindIO
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.traffic import Outcome, agent

_STARTS: Final = (EXIT, RESTART_ALL, START)
"""Commands after which a node has new processes, or none."""


class Protection:
    """The unprotected nodes of a job, in the Manager's event loop.

    Args:
        mindio: the controller.
        log: takes a line at each change.

    Attributes:
        unprotected: ranks of the nodes.
    """

    def __init__(self, mindio: MindIO, log: Any) -> None:
        self.unprotected: set[int] = set()
        self._mindio = mindio
        self._log = log

    def lose(self, job: Job) -> None:
        """The controller is lost: each node that trains is unprotected."""
        self.unprotected |= running(job)
        if self.unprotected:
            self._log.warning("training_unprotected", nodes=sorted(self.unprotected), reason=self._mindio.loss)
        else:
            self._mindio.regain()

    def carry_out(self, outcome: Outcome) -> None:
        """Commands go out. The nodes that they start again are protected."""
        if not self.unprotected:
            return
        if any(call.name == "restart" for call in outcome.calls):
            self.unprotected.clear()
        self.unprotected -= {node for node in self.unprotected if _is_started(node, outcome)}
        if not self.unprotected:
            self._mindio.regain()
            self._log.info("training_protected")


def running(job: Job) -> set[int]:
    """Nodes whose training processes run, but for those that a command on its way starts again."""
    records, outbox = job.state.records, job.state.outbox
    nodes = {rank for rank, each in records.agents.items() if each.registered} - records.asking - records.exited
    return {rank for rank in nodes if not any(outbox.has(agent(rank), code) for code in _STARTS)}


def _is_started(node: int, outcome: Outcome) -> bool:
    return any(each.to == agent(node) and each.code in _STARTS for each in outcome.commands)
