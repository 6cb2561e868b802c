"""`taskd-net demo`: the demo of the mesh. Its subcommands, the demos of a job, are in the lab."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from taskd_net import Position
from taskd_net.base.schema import Kind
from taskd_net.cli.commands import OF_DEMO, Commands
from taskd_net.cli.options import FORMS
from taskd_net.demo import display
from taskd_net.demo.fleet import DemoFailed, Fleet, Interrupted, on_interrupt
from taskd_net.demo.report import DemoReport
from taskd_net.demo.tour import Tour

MAX_NODES: Final = 16
"""Bound on the Proxies: with their Workers they are processes of one machine."""

MAX_WORKERS: Final = 64
"""Bound on the Workers: each is a process of some 50 MB."""


@click.group(commands=Commands(OF_DEMO), invoke_without_command=True)
@click.option("--nodes", type=click.IntRange(1, MAX_NODES), default=2, show_default=True, help="Proxies, and Agents.")
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), default=8, show_default=True, help="Workers in all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the tree and the table.")
@click.option("--keep", is_flag=True, help="Leave the mesh up afterwards, until Ctrl-C.")
@click.option(
    "--http-port",
    type=FORMS[Kind.PORT].param,
    metavar="PORT",
    help="Port of the Mgr's status page, on 127.0.0.1, or HOST:PORT. Needs the extra `page`.",
)
@click.pass_context
def demo(ctx: click.Context, nodes: int, workers: int, as_json: bool, keep: bool, http_port: str | None) -> None:
    """Start a mesh of processes on this machine and show what it does.

    One Mgr, a Proxy and an Agent per node, and Workers on all nodes. They send in every direction, broadcast, are
    refused with codes, and lose a Proxy that comes back. Exits with 0 if every result was as expected. Progress goes to
    stderr, the result to stdout; no process is left.

    \b
    Examples:
      taskd-net demo --workers 16
      taskd-net demo --keep --http-port 8080
    """
    if ctx.invoked_subcommand is not None:
        return
    if workers < nodes:
        text = f"{workers} is too few for {nodes} nodes, each of which has at least one."
        raise click.BadParameter(text, param_hint="'--workers'")
    messages = display.console(stderr=True)
    report = DemoReport(expected=1 + 2 * nodes + workers)
    began = time.monotonic()
    shown = False

    def show() -> None:
        """Print the result, once."""
        nonlocal shown
        if not shown:
            _show(report, time.monotonic() - began, messages, as_json=as_json)
        shown = True

    exit_code = 0
    try:
        asyncio.run(_run(nodes, workers, http_port, report, messages, show if keep else None))
    except DemoFailed as failed:
        report.problems.append(str(failed))
        exit_code = failed.exit_code if isinstance(failed, Interrupted) else 1
    show()
    sys.exit(exit_code or int(not report.ok))


def _show(report: DemoReport, took: float, messages: Console, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report.as_json()))
    elif report.tree:
        output = display.console()
        output.print()
        output.print(display.tree(report))
        output.print(display.table(report))
    for what in report.left_out:
        messages.print(Text(f" Left out: {what}", "bright_black"), soft_wrap=True)
    for problem in report.problems:
        messages.print(Text(f" ✗ {problem}", "red"), soft_wrap=True)
    if report.ok:
        messages.print(Text(f" Everything as it had to be, in {took:.1f} s.", "bold green"))
    else:
        messages.print(Text(f" Failed, after {took:.1f} s; no process is left.", "bold red"))


async def _run(
    nodes: int,
    workers: int,
    http_port: str | None,
    report: DemoReport,
    messages: Console,
    keep: Callable[[], None] | None,
) -> None:
    """Run the demo.

    Args:
        nodes, workers, http_port: as on the command line.
        report: collects the findings.
        messages: shows the progress.
        keep: called at the end of the script; then the mesh stays up until a signal. None: it ends at once.
    """
    fleet, progress = Fleet(), display.ProgressLines(messages, report)
    on_interrupt(lambda number: fleet.abort(Interrupted(number)))
    async with fleet:
        messages.print(display.heading(nodes, workers), soft_wrap=True)
        await Tour(fleet, nodes, workers, report, progress, http_port).run()
        if keep is not None and report.ok:
            over = asyncio.Event()
            on_interrupt(lambda _: over.set())
            fleet.settle()
            keep()
            mgr = report.addresses[Position.mgr()]
            messages.print(Text(f" The mesh stays up until Ctrl-C: taskd-net tree --at {mgr}"), soft_wrap=True)
            await over.wait()
        with progress.step("Ending every process") as step:
            report.problems += await fleet.close()
            step.done("Every process has ended")
