"""Settings of the Agent, and its functions: what is taken, and what is refused."""

from __future__ import annotations

import pytest

from taskd_net.job import api
from taskd_net.job.api import agent
from taskd_net.job.frameworks.mindspore import settings as msrun_settings
from taskd_net.job.frameworks.mindspore.plans import MindSporePlans
from tests.api.conftest import Failures, Start
from tests.api.frameworks import Msrun, SimpleElasticAgent

pytestmark = pytest.mark.usefixtures("quick")


def test_functions_that_are_missing(msrun: Msrun, failures: Failures) -> None:
    agent._operators._functions.clear()
    assert api.init_taskd_agent({"Framework": "MindSpore"})
    assert api.register_func("START_ALL_WORKER", print)
    assert api.start_taskd_agent() is False
    assert "no function is registered for KILL_WORKER, START_WORKER_LIST, MONITOR" in failures.only()
    assert api.destroy_taskd_agent()


@pytest.mark.parametrize(
    ("operator", "func", "reason"),
    [
        ("KILL", print, "operator is 'KILL'; expected one of KILL_WORKER, START_ALL_WORKER, START_WORKER_LIST,"),
        (None, print, "operator is None;"),
        ([], print, "operator is [];"),
        ("MONITOR", None, "func is None; expected a function"),
    ],
)
def test_functions_that_are_none(operator: object, func: object, reason: str, failures: Failures) -> None:
    assert api.register_func(operator, func) is False  # type: ignore[arg-type]
    assert reason in failures.only()


def test_second_start(start: Start, msrun: Msrun, failures: Failures) -> None:
    running = start(msrun)
    assert api.start_taskd_agent() is False
    assert "it has been started already" in failures.only()
    assert not running.result.done()


@pytest.mark.parametrize(
    ("config", "environment", "position", "upstream"),
    [
        ({}, {}, "Agent/0", "127.0.0.1:9602"),
        ({}, {"RANK": "4", "MS_NODE_RANK": "5"}, "Agent/4", "127.0.0.1:9602"),
        ({"Framework": "MindSpore"}, {"RANK": "4", "MS_NODE_RANK": "5"}, "Agent/5", "127.0.0.1:9602"),
        ({"Framework": "MindSpore"}, {"RANK": "4"}, "Agent/0", "127.0.0.1:9602"),
        ({"ServerRank": 7, "UpstreamAddr": "::1", "UpstreamPort": 80}, {"RANK": "4"}, "Agent/7", "[::1]:80"),
        ({"ServerRank": "7", "UpstreamAddr": "[fe80::1]", "UpstreamPort": "80"}, {}, "Agent/7", "[fe80::1]:80"),
        ({"UpstreamAddr": "node-0.job", "Other": object()}, {}, "Agent/0", "node-0.job:9602"),
        ({}, {"TASKD_NET_UPSTREAM": "127.0.0.7:80"}, "Agent/0", "127.0.0.7:80"),
        ({"UpstreamPort": 81}, {"TASKD_NET_UPSTREAM": "127.0.0.7:80"}, "Agent/0", "127.0.0.1:81"),
    ],
)
def test_config(
    config: dict[str, object],
    environment: dict[str, str],
    position: str,
    upstream: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert api.init_taskd_agent(config, None if "Framework" in config else SimpleElasticAgent())
    node = agent.slot.member.node
    assert (str(node.position), node.config.upstream) == (position, upstream)
    assert api.destroy_taskd_agent()


@pytest.mark.parametrize("config", [{}, {"Framework": "PyTorch"}])
def test_pytorch_needs_its_agent(config: dict[str, object], failures: Failures) -> None:
    assert api.init_taskd_agent(config) is False
    assert "cls is None; expected the SimpleElasticAgent" in failures.only()


@pytest.mark.parametrize(
    ("devices", "restart", "plans"),
    [
        (["davinci0", "davinci_manager"], None, MindSporePlans(60.0, 15.0, 10.0)),
        (["davinci_manager", "null"], None, MindSporePlans(0.0, 0.0, 10.0)),
        (["davinci0"], "0", MindSporePlans(0.0, 0.0, 10.0)),
        ([], "20.5", MindSporePlans(20.5, 15.0, 10.0)),
    ],
)
def test_pauses_are_for_npus(
    devices: list[str],
    restart: str | None,
    plans: MindSporePlans,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path_factory.mktemp("dev")
    for device in devices:
        (folder / device).touch()
    monkeypatch.setattr(msrun_settings, "DEVICES", folder)
    monkeypatch.delenv(msrun_settings.FINISH_PAUSE)
    if restart is not None:
        monkeypatch.setenv(msrun_settings.RESTART_PAUSE, restart)
    assert msrun_settings.plans() == plans


@pytest.mark.parametrize("value", ["plugin", " Plugin"])
def test_agent_steps_back_for_msruns_plugin(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(msrun_settings.MSRUN, value)
    caplog.set_level("INFO")
    assert api.init_taskd_agent({"Framework": "MindSpore"}) is False
    assert "TASKD_NET_MSRUN is plugin" in caplog.text
    assert not agent.slot.filled
    assert api.init_taskd_agent({"Framework": "PyTorch"}, SimpleElasticAgent()), "it is a matter of msrun's alone"
    assert api.destroy_taskd_agent()


def test_choice_that_is_none(monkeypatch: pytest.MonkeyPatch, failures: Failures) -> None:
    monkeypatch.setenv(msrun_settings.MSRUN, "proxy")
    assert api.init_taskd_agent({"Framework": "MindSpore"}) is False
    assert "TASKD_NET_MSRUN is 'proxy'; expected agent or plugin" in failures.only()


@pytest.mark.parametrize("value", ["-1", "nan", "long"])
def test_pause_that_is_none(value: str, failures: Failures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(msrun_settings.RESTART_PAUSE, value)
    assert api.init_taskd_agent({"Framework": "MindSpore"}) is False
    reason = f"TASKD_NET_RESTART_PAUSE is '{value}'; expected a number of seconds, at least 0"
    assert reason in failures.only()
