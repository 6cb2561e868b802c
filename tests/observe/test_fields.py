"""Fields of a view, and the forms that follow from their declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, NamedTuple

import pytest
from google.protobuf.message import Message

from taskd_net.base.states import State
from taskd_net.net.wire import job_pb2, status_pb2
from taskd_net.observe.fields import (
    HIDDEN,
    MICROSECONDS_OR_NONE,
    MILLISECONDS,
    MILLISECONDS_OR_NONE,
    TEXT,
    TIME,
    TIME_OR_NEVER,
    Json,
    document_of,
    faces_of,
    from_wire,
    named,
    nulls_of,
    to_wire,
    told,
)
from taskd_net.observe.job_codec import VIEWS
from taskd_net.observe.records import Direction, NodeStatus, OwnFigures

pytestmark = pytest.mark.oldest


class Inner(NamedTuple):
    """A view within another."""

    number: int = 1
    text: Annotated[str, TEXT] = ""


@dataclass(frozen=True, slots=True)
class Outer:
    """A view with a field of each form."""

    name: str = "a"
    none: str | None = None
    at: Annotated[float, named("time", TIME), MILLISECONDS] = 1.00049
    never: Annotated[float, TIME_OR_NEVER] = 0.0
    last: Annotated[float | None, TIME, MILLISECONDS_OR_NONE] = None
    wait: Annotated[float | None, HIDDEN, MICROSECONDS_OR_NONE] = 1e-9
    inner: Inner = field(default_factory=Inner)
    several: tuple[Inner, ...] = (Inner(2, "x"),)
    by_rank: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: {3: (4, 5)})
    upper: Annotated[str, Json(str.upper)] = "b"
    other: Annotated[int, named("another")] = 6

    @property
    @told()
    def words(self) -> str:
        """A value that follows."""
        return self.name * 2

    @property
    @told("renamed")
    def more(self) -> Inner:
        """One under another name."""
        return self.inner

    @property
    def untold(self) -> str:
        """One that the document does not have."""
        return ""


class Written(SimpleNamespace):
    """A message that has the fields with a value."""

    def HasField(self, name: str) -> bool:
        """True for a field that was set."""
        return getattr(self, name) is not None


def test_document_has_each_field_in_its_form_and_then_what_follows() -> None:
    assert document_of(Outer()) == {
        "name": "a",
        "none": None,
        "time": 1.0,
        "never": None,
        "last": None,
        "inner": {"number": 1, "text": None},
        "several": [{"number": 2, "text": "x"}],
        "by_rank": {"3": [4, 5]},
        "upper": "B",
        "another": 6,
        "words": "aa",
        "renamed": {"number": 1, "text": None},
    }
    assert document_of(Outer(never=2.0, last=3.0)) | {"never": 2.0, "last": 3.0} == document_of(Outer(never=2, last=3))
    assert list(document_of(Outer()))[-2:] == ["words", "renamed"]
    assert nulls_of(Inner) == {"number": None, "text": None}


def test_wire_has_texts_numbers_flags_and_fields_with_a_form() -> None:
    wire = {"name": "a", "none": None, "at_ms": 1000, "last_ms": 0, "wait_us": 1, "upper": "b", "other": 6}
    assert to_wire(Outer()) == wire | {"never": 0.0}
    message = Written(**wire, never=0.0)
    assert from_wire(Outer, message) == {
        "name": "a",
        "none": None,
        "at": 1.0,
        "never": 0.0,
        "last": None,
        "wait": 1e-6,
        "upper": "b",
        "other": 6,
    }
    later = from_wire(Outer, Written(**wire | {"none": "", "last_ms": 1500, "wait_us": 0}, never=0.0))
    assert (later["last"], later["wait"], later["none"]) == (1.5, None, "")
    assert to_wire(Outer(last=1.5, wait=None)) == wire | {"never": 0.0, "last_ms": 1500, "wait_us": 0}


@pytest.mark.parametrize(
    ("view", "message", "by_hand"),
    [
        (NodeStatus(None, State.JOINED, 0.0, ""), status_pb2.Node(), "parent state not_answering down up own"),
        (OwnFigures(), status_pb2.Own(), "up"),
        (Direction(), status_pb2.Flow(), ""),
    ],
)
def test_message_of_a_view_has_its_fields(view: object, message: Message, by_hand: str) -> None:
    assert {*to_wire(view), *by_hand.split()} == set(message.DESCRIPTOR.fields_by_name), "make proto"


def test_message_of_a_job_has_fields_of_its_view() -> None:
    for name, view in VIEWS.items():
        message = job_pb2.DESCRIPTOR.message_types_by_name[name]
        missing = set(message.fields_by_name) ^ set(view.__dataclass_fields__)  # type: ignore[attr-defined]
        assert missing <= {"fault_to_command"}, name


def test_a_field_without_a_face_is_shown_to_nobody() -> None:
    assert faces_of(Outer) == {}
