"""`taskd-net tree`."""

from __future__ import annotations

import sys

import click

from taskd_net.base import upstreams
from taskd_net.base.expect import Expected
from taskd_net.cli.command import command
from taskd_net.cli.job_lines import devices, silent_agents
from taskd_net.cli.lines import say_json
from taskd_net.cli.mesh_lines import draw
from taskd_net.cli.screen import Screen
from taskd_net.cli.watching import repeat
from taskd_net.observe.client import AskFailed, NodeClient, NoManager
from taskd_net.observe.document import Document, document, healthy
from taskd_net.observe.job_view import fields_of_mesh


@command(
    "tree",
    short_help="Show every node, the trouble, and the missing ranks.",
)
@click.option("--watch", is_flag=True, help="Repeat it each second, until a signal.")
@click.option("--all", "everything", is_flag=True, help="Show each node, however many are healthy.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --watch one a line.")
@click.pass_context
def tree(
    ctx: click.Context, /, at: str, expect: str | None, watch: bool, everything: bool, as_json: bool, **_: object
) -> None:
    """Show the tree of nodes, as the node at --at knows it: the Mgr all of it, a Proxy its own part.

    Nodes that are missing, not answering, lost, gone or cut off are always shown; many healthy ones are folded. Below
    the tree are the devices with a fault, the isolated ones, and the silent Agents, as the job's Manager knows them.
    docs/status.md defines the states and the JSON object.

    \b
    Examples:
      taskd-net tree --expect 4x8
      taskd-net tree --at 10.0.0.7:9601 --watch
      taskd-net tree --expect 4x8 --json | jq -r .missing[].position

    \b
    Exit codes:
      0      every node that is known has joined, or left in good order, and no rank
             is missing
      1      somebody is missing, not answering, lost, gone or cut off
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked

    128+N: ended by signal N, as with --watch.
    """
    screen = Screen()
    last = True
    expected = Expected.parse(expect) if expect is not None else None

    async def ask(client: NodeClient) -> Document:
        mesh = document(await client.mesh(), expected)
        try:
            job = await client.job()
        except AskFailed as failed:
            if failed.implemented and not isinstance(failed, NoManager):
                raise
            return mesh
        return mesh | fields_of_mesh(job)

    def show(mesh: Document) -> None:
        nonlocal last
        last = healthy(mesh)
        if as_json:
            say_json(mesh)
        else:
            of_job = (*devices(mesh), *silent_agents(mesh)) if "devices" in mesh else ()
            screen.say_all([*draw(mesh, everything=everything), *of_job], again=watch)

    repeat(ctx, upstreams.parse(at, "at"), ask, show, interval=1.0, count=0 if watch else 1)
    sys.exit(0 if last else 1)
