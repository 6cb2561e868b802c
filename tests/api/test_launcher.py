"""A launcher's client of ClusterD, by the platform's variables."""

from __future__ import annotations

import pytest

from taskd_net.api.launcher import clusterd_of_environment, init_grpc_client
from taskd_net.codes import ConfigError
from taskd_net.wire import recover_pb2 as wire
from tests.peers.clusterd import ClusterD

pytestmark = pytest.mark.oldest

VARIABLES = ("MINDX_TASK_ID", "TASKD_NET_CLUSTERD_ADDR", "LOCAL_PROXY_ENABLE", "MINDX_SERVER_IP", "MINDX_SERVER_DOMAIN")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the variables is set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_client_asks_for_the_job_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ClusterD() as clusterd:
        clusterd.answers["Init"].append(403)
        monkeypatch.setenv("MINDX_TASK_ID", "J")
        monkeypatch.setenv("TASKD_NET_CLUSTERD_ADDR", clusterd.address)
        init_grpc_client("pytorch")
        assert clusterd.calls == [("Init", wire.ClientInfo(jobId="J", role="master agent"))]


def test_variables_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="MINDX_TASK_ID is not set; expected the id of the job"):
        init_grpc_client()
    monkeypatch.setenv("MINDX_TASK_ID", "J")
    with pytest.raises(ConfigError, match="MINDX_SERVER_IP is not set; expected the host of ClusterD"):
        init_grpc_client()


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
