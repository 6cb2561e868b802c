"""Commands with settings: one line of error, and arguments that name nodes."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from taskd_net import ConfigError, Position
from taskd_net.cli.command import NOT_ASKED, Command, command, to_position
from taskd_net.cli.settings import COMMANDS, CONFIG, CONTEXT
from taskd_net.observe.client import AskFailed


def ended(error: Exception, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of a command whose work raises this error."""

    @command("health", short_help="Nothing.")
    def health(**_: object) -> None:
        raise error

    assert isinstance(health, Command)
    done = CliRunner().invoke(health, list(arguments))
    return done.exit_code, done.output.splitlines()[-1]


def test_a_refused_value_ends_it_with_the_source_of_the_value() -> None:
    code, said = ended(ConfigError("timeout is 7.0; expected patience"), "--timeout", "7")
    assert (code, said) == (2, "Error: timeout is 7.0; expected patience (from --timeout)")
    assert ended(ConfigError("moon is full")) == (2, "Error: moon is full")


def test_a_node_that_cannot_be_asked_ends_it_with_a_code_of_its_own() -> None:
    assert ended(AskFailed("nobody there")) == (NOT_ASKED, "Error: nobody there")


def test_a_command_has_its_settings_and_the_file() -> None:
    made = command("tree", short_help="Nothing.")(lambda: None)
    assert made.params == [CONFIG, CONTEXT, *COMMANDS["tree"]]


def test_a_position_is_read_and_checked() -> None:
    def only_agents(position: Position) -> Position:
        if position.role != "Agent":
            raise ValueError("no Agent")
        return position

    @click.command()
    @click.argument("dest", callback=to_position(only_agents))
    def show(dest: Position) -> None:
        click.echo(repr(dest))

    assert CliRunner().invoke(show, ["Agent/3"]).output == f"{Position.agent(3)!r}\n"
    for text, said in (("Worker/0/0", "DEST: no Agent"), ("Agent/x/y/z", "DEST: ")):
        done = CliRunner().invoke(show, [text])
        assert done.exit_code == 2 and f"Error: {said}" in done.output


@pytest.mark.parametrize("text", ["Mgr", "Worker/All/All", "Agent/0,3"])
def test_without_a_check_any_destination_will_do(text: str) -> None:
    @click.command()
    @click.argument("dest", callback=to_position())
    def show(dest: Position) -> None:
        click.echo(repr(dest))

    assert CliRunner().invoke(show, [text]).output == f"{Position.parse(text)!r}\n"
