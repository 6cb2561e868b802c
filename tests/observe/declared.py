"""Files that follow from the declarations of views: fields of messages in proto/, and tables of fields in docs/.

`python -m tests.observe.declared` writes them, for `make proto` and `make guide`; a test compares them. A message keeps
its fields with their numbers, and gets the new fields of its view with the next numbers.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_origin

from taskd_net.observe.fields import TEXT, TIME, TIME_OR_NEVER, Face, Form, Json, Wire, annotation, hints_of, told_of
from taskd_net.observe.job_codec import VIEWS
from taskd_net.observe.records import Direction, NodeStatus, OwnFigures

ROOT: Final = Path(__file__).resolve().parents[2]
MESSAGES: Final[Mapping[str, Mapping[str, type]]] = {
    "proto/status.proto": {"Node": NodeStatus, "Own": OwnFigures, "Flow": Direction},
    "proto/job.proto": VIEWS,
}
"""The views of each file's messages."""

DOCUMENTS: Final = ("docs/status.md", "docs/manager.md")
_NAMED: Final = {view.__name__: view for views in MESSAGES.values() for view in views.values()}
_PLACE: Final = re.compile(r"(<!-- fields of (\w+(?:, \w+)*): .*? -->\n)(.*?)(<!-- fields: end -->)", re.DOTALL)

_SCALARS: Final = {str: "string", bool: "bool", int: "int64", float: "double"}
_BY_SUFFIX: Final = {"_ms": "int64", "_us": "uint32"}
_COMMENT_CHARS: Final = 115


def with_fields(source: str, message: str, view: type) -> str:
    """A file of proto/ whose message has each field of its view. New ones are at the end, with the next numbers."""
    found = re.search(rf"^message {message} \{{\n(.*?)^\}}$", source, re.DOTALL | re.MULTILINE)
    assert found, f"there is no message {message}"
    numbers = {name: int(number) for name, number in re.findall(r"^  \S.*? (\w+) = (\d+);$", found[1], re.MULTILINE)}
    lines, last, meanings = "", max(numbers.values()), meanings_of(view)
    for name, hint in hints_of(view).items():
        kind, form = _type_on_the_wire(hint), annotation(hint, Wire)
        wire_name = name + (form.suffix if form else "")
        if kind is not None and wire_name not in numbers:
            last += 1
            meaning = meanings[name]
            said = textwrap.wrap(f"{meaning[0].upper()}{meaning[1:]}.", _COMMENT_CHARS)
            lines += "".join(f"  // {line}\n" for line in said) + f"  {kind} {wire_name} = {last};\n"
    return source[: found.end(1)] + lines + source[found.end(1) :]


def _type_on_the_wire(hint: Any) -> str | None:
    """The type of a new field; None for one whose form the codec knows."""
    if form := annotation(hint, Wire):
        return _BY_SUFFIX[form.suffix]
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    if hint in _SCALARS:
        return _SCALARS[hint]
    parts = get_args(hint)
    if NoneType in parts:
        return f"optional {_SCALARS[parts[0]]}" if parts[0] in _SCALARS else None
    if parts and parts[-1] in (int, float, ...) and parts[0] in _SCALARS:
        repeated = get_origin(hint) is tuple
        return f"repeated {_SCALARS[parts[0]]}" if repeated else f"map<{_SCALARS[parts[0]]}, {_SCALARS[parts[1]]}>"
    return None


def meanings_of(view: type) -> dict[str, str]:
    """The fields of a view with their meanings, which the docstring of its class has under `Args` or `Attributes`."""
    entries = re.findall(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", cleandoc(view.__doc__ or ""), re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for names, text in entries for name in names.split(", ")}


def table(*views: type) -> Iterator[str]:
    """The lines of the table of the fields that the documents of views have. One row has those with one meaning."""
    yield from ("| Field | Unit | Meaning |", "|---|---|---|")
    for view in views:
        meanings, rows = meanings_of(view), dict[tuple[str, str], list[str]]()
        for name, hint in hints_of(view).items():
            form = annotation(hint, Json) or Json()
            if not form.hidden:
                meaning = meanings[name].replace("empty", "`null`") if form.value is TEXT.value else meanings[name]
                rows.setdefault((_unit(hint), meaning), []).append(form.name or name)
        for key, get in told_of(view).values():
            meaning = " ".join(cleandoc(get.__doc__ or "").split()).rstrip(".")
            rows["", meaning[0].lower() + meaning[1:]] = [key]
        for (unit, meaning), keys in rows.items():
            told = re.sub(r"\bNone\b", "`null`", meaning)
            yield f"| {', '.join(f'`{key}`' for key in keys)} | {f'{unit} ' if unit else ''}| {told} |"


def _unit(hint: Any) -> str:
    form, face = annotation(hint, Json), annotation(hint, Face)
    if form is not None and form.value in (TIME.value, TIME_OR_NEVER.value):
        return "seconds since the epoch"
    return {Form.SECONDS: "seconds", Form.BYTES: "bytes"}.get(face.form, "") if face else ""


def written() -> dict[Path, str]:
    """Each file as it has to be."""
    files = {}
    for name, views in MESSAGES.items():
        text = (ROOT / name).read_text("utf-8")
        for message, view in views.items():
            text = with_fields(text, message, view)
        files[ROOT / name] = text
    for name in DOCUMENTS:
        text = (ROOT / name).read_text("utf-8")
        assert _PLACE.search(text), f"{name} has no place for a table of fields"
        files[ROOT / name] = _PLACE.sub(
            lambda found: (
                found[1] + "\n".join(table(*(_NAMED[each] for each in found[2].split(", ")))) + "\n" + found[4]
            ),
            text,
        )
    return files


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, "utf-8")
