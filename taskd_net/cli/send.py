"""`taskd-net send`."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

import click
import uvloop

from taskd_net import Ack, Code, ConfigError, Node, NodeConfig, Position
from taskd_net.cli.probing import counted, counted_object, name
from taskd_net.cli.settings import COMMANDS, CONFIG, node_config, wrong
from taskd_net.cli.signals import stop_signal
from taskd_net.cli.tool import NOT_JOINED, WITHDRAW_S, free_position, leaf, log_to_stderr, start_telemetry
from taskd_net.codes import describe


@dataclass(frozen=True)
class _Order:
    """What is to be sent."""

    to: Position
    body: str
    mtype: str
    timeout: float
    sync: bool


class _NotJoinedError(Exception):
    """The node has not joined in time; the text says what the trouble is."""


@click.command(
    params=[CONFIG, *COMMANDS["send"]],
    short_help="Send a message and print the answer.",
    epilog="""\b
Examples:
  taskd-net send Worker/0/3 pause
  taskd-net send Worker/All/All --mtype ACTION < order.json
  taskd-net send Mgr "step 100" --upstream 10.0.0.7:9601 --json
  date | taskd-net send Worker/0/0,3,7 - --no-sync

\b
Exit codes:
  0      the answer is 0: delivered; with --no-sync, the first hop has it
  1      not delivered, or nobody knows: the answer's code says why
  2      a flag, a variable, the file, DEST or BODY is wrong
  3      not joined within the timeout: nothing was sent
  128+N  ended by signal N; whether the message was delivered is not known

A position that is in use must not be given with --as: the newcomer
takes it over, and whoever had it is cut off.
""",
)
@click.argument("dest")
@click.argument("body", default="-")
@click.option("--sync/--no-sync", default=True, help="Wait for the delivery, or only for the first hop.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")
@click.pass_context
def send(ctx: click.Context, /, dest: str, body: str, sync: bool, as_json: bool, **settings: object) -> None:
    """Send a message to DEST and print the answer: its code, its name, and who gave it; of a broadcast also how many
    nodes have it, and the first that do not.

    DEST is Role/serverRank[/processRank]: Mgr, Proxy/0, Agent/0, Worker/0/3; ranks may be comma lists or All. BODY is
    the text; without it, or with -, it is read from the standard input to its end, and sent as it is.
    """
    position = leaf(ctx) or free_position()
    try:
        to = Position.parse(dest)
    except ValueError as error:
        raise click.UsageError(f"DEST: {error}") from None
    config = node_config(ctx, position, service=True)
    text = _standard_input() if body == "-" else body
    log_to_stderr(str(settings["log_std_level"]))
    start_telemetry(ctx)
    order = _Order(to, text, str(settings["mtype"]), float(str(settings["timeout"])), sync)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            ack = runner.run(_send(config, order))
        except _NotJoinedError as error:
            if as_json:
                click.echo(_json(Ack("", Code.NET_STREAM_NOT_INITED, position, str(error), 0)))
            click.echo(f"Error: {error}", err=True)
            sys.exit(NOT_JOINED)
        except ConfigError as error:
            raise wrong(ctx, error) from None
    if isinstance(ack, int):
        sys.exit(128 + ack)
    click.echo(_json(ack) if as_json else _text(ack) + (counted(ack, to, "have it") if sync else ""))
    sys.exit(0 if ack.ok else 1)


async def _send(config: NodeConfig, order: _Order) -> Ack | int:
    """Send it. Returns the answer, or the number of the signal that came first."""
    stop = stop_signal()
    work = asyncio.create_task(_join_and_send(config, order))
    ends: set[asyncio.Future[Any]] = {work, stop}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        return await work
    work.cancel()
    await asyncio.wait([work])
    return stop.result()


async def _join_and_send(config: NodeConfig, order: _Order) -> Ack:
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + order.timeout
    async with Node(config) as node:
        try:
            await node.joined(order.timeout)
        except TimeoutError as error:
            raise _NotJoinedError(str(error)) from None
        try:
            call = node.send if order.sync else node.post
            return await call(order.body, to=order.to, mtype=order.mtype, timeout=max(0.0, give_up_at - loop.time()))
        finally:
            await node.withdraw(WITHDRAW_S)


def _standard_input() -> str:
    if sys.stdin is None:
        raise click.UsageError("BODY is to come from the standard input, which is closed")
    # The whole of it, before there is an event loop: an event loop can read a pipe, but not every file.
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"BODY from the standard input is not UTF-8 text: {error.reason}") from None


def _text(ack: Ack) -> str:
    if ack.ok:
        return f"0 OK from {ack.src}"
    return f"{ack.code} {name(ack.code)} from {ack.src}: {ack.detail or describe(ack.code).partition(': ')[2]}"


def _json(ack: Ack) -> str:
    fields: dict[str, object] = {"code": int(ack.code), "name": name(ack.code), "src": str(ack.src), "uuid": ack.uuid}
    fields |= {"detail": ack.detail or describe(ack.code).partition(": ")[2]}
    return json.dumps(fields | counted_object(ack), ensure_ascii=False)
