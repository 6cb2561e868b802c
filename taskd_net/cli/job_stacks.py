"""`taskd-net job stacks`."""

from __future__ import annotations

import sys
from typing import Final

import click

from taskd_net.base.stacks import documents, words
from taskd_net.base.untrusted import natural, shown
from taskd_net.cli.command import JSON, Command
from taskd_net.cli.lines import say_json
from taskd_net.cli.phrases import duration
from taskd_net.cli.probing import ask
from taskd_net.cli.screen import Screen
from taskd_net.cli.settings import params_of
from taskd_net.observe.client import NodeClient

RANK_MOST: Final = 2**31 - 1
"""Greatest rank in `--ranks`, as in the messages of TaskD."""

OLD_S: Final = 6.0
"""Seconds after which the age of stacks is told: a collection may take five."""

COLLECT_S: Final = 10.0
"""Seconds for stacks: the Manager waits five for its Agents."""


def _ranks(_: click.Context, __: click.Parameter, text: str | None) -> frozenset[int]:
    """Read a list of ranks, with commas between."""
    ranks = frozenset(natural(each.strip(), RANK_MOST) for each in text.split(",")) if text else frozenset()
    if None in ranks:
        raise click.BadParameter(f"{shown(text)}; expected global ranks, e.g. 3,5")
    return frozenset(rank for rank in ranks if rank is not None)


@click.command(
    "stacks",
    cls=Command,
    params=[*params_of("job"), JSON],
    short_help="Show where the training processes are: their Python stacks.",
)
@click.option("--ranks", callback=_ranks, metavar="RANKS", help="Global ranks, with commas between. Default: all.")
@click.pass_context
def job_stacks(ctx: click.Context, /, ranks: frozenset[int], at: str, as_json: bool, **_: object) -> None:
    """Collect the Python stacks of training processes, by the Manager of the Mgr at --at.

    Ranks with the same stack stand together, and those that differ from all others come first. A stack has files,
    lines and functions, and no values. Processes go on. The Manager keeps what it has collected in a file. It answers
    on its own machine, and a certificate that names the Agents of all nodes. Each node is asked once in 30 s; those of
    all ranks are shown again meanwhile.

    \b
    Examples:
      taskd-net job stacks
      taskd-net job stacks --ranks 3,5
      taskd-net job stacks --json | jq -r .groups[0].stack[0]

    \b
    Exit codes:
      0      shown
      1      an Agent has not answered
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked, a node without a Manager, or one that
             does not collect them for this caller, or not now

    128+N: ended by signal N.
    """
    screen = Screen()
    silent = False

    async def ask_manager(client: NodeClient) -> None:
        nonlocal silent
        found = await client.stacks(ranks)
        silent = bool(found.silent)
        if as_json:
            told = {"silent": list(found.silent), "file": found.file or None, "age": round(found.age, 3)}
            say_json({"groups": documents(found.groups), **told})
            return
        if found.age >= OLD_S:
            screen.say(f"collected {duration(found.age)} ago", style="yellow")
        for line in words(found.groups) or ["no rank has a stack: no launcher of this package runs one"]:
            screen.say(line)
        if found.silent:
            screen.say(f"no answer from the Agents of nodes {','.join(map(str, found.silent))}", style="red")
        if found.file:
            screen.say(f"kept at the Manager in {found.file}", style="dim")

    if (number := ask(ctx, ask_manager, COLLECT_S)) is not None:
        sys.exit(128 + number)
    sys.exit(1 if silent else 0)
