"""`taskd-net listen`."""

from __future__ import annotations

import asyncio
import math
import sys
from typing import Any

import click
import uvloop

from taskd_net import Node, NodeConfig
from taskd_net.base import limits
from taskd_net.base.schema import Kind
from taskd_net.cli.command import command
from taskd_net.cli.lines import say
from taskd_net.cli.memory import keep_freed_memory
from taskd_net.cli.options import FORMS
from taskd_net.cli.output import Output, as_json, as_text
from taskd_net.cli.settings import node_config
from taskd_net.cli.signals import stop_signal
from taskd_net.cli.tool import NOT_JOINED, PRINT_REST_S, TAKE_OVER, WITHDRAW_S, leaf, require_free, start_output
from taskd_net.cli.unreached import explain
from taskd_net.node.reading import Reading


@command(
    "listen",
    short_help="Print the messages to a position.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after this many messages.")
@click.option(
    "--for",
    "period",
    type=click.FloatRange(0.0, limits.TIMEOUT_MAX_S, min_open=True),
    metavar="SECONDS",
    help="End so long after it has joined.",
)
@click.option("--take-over", is_flag=True, help=TAKE_OVER)
@click.option("--json", "json_lines", is_flag=True, help="Print each message as one JSON object a line.")
@click.pass_context
def listen(ctx: click.Context, /, count: int | None, period: float | None, json_lines: bool, **_: object) -> None:
    """Join at a position, and print each message as it comes: its sender, its kind, its body.

    A line on stderr says that it has joined: "taskd-net listen Worker/0/3 ready, upstream HOST:PORT".

    \b
    Examples:
      taskd-net listen --as Worker/0/3
      taskd-net listen --as Agent/0 --count 1 --timeout 30
      taskd-net listen --as Agent/0 --for 60 > minute.txt
      taskd-net listen --as Worker/0/3 --json | jq -r .body

    \b
    Exit codes:
      0    --count messages are printed; or a signal, the end of whoever reads, or
           --for or --timeout without --count ended it
      1    --for or --timeout came before --count messages
      2    a flag, a variable or the file is wrong
      3    not joined within the timeout

    A position that a node has is refused: it would be cut off. --take-over takes it all the same. A
    message is acknowledged when it is in the inbox, before it is printed; what is there when --count is reached is
    lost, and what comes after it is refused with 5000.
    """
    position = leaf(ctx)
    if position is None:
        raise click.UsageError(f"as is missing; expected {FORMS[Kind.POSITION].expected}")
    config = node_config(ctx, position, service=True)
    require_free(ctx, position)
    start_output(ctx)
    keep_freed_memory()
    sys.exit(uvloop.run(_listen(ctx, config, count, period, json_lines)))


async def _listen(
    ctx: click.Context, config: NodeConfig, count: int | None, period: float | None, json_lines: bool
) -> int:
    """Listen until a count, a period, a timeout, a signal or the end of the reader. Returns the exit code."""
    timeout: float | None = ctx.params["timeout"]
    stop = stop_signal()
    unread = asyncio.Event()
    output = Output(unread.set)
    async with Node(config) as node:
        joining = asyncio.create_task(_join(ctx, node, timeout))
        printing = asyncio.create_task(_print(node, output, count, json_lines))
        closing = asyncio.create_task(unread.wait())
        over = asyncio.create_task(_over(joining, period))
        ends: set[asyncio.Future[Any]] = {printing, closing, stop, over}
        ended, _ = await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if ended <= {over}:
            await joining  # it has the same timeout, and a reason to print
        await node.withdraw(WITHDRAW_S)
    # The node is closed, so `_print` ends after the last acknowledged message.
    await asyncio.wait([printing], timeout=PRINT_REST_S)
    reached = printing.done() and count is not None and printing.result() == count
    joined = await joining
    rest = {printing, closing, over}
    for task in rest:
        task.cancel()
    await asyncio.wait(rest)
    if ended - {over} or reached:
        return 0
    if not joined:
        return NOT_JOINED
    return 0 if count is None else 1


async def _over(joining: asyncio.Future[bool], period: float | None) -> None:
    """Wait for a period after the join; without end where there is none, or no join."""
    joined = await asyncio.shield(joining)
    await asyncio.sleep(period if joined and period is not None else math.inf)


async def _join(ctx: click.Context, node: Node, timeout: float | None) -> bool:
    """Print that the node has joined, or the reason that it has not in time. Returns whether it has."""
    try:
        await node.joined(timeout)
    except TimeoutError as error:
        say(f"Error: {await explain(ctx, str(error))}", err=True)
        return False
    except RuntimeError:  # ended before
        return False
    say(f"taskd-net listen {node.position} ready, upstream {node.upstream}", err=True)
    return True


async def _print(node: Node, output: Output, count: int | None, json_lines: bool) -> int:
    """Print messages up to `count`, the end of the reader, or the end of the node. Returns the number printed."""
    printed = 0
    with Reading(node) as reading:
        async for message in node.messages():
            written = True
            with reading.survive(message):
                written = await output.line(as_json(message) if json_lines else as_text(message))
                printed += written
            if not written or printed == count:
                break
    return printed
