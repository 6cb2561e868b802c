"""Limits on peers: their ranges, checked by the config of a node."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from taskd_net import ConfigError, Limits, NodeConfig
from taskd_net.base import limits
from taskd_net.base.peer_limits import DEFAULT
from taskd_net.base.schema import settings_of

WHOLE = [field.name for field in fields(Limits) if field.name != "registration_time"]


def node(**values: Any) -> NodeConfig:
    return NodeConfig.mgr(limits=Limits(**values))


def test_every_limit_is_a_setting() -> None:
    assert list(settings_of(Limits)) == [field.name for field in fields(Limits)]
    assert node().limits == DEFAULT


@pytest.mark.parametrize("name", WHOLE)
def test_bounds_are_allowed_and_beyond_is_refused_by_name(name: str) -> None:
    setting = settings_of(Limits)[name]
    for value in (setting.least, setting.most):
        assert value is not None
        assert getattr(node(**{name: value}).limits, name) == value
    beyond: list[object] = [setting.least - 1, (setting.most or 0) + 1, True, 1.5, "7", None]
    for wrong in beyond:
        with pytest.raises(ConfigError, match=rf"^{name} is .* expected a whole number from {setting.least} to "):
            node(**{name: wrong})


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "3", None, limits.TIMEOUT_MAX_S * 2])
def test_registration_time_is_seconds(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^registration_time is "):
        node(registration_time=value)


def test_each_child_may_send_the_largest_message() -> None:
    settings = settings_of(Limits)
    assert settings["child_bytes"].least == settings["total_bytes"].least / 4 == limits.MESSAGE_BYTES
