"""The registered functions."""

from __future__ import annotations

import pytest

from taskd_net import ConfigError
from taskd_net.job.agent.workers import KILL_WORKER, MONITOR, NAMES, RESTART, Operators
from taskd_net.job.member import Refused

pytestmark = pytest.mark.oldest


def test_function_that_is_registered_again_replaces_the_one_before() -> None:
    operators = Operators()
    operators.register(KILL_WORKER, lambda pids: ("first", pids))
    assert operators.call(KILL_WORKER, [1]) == ("first", [1])
    operators.register(KILL_WORKER, lambda pids: ("second", pids))
    assert operators.call(KILL_WORKER, [1]) == ("second", [1])


def test_missing_functions_are_named() -> None:
    operators = Operators()
    operators.register(KILL_WORKER, print)
    operators.require([KILL_WORKER])
    with pytest.raises(Refused, match="no function is registered for MONITOR, RESTART"):
        operators.require([KILL_WORKER, MONITOR, RESTART])


@pytest.mark.parametrize(("operator", "func"), [("KILL", print), (7, print), ([], print), (KILL_WORKER, "print")])
def test_functions_that_are_none(operator: object, func: object) -> None:
    operators = Operators()
    with pytest.raises(ConfigError):
        operators.register(operator, func)
    with pytest.raises(Refused):
        operators.require(NAMES[:1])
