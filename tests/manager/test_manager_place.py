"""The place of a job's Manager: one that answers, somebody else, nobody, and one that is about to end."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskd_net import BlockingNode, ConfigError, NodeConfig
from taskd_net.base.address import Address
from taskd_net.job import manager_place
from taskd_net.job.manager_place import (
    Launched,
    answers,
    free_ports,
    is_local,
    is_taken,
    launched,
    listen_host,
)
from tests.manager.test_own_manager import Launcher
from tests.ports import free_port


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """A launcher with its Manager, which listens."""
    made = Launcher(tmp_path)
    made.answers()
    yield made
    made.process.kill()
    made.process.communicate()


def address() -> Address:
    return Address("127.0.0.1", free_port())


def test_nobody_answers_where_nobody_listens() -> None:
    assert not answers(address(), "a", 0.0)


@pytest.mark.parametrize(("of_mgr", "own"), [("a", "a"), ("", "a"), ("a", ""), ("", "")])
def test_mgr_of_the_job_or_without_one_answers(of_mgr: str, own: str) -> None:
    listen = address()
    with BlockingNode(NodeConfig.mgr(listen=str(listen), job_id=of_mgr or None)):
        assert answers(listen, own, 0.0) and is_taken(listen)
        assert launched(listen) is Launched.NONE


def test_mgr_of_another_job_and_a_node_that_is_no_mgr_are_refused_at_once() -> None:
    listen = address()
    tail = "give this job another --job-id or --mgr-port"
    with BlockingNode(NodeConfig.mgr(listen=str(listen), job_id="a")):
        text = f"the Mgr of job 'b' cannot listen on {listen}, where Mgr/0 of job 'a' listens: {tail}"
        with pytest.raises(ConfigError, match=f"^{text}$"):
            answers(listen, "b")
    with (
        BlockingNode(NodeConfig.proxy(server_rank=3, listen=str(listen), upstream=str(address()))),
        pytest.raises(ConfigError, match=f"^the Mgr cannot listen on {listen}, where Proxy/3 listens: {tail}$"),
    ):
        answers(listen, "")


def test_process_that_is_no_node_is_refused_after_the_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigError, match=f"^the Mgr cannot listen on {listen}, where no gRPC server that answers"):
            answers(listen, "", 0.0)


def test_manager_whose_launcher_has_ended_is_not_used(launcher: Launcher) -> None:
    """It would end a moment later, and nobody would start another."""
    listen, manager = launcher.address, launcher.manager()
    assert launched(listen) is Launched.LIVES and answers(listen, "j", 0.0)
    os.kill(manager, signal.SIGSTOP)
    launcher.process.kill()
    launcher.process.wait()
    try:
        assert launched(listen) is Launched.ENDED
        with pytest.raises(ConfigError, match="where a Manager whose launcher has ended listens"):
            answers(listen, "j", 0.0)
    finally:
        os.kill(manager, signal.SIGCONT)
    assert not answers(listen, "j", 60.0)


def test_free_ports_are_a_pair_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_ports()
    assert ports.proxy == ports.mgr + 1 and 20_000 <= ports.mgr < 28_192
    ids = iter(["a", "a", "b"])
    monkeypatch.setattr("taskd_net.job.manager_place.secrets.token_hex", lambda _: next(ids))
    first = free_ports()
    with socket.create_server(("127.0.0.1", first.proxy)):
        assert free_ports() != first


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("localhost", True), ("192.0.2.1", False), ("no-such-host.invalid", False)]
)
def test_host_is_of_this_machine_or_not(host: str, local: bool) -> None:
    assert is_local(host) is local


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Addresses of names, in place of those that are looked up; another one is not known."""
    known: dict[str, str] = {}
    real = socket.getaddrinfo

    def look_up(host: str, *more: Any, **named: Any) -> Any:
        if host in known or host[:1].isdigit():
            return real(known.get(host, host), *more, **named)
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.delenv("POD_IP", raising=False)
    return known


@pytest.mark.parametrize(
    ("first", "own", "is_placed"),
    [
        ("train-0.train", "train-0.train.default.svc", False),
        ("train-0.train.default.svc", "train-0", False),
        ("Train-0", "train-0", False),
        ("unknown-yet", "here", True),
    ],
)
def test_manager_listens_before_its_name_is_known(
    first: str, own: str, is_placed: bool, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_IP", "127.5.0.1")
    monkeypatch.setattr(manager_place, "own_address", lambda _: "203.0.113.9")
    assert listen_host(first, own, is_placed=is_placed) == "0.0.0.0", "it has no address that others reach"
    names[own] = "203.0.113.8"
    monkeypatch.setattr(manager_place, "is_local", lambda host: host == "203.0.113.8")
    assert listen_host(first, own, is_placed=is_placed) == "203.0.113.8"
    monkeypatch.setattr(manager_place, "is_local", lambda host: host.startswith("203.0.113."))
    monkeypatch.setenv("POD_IP", "203.0.113.7")
    assert listen_host(first, own, is_placed=is_placed) == "203.0.113.7"
    # It leads to the pod before.
    names[first] = "198.51.100.1"
    expected = first if is_placed else "203.0.113.7"
    assert listen_host(first, own, is_placed=is_placed) == expected


def test_route_gives_the_address_of_a_host_without_a_name(
    names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager_place, "own_address", lambda _: "203.0.113.9")
    monkeypatch.setattr(manager_place, "is_local", lambda host: host == "203.0.113.9")
    assert not names and listen_host("a", "a", is_placed=False) == "203.0.113.9"


@pytest.mark.parametrize("first", ["127.0.0.1", "::1", "203.0.113.9", "localhost", "service", "node.a"])
def test_manager_listens_nowhere_else(first: str, names: dict[str, str]) -> None:
    names["service"] = "203.0.113.9"
    assert listen_host(first, "node.b", is_placed=first == "service") == first


@pytest.mark.parametrize("name", ["node-a", "node-a.example"])
def test_manager_is_not_hidden_by_a_loopback_address_of_its_host(name: str, names: dict[str, str]) -> None:
    """Debian gives a host the address 127.0.1.1. Other nodes know another one, and the Proxy of this one that one."""
    names[name] = "127.0.1.1"
    assert listen_host(name, "node-a", is_placed=False) == "0.0.0.0"
    assert listen_host(name, "node-a", is_placed=False, nodes=1) == name


def test_loopback_name_that_is_no_hosts_stays(names: dict[str, str]) -> None:
    names["both-nodes"] = "127.0.0.1"
    assert listen_host("both-nodes", "node-a", is_placed=True) == "both-nodes"
