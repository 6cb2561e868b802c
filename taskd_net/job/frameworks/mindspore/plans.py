"""The steps of commands, for MindSpore's workers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.job.agent.plans import KillAll, KillRanks, Leave, Pause, Plan, StartAll, StartRanks


@dataclass(frozen=True, slots=True)
class MindSporePlans:
    """Plans for MindSpore, which counts no restarts and ends its process from within the Agent.

    Args:
        restart_pause: seconds between the end and the start of all workers.
        restart_ranks_pause: seconds between the end and the start of some.
        finish_pause: seconds between the end of the last worker and that of the process.
    """

    restart_pause: float
    restart_ranks_pause: float
    finish_pause: float

    def start(self, remaining: int | None) -> Plan:
        """See `Plans`."""
        return (StartAll(),)

    def restart_all(self, remaining: int | None) -> Plan:
        """See `Plans`."""
        return (KillAll(), Pause(self.restart_pause), StartAll())

    def restart_ranks(self, ranks: frozenset[int]) -> Plan:
        """See `Plans`."""
        return (KillRanks(ranks), Pause(self.restart_ranks_pause), StartRanks(ranks))

    def finished(self, result: object) -> Plan:
        """See `Plans`."""
        return (Pause(self.finish_pause), KillAll(), Leave(0, "all workers have finished"))
