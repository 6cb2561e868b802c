"""`taskd-net doctor`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

import click
import uvloop

from taskd_net import ConfigError, NodeConfig, Role
from taskd_net.base.address import Address
from taskd_net.base.job_id import job_id_of
from taskd_net.cli.command import JSON, add_each
from taskd_net.cli.config import position_of
from taskd_net.cli.doctor import import_packages, listening, manager, tls_files, upstream
from taskd_net.cli.doctor.finding import Finding, Verdict, ok, skipped, wrong
from taskd_net.cli.lines import say_json
from taskd_net.cli.screen import Screen
from taskd_net.cli.settings import node_config, refused

CHECKED: Final = ("mgr", "proxy", "listen", "send")
"""The commands that run a node."""

_STYLES: Final = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.WRONG: "bold red", Verdict.SKIPPED: "dim"}


async def examine(config: NodeConfig) -> list[Finding]:
    """All checks that need no running node."""
    findings = tls_files.check(config.tls)
    usable = all(found.state is not Verdict.WRONG for found in findings)
    if config.direct_address is not None:
        findings += listening.check_direct(config.direct_address)
    for address in (config.listen, config.plain_listen):
        if address is not None:
            secured = config.tls is not None and config.tls.listens and address == config.listen
            listen = Address.parse(address)
            findings += await listening.check(listen, config.position, tls=secured)
            if config.position.role == Role.MGR and listen.port and not secured:
                findings += await manager.check(listen)
    if config.upstream is not None:
        tls = config.tls if config.tls is not None and config.tls.connects else None
        if tls is None or usable:
            met = [
                await upstream.check(address, config.position, tls, job_id_of(config.job_name))
                for address in config.upstreams
            ]
            wrongs = [any(found.state is Verdict.WRONG for found in each) for each in met]
            for each in met:
                # One parent is enough: an address beside it that does not answer is to look at.
                findings += each if all(wrongs) else map(_less, each)
        else:
            findings.append(skipped("upstream", "cannot be asked without the files of TLS"))
    return findings


def _less(finding: Finding) -> Finding:
    return replace(finding, state=Verdict.WARNING) if finding.state is Verdict.WRONG else finding


def _findings(ctx: click.Context) -> list[Finding]:
    try:
        config = node_config(ctx, position_of(ctx))
    except ConfigError as error:
        advice = f"`taskd-net config {ctx.info_name}` shows where each value comes from."
        return [wrong("settings", refused(ctx, error).message, advice)]
    settings = ok("settings", f"every value of {ctx.info_name} can be used")
    return [settings, *uvloop.run(examine(config))]


def _print(command: str | None, findings: list[Finding], as_json: bool) -> None:
    counts = {state: sum(finding.state is state for finding in findings) for state in Verdict}
    if as_json:
        checks = [
            {"check": found.check, "state": found.state.value, "text": found.text, "advice": found.advice}
            for found in findings
        ]
        fields = {"command": command, "wrong": counts[Verdict.WRONG], "warnings": counts[Verdict.WARNING]}
        say_json({**fields, "checks": checks})
        return
    screen = Screen()
    for found in findings:
        screen.say(f"{found.state.value:8} {found.check:9} {found.text}", style=_STYLES[found.state])
        if found.advice:
            screen.say(f"{'':18} {found.advice}")
    total = f"{counts[Verdict.WRONG]} wrong, {counts[Verdict.WARNING]} to look at"
    screen.say(total if counts[Verdict.WRONG] + counts[Verdict.WARNING] else "nothing wrong was found")


@click.group(
    name="doctor",
    short_help="Find the reasons that keep a node from joining.",
    invoke_without_command=True,
    no_args_is_help=True,
    params=[
        click.Option(["--compat"], is_flag=True, help="Check whose the import packages taskd and mindx_elastic are."),
        JSON,
    ],
)
@click.pass_context
def doctor(ctx: click.Context, compat: bool, as_json: bool) -> None:
    """Check the settings of a command against the machine and the network: its files, its address, its parent.

    Takes the flags, variables and file of that command; for a Worker or an Agent it is listen. It starts no node and
    takes no position, so it is safe beside a running node. With --compat in place of a command it checks the import
    packages of TaskD and Elastic-Agent.

    \b
    Examples:
      taskd-net doctor proxy --config /etc/taskd-net.toml
      taskd-net doctor mgr --listen 0.0.0.0:9601
      taskd-net doctor listen --as Worker/0/3 --json | jq .checks
      taskd-net doctor --compat

    \b
    Exit codes:
      0    nothing is wrong; there may be warnings
      1    something is wrong: it is said, with what to do
      2    a flag, a variable or the file cannot be read
    """
    if ctx.invoked_subcommand is None:
        if not compat:
            ctx.fail("Missing command, or --compat.")
        _end(None, import_packages.check(), as_json)
    elif compat or as_json:
        ctx.fail(f"--compat takes no command; the flags of {ctx.invoked_subcommand} stand after it.")


def _about(ctx: click.Context, /, as_json: bool, **_: object) -> None:
    _end(ctx.info_name, _findings(ctx), as_json)


def _end(command: str | None, findings: list[Finding], as_json: bool) -> None:
    _print(command, findings, as_json)
    sys.exit(1 if any(found.state is Verdict.WRONG for found in findings) else 0)


add_each(doctor, CHECKED, _about, "Check what taskd-net {} would run with.")
