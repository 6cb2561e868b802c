"""The state of a job for browsers: the part of its document that changes when something is decided, within bounds.

Heartbeats, keep-alives and times of looks are left out, because a browser is sent the panel whenever it differs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

from taskd_net.observe.document import Document
from taskd_net.observe.fields import document_of, faces_of
from taskd_net.observe.job_view import BooksView, JobCounters, JobView

AGENTS: Final = 50
"""Agents in trouble that a status page shows one by one; `taskd-net job` shows more."""

DEVICES: Final = 50
"""Devices with a fault that a status page shows one by one; `taskd-net job` shows more."""

DECISIONS: Final = 10
"""Last decisions of a job on a status page: some 30 KB at most, sent to each browser when one of them changes."""

DIGITS: Final = 3
"""Digits of times and steps for browsers: after 1,000 seconds, they change once in ten."""

_COUNTERS: Final = ("plugin_failures", "faults_answered", *faces_of(JobCounters))
"""Counters for browsers: a program reads the first two, people see the others."""


def panel(view: JobView) -> Document:
    """The document of a job with its Agents in trouble or silent, its devices with a fault, and its last decisions.

    Tracebacks are left out: they have lines of the script, are long, and no browser shows them.
    """
    trouble = (replace(each, heartbeat=0.0) for each in view.agents if each.fault or each.exited or each.silent_since)
    shown = replace(
        view,
        agents=tuple(islice(trouble, AGENTS)),
        devices=view.devices[:DEVICES],
        decisions=view.decisions[-DECISIONS:],
        failures=tuple(replace(each, first=replace(each.first, traceback=(), last_lines=())) for each in view.failures),
        books=_coarse(view.books),
        hang=replace(view.hang, limits={}),
    )
    whole = document_of(shown)
    del whole["time"]
    if whole["clusterd"] is not None:
        del whole["clusterd"]["keep_alives"]
    return whole | {"counters": {name: whole["counters"][name] for name in _COUNTERS}}


def _coarse(books: BooksView) -> BooksView:
    """The books with few digits, because they change all the time."""
    left = None if books.left is None else _cut(books.left)
    step, highest = (None if each is None else int(_cut(each)) for each in (books.step, books.highest))
    return replace(
        books,
        wall=_cut(books.wall),
        seconds={name: _cut(seconds) for name, seconds in books.seconds.items()},
        done=int(_cut(books.done)),
        again=int(_cut(books.again)),
        step=step,
        highest=highest,
        left=left,
    )


def _cut(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
