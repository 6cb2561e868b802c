"""Fields of a view: each is declared once, in its class, and its forms follow.

A *view* is a NamedTuple or a dataclass that shows a state: `NodeStatus`, `JobView`, `NodeEvent`, and those within them.
Its fields are its declaration. A field of texts, numbers, flags or further views needs nothing else. Annotations say
more:

    address: Annotated[str, TEXT]                        null in the document where it is empty
    at: Annotated[float, named("time", TIME)]            under another name there
    since: Annotated[float, HIDDEN, MILLISECONDS]        not in the document; `since_ms` on the wire
    lost: Annotated[int, Face("lost", COUNT)]            a row on the status page, with this label

Annotations name their forms: a lambda in one would not see the names of its module. A property with `told` has a value
that follows from other fields.

`document_of` makes the JSON object of a view, which commands print and browsers get. `to_wire` and `from_wire` go from
a view to the fields of its message in protobuf, and back; they leave fields of other types to the codec
(`status_codec`). `job_codec` walks the message instead, since all of its fields have the names of the view's.

`faces_of` lists the fields that people see. `cli/phrases.py` makes the parts of a line of text of them, and `fields.js`
the rows of the status page. What has a layout of its own, such as a tree or a sentence of several fields, is drawn by
hand and needs no `Face`.

So a new field is its declaration and the place that sets it. `make proto` and `make guide` write its line in `proto/`
and its row in the documents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

Convert = Callable[[Any], Any]
G = TypeVar("G", bound=Callable[..., Any])

_PLAIN: Final = (str, int, float, bool, NoneType)
_TOLD: Final = "told_as"
_FACE: Final = "shown_as"


class Json(NamedTuple):
    """The form of a field in a document.

    Attributes:
        value: makes its value there; None: texts, numbers and flags are as they are, views and collections of them are
            objects and lists.
        name: its key; empty for the field's name.
        hidden: it has none.
    """

    value: Convert | None = None
    name: str = ""
    hidden: bool = False


class Wire(NamedTuple):
    """The form of a field on the wire.

    Attributes:
        suffix: of its name there, for the unit.
        write, read: to the value there, and back.
    """

    suffix: str
    write: Convert
    read: Convert


class Form(StrEnum):
    """The form of a value for people."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    SECONDS = "seconds"
    """A duration."""
    TIME = "time"
    """Seconds since the epoch, as a time of day."""
    AGO = "ago"
    """Seconds since the epoch, as the time that has passed."""
    FLAG = "flag"


class Alarm(StrEnum):
    """The values of a field that are trouble: the status page shows them in red."""

    SOME = "some"
    """Numbers above 0."""
    NONE_LEFT = "none left"
    """0 and below."""
    FALSE = "false"


class Face(NamedTuple):
    """The form of a field for people.

    Attributes:
        label: the heading of its row on the status page; empty: the page does not show it.
        form: the form of its value.
        phrase: its part of a line of text, with `{}` for the value; empty: the text does not show it. A line leaves out
            a count of 0, a flag that is false, an empty text and null.
        zero: a line shows a count of 0, too.
        null: the words for null, in lines and rows; empty: both leave it out.
        flags: the words of a row for a flag that is false, and for one that is true; empty: there is no row.
        alarm: the values that are trouble.
        place: the part of the line and of the page that shows it, where its view has several.
    """

    label: str
    form: Form = Form.TEXT
    phrase: str = ""
    zero: bool = False
    null: str = ""
    flags: tuple[str, str] = ("", "")
    alarm: Alarm | None = None
    place: str = ""


HIDDEN: Final = Json(hidden=True)
TEXT: Final = Json(lambda text: text or None)
"""A text that is null where it is empty."""
TIME: Final = Json(lambda seconds: None if seconds is None else round(seconds, 3))
"""Seconds since the epoch; None is null."""
TIME_OR_NEVER: Final = Json(lambda seconds: round(seconds, 3) if seconds else None)
"""Seconds since the epoch; 0 is null."""

MILLISECONDS: Final = Wire("_ms", lambda seconds: round(seconds * 1000), lambda ms: ms / 1000)
MILLISECONDS_OR_NONE: Final = Wire(
    "_ms", lambda seconds: 0 if seconds is None else round(seconds * 1000), lambda ms: ms / 1000 if ms else None
)
MICROSECONDS_OR_NONE: Final = Wire(
    "_us",
    lambda seconds: 0 if seconds is None else max(1, round(seconds * 1e6)),
    lambda us: us / 1e6 if us else None,
)


def named(name: str, form: Json | None = None) -> Json:
    """The form of a field under another name in the document."""
    return (form or Json())._replace(name=name)


def told(name: str = "", face: Face | None = None) -> Callable[[G], G]:
    """Decorator of the function of a property: the document has its value.

    Args:
        name: the key there; empty for the property's name.
        face: its form for people; None: it is drawn by hand, or not at all.
    """

    def mark(get: G) -> G:
        get.__dict__[_TOLD] = name or get.__name__
        get.__dict__[_FACE] = face
        return get

    return mark


