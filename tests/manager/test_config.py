"""Settings of a Manager."""

from __future__ import annotations

import pytest

from taskd_net.codes import ConfigError
from taskd_net.manager import ManagerConfig
from taskd_net.manager.config import ignored_interval, interval_of_environment, size


@pytest.mark.parametrize(("value", "recovers"), [("on", True), ("process", True), ("", False), ("off", False)])
def test_recovery_by_process_is_off_by_name(value: str, recovers: bool) -> None:
    assert ManagerConfig(job_id="J", fault_recover=value, clusterd=True).decisions().recovers is recovers


@pytest.mark.parametrize(
    ("text", "milliseconds", "ignored"),
    [("250", 250, None), (" 100 ", 100, None), ("", 100, None), ("99", 100, "99"), ("1001", 100, "1001")],
)
def test_interval_of_the_environment(
    text: str, milliseconds: int, ignored: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKD_PROCESS_INTERVAL", text)
    assert (interval_of_environment(), ignored_interval()) == (milliseconds, ignored)


def test_interval_of_the_configuration_has_bounds() -> None:
    assert ManagerConfig(job_id="J", process_interval=250).decisions().interval == 0.25
    with pytest.raises(ConfigError, match="process_interval is 99"):
        ManagerConfig(job_id="J", process_interval=99)


def test_size_of_a_job_may_be_unknown() -> None:
    assert (size("2x8").nodes, size("2x8").processes, size(None).nodes, size("").processes) == (2, 8, 0, 0)
