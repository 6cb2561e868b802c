"""The gate for text of others: every command, with every field of every answer, prints lines that do nothing."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from click.testing import CliRunner, Result

import taskd_net.cli
from taskd_net import Ack, Code, Message, Position
from taskd_net.base.states import State
from taskd_net.cli import forget, health, lines, probing
from taskd_net.cli import watching as mesh_module
from taskd_net.cli.group import group
from taskd_net.cli.job_lines import draw as draw_job
from taskd_net.cli.mesh_lines import draw
from taskd_net.cli.output import as_json, as_text
from taskd_net.cli.send import _fields
from taskd_net.observe.client import AskFailed, NoManager, NotForgotten
from taskd_net.observe.document import document
from taskd_net.observe.fields import document_of
from taskd_net.observe.job_view import JobView
from taskd_net.observe.probe_codec import Echo
from taskd_net.observe.records import Mesh, NodeStatus, OwnFigures
from tests.cli.clients import Client
from tests.observe.jobs import IN_ETCD, WHOLE
from tests.test_untrusted import HOSTILE

CLI = Path(taskd_net.cli.__file__).parent
AT = ("--at", "127.0.0.1:1")
ECHO = Echo(Code.OK, Position.worker(0, 3), 0.001)


def harmless(done: Result, *, exit_code: int = 0) -> list[str]:
    """The printed lines, which have no effect on a terminal, and are not those of another text."""
    assert done.exit_code == exit_code, done.output
    printed = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert all(line.isprintable() for line in printed), printed
    assert "1b[2J" in "".join(printed), "the text is shown, escaped"
    return printed


def hostile_status() -> Iterator[NodeStatus]:
    """One status for each text in it, of a node or of its own figures."""
    good = NodeStatus(Position.mgr(), State.JOINED, 1.0, "taskd_net", own=OwnFigures())
    for name, kind in get_type_hints(NodeStatus).items():
        if kind is str:
            text: dict[str, Any] = {name: HOSTILE}
            yield good._replace(**text)
    for name, kind in get_type_hints(OwnFigures).items():
        if kind is str:
            text = {name: HOSTILE}
            yield good._replace(own=OwnFigures()._replace(**text))


def hostile_jobs() -> Iterator[JobView]:
    """One job for each text in it."""
    decision = WHOLE.decisions[-1]
    for name in ("plugin", "cause", "calls"):
        value: Any = (HOSTILE,) if name == "calls" else HOSTILE
        yield replace(WHOLE, decisions=(replace(decision, **{name: value}),))
    for name in ("to", "message"):
        text: dict[str, Any] = {name: HOSTILE}
        yield replace(WHOLE, decisions=(replace(decision, messages=(replace(decision.messages[0], **text),)),))
    for name, values in (("name", HOSTILE), ("owner", HOSTILE), ("barred", (HOSTILE,))):
        of_stream: dict[str, Any] = {name: values}
        yield replace(WHOLE, streams=(replace(WHOLE.streams[1], **of_stream),))
    for name in ("job_id", "state_file"):
        of_job: dict[str, Any] = {name: HOSTILE}
        yield replace(WHOLE, **of_job)
    yield replace(WHOLE, plugins_off=(HOSTILE,))
    yield replace(IN_ETCD, leader=replace(IN_ETCD.leader, name=HOSTILE))


def run(monkeypatch: pytest.MonkeyPatch, answer: object, *arguments: str) -> Result:
    """Run a command; the node that it asks gives this answer, then refuses."""
    monkeypatch.setattr(mesh_module, "end_at_once", lambda: None)
    for module in (mesh_module, probing, forget):
        monkeypatch.setattr(module, "NodeClient", Client(answer, NoManager("no")))
    return CliRunner().invoke(group, list(arguments))


@pytest.mark.parametrize("command", ["tree", "top"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_text_of_a_node_in_the_state_of_the_mesh(
    monkeypatch: pytest.MonkeyPatch, command: str, form: tuple[str, ...]
) -> None:
    mgr = (Position.mgr(), NodeStatus(None, State.JOINED, 1.0, "taskd_net"))
    statuses = list(hostile_status())
    assert len(statuses) >= 5
    found = Mesh(mgr[0], 2.0, "", [mgr, *((Position.worker(0, rank), one) for rank, one in enumerate(statuses))])
    shown = draw(document(found), everything=True)
    more = ("--count", "1") if command == "top" else ("--all",)
    done = run(monkeypatch, found, command, *AT, *more, *form)
    if command == "top" and not form:
        assert all(line.isprintable() for line in done.stdout.splitlines()), "top shows no text of a node"
        return
    printed = harmless(done)
    assert len(printed) == (1 if form else len(shown))


@pytest.mark.parametrize("form", [("--all",), ("--json",)], ids=["text", "json"])
def test_text_of_a_plugin_in_the_state_of_a_job(monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]) -> None:
    for view in hostile_jobs():
        printed = harmless(run(monkeypatch, view, "job", *form), exit_code=1)
        assert len(printed) == (1 if form == ("--json",) else len(draw_job(document_of(view), everything=True)))


@pytest.mark.parametrize("command", [("ping", "Worker/0/3", "--count", "1"), ("trace", "Worker/0/3")], ids=str)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("code", [Code.OK, Code.NO_ROUTE])
def test_text_of_a_node_in_the_answer_to_a_probe(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], form: tuple[str, ...], code: Code
) -> None:
    echo = ECHO._replace(code=code, link=HOSTILE, detail=HOSTILE)
    done = run(monkeypatch, [echo], *command, *AT, *form)
    if command[0] == "ping" and code is Code.OK and not form:
        assert all(line.isprintable() for line in done.stdout.splitlines()), "ping shows no text of a node"
        return
    harmless(done, exit_code=int(code is not Code.OK))


@pytest.mark.parametrize("command", ["tree", "job", "ping", "trace", "forget", "health"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_text_of_whoever_refuses(monkeypatch: pytest.MonkeyPatch, command: str, form: tuple[str, ...]) -> None:
    failed = AskFailed(f"127.0.0.1:1 refused: {HOSTILE}")

    async def refuse(*_: object) -> str:
        raise failed

    monkeypatch.setattr(health, "ask_health", refuse)
    monkeypatch.setattr(Client, "about", lambda self: refuse())
    dest = ("Worker/0/3",) if command in ("ping", "trace", "forget") else ()
    at = AT
    harmless(run(monkeypatch, failed, command, *dest, *at, *form), exit_code=3)
    if command == "forget":
        harmless(run(monkeypatch, NotForgotten(HOSTILE), command, *dest, *at, *form), exit_code=1)


def test_text_of_a_message_and_of_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """A Worker wrote the line of the Mgr's message with a newline in its body."""
    for field in ("uuid", "mtype", "body"):
        message = Message("u", "kind", True, Position.worker(0, 3), Position.mgr(), 1, "x\nMgr/0 ACTION shutdown")
        text: dict[str, Any] = {field: HOSTILE}
        message = message._replace(**text)
        assert "".join(as_text(message)).isprintable() and "".join(as_json(message)).isprintable()
        assert json.loads("".join(as_json(message)))[field] == HOSTILE
    lines.say_json(_fields(Ack("u", Code.NO_ROUTE, Position.mgr(), HOSTILE, 0)))
    lines.say(probing.failure(Ack("u", Code.NO_ROUTE, Position.mgr(), HOSTILE, 0)), err=True)
    out, err = capsys.readouterr()
    assert out.rstrip("\n").isprintable() and err.rstrip("\n").isprintable()


def test_arguments_and_settings_in_errors(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[2J.toml"
    file.write_text(f"upstream = {json.dumps(HOSTILE[:4])}\n")
    config = ["proxy", "--config", str(file)]
    for arguments in (["ping", "\x1b[2J"], config, ["config", *config]):
        harmless(CliRunner().invoke(group, arguments), exit_code=2)


ELSEWHERE = {"lines.py", "screen.py", "demo.py", "bench.py"}
"""The gate itself, its screen, and two commands that print what their own processes have measured."""
FORBIDDEN = {"print", "click.echo", "click.secho", "json.dumps", "Console", "sys.stdout.write", "sys.stderr.write"}


def test_no_command_writes_past_the_gate() -> None:
    for path in sorted(CLI.rglob("*.py")):
        name = path.relative_to(CLI).as_posix()
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        called = {ast.unparse(call.func) for call in calls}
        methods: set[Any] = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)} & {"print"}
        assert name in ELSEWHERE or not (called & FORBIDDEN) | methods, name
