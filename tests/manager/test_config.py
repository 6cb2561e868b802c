"""Settings of a Manager."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.base.schema import settings_of
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.config import ignored_interval, size


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
    said = settings_of(ManagerConfig)["process_interval"].variable("process_interval", os.environ)
    found = int(said[1]) if said else ManagerConfig(job_id="J").process_interval
    assert (found, ignored_interval()) == (milliseconds, ignored)


def test_interval_of_the_configuration_has_bounds() -> None:
    assert ManagerConfig(job_id="J", process_interval=250).decisions().interval == 0.25
    with pytest.raises(ConfigError, match="process_interval is 99"):
        ManagerConfig(job_id="J", process_interval=99)


def test_recovery_in_place_is_off_by_default_and_has_a_bound_on_its_patience() -> None:
    assert not ManagerConfig(job_id="J").decisions().in_place
    decisions = ManagerConfig(job_id="J", in_place=True, in_place_timeout=5.0).decisions()
    assert (decisions.in_place, decisions.in_place_s) == (True, 5.0)
    with pytest.raises(ConfigError, match=r"in_place_timeout is 3601"):
        ManagerConfig(job_id="J", in_place=True, in_place_timeout=3601.0)


@pytest.mark.parametrize(
    ("settings", "job"),
    [
        ({}, False),
        ({"nodes": 2}, False),
        ({"nodes": 2, "restarts": "job"}, True),
        ({"nodes": 2, "in_place": True}, True),
        ({"nodes": 2, "in_place": True, "restarts": "platform"}, False),
        ({"nodes": 2, "in_place": True, "clusterd_addr": "10.0.0.1:8899"}, False),
        ({"nodes": 2, "in_place": True, "clusterd": True}, False),
        ({"in_place": True}, False),
    ],
)
def test_recovery_in_place_is_the_jobs_own_where_nothing_else_restarts(settings: dict[str, Any], job: bool) -> None:
    assert ManagerConfig(job_id="J", **settings).decisions().supervises is job


def test_hangs_are_answered_where_the_manager_restarts() -> None:
    given = ManagerConfig(job_id="J", hang_timeout=30.0, on_hang="all", nodes=2, processes_per_node=1)
    assert (given.decisions().hang_timeout, given.decisions().answers_hangs) == (30.0, False)
    assert replace(given, restarts="job").decisions().answers_hangs
    assert not replace(given, restarts="job", on_hang="report").decisions().answers_hangs


@pytest.mark.parametrize("wrong", [{"hang_timeout": -1.0}, {"hang_timeout": True}, {"on_hang": "kill"}])
def test_wrong_settings_of_hangs_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ManagerConfig(job_id="J", **wrong)


def test_rooted_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ManagerConfig(job_id="J", state="j.sqlite3", fault_config="/rules", fault_on_reset="bin/reset")
    rooted = given.rooted()
    assert rooted == replace(given, state=f"{tmp_path}/j.sqlite3", fault_on_reset=f"{tmp_path}/bin/reset")


def test_rooted_names_that_are_no_paths_stay() -> None:
    given = ManagerConfig(job_id="J", state="etcd://10.0.0.1:2379/taskd", fault_on_reset="reset-device")
    assert given.rooted() == given


def test_size_of_a_job_may_be_unknown() -> None:
    assert (size("2x8").nodes, size("2x8").processes, size(None).nodes, size("").processes) == (2, 8, 0, 0)


def test_subscription_needs_a_job_an_address_and_the_switch() -> None:
    whole = ManagerConfig(job_id="J", clusterd_addr="10.0.0.7:8899", fault_recover="on")
    assert whole.subscribes and whole.decisions().recovers
    for part in ({"job_id": None}, {"clusterd_addr": None}, {"taskd_enable": False}):
        without = replace(whole, **part)
        assert not without.subscribes and not without.decisions().recovers
    by_queue = replace(whole, clusterd=True)
    assert not by_queue.subscribes and by_queue.decisions().recovers


@pytest.mark.parametrize(("text", "seconds"), [("60", 60), ("3600", 3600), ("3601", 0), ("0", 0), ("soon", 0), ("", 0)])
def test_mindios_wait_for_a_decision_is_read(monkeypatch: pytest.MonkeyPatch, text: str, seconds: int) -> None:
    monkeypatch.setenv("MINDIO_WAIT_MINDX_TIME", text)
    assert ManagerConfig().decisions().decision_wait == seconds
