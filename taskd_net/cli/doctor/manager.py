"""Check of the Manager at an address: its state, its lead, and its plugins."""

from __future__ import annotations

from taskd_net.base.address import Address
from taskd_net.cli.doctor.finding import Finding, ok, skipped, warning
from taskd_net.cli.doctor.listening import VISIT_S, reached
from taskd_net.cli.job_lines import leader_words
from taskd_net.observe.client import AskFailed, NodeClient, NoManager
from taskd_net.observe.fields import document_of

_ADVICE = "`taskd-net job` shows the Manager; its log has the cause: a full disk, etcd away, a plugin's traceback."


async def check(listen: Address) -> list[Finding]:
    """Ask the Mgr for its Manager; no finding where no Mgr of ours runs."""
    try:
        async with NodeClient(reached(listen), VISIT_S) as client:
            job = await client.job()
    except NoManager as error:
        return [skipped("manager", str(error))]
    except AskFailed:
        return []  # the check of the port says who is there
    if trouble := job.manager_trouble:
        return [warning("manager", text, _ADVICE) for text in trouble]
    led = f"; {leader_words(document_of(job.leader), job.at)}" if job.leader.term else ""
    return [ok("manager", f"job {job.job_id}: the state is kept, and no plugin is off{led}")]
