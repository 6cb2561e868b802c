"""Dataclasses as JSON values and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.job.decide.plain import from_plain, to_text


@dataclass
class Inner:
    number: int = 0


@dataclass
class Outer:
    text: str = ""
    ratio: float = 0.0
    maybe: Inner | None = None
    ranks: set[int] = field(default_factory=set)
    by_rank: dict[int, tuple[int, ...]] = field(default_factory=dict)
    by_name: dict[str, list[Inner]] = field(default_factory=dict)
    on: bool = False


def test_a_value_comes_back() -> None:
    value = Outer("a", 1.5, Inner(2), {3, 1}, {7: (1, 2)}, {"x": [Inner(4)]}, True)
    text = to_text(value)
    assert from_plain(Outer, json.loads(text), "state") == value
    assert json.loads(text)["ranks"] == [1, 3]


def test_missing_fields_take_their_defaults_and_others_are_ignored() -> None:
    assert from_plain(Outer, {"text": "a", "ratio": 2, "maybe": None, "later": 1}, "state") == Outer("a", 2.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "state is []; expected an object"),
        ({"text": 1}, "state.text is 1; expected str"),
        ({"on": 1}, "state.on is 1; expected bool"),
        ({"ratio": "x"}, "state.ratio is 'x'; expected float"),
        ({"maybe": {"number": True}}, "state.maybe.number is True; expected int"),
        ({"ranks": 1}, "state.ranks is 1; expected a list"),
        ({"by_rank": {"x": []}}, "state.by_rank is 'x'; expected a number as key"),
        ({"by_name": {"x": [1]}}, "state.by_name.x is 1; expected an object"),
    ],
)
def test_another_type_is_refused_with_its_place(value: object, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_plain(Outer, value, "state")
    assert str(error.value) == text
