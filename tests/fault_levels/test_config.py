"""taskd_net.job.faults.config: the settings."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.job.faults.config import FaultSettings
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import JobKind, Mode, SubHealth


def test_the_defaults_are_those_of_the_documents() -> None:
    config = FaultSettings()
    assert (config.edition, config.mode, config.job_kind) == (Edition.DOCUMENTED, Mode.RESCHEDULING, JobKind.TRAINING)
    assert config.answer_to_sub_health is SubHealth.IGNORE and config.linkdown_timeout == 30 and config.fault_watch


@pytest.mark.parametrize("value", [1, 30])
def test_the_range_of_the_timeout_of_a_link(value: int) -> None:
    assert FaultSettings(linkdown_timeout=value).linkdown_timeout == value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("linkdown_timeout", 0, "a whole number from 1 to 30"),
        ("linkdown_timeout", 31, "a whole number from 1 to 30"),
        ("fault_edition", "old", "'documented' or 'current'"),
        ("fault_mode", "kind", "'rescheduling' or 'grace'"),
        ("fault_job", "game", "'training' or 'inference'"),
        ("sub_health", "exit", "'ignore' or 'graceExit' or 'hotSwitch'"),
        ("fault_watch", 1, "True or False"),
    ],
)
def test_a_value_out_of_its_range_is_named(name: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is {value!r}; expected {expected}$"):
        FaultSettings(**{name: value})  # type: ignore[arg-type]
