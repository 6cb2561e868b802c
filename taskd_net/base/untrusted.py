"""Text from outside, on its way in and on its way out to people.

Readers end with a value or a `ValueError`, in bounded time and memory.

Python's own readers do not promise that. `str.isdigit` accepts `²`, and `int` raises for more than 4,300 digits.
Parsers of JSON and TOML end with RecursionError in deeply nested brackets; so does `repr` of their result.

Writers (`printable`, `json_line`) keep every such text on one line that a terminal prints as it is. Commands, logs and
the status page write through them alone.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterator, Mapping
from json.encoder import encode_basestring_ascii
from typing import Final, TypeVar

T = TypeVar("T")

SHOWN_CHARS: Final = 80
"""Characters of one value in an error text."""

ESCAPES_KEPT: Final = 8192
"""Characters whose printable form is kept."""

PIECE_CHARS: Final = 4_096
"""Characters of a long text that are escaped in one go: a fifth of a millisecond, in which no other thread runs."""


def natural(text: str, most: int) -> int | None:
    """A natural number in ASCII digits.

    Args:
        text: any text.
        most: the greatest number with a meaning there.

    Returns:
        The number, or None for any other text and for a greater number.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)) or int(digits) > most:
        return None
    return int(digits)


def parsed(parse: Callable[[str], T], text: str) -> T:
    """Run a parser over a text.

    Args:
        parse: such as `tomllib.loads`; raises ValueError.
        text: its argument.

    Raises:
        ValueError: the text is not what the parser reads, or is nested too deeply for it.
    """
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_value(text: str) -> object:
    """Read a JSON text.

    Raises:
        ValueError: it is none, is nested too deeply, or has a number of thousands of digits.
    """
    value: object = parsed(json.loads, text)
    return value


def whole(value: object, most: int) -> int | None:
    """A whole number of a JSON value, from 0 to `most`; None for anything else."""
    return value if type(value) is int and 0 <= value <= most else None


def shown(value: object) -> str:
    """A value for an error text: its `repr`, cut to a few levels, and in the middle to `SHOWN_CHARS` characters."""
    try:
        text = _short.repr(value)
    except ValueError:  # an int of thousands of digits
        return f"<{type(value).__name__}>"
    if len(text) <= SHOWN_CHARS:
        return text
    # `reprlib` cuts each item of a list or dict for itself.
    half = (SHOWN_CHARS - len(_short.fillvalue)) // 2
    return f"{text[:half]}{_short.fillvalue}{text[-half:]}"


def printable(text: str) -> str:
    """A text as one line without effect on a terminal.

    Every character that `str.isprintable` refuses (control characters, ends of lines, changes of direction, lone
    surrogates) stands as JSON writes it, such as `\\n` and `\\u001b`. A second call changes nothing.
    """
    if text.isprintable():
        return text
    if not text.isascii():
        return text.translate(_ESCAPES)
    # A sixth of the time of `translate`. JSON escapes two printable characters more, which stand for themselves here.
    return encode_basestring_ascii(text)[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def printable_pieces(text: str, most: int = PIECE_CHARS) -> Iterator[str]:
    """The pieces of `printable`, for a text of any length. `most`: characters that are escaped in one go."""
    return map(printable, _cut(text, most))


def json_line(value: object, *, compact: bool = False) -> str:
    """A value as one line of printable JSON: in plain ASCII where its texts need that; `compact`: without spaces."""
    separators = (",", ":") if compact else None
    text = json.dumps(value, ensure_ascii=False, separators=separators)
    return text if text.isprintable() else json.dumps(value, separators=separators)


def json_pieces(fields: Mapping[str, object], most: int = PIECE_CHARS) -> Iterator[str]:
    """The pieces of `json_line`, for an object with texts of any length; other values in it are short.

    `most`: characters that are escaped in one go.
    """
    if sum(len(value) for value in fields.values() if isinstance(value, str)) <= most:
        yield json_line(fields)
        return
    before = "{"
    for name, value in fields.items():
        yield f"{before}{json_line(name)}: "
        if isinstance(value, str):
            yield '"'
            yield from (json_line(piece)[1:-1] for piece in _cut(value, most))
            yield '"'
        else:
            yield json_line(value)
        before = ", "
    yield "}"


def _cut(text: str, most: int) -> Iterator[str]:
    return (text[at : at + most] for at in range(0, len(text), most))


class _Escapes(dict[int, str]):
    """For each character its printable form; the first ones are kept, because escaping one costs a microsecond."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        shown = char if char.isprintable() else json.dumps(char)[1:-1]
        if len(self) < ESCAPES_KEPT:
            self[code] = shown
        return shown


_ESCAPES: Final = _Escapes()

_short: Final = reprlib.Repr()
_short.maxlevel = 3
_short.maxstring = _short.maxother = _short.maxlong = SHOWN_CHARS
