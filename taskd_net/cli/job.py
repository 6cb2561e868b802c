"""`taskd-net job`."""

from __future__ import annotations

import sys

import click

from taskd_net.base import upstreams
from taskd_net.cli.command import command
from taskd_net.cli.job_lines import draw
from taskd_net.cli.lines import say_json
from taskd_net.cli.screen import Screen
from taskd_net.cli.watching import repeat
from taskd_net.observe.client import NodeClient
from taskd_net.observe.document import Document
from taskd_net.observe.fields import document_of


@command(
    "job",
    short_help="Show the job's Manager: streams, Agents, decisions.",
)
@click.option("--watch", is_flag=True, help="Repeat it each second, until a signal.")
@click.option("--all", "everything", is_flag=True, help="Show each Agent, and the last 50 decisions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --watch one a line.")
@click.pass_context
def job(ctx: click.Context, /, at: str, watch: bool, everything: bool, as_json: bool, **_: object) -> None:
    """Show the state of the Manager of the Mgr at --at.

    It shows the streams with their owners, Agents with their faults, the restarts that are left, and the last decisions
    with their cause, commands and answers. docs/manager.md describes the JSON object.

    \b
    Examples:
      taskd-net job
      taskd-net job --at 10.0.0.7:9601 --watch
      taskd-net job --json | jq -r .trouble[]

    \b
    Exit codes:
      0      shown, and there is no trouble
      1      an Agent has failed or was sent away, the state is not durable, or a
             plugin is off
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked, or a node without a Manager

    128+N: ended by signal N, as with --watch.
    """
    screen = Screen()
    trouble = False

    async def ask(client: NodeClient) -> Document:
        return document_of(await client.job())

    def show(answer: Document) -> None:
        nonlocal trouble
        trouble = bool(answer["trouble"])
        if as_json:
            say_json(answer)
        else:
            screen.say_all(draw(answer, everything=everything), again=watch)

    repeat(ctx, upstreams.parse(at, "at"), ask, show, interval=1.0, count=0 if watch else 1)
    sys.exit(1 if trouble else 0)
