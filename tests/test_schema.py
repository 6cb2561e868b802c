"""Settings as data: ranges and their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from taskd_net import ConfigError
from taskd_net.base.peer_limits import Limits
from taskd_net.base.schema import Kind, Setting, described, require_all, setting, settings_of
from taskd_net.net.tls.files import Tls
from taskd_net.node.config import NodeConfig


def declared(kind: Kind, default: object = None, **more: Any) -> Setting:
    return Setting(kind=kind, default=default, about="A thing.", **more)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (declared(Kind.WHOLE, least=1), "1 or more"),
        (declared(Kind.WHOLE, least=1, most=9), "1 to 9"),
        (declared(Kind.SECONDS), "above 0"),
        (declared(Kind.SECONDS, most=86_400.0), "above 0, to 86400"),
        (declared(Kind.PERIOD, most=86_400.0), "0 to 86400"),
        (declared(Kind.CHOICE, choices=("a", "b")), "`a`, `b`"),
        (declared(Kind.ADDRESS), "host:port"),
    ],
)
def test_range_in_words(setting: Setting, words: str) -> None:
    assert setting.range == words


@pytest.mark.parametrize(
    ("setting", "right", "wrong", "expected"),
    [
        (declared(Kind.WHOLE, 5, least=3), [3, 10**30], [2, True, "3", 3.0, None], "a whole number, at least 3"),
        (declared(Kind.WHOLE, 5, least=3, most=7), [3, 7], [2, 8, None], "a whole number from 3 to 7"),
        (declared(Kind.SECONDS, 1.0), [1, 0.001, 1e9], [0, -1, "1", float("inf"), None], "a number of seconds above 0"),
        (declared(Kind.SECONDS, 1.0, most=10.0), [10.0], [10.1], "at most 10.0"),
        (declared(Kind.CHOICE, "a", choices=("a", "b")), ["a", "b"], ["A", None, 1], "'a' or 'b'"),
        (declared(Kind.SWITCH, False), [True, False], [1, "on", None], "True or False"),
        (declared(Kind.ADDRESS), ["h:1"], ["h"], "host:port, e.g. 127.0.0.1:9602 or [::1]:9602"),
    ],
)
def test_values_in_range_and_out_of_it(
    setting: Setting, right: list[object], wrong: list[object], expected: str
) -> None:
    for value in right:
        setting.require("thing", value)
    for value in wrong:
        with pytest.raises(ConfigError) as error:
            setting.require("thing", value)
        assert str(error.value) == f"thing is {value!r}; expected {expected}"


@pytest.mark.parametrize("kind", Kind)
def test_no_value_is_in_range_where_it_is_the_default(kind: Kind) -> None:
    declared(kind).require("thing", None)


def test_every_field_of_a_config_is_checked() -> None:
    @dataclass(frozen=True)
    class Config:
        plain: int = 0
        many: int = setting(Kind.WHOLE, 1, least=1)
        late: float = setting(Kind.SECONDS, 1.0)

    assert list(settings_of(Config)) == ["many", "late"]
    require_all(Config(plain=-1))
    for wrong in (Config(many=0), Config(late=0.0)):
        with pytest.raises(ConfigError):
            require_all(wrong)


def test_texts_stand_in_the_docstring_of_the_class() -> None:
    @dataclass(frozen=True)
    class Config:
        """A config.

        Args:
            many: Number of things. More
                cost more.
            other: No setting.

        Raises:
            ValueError: never.
        """

        many: int = setting(Kind.WHOLE, 1)
        silent: int = setting(Kind.WHOLE, 1)

    assert {name: each.about for name, each in described(Config).items()} == {
        "many": "Number of things. More cost more.",
        "silent": "",
    }


@pytest.mark.parametrize("config", [NodeConfig, Limits, Tls])
def test_every_setting_has_a_text_and_a_default_in_its_range(config: type) -> None:
    for name, each in described(config).items():
        each.require(name, each.default)
        assert each.about.endswith("."), name
