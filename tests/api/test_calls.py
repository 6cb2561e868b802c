"""The documented calls as such: their signatures, and that each failure is False and one line, whoever calls."""

from __future__ import annotations

import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import taskd_net
from taskd_net.base import logs
from taskd_net.job import api
from taskd_net.job.api import proxy
from taskd_net.job.arguments import UPSTREAM
from tests.api.conftest import SOON, Failures, rank_3_of_8
from tests.ports import free_port

INITIALISED = "it has not been initialised; init_taskd_{} first"


def test_signatures_are_those_of_the_reference() -> None:
    signatures = {name: str(inspect.signature(getattr(api, name))) for name in api.__all__ if name.islower()}
    parameters = {name: signature.rpartition(" -> ")[0] for name, signature in signatures.items()}
    assert parameters["init_taskd_worker"] == (
        "(rank_id: 'int', upper_limit_of_disk_in_mb: 'int' = 5000, framework: 'str' = 'pt')"
    )
    assert parameters["init_taskd_agent"] == "(config: 'Mapping[str, object]' = {}, cls: 'object' = None)"
    assert parameters["register_func"].startswith("(operator: ") and ", func: " in parameters["register_func"]
    for role in ("proxy", "manager"):
        assert parameters[f"init_taskd_{role}"] == "(config: 'Mapping[str, object]')"
    for name in ("start_taskd_worker", "start_taskd_agent", "start_taskd_manager", "destroy_taskd_worker"):
        assert parameters[name] == "()"
    results = {name: s.rpartition(" -> ")[2] for name, s in signatures.items() if "taskd" in name}
    assert results.pop("start_taskd_agent") == "'object'"
    assert set(results.values()) == {"'bool'"}


