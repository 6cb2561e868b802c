"""The loop that shows the state of the mesh."""

from __future__ import annotations

import click
import pytest

from taskd_net import ConfigError
from taskd_net.base.states import State
from taskd_net.cli import watching as module
from taskd_net.cli.watching import look
from taskd_net.observe.client import AskFailed
from taskd_net.observe.document import Document
from tests.cli.clients import Client, mesh

LOST, JOINED = mesh(State.LOST), mesh(State.JOINED)


@pytest.fixture(autouse=True)
def signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the signals of the test process alone."""
    monkeypatch.setattr(module, "end_at_once", lambda: None)


def looked(monkeypatch: pytest.MonkeyPatch, client: Client, count: int, expect: str | None = None) -> list[Document]:
    """The documents that are shown."""
    monkeypatch.setattr(module, "NodeClient", client)
    ctx = click.Context(click.Command("tree"))
    ctx.params = {"at": "h:1,i:2", "expect": expect, "timeout": 7.0, "enable_tls": None}
    shown: list[Document] = []
    look(ctx, shown.append, interval=0.0, count=count)
    return shown


def test_it_is_shown_as_often_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(LOST, JOINED, JOINED)
    states = [document["summary"]["lost"] for document in looked(monkeypatch, client, 2)]
    assert (states, client.asked, len(client.answers)) == ([1, 0], [("h:1,i:2", 7.0, None)], 1)


def test_nobody_to_ask_at_first_is_an_end_and_later_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(looked(monkeypatch, Client(JOINED, AskFailed("away"), JOINED), 2)) == 2
    assert capsys.readouterr().err == "no answer: away\n"
    with pytest.raises(AskFailed):
        looked(monkeypatch, Client(AskFailed("away"), JOINED), 1)


def test_the_size_of_the_job_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(looked(monkeypatch, Client(JOINED), 1, "1x2")[0]["missing"]) == 2
    with pytest.raises(ConfigError, match="expect is"):
        looked(monkeypatch, Client(), 1, "many")
