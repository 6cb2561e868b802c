"""The steps of commands, for PyTorch's workers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.job.agent.plans import KillAll, Leave, Plan, Return, StartAll, StartRanks, give_up


@dataclass(frozen=True, slots=True)
class PyTorchPlans:
    """Plans for PyTorch: the Agent leaves when no restart remains, and returns the result of a job that succeeded."""

    def start(self, remaining: int | None) -> Plan:
        """See `Plans`."""
        return (StartAll(remaining),) if _some(remaining) else (Leave(1, "no restart remains"),)

    def restart_all(self, remaining: int | None) -> Plan:
        """See `Plans`."""
        return (KillAll(), StartAll(remaining)) if _some(remaining) else give_up("no restart remains")

    def restart_ranks(self, ranks: frozenset[int]) -> Plan:
        """See `Plans`."""
        return (StartRanks(ranks),)

    def finished(self, result: object) -> Plan:
        """See `Plans`."""
        return (Return(result),)


def _some(remaining: int | None) -> bool:
    return remaining is None or remaining >= 0
