"""TLS in the documented calls: the names of TaskD's configuration, and the environment for a Worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net import BlockingNode, NodeConfig
from taskd_net.job import api
from taskd_net.job.api import worker
from taskd_net.job.arguments import UPSTREAM
from tests.api.conftest import OWN_IP, SOON, Failures
from tests.peers.certificates import Folder
from tests.ports import free_port


def test_a_job_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manager, Proxy and Worker of one job, a Worker of another thread's loop beside them, and new certificates."""
    monkeypatch.setattr("taskd_net.base.chance.chance.uniform", lambda least, _: least)  # no node waits before it moves
    files = Folder(tmp_path / "certs")
    files.issue(hosts=("127.0.0.1", OWN_IP))
    conf = {"ca": files.ca, "server_key": files.key, "server_crt": files.crt}
    conf |= {"client_key": files.key, "client_crt": files.crt}
    monkeypatch.setenv("POD_IP", OWN_IP)
    assert api.init_taskd_manager({"enable_tls": True, "tls_conf": conf})
    listen = free_port()
    proxy = {"ListenPort": listen, "UpstreamAddr": OWN_IP, "enable_tls": "true", "tls_conf": conf, "ServerRank": 0}
    plain = free_port()
    assert api.init_taskd_proxy({**proxy, "PlainListenPort": plain})
    for name in ("ca", "client_key", "client_crt"):
        monkeypatch.setenv(f"TASKD_NET_{name.upper()}", conf[name])
    monkeypatch.setenv(UPSTREAM, f"127.0.0.1:{listen}")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert api.init_taskd_worker(0)
    member = worker.slot.member
    with BlockingNode(NodeConfig.worker(server_rank=0, rank=1, upstream=f"127.0.0.1:{plain}")) as local:
        member.node.joined(SOON)
        local.joined(SOON)
        for _ in range(3):
            files.issue(hosts=("127.0.0.1", OWN_IP))
            for _ in range(50):
                assert member.node.send("up", to="Worker/0/1", timeout=SOON).ok
                assert local.receive(SOON).body == "up"

    assert api.destroy_taskd_worker() and api.destroy_taskd_proxy() and api.destroy_taskd_manager()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"enable_tls": "perhaps"}, "enable_tls is 'perhaps'; expected True or False"),
        ({"enable_tls": True}, "server_key is missing; enable_tls is on"),
        ({"tls_conf": "x"}, "tls_conf is 'x'; expected a dict with ca, server_key"),
        ({"tls_conf": {"cert": "x"}}, "tls_conf has 'cert'; expected ca, server_key"),
        ({"tls_conf": {"ca": 3}}, "ca is 3; expected the path of a file"),
        ({"tls_conf": {"ca": "/nowhere", "server_key": "k", "server_crt": "c"}}, "which cannot be read"),
        ({"PlainListenAddr": "10.0.0.1"}, "plain_listen is '10.0.0.1:9602'; expected 127.0.0.1"),
    ],
)
def test_what_is_wrong_is_one_line(failures: Failures, config: dict[str, object], said: str) -> None:
    assert api.init_taskd_proxy({"ListenPort": free_port(), **config}) is False
    assert said in failures.only()


def test_switched_off_in_the_dict_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKD_NET_CA", "/nowhere")
    assert api.init_taskd_proxy({"ListenPort": free_port(), "enable_tls": False})
    assert api.destroy_taskd_proxy()
    assert api.init_taskd_proxy({"ListenPort": free_port()}) is False
