"""A hang as text: whether the job stands still, who holds it up, and the limits by which that is judged."""

from __future__ import annotations

from typing import Final

from taskd_net.cli.mesh_lines import Line
from taskd_net.cli.phrases import clock, duration
from taskd_net.observe.document import Document
from taskd_net.observe.job_view import HUNG, STUCK

KEYS: Final = ("job", "time", "hang")
"""The keys of a job's document that are about hangs."""


def hang_of(job: Document) -> Document:
    """The part of a job's document that is about hangs."""
    return {key: job[key] for key in KEYS}


def is_stuck(job: Document) -> bool:
    """True for a job that is suspected or hung."""
    return job["hang"]["state"] in STUCK


def headline(job: Document) -> list[Line]:
    """The first line of a job that is suspected or hung; none of another one."""
    hang = job["hang"]
    if not is_stuck(job):
        return []
    who = "; ".join(f"rank {each['rank']} of node {each['node']} {each['words']}" for each in hang["guilty"])
    quiet = duration(job["time"] - hang["since"])
    style = "bold red" if hang["state"] == HUNG else "bold yellow"
    return [(f"{hang['state'].upper()}, no mark for {quiet}: {who or _unknown(hang)}", style)]


def draw_hang(job: Document) -> list[Line]:
    """The lines: the state, the guilty ranks, and the limits.

    Args:
        job: the document.
    """
    hang = job["hang"]
    words = [f"job {job['job']}: {hang['state']}"]
    if hang["since"] is not None:
        words.append(f"no mark for {duration(job['time'] - hang['since'])}, since {clock(hang['since'])}")
    if hang["limit"]:
        words.append(f"limit {duration(hang['limit'])}")
    style = "bold red" if hang["state"] == HUNG else "bold yellow" if is_stuck(job) else "bold"
    lines: list[Line] = [(", ".join(words), style)]
    if hang["guilty"]:
        for each in hang["guilty"]:
            place = f"node {each['node']}" + (f", pid {each['pid']}" if each["pid"] else "")
            lines.append((f"  rank {each['rank']} ({place}) {each['words']}", style))
    elif is_stuck(job):
        lines.append((f"  {_unknown(hang)}", style))
    elif hang["words"]:
        lines.append((f"  {hang['words']}", ""))
    if hang["limits"]:
        limits = ", ".join(f"{place} {duration(seconds)}" for place, seconds in hang["limits"].items())
        lines += [("", ""), (f"LIMITS  {limits}", "dim")]
    return lines


def _unknown(hang: Document) -> str:
    return f"who holds it up is not known: {hang['words']}"
