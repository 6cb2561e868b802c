"""`taskd-net health`, with a server in the test."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from taskd_net.base.address import Address
from taskd_net.cli import health
from taskd_net.cli.group import group
from taskd_net.observe.client import AskFailed, NoManager
from tests.cli.clients import Client
from tests.observe.jobs import IN_ETCD, WHOLE


def asked(monkeypatch: pytest.MonkeyPatch, answer: str | Exception, *arguments: str) -> Result:
    """A run in which the server answers so."""

    async def ask(address: Address, service: str, timeout: float, _: object) -> str:
        assert (str(address), service, timeout) == ("h:1", "liveness", 5.0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(health, "ask_health", ask)
    return CliRunner().invoke(group, ["health", "--at", "h:1", "--service", "liveness", *arguments])


@pytest.mark.parametrize(("status", "code"), [("SERVING", 0), ("NOT_SERVING", 1), ("UNKNOWN", 1)])
def test_the_status_is_printed_and_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, status: str, code: int) -> None:
    done = asked(monkeypatch, status)
    assert (done.exit_code, done.output) == (code, f"{status}\n")
    found = json.loads(asked(monkeypatch, status, "--json").output)
    assert found == {"address": "h:1", "service": "liveness", "status": status}


@pytest.mark.parametrize(
    ("job", "leader"),
    [(IN_ETCD, "10.0.0.7:9601 leads since "), (WHOLE, None), (NoManager("none"), None), (AskFailed("too old"), None)],
    ids=["etcd", "file", "none", "old"],
)
def test_leader_is_said_where_there_is_one(monkeypatch: pytest.MonkeyPatch, job: object, leader: str | None) -> None:
    async def serving(*_: object) -> str:
        return "SERVING"

    monkeypatch.setattr(health, "ask_health", serving)
    monkeypatch.setattr(health, "NodeClient", Client(job, job))
    done = CliRunner().invoke(group, ["health", "--at", "h:1"])
    assert done.exit_code == 0 and done.output.startswith("SERVING\n" + (leader or ""))
    assert done.output.count("\n") == (1 if leader is None else 2)
    found = json.loads(CliRunner().invoke(group, ["health", "--at", "h:1", "--json"]).output)
    assert found.get("leader", {}).get("term") == (None if leader is None else 41)


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    done = asked(monkeypatch, AskFailed("h:1: no"), "--json")
    answer, line = done.output.splitlines()
    assert json.loads(answer)["status"] is None and json.loads(answer)["detail"] == "h:1: no"
    assert (done.exit_code, line) == (3, "Error: h:1: no")


def test_a_wrong_address_is_named() -> None:
    done = CliRunner().invoke(group, ["health", "--at", "nowhere"])
    assert done.exit_code == 2 and done.output.startswith("Error: at is 'nowhere'; expected host:port")
