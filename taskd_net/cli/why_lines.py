"""The failures of a job as text: the first cause of the last one, what followed from it, and those before it."""

from __future__ import annotations

from typing import Final

from taskd_net.base.progress import RECOVERY_WORDS
from taskd_net.cli.mesh_lines import Line
from taskd_net.cli.phrases import clock, duration, span
from taskd_net.observe.document import Document

KEYS: Final = ("job", "time", "ended", "failures")
"""The keys of a job's document that are about its failures."""


def why(job: Document) -> Document:
    """The part of a job's document that is about its failures."""
    return {key: job[key] for key in KEYS}


def draw_why(job: Document) -> list[Line]:
    """The lines: how the job stands, its last failure, and those before it.

    Args:
        job: the document.
    """
    *before, last = job["failures"] or [None]
    if job["ended"]:
        lines: list[Line] = [(f"job {job['job']} has ended: {job['ended']}", "bold red")]
    else:
        lines = [(f"job {job['job']} has not been ended by its Manager", "bold")]
    if last is None:
        return [*lines, ("no rank has failed", "dim")]
    lines += [("", ""), *_last(last)]
    if before:
        lines += [("", ""), ("BEFORE  newest first", "bold")]
        for each in reversed(before):
            lines += [(_short(each), ""), *_recovery(each, "      ")]
    return lines


def _last(failure: Document) -> list[Line]:
    if failure["hung"]:
        heading = (
            f"FAILURE {failure['number']}  {_hung(failure)}, after {duration(failure['lived'])} of training",
            "bold red",
        )
        return [heading, (f"  {_answer(failure)}", ""), *_recovery(failure, "  ")]
    if failure["lost"]:
        lost = f"{_lost(failure)}, after {duration(failure['lived'])} of training"
        heading = (f"FAILURE {failure['number']}  {lost}", "bold red")
        return [heading, (f"  {_answer(failure)}", ""), *_recovery(failure, "  ")]
    first = failure["first"]
    where = f"node {first['node']}" + (f", host {first['host']}, pid {first['pid']}" if first["host"] else "")
    at = "" if first["time"] is None else f", at {clock(first['time'])}"
    lines = [
        (f"FAILURE {failure['number']}  rank {first['rank']} failed first: {first['end']} ({where}){at}", "bold red"),
        (f"  after {duration(failure['lived'])} of training", ""),
    ]
    if first["file"] is not None:
        function = f", in {first['function']}" if first["function"] else ""
        lines.append((f"  at {first['file']}, line {first['line']}{function}", ""))
    said = first["traceback"] or [each for each in (first["message"],) if each]
    lines += [(f"    {line}", "") for line in said]
    if first["last_lines"]:
        lines.append(("  the last lines of its standard error:", ""))
        lines += [(f"    {line}", "") for line in first["last_lines"]]
    if failure["others"]:
        lines.append((f"  failed because of it: ranks {', '.join(map(str, failure['others']))}", ""))
    lines.append((f"  {_answer(failure)}", ""))
    return [*lines, *_recovery(failure, "  ")]


def _recovery(failure: Document, indent: str) -> list[Line]:
    """The phases of the recovery, each by the event that ends it; nothing where none is known."""
    phases = failure["phases"]
    known = [f"{words} {span(phases[name])}" for name, words in RECOVERY_WORDS.items() if name in phases]
    if not known:
        return []
    end = "in all, and a step was done" if failure["stepped"] else "so far, and no step is known since"
    return [(f"{indent}recovery: {', '.join(known)}; {span(sum(phases.values()))} {end}", "")]


def _lost(failure: Document) -> str:
    """Lost nodes, and the ranks that failed because of it."""
    words = f"node {', '.join(map(str, failure['lost']))} was lost"
    if not failure["first"]["end"]:
        return words
    ranks = sorted({failure["first"]["rank"], *failure["others"]})
    return f"{words}; ranks {', '.join(map(str, ranks))} lost their peers"


def _hung(failure: Document) -> str:
    return f"the job hung: {failure['hung']}"


def _short(failure: Document) -> str:
    if failure["hung"]:
        return f"  #{failure['number']}  after {duration(failure['lived'])}: {_hung(failure)}; {_answer(failure)}"
    if failure["lost"]:
        return f"  #{failure['number']}  after {duration(failure['lived'])}: {_lost(failure)}; {_answer(failure)}"
    first = failure["first"]
    words = [f"rank {first['rank']} of node {first['node']}: {first['end']}", first["message"] or first["type"] or ""]
    if first["file"] is not None:
        words.append(f"at {first['file']}, line {first['line']}")
    words += [f"{len(failure['others'])} more ranks"] if failure["others"] else []
    said = ", ".join(filter(None, words))
    return f"  #{failure['number']}  after {duration(failure['lived'])}: {said}; {_answer(failure)}"


def _answer(failure: Document) -> str:
    return f"{clock(failure['answered'])}  {failure['answer']}" if failure["answer"] else "not answered yet"