def test_calls_are_in_the_package_and_imported_when_used() -> None:
    code = (
        "import sys, taskd_net; assert 'taskd_net.job.api' not in sys.modules;"
        "from taskd_net import init_taskd_worker; assert 'taskd_net.job.api' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert taskd_net.init_taskd_worker is api.init_taskd_worker
    assert set(taskd_net.__all__) >= {name for name in api.__all__ if name.islower()}
    assert all(hasattr(taskd_net, name) for name in taskd_net.__all__)
    with pytest.raises(AttributeError, match="no attribute 'init_taskd_boss'"):
        taskd_net.init_taskd_boss  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("role", ["worker", "agent", "proxy", "manager"])
def test_before_init_there_is_nothing_to_start_or_destroy(role: str, failures: Failures) -> None:
    for verb in ("start", "destroy"):
        call = f"{verb}_taskd_{role}"
        if hasattr(api, call):
            assert getattr(api, call)() is False
            assert failures.only() == f'event=call_failed call={call} reason="{INITIALISED.format(role)}" level=error'
    assert api.send_to_manager(1410, "STATUS") is False
    assert "init_taskd_worker first" in failures.only()


WORKER_ARGUMENTS = [
    ((-1,), "rank_id is -1; expected a whole number, at least 0"),
    (("3",), "rank_id is '3'; expected a whole number"),
    ((None,), "rank_id is None;"),
    ((True,), "rank_id is True;"),
    ((3.0,), "rank_id is 3.0;"),
    ((3, -5), "upper_limit_of_disk_in_mb is -5;"),
    ((3, "5000"), "upper_limit_of_disk_in_mb is '5000';"),
    ((3, 5000, "tf"), "framework is 'tf'; expected 'pt' or 'ms'"),
    ((3, 5000, None), "framework is None;"),
    ((3, 5000, []), "framework is [];"),
    ((), "missing 1 required positional argument: 'rank_id'"),
    ((3, 5000, "ms"), "MS_NODE_RANK is not set; expected a whole number"),
]


@pytest.mark.parametrize(("arguments", "reason"), WORKER_ARGUMENTS)
def test_bad_arguments_of_a_worker(
    arguments: tuple[object, ...], reason: str, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank_3_of_8(monkeypatch)
    assert api.init_taskd_worker(*arguments) is False  # type: ignore[arg-type]
    assert reason in (line := failures.only()) and "call=init_taskd_worker" in line


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("RANK", None, "RANK is not set"),
        ("RANK", "three", "RANK is 'three'; expected a whole number"),
        ("RANK", "-1", "RANK is '-1';"),
        ("LOCAL_WORLD_SIZE", None, "LOCAL_WORLD_SIZE is not set"),
        ("LOCAL_WORLD_SIZE", "0", "LOCAL_WORLD_SIZE is 0; expected at least 1"),
        (UPSTREAM, "127.0.0.1", "TASKD_NET_UPSTREAM: upstream is '127.0.0.1'; expected host:port"),
    ],
)
def test_bad_environment_of_a_worker(
    variable: str, value: str | None, reason: str, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank_3_of_8(monkeypatch)
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
    assert api.init_taskd_worker(3) is False
    assert reason in failures.only()


@pytest.mark.parametrize(
    ("call", "config", "reason"),
    [
        ("agent", None, "config is None; expected a dict"),
        ("agent", ["Framework"], "config is ['Framework']; expected a dict"),
        ("agent", {"Framework": "TensorFlow"}, "Framework is 'TensorFlow'; expected 'PyTorch' or 'MindSpore'"),
        ("agent", {"Framework": []}, "Framework is [];"),
        ("agent", {"UpstreamAddr": "300.1.1.1:1"}, "UpstreamAddr is '300.1.1.1:1'; expected a host name or an IP"),
        ("agent", {"UpstreamAddr": ""}, "UpstreamAddr is '';"),
        ("agent", {"UpstreamAddr": 5}, "UpstreamAddr is 5;"),
        ("agent", {"UpstreamAddr": "a b"}, "UpstreamAddr is 'a b';"),
        ("agent", {"UpstreamPort": "http"}, "UpstreamPort is 'http'; expected a port, 1 to 65535"),
        ("agent", {"UpstreamPort": 0}, "UpstreamPort is 0;"),
        ("agent", {"UpstreamPort": 70000}, "UpstreamPort is 70000;"),
        ("agent", {"ServerRank": "first"}, "ServerRank is 'first'; expected a whole number"),
        ("agent", {"ServerRank": -1}, "ServerRank is -1;"),
        ("proxy", "127.0.0.1", "config is '127.0.0.1'; expected a dict"),
        ("proxy", {"ListenAddr": "::zz"}, "ListenAddr is '::zz';"),
        ("proxy", {"ListenAddr": "192.0.2.1", "ListenPort": "9602"}, "cannot listen on 192.0.2.1:9602"),
        ("proxy", {"ListenPort": True}, "ListenPort is True;"),
        ("proxy", {"UpstreamPort": "-9"}, "UpstreamPort is '-9';"),
        ("proxy", {"ServerRank": None}, "ServerRank is None;"),
        ("manager", 7, "config is 7; expected a dict"),
        ("manager", {"job_id": 7}, "job_id is 7; expected a text"),
        ("manager", {"node_nums": "two"}, "node_nums is 'two'; expected a whole number"),
        ("manager", {"proc_per_node": -1}, "proc_per_node is -1;"),
        ("manager", {"cluster_infos": "x"}, "cluster_infos is 'x'; expected a dict"),
        ("manager", {"cluster_infos": [{"ip": 5}]}, "ip of cluster_infos is 5; expected a text"),
    ],
)
def test_bad_config(call: str, config: object, reason: str, failures: Failures) -> None:
    assert getattr(api, f"init_taskd_{call}")(config) is False
    assert reason in (line := failures.only()) and f"call=init_taskd_{call}" in line


def test_bad_rank_in_the_environment(failures: Failures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "x")
    assert api.init_taskd_agent() is False
    assert "RANK is 'x'" in failures.only()
    assert api.init_taskd_proxy({}) is False
    assert "RANK is 'x'" in failures.only()
    monkeypatch.setenv("POD_IP", "nobody:5")
    assert api.init_taskd_manager({}) is False
    assert "POD_IP is 'nobody:5'" in failures.only()


def test_second_init_and_second_start(failures: Failures, monkeypatch: pytest.MonkeyPatch) -> None:
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    assert api.init_taskd_worker(3)
    assert api.init_taskd_worker(3) is False
    assert "it has been initialised already; destroy_taskd_worker first" in failures.only()
    assert api.start_taskd_worker()
    assert api.start_taskd_worker() is False
    assert "it has been started already" in failures.only()
    assert api.destroy_taskd_worker()
    assert api.destroy_taskd_worker() is False
    assert "init_taskd_worker first" in failures.only()


def test_many_threads_at_once(failures: Failures, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of calls that are made at once, one has its way; the others say why not; none waits for ever."""
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    for _ in range(5):
        logs.start("x.log")  # a line that is logged while handlers change may reach the test's own twice
        for call in (lambda: api.init_taskd_worker(3), api.start_taskd_worker, api.destroy_taskd_worker):
            done = [future.result(SOON) for future in [threads.submit(call) for _ in range(8)]]
            assert sorted(done) == [False] * 7 + [True]
            assert len(failures.lines) == 7
            failures.lines.clear()
    logs.stop()
    calls = (lambda: api.init_taskd_worker(3), api.start_taskd_worker, api.destroy_taskd_worker)
    for future in [threads.submit(calls[n % 3]) for n in range(90)]:
        assert future.result(SOON) in (True, False)
    failures.lines.clear()


def test_log_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file for the process, named after its first role, from its first init to its last destroy."""
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    agent = {"Framework": "MindSpore", "ServerRank": 2, "UpstreamPort": 1}
    assert api.init_taskd_worker(3) and api.init_taskd_agent(agent)
    assert api.destroy_taskd_worker() and logs.started()
    assert api.destroy_taskd_agent() and not logs.started()
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["taskd-worker-3.log"]
    assert "closed" in (tmp_path / "log" / "taskd-worker-3.log").read_text()
    port = free_port()
    assert api.init_taskd_proxy({"ListenPort": port, "ServerRank": 2}) and api.destroy_taskd_proxy()
    assert api.init_taskd_agent(agent) and api.destroy_taskd_agent()
    names = {"taskd-worker-3.log", "taskd-proxy-2.log", "agent-2.log"}
    assert {path.name for path in (tmp_path / "log").iterdir()} == names


def test_failure_of_an_init_is_in_its_log_file(failures: Failures, tmp_path: Path) -> None:
    port = free_port()
    assert api.init_taskd_proxy({"ListenPort": port})
    holder = proxy.slot._member
    proxy.slot._member = None
    try:
        assert api.init_taskd_proxy({"ListenPort": port}) is False
        assert "cannot listen" in failures.only()
        assert "cannot listen" in (tmp_path / "log" / "taskd-proxy-0.log").read_text()
    finally:
        proxy.slot._member = holder


def test_log_that_cannot_be_written_is_no_reason_to_train_without_a_mesh(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    monkeypatch.setenv(logs.PATH, "/dev/null/log")
    assert api.init_taskd_worker(3) and api.destroy_taskd_worker()
    assert caplog.text.count("no_log_file") == 1 and "TASKD_LOG_PATH is '/dev/null/log'" in caplog.text


def test_log_of_the_application_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    logs.start("of-the-application.log", stdout=False)
    try:
        assert api.init_taskd_worker(3) and api.destroy_taskd_worker()
        assert logs.started()
    finally:
        logs.stop()
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["of-the-application.log"]
