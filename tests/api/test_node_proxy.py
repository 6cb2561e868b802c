"""The Proxy that an Agent starts beside itself, in a mesh of real sockets."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from taskd_net import BlockingNode, NodeConfig, Position, Retry
from taskd_net.base.address import Address
from taskd_net.base.body import Body
from taskd_net.job import api, node_proxy
from taskd_net.job.agent import supervision
from taskd_net.job.agent.agent import Told
from taskd_net.job.api import agent
from taskd_net.job.member import documented
from taskd_net.job.node_proxy import AgentsProxy
from taskd_net.net.tls.files import Tls
from taskd_net.observe.identify import Found, ServerKind
from tests.api.conftest import OWN_IP, SOON, Failures, until
from tests.api.frameworks import Msrun, SimpleElasticAgent
from tests.peers.certificates import Folder
from tests.peers.original.node import OriginalNode
from tests.ports import free_port

MINDSPORE: dict[str, object] = {"Framework": "MindSpore"}
PROXY, AGENT = Position.proxy(2), Position.agent(2)


@pytest.fixture
def master() -> Iterator[BlockingNode]:
    """The Mgr at the fixed port."""
    with BlockingNode(NodeConfig.mgr(listen=f"{OWN_IP}:9601")) as node:
        yield node


@pytest.fixture
def port() -> int:
    """The port of the node's Proxy, at this run's own address: on 127.0.0.1 others take any port meanwhile."""
    return free_port(OWN_IP)


@documented
def init(
    port: int,
    more: Mapping[str, object] = MINDSPORE,
    identify: float = node_proxy.IDENTIFY_S,
    silent: float = node_proxy.SILENT_S,
) -> bool:
    """Initialise an Agent of node 2."""
    config = {"UpstreamAddr": OWN_IP, "UpstreamPort": port, "ServerRank": 2, **more}
    elastic = None if "MindSpore" in more.values() else SimpleElasticAgent()
    made = agent.initialise(config, elastic, proxy=partial(AgentsProxy, identify=identify, silent=silent))
    return made is not None


def test_agent_says_whom_its_proxy_has_not_reached_while_it_waits_and_at_its_end(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, msrun: Msrun
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(supervision, "WAITS_AGAIN_S", 0.3)
    nobody = free_port(OWN_IP)
    monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
    monkeypatch.setenv("TASKD_NET_MGR_PORT", str(nobody))
    config = {**MINDSPORE, "UpstreamAddr": OWN_IP, "UpstreamPort": port, "ServerRank": 2}
    told = Told(patience=1.0)
    assert agent.initialise(config, look=0.1, told=told)
    with pytest.raises(SystemExit) as left:
        api.start_taskd_agent()
    assert left.value.code == 143
    reason = f"Register: nobody listens at {OWN_IP}:{nobody}"
    assert f"not joined within 1 s: {reason}" in caplog.text
    waits = [line for line in caplog.text.splitlines() if "waits_for_mgr" in line]
    assert len(waits) >= 2 and f'address={OWN_IP}:{nobody} reason="{reason}"' in waits[-1]


def there(master: BlockingNode, *positions: Position) -> None:
    """Wait until exactly these nodes are routed."""
    until(lambda: set(master.routes()) == set(positions))


@pytest.mark.parametrize(("framework", "variable"), [("PyTorch", "MASTER_ADDR"), ("MindSpore", "MS_SCHED_HOST")])
def test_proxy_of_an_agent_serves_the_node_until_the_agents_end(
    framework: str, variable: str, master: BlockingNode, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, OWN_IP)
    for _ in range(2):
        assert init(port, {"Framework": framework})
        there(master, PROXY, AGENT)
        with BlockingNode(NodeConfig.worker(server_rank=2, rank=17, upstream=f"{OWN_IP}:{port}")) as worker:
            worker.joined(SOON)
            assert master.send("down", to="Worker/2/17").ok
        assert api.destroy_taskd_agent()
        assert not node_proxy.slot.filled and not node_proxy._agents
        until(lambda: AGENT not in master.routes())


def test_host_that_is_another_one_at_the_start(
    master: BlockingNode, port: int, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor
) -> None:
    """msrun overwrites the platform's variable between the two calls."""
    msrun = Msrun()
    msrun.register()
    monkeypatch.setenv("MS_SCHED_HOST", "127.0.0.9")
    try:
        assert init(port) and node_proxy.slot.member.config.upstream == "127.0.0.9:9601"
        monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
        result = threads.submit(api.start_taskd_agent)
        there(master, PROXY, AGENT)
        assert api.destroy_taskd_agent() and result.result(SOON) is True
    finally:
        msrun.end()


