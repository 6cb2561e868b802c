"""Values of a document in words, and the parts of a line that the fields of a view declare."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from taskd_net.observe.document import Document
from taskd_net.observe.fields import Face, Form, faces_of


def phrases(view: type, document: Document, now: float, *, places: frozenset[str] | None = None) -> Iterator[str]:
    """The parts of a line for the fields of a view, in the order of their declaration.

    Args:
        view: the class of the view.
        document: the document that has its fields.
        now: the time of the document, in seconds since the epoch.
        places: the places of the wanted fields; None for all.
    """
    for key, face in faces_of(view).items():
        if face.phrase and (places is None or face.place in places):
            words = _words(face, document[key], now)
            if words is not None:
                yield face.phrase.format(words)


def _words(face: Face, value: Any, now: float) -> str | None:
    """The value of a field in words; None: the line leaves it out."""
    if value is None:
        return face.null or None
    if not value and not (face.zero and face.form is Form.COUNT):
        return None
    return _FORMS[face.form](value, now)


def duration(seconds: float) -> str:
    """A duration in words: `12 s`, `3 min`, `2 h 5 min`, `4 d 3 h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def span(seconds: float) -> str:
    """A duration in words, a short one with its tenths: `0.4 s`."""
    return f"{seconds:.1f} s" if seconds < 9.95 else duration(seconds)


def milliseconds(seconds: float | None) -> str:
    """A round trip in milliseconds, in words."""
    return "-" if seconds is None else f"{seconds * 1000:.3g}"


def clock(seconds: float) -> str:
    """A time of day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _size(number: float) -> str:
    units = ["B", "KiB", "MiB", "GiB"]
    while number >= 1024 and len(units) > 1:
        number /= 1024
        del units[0]
    return f"{number:.3g} {units[0]}" if number < 1000 else f"{number:.0f} {units[0]}"


_FORMS: Final[Mapping[Form, Callable[[Any, float], str]]] = {
    Form.TEXT: lambda value, _: str(value),
    Form.COUNT: lambda value, _: str(value),
    Form.BYTES: lambda value, _: _size(value),
    Form.SECONDS: lambda value, _: f"{value * 1000:.0f} ms" if value < 10.0 else duration(value),
    Form.TIME: lambda value, _: clock(value),
    Form.AGO: lambda value, now: f"{duration(now - value)} ago",
    Form.FLAG: lambda value, _: "",  # the phrase says it
}
