"""`taskd-net config`: the settings in force, and their sources."""

from __future__ import annotations

import click

from taskd_net import ConfigError, Position
from taskd_net.base.untrusted import json_line
from taskd_net.cli.command import JSON, add_each
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.options import SettingOption, place
from taskd_net.cli.settings import COMMANDS, node_config, refused
from taskd_net.cli.tool import leaf
from taskd_net.net.free_position import free_position


def position_of(ctx: click.Context) -> Position:
    """The position of the node that a command runs."""
    match ctx.command.name:
        case "mgr":
            return Position.mgr()
        case "proxy":
            return Position.proxy(str(ctx.params["server_rank"]))
        case _:
            return leaf(ctx) or free_position()


def _toml(value: object) -> str:
    """A value in the syntax of the file. A JSON string is a TOML string."""
    return json_line(value)


def _settings(ctx: click.Context) -> list[SettingOption]:
    return [param for param in ctx.command.params if isinstance(param, SettingOption)]


def _as_text(ctx: click.Context) -> str:
    lines = []
    for setting in _settings(ctx):
        value = ctx.params[setting.name]
        said = f"{setting.name} = {_toml(value)}" if value is not None else f"# {setting.name} is not set"
        lines.append((said, place(setting.origin(ctx)).removeprefix("the ")))
    width = max(len(said) for said, _ in lines)
    return "\n".join([f"[{ctx.command.name}]", *(f"{said:{width}}  # {origin}" for said, origin in lines)])


def _as_object(ctx: click.Context) -> dict[str, object]:
    return {
        setting.name: {"value": ctx.params[setting.name], **setting.origin(ctx)._asdict()} for setting in _settings(ctx)
    }


def _print(contexts: list[click.Context], as_json: bool) -> None:
    for ctx in contexts:
        if {"listen", "upstream"} & ctx.params.keys():  # a command that runs a node
            try:
                node_config(ctx, position_of(ctx))
            except ConfigError as error:
                raise refused(ctx, error) from None
    if as_json:
        say_json({str(ctx.command.name): _as_object(ctx) for ctx in contexts})
    else:
        for line in "\n\n".join(map(_as_text, contexts)).split("\n"):
            say(line)


@click.group(
    name="config",
    invoke_without_command=True,
    params=[JSON],
    short_help="Print the settings in force, and their sources.",
)
@click.pass_context
def config(ctx: click.Context, /, as_json: bool) -> None:
    """Print the settings in force, of one command or of all, and the source of each value.

    Takes the flags of that command. The output is a valid file. With --json each value has a source (flag, environment,
    file or default) and the name of the flag, the variable or the file.

    \b
    Examples:
      taskd-net config proxy
      taskd-net config mgr --config /etc/taskd-net.toml --ack-timeout 5
      taskd-net config --json | jq .proxy.upstream
      taskd-net config proxy > taskd-net.toml

    \b
    Exit codes:
      0    every value can be used
      2    a flag, a variable or the file is wrong
    """
    if ctx.invoked_subcommand is None:
        group = ctx.command
        assert isinstance(group, click.Group)
        _print([command.make_context(name, [], parent=ctx) for name, command in group.commands.items()], as_json)


def _about(ctx: click.Context, /, as_json: bool, **_: object) -> None:
    assert ctx.parent is not None
    _print([ctx], as_json or ctx.parent.params["as_json"])


add_each(config, COMMANDS, _about, "The settings of taskd-net {}.")
