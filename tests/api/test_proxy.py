"""The Proxy of a node."""

from __future__ import annotations

import pytest

from taskd_net import BlockingNode, Code, NodeConfig
from taskd_net.base.states import State
from taskd_net.job import api
from taskd_net.job.api import proxy
from tests.api.conftest import SOON, Failures, state_of
from tests.ports import free_port


def test_proxy_between_manager_and_worker(mgr: BlockingNode) -> None:
    """Again on the same port, as soon as it was destroyed."""
    host, port = (mgr.address or "").split(":")
    listen = free_port()
    for _ in range(3):
        config = {"ListenPort": str(listen), "UpstreamAddr": host, "UpstreamPort": port, "ServerRank": "4"}
        assert api.init_taskd_proxy(config)
        with BlockingNode(NodeConfig.worker(server_rank=4, rank=32, upstream=f"127.0.0.1:{listen}")) as leaf:
            leaf.joined(SOON)
            assert mgr.send("down", to="Worker/4/32").ok and leaf.receive(SOON).body == "down"
            assert leaf.send("to nobody", to="Proxy/4").code == Code.RECV_BUF_NIL
        assert api.destroy_taskd_proxy()


def test_proxy_that_is_destroyed_has_stopped(mgr: BlockingNode) -> None:
    host, _, port = (mgr.address or "").partition(":")
    assert api.init_taskd_proxy({"ListenPort": free_port(), "UpstreamAddr": host, "UpstreamPort": port})
    proxy.slot.member.joined(SOON)
    assert api.destroy_taskd_proxy()
    assert state_of(mgr, "Proxy/0") is State.STOPPED


def test_upstream_that_is_not_there_yet() -> None:
    listen, above = free_port(), free_port()
    assert api.init_taskd_proxy({"ListenPort": listen, "UpstreamPort": above})
    with (
        BlockingNode(NodeConfig.worker(server_rank=0, rank=0, upstream=f"127.0.0.1:{listen}")) as leaf,
        BlockingNode(NodeConfig.mgr(listen=f"127.0.0.1:{above}")),
    ):
        leaf.joined(SOON)
        assert leaf.send("up", to="Mgr").ok
    assert api.destroy_taskd_proxy()


def test_address_that_is_taken(failures: Failures, mgr: BlockingNode) -> None:
    port = (mgr.address or "").split(":")[1]
    assert api.init_taskd_proxy({"ListenPort": port}) is False
    assert f"cannot listen on 127.0.0.1:{port}: in use" in failures.only()
    assert api.init_taskd_proxy({"ListenPort": free_port()}) and api.destroy_taskd_proxy()


@pytest.mark.parametrize(
    ("config", "environment", "position", "listen", "upstream"),
    [
        ({}, {}, "Proxy/0", "127.0.0.1", "127.0.0.1:9601"),
        ({}, {"RANK": "2", "MS_NODE_RANK": "3"}, "Proxy/2", "127.0.0.1", "127.0.0.1:9601"),
        ({}, {"MS_NODE_RANK": "3"}, "Proxy/3", "127.0.0.1", "127.0.0.1:9601"),
        ({"ServerRank": 0}, {"RANK": "2"}, "Proxy/0", "127.0.0.1", "127.0.0.1:9601"),
        ({"UpstreamAddr": "10.0.0.1"}, {"LOCAL_PROXY_ENABLE": "on"}, "Proxy/0", "127.0.0.1", "127.0.0.1:9601"),
        ({"UpstreamAddr": "10.0.0.1"}, {"LOCAL_PROXY_ENABLE": "off"}, "Proxy/0", "127.0.0.1", "10.0.0.1:9601"),
        ({"ListenAddr": "::1", "UpstreamAddr": "[::1]"}, {}, "Proxy/0", "[::1]", "[::1]:9601"),
        ({"ListenAddr": "[::1]", "UpstreamAddr": "::1", "UpstreamPort": "1"}, {}, "Proxy/0", "[::1]", "[::1]:1"),
    ],
)
def test_config(
    config: dict[str, object],
    environment: dict[str, str],
    position: str,
    listen: str,
    upstream: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    port = free_port()
    assert api.init_taskd_proxy({"ListenPort": port, **config})
    node = proxy.slot.member
    assert (str(node.position), node.address, node.config.upstream) == (position, f"{listen}:{port}", upstream)
    assert api.destroy_taskd_proxy()
