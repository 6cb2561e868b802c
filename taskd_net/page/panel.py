"""The state of a job for browsers: the part of its document that changes when something is decided, within bounds.

Heartbeats, keep-alives and times of looks are left out, because a browser is sent the panel whenever it differs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

from taskd_net import observe_limits
from taskd_net.job_view import JobView
from taskd_net.observe.document import Document
from taskd_net.observe.job_document import job_document

_COUNTERS: Final = ("rounds", "plugin_failures", "faults_answered", "fault_to_command")


def panel(view: JobView) -> Document:
    """The document of a job with its Agents in trouble or silent, its devices with a fault, and its last decisions."""
    trouble = (replace(each, heartbeat=0.0) for each in view.agents if each.fault or each.exited or each.silent_since)
    shown = replace(
        view,
        agents=tuple(islice(trouble, observe_limits.PAGE_AGENTS)),
        devices=view.devices[: observe_limits.PAGE_DEVICES],
        decisions=view.decisions[-observe_limits.PAGE_DECISIONS :],
    )
    whole = job_document(shown)
    del whole["time"]
    if whole["clusterd"] is not None:
        del whole["clusterd"]["keep_alives"]
    return whole | {"counters": {name: whole["counters"][name] for name in _COUNTERS}}
