"""A launcher's client of ClusterD, by the platform's variables."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from taskd_net.job.clusterd.launcher import init_grpc_client
from taskd_net.job.clusterd.place import CLUSTERD_VARIABLES, clusterd_of_environment
from taskd_net.net.wire import recover_pb2 as wire
from tests.mindspore.test_plugin import soon
from tests.peers.clusterd import ClusterD
from tests.ports import free_port

pytestmark = pytest.mark.oldest

VARIABLES = ("MINDX_TASK_ID", "TASKD_NET_CLUSTERD_ADDR", "LOCAL_PROXY_ENABLE", "MINDX_SERVER_IP", "MINDX_SERVER_DOMAIN")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the variables is set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_client_asks_for_the_job_of_the_environment_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with ClusterD() as clusterd:
        asked_late = threading.Event()

        def refuse() -> int:
            assert asked_late.wait(20)
            return 403

        clusterd.answers["Init"].append(refuse)
        monkeypatch.setenv("MINDX_TASK_ID", "J")
        monkeypatch.setenv("TASKD_NET_CLUSTERD_ADDR", clusterd.address)
        init_grpc_client("pytorch")  # returns before ClusterD has answered
        asked_late.set()
        soon(lambda: "recovery is switched off for the job" in caplog.text)
        assert clusterd.calls == [("Init", wire.ClientInfo(jobId="J", role="master agent"))]


def test_variables_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    init_grpc_client()
    assert "MINDX_TASK_ID is not set; expected the id of the job" in caplog.text
    monkeypatch.setenv("MINDX_TASK_ID", "J")
    init_grpc_client()
    assert "MINDX_SERVER_IP is not set; expected the host of ClusterD" in caplog.text


FORKS = """
import os, sys, warnings
from taskd_net import NodeForked
from taskd_net.job.clusterd import report_process_fault
from taskd_net.job.clusterd.launcher import init_grpc_client

warnings.simplefilter("ignore")
if sys.argv[1] == "client":
    init_grpc_client()
else:
    try:
        report_process_fault({0: 0})
    except Exception:
        pass
child = os.fork()
if child == 0:
    init_grpc_client()
    try:
        report_process_fault({0: 0})
    except NodeForked:
        sys.exit(7)
    sys.exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("first", ["client", "report"])
def test_forked_child_has_no_client_and_ends(first: str) -> None:
    variables = {"MINDX_TASK_ID": "J", "TASKD_NET_CLUSTERD_ADDR": f"127.0.0.1:{free_port()}"}
    command = [sys.executable, "-c", FORKS, first]
    found = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "7\n"


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, None),
        ({"MINDX_SERVER_IP": "10.0.0.7"}, "10.0.0.7:8899"),
        ({"MINDX_SERVER_IP": "10.0.0.7", "LOCAL_PROXY_ENABLE": "on"}, "127.0.0.1:8899"),
        ({"MINDX_SERVER_IP": "10.0.0.7", "LOCAL_PROXY_ENABLE": "off"}, "10.0.0.7:8899"),
        ({"MINDX_SERVER_IP": "10.0.0.7", "TASKD_NET_CLUSTERD_ADDR": "h:1"}, "h:1"),
        ({"MINDX_SERVER_DOMAIN": "clusterd"}, "clusterd:8899"),
    ],
)
def test_address(variables: dict[str, str], address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert clusterd_of_environment() == address


@pytest.mark.parametrize(
    ("variable", "text", "address"),
    [
        ("LOCAL_PROXY_ENABLE", "on", "127.0.0.1:8899"),
        ("LOCAL_PROXY_ENABLE", "off", None),
        ("MINDX_SERVER_IP", "10.0.0.7", "10.0.0.7:8899"),
        ("MINDX_SERVER_IP", "fd00::7", "[fd00::7]:8899"),
        ("MINDX_SERVER_IP", "", None),
        ("MINDX_SERVER_DOMAIN", "clusterd.mindx", "clusterd.mindx:8899"),
    ],
)
def test_taskds_variables_say_where_clusterd_is(variable: str, text: str, address: str | None) -> None:
    assert CLUSTERD_VARIABLES[variable](text) == address


def test_taskds_variables_have_an_order() -> None:
    assert list(CLUSTERD_VARIABLES) == ["LOCAL_PROXY_ENABLE", "MINDX_SERVER_IP", "MINDX_SERVER_DOMAIN"]
