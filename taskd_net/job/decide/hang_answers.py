"""The answer to a hang: its ranks count as failed, and RestartPlugin restarts them within the budget. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.base.cause import Cause
from taskd_net.job.decide.device_state import ranks_of_node
from taskd_net.job.decide.hangs import Guilty, Verdict
from taskd_net.job.decide.records import Fault, Records


@dataclass(frozen=True, slots=True)
class HangFailure:
    """The failure of a node's ranks by a hang.

    Args:
        node: rank of the node.
        fault: the ranks to restart; none: all of the job, because no fault without ranks is answered in place.
        failed: the ranks that hold up the others.
        cause: of the first of them; of no rank where they are not known.
    """

    node: int
    fault: Fault
    failed: Fault
    cause: Cause


def failures_of(
    verdict: Verdict, records: Records, processes: int, now: float, *, everybody: bool
) -> list[HangFailure]:
    """The failures as which a hang is answered.

    Args:
        verdict: it.
        records: of Agents. An Agent says nothing about ranks of other nodes.
        processes: of each node.
        now: the time.
        everybody: all ranks are to be restarted. They are, too, where the guilty ones are not known.
    """
    quiet = f"no mark for {now - verdict.since:.0f} s"
    at_ns = int(verdict.since * 1e9)
    named: dict[int, list[Guilty]] = {}
    for each in verdict.guilty:
        agent = records.agents.get(each.node)
        if agent is not None and agent.registered and each.rank in ranks_of_node(each.node, records, processes):
            named.setdefault(each.node, []).append(each)
    if not named:
        node = min(records.agents)
        cause = Cause(node=node, at_ns=at_ns, hung=f"{quiet}; {verdict.words}")
        fault = _fault(records, node, [], now)
        return [HangFailure(node, fault, fault, cause)]
    found = []
    for node, ranks in named.items():
        failed = _fault(records, node, [each.rank for each in ranks], now)
        fault = _fault(records, node, [], now) if everybody else failed
        first = min(ranks, key=lambda each: each.rank)
        cause = Cause(first.rank, node, pid=first.pid, at_ns=at_ns, hung=f"{quiet}; {first.words}")
        found.append(HangFailure(node, fault, failed, cause))
    return found


def _fault(records: Records, node: int, ranks: list[int], now: float) -> Fault:
    return Fault(ranks, now, now, records.agents[node].restarted)
