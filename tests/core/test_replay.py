"""Record and replay: a run that is written down gives the same decisions again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Destination, Position
from taskd_net.core.certificate_name import CertificateName
from taskd_net.core.frame import Adapted, Frame, Probe, Traced
from taskd_net.core.identity import Credentials, Violation
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Kind
from taskd_net.core.replay import EVENTS, EventRecorder, decode, encode, replay
from taskd_net.core.router import Router, RouterConfig
from taskd_net.net.wire.link_pb2 import Batch
from tests.core import driven
from tests.core.routers import at, frame
from tests.core.stage import Stage
from tests.core.test_golden import broadcast, join, rejoin

MANY = 10_000_000


@pytest.mark.parametrize("scene", [join, rejoin, broadcast])
def test_golden_scenes_are_replayed_to_the_same_decisions(
    scene: Callable[[Stage], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[list[str]] = []

    def recorded(position: Position, *, upstream: bool, config: RouterConfig | None = None) -> Router:
        config = config or RouterConfig()
        router, lines = Router(position, upstream=upstream, config=config), list[str]()
        EventRecorder(router, config, lines.append, MANY)
        records.append(lines)
        return router

    monkeypatch.setattr(driven, "Router", recorded)
    scene(Stage())
    assert len(records) > 2 and all(len(lines) > 3 for lines in records)
    assert [replay(lines) for lines in records] == [[] for _ in records]


def test_every_entrance_is_recorded() -> None:
    """An entrance changes the Router; other public names only look at it."""
    looks = {"next_deadline", "busy", "joined", "upstream"}
    public = {name for name in dir(Router) if not name.startswith("_")}
    assert public - looks == set(EVENTS)


def one() -> tuple[Router, list[str]]:
    """A Mgr that is recorded."""
    lines: list[str] = []
    router = Router(at("Mgr"), upstream=False)
    EventRecorder(router, RouterConfig(), lines.append, MANY)
    return router, lines


def test_body_is_not_recorded() -> None:
    router, lines = one()
    secret = Frame("u", True, at("Worker/0/0"), Destination.of(at("Mgr")), b"confidential")
    router.call_arrived(1.0, 7, secret, 1, None, early=False)
    assert "confidential" not in "".join(lines) and replay(lines) == []


def test_another_outcome_is_named() -> None:
    router, lines = one()
    router.inbox_taken(1.0, 0)
    router.call_arrived(1.0, 7, frame("Mgr", "Worker/0/0"), 1, None)
    lines[-1] = lines[-1].replace('"deliveries":[{', '"deliveries":[{"more":1},{')
    (difference,) = replay(lines)
    assert difference.startswith("line 3, call_arrived: ")


def test_record_ends_at_its_limit() -> None:
    lines: list[str] = []
    router = Router(at("Mgr"), upstream=False)
    EventRecorder(router, RouterConfig(), lines.append, 1000)
    for number in range(100):
        router.tick(float(number))
    assert sum(map(len, lines)) < 1100
    assert lines[-1] == '{"end":"the record has reached its limit"}'
    assert replay(lines) == []


def test_record_ends_with_a_write_that_fails() -> None:
    lines: list[str] = []

    def write(line: str) -> bool:
        lines.append(line)
        return len(lines) < 3

    router = Router(at("Mgr"), upstream=False)
    EventRecorder(router, RouterConfig(), write, MANY)
    for number in range(100):
        router.tick(float(number))
    assert len(lines) == 3


def test_iterators_are_recorded_and_still_read() -> None:
    router, lines = one()
    router.posts_answered(1.0, 0, iter([frame("Worker/0/0", "Worker/0/1", sync=False)]), 6001, at("Mgr"))
    assert router.statistics.lost == 1 and replay(lines) == []


def test_answers_are_recorded_as_they_stand_in_a_batch() -> None:
    """A field of a batch that protobuf has read is neither a list nor a tuple, nor an iterator."""
    router, lines = one()
    router.answers_arrived(1.0, 7, Batch(accepted=["a", "b"]).accepted)
    assert '"given":[1.0,7,["a","b"]]' in lines[-1]
    assert router.statistics.late_acks == 2 and replay(lines) == []


SAMPLES: list[Any] = [
    Adapted("u", False, at("Mgr"), Destination.of(at("Worker/0/0")), b"12"),
    Probe("u", True, at("Mgr"), Destination.of(at("Worker/All/All")), b"", 3),
    Refusal(Code.NO_ROUTE, "words", "u", sync=True),
    Violation(Code.NIL_POSITION, "words"),
    Quirks(turn=3.0),
    Credentials("host", frozenset({CertificateName.parse("taskd://job/Worker/0/0")})),
    Kind.WITHDRAW,
    {1: [2.5, None, True]},
    frozenset({"a", "b"}),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_value_is_written_and_read(sample: Any) -> None:
    def name(session: object) -> int:
        raise AssertionError(session)

    written = encode(sample, name)
    assert encode(decode(written, name), name) == written


def test_traced_message_is_read_without_its_span() -> None:
    traced = Traced("u", True, at("Mgr"), Destination.of(at("Worker/0/0")), b"1", {"traceparent": "x"})
    again = decode(encode(traced, id), lambda number: number)
    assert isinstance(again, Traced) and again.span == {}


def test_sessions_are_names() -> None:
    one, other = object(), object()
    known: list[object] = [one, other]
    assert encode([one, other, one, "up"], known.index) == [{"session": 0}, {"session": 1}, {"session": 0}, "up"]
    assert decode({"session": 1}, known.__getitem__) is other


def test_unknown_event_is_refused() -> None:
    """A record names methods: only those of `EVENTS` are called."""
    with pytest.raises(ValueError, match="line 1: '__init__' is no event of a Router"):
        replay(['{"event": "__init__", "given": []}'])
