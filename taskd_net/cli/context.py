"""`taskd-net context`: named addresses with their files of TLS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from taskd_net import ConfigError
from taskd_net.base import upstreams
from taskd_net.base.untrusted import json_line, shown
from taskd_net.cli import context_file
from taskd_net.cli.command import JSON, Command
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.options import SettingOption
from taskd_net.cli.settings import SETTINGS, tls_of
from taskd_net.net.tls.files import FILES


@click.group(name="context", short_help="Keep addresses and TLS files under names.")
def context() -> None:
    """Keep the address of a node, and the files of TLS for it, under a name.

    A command takes the context in --context, else in TASKD_NET_CONTEXT, else the one chosen by `use`; `none` stands for
    none. Flags and other variables count before it. Daemons take none.

    \b
    Examples:
      taskd-net context add prod --at 10.0.0.7:9601 --ca ca.pem
      taskd-net context use prod
      taskd-net tree --context prod
      taskd-net context list
      taskd-net context show prod
      taskd-net context remove prod

    \b
    Exit codes:
      0    done
      2    a name, an address or a file is wrong, or no such context is there
    """


def _flag(name: str) -> SettingOption:
    # Variables are those of the moment, not of the context.
    return SettingOption(name, replace(SETTINGS[name], default=None, unset="none", prefixed=False, variables={}))


@click.command("add", cls=Command, params=[_flag(name) for name in context_file.KEPT], short_help="Add a context.")
@click.argument("name")
@click.option("--use", is_flag=True, help="Make it the current one.")
@click.pass_context
def add(ctx: click.Context, /, name: str, use: bool, **given: Any) -> None:
    """Add a context NAME with the address of a Mgr or a Proxy, and the files of TLS. The first one becomes current.

    \b
    Examples:
      taskd-net context add prod --at 10.0.0.7:9601
      taskd-net context add prod --at node-0:9601 --ca ca.pem --client-key me.key --client-crt me.crt
    """
    if name == context_file.NONE or not name.strip() or not name.isprintable():
        raise click.UsageError(f"NAME is {shown(name)}; expected a name, and not {context_file.NONE}")
    if given["at"] is None:
        raise click.UsageError("at is missing; expected --at HOST:PORT")
    upstreams.parse(given["at"], "at")
    tls_of(ctx)
    kept = context_file.load()
    if name in kept.settings:
        raise click.UsageError(f"NAME is {shown(name)}, which is there; `taskd-net context remove` removes it")
    settings = {key: given[key] for key in context_file.KEPT if given[key] is not None}
    # The command that uses it may run in another folder.
    kept.settings[name] = {key: str(Path(said).absolute()) if key in FILES else said for key, said in settings.items()}
    if use or len(kept.settings) == 1:
        kept.current = name
    context_file.save(kept)
    say(f"{name} is added{' and current' if kept.current == name else ''}")


@click.command("list", cls=Command, params=[JSON], short_help="Show the contexts.")
def listing(as_json: bool) -> None:
    """Show the contexts, each with its address; a star marks the current one."""
    kept = context_file.load()
    if as_json:
        say_json({"current": kept.current, "contexts": kept.settings})
        return
    if not kept.settings:
        say("no context is there: taskd-net context add NAME --at HOST:PORT", err=True)
    width = max(map(len, kept.settings), default=0)
    for name, settings in sorted(kept.settings.items()):
        secured = "TLS" if "client_key" in settings and settings.get("enable_tls") is not False else "plain text"
        say(f"{'*' if name == kept.current else ' '} {name:{width}}  {settings.get('at', '')}  {secured}")


@click.command("use", cls=Command, short_help="Make a context the current one.")
@click.argument("name")
def use(name: str) -> None:
    """Make the context NAME the current one; with `none` there is none."""
    kept = context_file.load()
    if name != context_file.NONE:
        kept.named(name)
    kept.current = None if name == context_file.NONE else name
    context_file.save(kept)
    say("no context is current" if kept.current is None else f"{name} is current")


@click.command("show", cls=Command, params=[JSON], short_help="Show a context.")
@click.argument("name", required=False)
def show(name: str | None, as_json: bool) -> None:
    """Show the settings of the context NAME, or of the current one."""
    kept = context_file.load()
    chosen = name or kept.current
    if chosen is None:
        raise ConfigError("context is missing; expected a NAME, as none is current")
    settings = kept.named(chosen)
    if as_json:
        say_json({"name": chosen, **settings})
        return
    say(f"# {chosen}, in {context_file.path()}")
    for key, value in settings.items():
        say(f"{key} = {json_line(value)}")


@click.command("remove", cls=Command, short_help="Remove a context.")
@click.argument("name")
def remove(name: str) -> None:
    """Remove the context NAME."""
    kept = context_file.load()
    kept.named(name)
    del kept.settings[name]
    if kept.current == name:
        kept.current = None
    context_file.save(kept)
    say(f"{name} is removed")


for _command in (add, listing, use, show, remove):
    context.add_command(_command)