def document_of(view: object) -> dict[str, Any]:
    """The JSON object of a view: its fields in their order, then its properties with `told`."""
    return _document(type(view))(view)  # type: ignore[arg-type] # mypy takes a class for one without a hash


def nulls_of(view: type) -> dict[str, None]:
    """The keys of a view's document without the view: each is null."""
    return dict.fromkeys(key for key, _, _ in _told(view))


@cache
def faces_of(view: type) -> Mapping[str, Face]:
    """The fields of a view that people see, by their keys in its document, in the order of their declaration.

    A hidden field has its own name as its key: the document has the value there by other means.
    """
    faces: dict[str, Face] = {}
    for name, hint in hints_of(view).items():
        if face := annotation(hint, Face):
            faces[(annotation(hint, Json) or Json()).name or name] = face
    for key, get in told_of(view).values():
        if face := vars(get)[_FACE]:
            faces[key] = face
    return faces


def to_wire(view: object) -> dict[str, Any]:
    """The fields of a view's message: texts, numbers and flags, and those with a `Wire` form."""
    return _writing(type(view))(view)  # type: ignore[arg-type] # as above


def from_wire(view: type, message: object) -> dict[str, Any]:
    """The fields of a view in its message, as `to_wire` has written them."""
    return _reading(view)(message)


_Way = Callable[[Any], dict[str, Any]]


def _way(parts: Iterable[tuple[str, str, Convert | None]], optional: Collection[str] = ()) -> _Way:
    """A function that makes a dictionary of an object: of these keys, each with an attribute and its conversion.

    An optional attribute is that of a message, which may be without it.

    It is compiled, as the methods of a dataclass are: a mesh has 10,000 nodes, and a loop takes twice as long.
    """
    converts: dict[str, Convert] = {}
    items = []
    for key, name, convert in parts:
        value = f"view.{name}"
        if convert is not None:
            converts[f"convert_{name}"] = convert
            value = f"convert_{name}({value})"
        if name in optional:
            value = f"{value} if view.HasField({name!r}) else None"
        items.append(f"{key!r}: {value}")
    made: _Way = eval(f"lambda view: {{{', '.join(items)}}}", converts)  # noqa: S307 - names of our own fields
    return made


@cache
def _document(view: type) -> _Way:
    return _way(_told(view))


@cache
def _told(view: type) -> Sequence[tuple[str, str, Convert | None]]:
    """The keys of a view's document, each with its attribute and its conversion."""
    parts: list[tuple[str, str, Convert | None]] = []
    for name, hint in hints_of(view).items():
        form = annotation(hint, Json) or Json()
        if not form.hidden:
            parts.append((form.name or name, name, form.value or (None if _is_plain(hint) else _value)))
    parts += [(key, name, _value) for name, (key, _) in told_of(view).items()]
    return parts


def told_of(view: type) -> Mapping[str, tuple[str, Callable[..., Any]]]:
    """The properties of a view with `told`: their names, keys and functions."""
    found = {name: member.fget for name, member in vars(view).items() if isinstance(member, property)}
    return {name: (vars(get)[_TOLD], get) for name, get in found.items() if get is not None and _TOLD in vars(get)}


@cache
def _writing(view: type) -> _Way:
    return _way((wire, name, form and form.write) for name, wire, form in _wired(view))


@cache
def _reading(view: type) -> _Way:
    fields = list(_wired(view))
    optional = [name for name, _, form in fields if form is None and _may_be_none(hints_of(view)[name])]
    return _way(((name, wire, form and form.read) for name, wire, form in fields), optional)


def _wired(view: type) -> Iterable[tuple[str, str, Wire | None]]:
    """The fields that are on the wire, each with its name there and its form; None: it is copied."""
    for name, hint in hints_of(view).items():
        form = annotation(hint, Wire)
        if form is not None or _is_plain(hint):
            yield name, name + (form.suffix if form else ""), form


def hints_of(view: type) -> Mapping[str, Any]:
    """The fields of a view with their types and annotations."""
    hints = get_type_hints(view, include_extras=True)
    named = dataclasses.fields(view) if dataclasses.is_dataclass(view) else ()
    names = [field.name for field in named] or view._fields  # type: ignore[attr-defined]
    return {name: hints[name] for name in names}


T = TypeVar("T")


def annotation(hint: Any, kind: type[T]) -> T | None:
    """The annotation of a field of this kind; None without one."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, kind)), None)


def _is_plain(hint: Any) -> bool:
    """True for a type of texts, numbers or flags, or of one of them and None."""
    kind = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    return all(each in _PLAIN for each in (get_args(kind) if isinstance(kind, UnionType) else (kind,)))


def _may_be_none(hint: Any) -> bool:
    kind = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    return NoneType in get_args(kind)


def _value(value: Any) -> Any:
    """The value of a document for a view, or a collection."""
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        return document_of(value)
    if isinstance(value, Mapping):
        return {str(key): _value(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_value(each) for each in value]
    return value
