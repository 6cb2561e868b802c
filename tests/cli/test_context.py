"""`taskd-net context`, and the commands that take one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group
from tests.cli.processes import run
from tests.peers.mesh import Mesh


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of XDG."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


def said(*arguments: str, code: int = 0) -> str:
    """The output of a command that ends with this code."""
    done = CliRunner().invoke(group, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def setting(command: str, name: str, *arguments: str) -> tuple[object, str, str | None]:
    """The value of a setting in force, its source, and the name of the source."""
    found = json.loads(said("config", "--json", command, *arguments))[command][name]
    return found["value"], found["source"], found["name"]


def test_a_list_without_contexts_says_how_to_add_one(home: Path) -> None:
    done = CliRunner().invoke(group, ["context", "list"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "no context is there: taskd-net context add NAME --at HOST:PORT\n"


def test_contexts_are_added_chosen_shown_and_removed(home: Path) -> None:
    assert said("context", "list").startswith("no context is there")
    assert said("context", "add", "prod", "--at", "node-0:9601") == "prod is added and current\n"
    files = ("--ca", "ca.pem", "--client-key", "/k", "--client-crt", "/c")
    assert said("context", "add", "lab", "--at", "[::1]:9601", *files) == "lab is added\n"
    assert said("context", "list") == "  lab   [::1]:9601  TLS\n* prod  node-0:9601  plain text\n"
    assert said("context", "use", "lab") == "lab is current\n"
    shown = said("context", "show").splitlines()
    assert shown[0] == f"# lab, in {home}/taskd-net/contexts.toml"
    assert shown[1:] == ['at = "[::1]:9601"', f'ca = "{Path.cwd()}/ca.pem"', 'client_key = "/k"', 'client_crt = "/c"']
    assert json.loads(said("context", "show", "prod", "--json")) == {"name": "prod", "at": "node-0:9601"}
    assert said("context", "remove", "lab") == "lab is removed\n"
    listed = json.loads(said("context", "list", "--json"))
    assert listed == {"current": None, "contexts": {"prod": {"at": "node-0:9601"}}}
    assert said("context", "use", "none") == "no context is current\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("add", "x"), "at is missing; expected --at HOST:PORT"),
        (("add", "x", "--at", "9601"), "at is '9601'; expected host:port"),
        (("add", "none", "--at", "h:1"), "NAME is 'none'; expected a name, and not none"),
        (("add", "", "--at", "h:1"), "NAME is ''; expected a name"),
        (("add", "x", "--at", "h:1", "--ca", "c"), "client_key is missing; ca is "),
        (("add", "there", "--at", "h:1"), "NAME is 'there', which is there"),
        (("use", "x"), "context is 'x'; expected one that was added: there"),
        (("remove", "x"), "context is 'x'; expected one that was added: there"),
        (("show", "x"), "context is 'x'; expected one that was added: there"),
    ],
)
def test_wrong_use_is_one_line(arguments: tuple[str, ...], text: str) -> None:
    said("context", "add", "there", "--at", "h:1")
    output = said("context", *arguments, code=2)
    assert output.startswith(f"Error: {text}") and output.count("\n") == 1


def test_each_source_counts_before_the_next(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flag, variable, context that is named, file, context that is current, default."""
    assert setting("tree", "at") == ("127.0.0.1:9601", "default", None)
    said("context", "add", "now", "--at", "now:1")
    said("context", "add", "named", "--at", "named:1")
    assert setting("tree", "at") == ("now:1", "context", "now")
    assert 'at = "now:1"' in said("config", "tree") and "# context now" in said("config", "tree")
    file = home / "settings.toml"
    file.write_text('[tree]\nat = "file:1"')
    assert setting("tree", "at", "--config", str(file)) == ("file:1", "file", str(file))
    for order in (("--context", "named", "--config", str(file)), ("--config", str(file), "--context", "named")):
        assert setting("tree", "at", *order) == ("named:1", "context", "named")
    assert setting("tree", "at", "--context", "none") == ("127.0.0.1:9601", "default", None)
    monkeypatch.setenv("TASKD_NET_CONTEXT", "named")
    assert setting("tree", "at") == ("named:1", "context", "named")
    assert setting("tree", "at", "--context", "now") == ("now:1", "context", "now")
    monkeypatch.setenv("TASKD_NET_AT", "variable:1")
    assert setting("tree", "at") == ("variable:1", "environment", "TASKD_NET_AT")
    assert setting("tree", "at", "--at", "flag:1") == ("flag:1", "flag", "--at")


def test_tools_that_join_take_the_address_and_daemons_take_nothing() -> None:
    said("context", "add", "prod", "--at", "h:1", "--ca", "/ca", "--client-key", "/k", "--client-crt", "/c")
    for command in ("send", "listen"):
        assert setting(command, "upstream") == ("h:1", "context", "prod")
        assert setting(command, "client_key") == ("/k", "context", "prod")
        assert setting(command, "upstream", "--at", "x:1")[:2] == ("x:1", "flag")
    assert setting("proxy", "upstream") == ("127.0.0.1:9601", "default", None)
    assert setting("proxy", "ca") == (None, "default", None)


def test_unknown_context_is_refused_by_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said("tree", "--context", "x", code=2).startswith("Error: context is 'x'; expected one that was added")
    monkeypatch.setenv("TASKD_NET_CONTEXT", "y")
    assert said("faults", "list", code=2).startswith("Error: context is 'y'; expected one that was added")


async def test_every_command_asks_the_node_of_the_context(mesh: Mesh, home: Path) -> None:
    mgr = await mesh.mgr()
    env = {"XDG_CONFIG_HOME": str(home)}
    assert (await run("context", "add", "here", "--at", mgr.address, env=env))[0] == 0
    assert (await run("context", "add", "away", "--at", "127.0.0.1:9", "--use", env=env))[0] == 0
    for command in (("tree",), ("ping", "Mgr", "--count", 1), ("health",), ("send", "Mgr", "x")):
        code, _, errors = await run(*command, "--context", "here", env=env)
        assert (code, errors) == (0, ""), command
    code, _, errors = await run("tree", env=env)
    assert code == 3 and "127.0.0.1:9" in errors