def test_host_that_is_none_at_the_start_ends_msrun(
    port: int, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    """A result would be ignored, and the job would seem to have succeeded."""
    msrun = Msrun()
    msrun.register()
    assert init(port)
    monkeypatch.setenv("MS_SCHED_HOST", "no host")
    with pytest.raises(SystemExit) as left:
        api.start_taskd_agent()
    assert left.value.code == 1 and not agent.slot.filled
    assert "MS_SCHED_HOST is 'no host'; expected a host name or an IP address" in failures.only()


def test_host_that_is_known_later_and_an_exit(
    master: BlockingNode, port: int, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor
) -> None:
    """msrun may set it between the two calls. The Proxy has gone with the Agent's process when that leaves."""
    msrun = Msrun()
    msrun.register()
    try:
        assert init(port) and not node_proxy.slot.filled
        monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
        result = threads.submit(api.start_taskd_agent)
        there(master, PROXY, AGENT)
        # A route is there before the streams on the way are certain to stand.
        assert master.send(Body("ACTION", 203).to_json(), to=AGENT, retry=Retry()).ok
        error = result.exception(SOON)
        assert isinstance(error, SystemExit) and error.code == 1
        assert not node_proxy.slot.filled
    finally:
        msrun.end()


def test_proxy_that_listens_already_is_used(
    master: BlockingNode, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", "192.0.2.1")
    config = NodeConfig.proxy(server_rank=2, listen="127.0.0.1:0", upstream=master.address or "")
    with BlockingNode(config) as near:
        assert init(int((near.address or "").rpartition(":")[2]), MINDSPORE | {"UpstreamAddr": "127.0.0.1"})
        there(master, PROXY, AGENT)
        assert not node_proxy.slot.filled
        assert api.destroy_taskd_agent()
        there(master, PROXY)


def started(*command: str) -> subprocess.Popen[str]:
    """A process that has said its first line, with the address where it listens."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline()
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=SOON)


def test_proxy_of_the_node_in_a_process_of_its_own_is_used(
    master: BlockingNode, port: int, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", "192.0.2.1")
    addresses = ("--listen", f"{OWN_IP}:{port}", "--upstream", f"{OWN_IP}:9601")
    proxy = started("-m", "taskd_net.cli", "proxy", "--server-rank", "2", *addresses)
    try:
        assert init(port) and not node_proxy.slot.filled
        there(master, PROXY, AGENT)
        assert api.destroy_taskd_agent()
    finally:
        ended(proxy)


LISTENS = """
import socket, sys
listening = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
while True:
    listening.accept()[0].close()
"""


@pytest.mark.parametrize(
    ("holder", "found"),
    [
        (
            ("-m", "taskd_net.cli", "proxy", "--server-rank=7", "--upstream=192.0.2.1:9601", "--listen=HOST:PORT"),
            "Proxy/7",
        ),
        (("-m", "taskd_net.cli", "mgr", "--listen=HOST:PORT"), "Mgr/0"),
        (("-c", LISTENS, "HOST", "PORT"), "no gRPC server that answers"),
    ],
    ids=["proxy-of-another-node", "mgr", "other-program"],
)
def test_other_process_at_the_proxys_address_is_an_error(
    holder: tuple[str, ...], found: str, port: int, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
    # Only a program that never answers is asked again.
    silent = 2.0 if found.startswith("no") else SOON
    other = started(*(part.replace("HOST", OWN_IP).replace("PORT", str(port)) for part in holder))
    try:
        assert init(port, identify=1.0, silent=silent) is False
        assert not agent.slot.filled and not node_proxy.slot.filled
        assert f"Found there: {found}; expected Proxy/2" in failures.only()
    finally:
        ended(other)


@pytest.mark.parametrize("job", ["a", "b"])
def test_proxy_of_another_job_is_not_the_nodes(
    job: str, port: int, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
    monkeypatch.setenv("TASKD_NET_JOB_ID", "b")
    there_is = NodeConfig.proxy(server_rank=2, listen=f"{OWN_IP}:{port}", upstream=f"{OWN_IP}:9601", job_id=job)
    with BlockingNode(there_is):
        assert init(port) is (job == "b")
        assert not node_proxy.slot.filled
        if job == "a":
            assert "Found there: Proxy/2 of job 'a'; expected Proxy/2 of job 'b'" in failures.only()
        else:
            assert api.destroy_taskd_agent()


def test_nodes_of_the_calls_have_the_id_and_the_mgrs_port_of_the_environment(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mgr_port = free_port(OWN_IP)
    monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
    monkeypatch.setenv("TASKD_NET_JOB_ID", "b")
    monkeypatch.setenv("TASKD_NET_MGR_PORT", str(mgr_port))
    with BlockingNode(NodeConfig.mgr(listen=f"{OWN_IP}:{mgr_port}", job_id="b")) as mgr:
        assert init(port)
        there(mgr, PROXY, AGENT)
        assert {node_proxy.slot.member.config.job_id, agent.slot.member.node.config.job_id} == {"b"}
        assert api.destroy_taskd_agent()


def test_proxy_of_the_node_that_is_stopped_for_a_while_is_asked_again(
    master: BlockingNode, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
    asked: list[ServerKind] = []
    identify = node_proxy.identified

    def noted(address: Address, tls: Tls | None, seconds: float) -> Found:
        asked.append((found := identify(address, tls, seconds)).kind)
        if asked == [found.kind]:
            proxy.send_signal(signal.SIGCONT)
        return found

    monkeypatch.setattr(node_proxy, "identified", noted)
    listens = (f"--listen={OWN_IP}:{port}", f"--upstream={OWN_IP}:9601")
    proxy = started("-m", "taskd_net.cli", "proxy", "--server-rank=2", *listens)
    try:
        there(master, PROXY)
        proxy.send_signal(signal.SIGSTOP)
        assert init(port, identify=0.5)
        assert len(asked) > 1 and asked[0] in (ServerKind.SILENT, ServerKind.NONE)
        assert not node_proxy.slot.filled and "held by Proxy/2" in caplog.text
        there(master, PROXY, AGENT)
        assert api.destroy_taskd_agent()
    finally:
        ended(proxy)


async def test_proxy_of_the_original_does_not_say_its_rank_and_is_believed(
    monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", "192.0.2.1")
    async with OriginalNode("Mgr/0/-1") as root, OriginalNode("Proxy/2/-1", root.address) as theirs:
        config = MINDSPORE | {"UpstreamAddr": "127.0.0.1"}
        assert await asyncio.to_thread(init, int(theirs.address.rpartition(":")[2]), config, identify=1.0)
        assert not node_proxy.slot.filled
        await asyncio.to_thread(agent.slot.member.node.joined, SOON)
        assert await asyncio.to_thread(api.destroy_taskd_agent)


def test_proxy_of_the_user_before_the_agent(
    master: BlockingNode, port: int, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    """It stays the only one of this process, also at another address than the Agent's upstream."""
    monkeypatch.setenv("MS_SCHED_HOST", "192.0.2.1")
    assert api.init_taskd_proxy({"ListenAddr": OWN_IP, "ListenPort": port, "UpstreamAddr": OWN_IP, "ServerRank": 2})
    assert init(port)
    there(master, PROXY, AGENT)
    assert api.destroy_taskd_agent()
    there(master, PROXY)
    assert init(free_port(OWN_IP))
    assert len(node_proxy._agents) == 0
    assert api.destroy_taskd_agent() and api.destroy_taskd_proxy()


def test_proxy_of_the_user_after_the_agent_replaces_the_agents(
    master: BlockingNode, port: int, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", "192.0.2.1")  # the Agent's Proxy finds no Mgr there
    assert init(port) and node_proxy.slot.filled
    assert api.init_taskd_proxy({"ListenAddr": OWN_IP, "ListenPort": port, "UpstreamAddr": OWN_IP, "ServerRank": 2})
    there(master, PROXY, AGENT)
    assert api.destroy_taskd_agent()
    there(master, PROXY)
    assert api.destroy_taskd_proxy()


def test_proxy_of_the_agent_may_be_destroyed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
    assert init(port) and api.destroy_taskd_proxy() and not node_proxy.slot.filled
    assert api.destroy_taskd_agent()


@pytest.mark.parametrize(
    ("environment", "config", "upstream"),
    [
        ({}, {}, None),
        ({"MS_SCHED_HOST": ""}, {}, None),
        ({"MASTER_ADDR": "10.0.0.1"}, {}, None),
        ({"MS_SCHED_HOST": "10.0.0.1"}, {}, "10.0.0.1:9601"),
        ({"MS_SCHED_HOST": "fe80::1"}, {}, "[fe80::1]:9601"),
        ({"MS_SCHED_HOST": "10.0.0.1"}, {"UpstreamAddr": "localhost"}, "10.0.0.1:9601"),
        ({"MS_SCHED_HOST": "10.0.0.1"}, {"UpstreamAddr": "::1"}, "10.0.0.1:9601"),
        ({"MS_SCHED_HOST": "10.0.0.1"}, {"UpstreamAddr": "10.0.0.2"}, None),
        ({"MS_SCHED_HOST": "10.0.0.1"}, {"UpstreamAddr": "node-0.job"}, None),
        ({"MS_SCHED_HOST": "10.0.0.1", "LOCAL_PROXY_ENABLE": "on"}, {}, "127.0.0.1:9601"),
        ({"LOCAL_PROXY_ENABLE": "on"}, {}, "127.0.0.1:9601"),
    ],
)
def test_conditions(
    environment: dict[str, str],
    config: dict[str, object],
    upstream: str | None,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert init(port, MINDSPORE | config)
    proxies = [node.config for node in node_proxy._agents]
    assert [(str(proxy.position), proxy.upstream) for proxy in proxies] == ([("Proxy/2", upstream)] if upstream else [])
    assert api.destroy_taskd_agent()


def test_host_that_is_none(port: int, failures: Failures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MS_SCHED_HOST", "a b")
    assert init(port) is False and not agent.slot.filled
    assert "MS_SCHED_HOST is 'a b'; expected a host name or an IP address" in failures.only()
    SimpleElasticAgent().register()
    assert init(port, {"Framework": "PyTorch"})
    monkeypatch.setenv("MASTER_ADDR", "a b")
    assert api.start_taskd_agent() is False
    assert "MASTER_ADDR is 'a b'" in failures.only()
    assert api.destroy_taskd_agent()


def test_agent_without_the_files_of_a_server(
    port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, failures: Failures
) -> None:
    """A Proxy that listens with TLS needs them, so it is another process."""
    folder = Folder(tmp_path / "tls")
    caplog.set_level("INFO")
    monkeypatch.setenv("MS_SCHED_HOST", OWN_IP)
    files = {"ca": folder.ca, "client_key": folder.key, "client_crt": folder.crt}
    assert init(port, MINDSPORE | {"enable_tls": True, "tls_conf": files})
    assert not node_proxy.slot.filled and "no_own_proxy" in caplog.text
    assert api.destroy_taskd_agent()
