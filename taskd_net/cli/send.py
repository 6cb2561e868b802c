"""`taskd-net send`."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import click

from taskd_net import Ack, Code, Node, Position
from taskd_net.base import limits
from taskd_net.cli.command import command, to_position
from taskd_net.cli.completion import positions
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.probing import counted, counted_object, detail, failure, name
from taskd_net.cli.settings import node_config
from taskd_net.cli.signals import run_until_signal
from taskd_net.cli.tool import NOT_JOINED, TAKE_OVER, WITHDRAW_S, leaf, require_free, start_output
from taskd_net.cli.unreached import explained
from taskd_net.net.free_position import free_position


class _NotJoinedError(Exception):
    """The node has not joined in time; the text says why."""


@command(
    "send",
    short_help="Send a message and print the answer.",
)
@click.argument("dest", callback=to_position(), shell_complete=positions(several=True))
@click.argument("body", required=False)
@click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="Send the text of this file.")
@click.option("--stdin", is_flag=True, help="Send the standard input, to its end.")
@click.option("--sync/--no-sync", default=True, help="Wait for the delivery, or for the first hop alone.")
@click.option("--take-over", is_flag=True, help=TAKE_OVER)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")
@click.pass_context
def send(
    ctx: click.Context,
    /,
    dest: Position,
    body: str | None,
    file: Path | None,
    stdin: bool,
    sync: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Send a message to DEST and print the answer: its code, its name, and who gave it; of a broadcast also how many
    nodes have it, and the first that do not.

    DEST is Role/serverRank[/processRank]: Mgr, Proxy/0, Agent/0, Worker/0/3; ranks may be comma lists or All. BODY is
    the text; --file and --stdin (or -, or nothing) are read to the end, and sent as they are.

    \b
    Examples:
      taskd-net send Worker/0/3 pause
      taskd-net send Worker/All/All --mtype ACTION --file order.json
      taskd-net send Mgr "step 100" --upstream 10.0.0.7:9601 --json
      date | taskd-net send Worker/0/0,3,7 --stdin --no-sync

    \b
    Exit codes:
      0      the answer is 0: delivered; with --no-sync, the first hop has it
      1      not delivered, or nobody knows: the answer's code says why
      2      a flag, a variable, a file, DEST or BODY is wrong
      3      not joined within the timeout: nothing was sent
      128+N  ended by signal N; whether the message was delivered is not known

    A position of --as that a node has is refused: it would be cut off.
    --take-over takes it all the same.
    """
    taken = leaf(ctx)
    position = taken or free_position()
    config = node_config(ctx, position, service=True)
    text = _body(body, file, stdin)
    if taken is not None:
        require_free(ctx, taken)
    start_output(ctx)

    async def join_and_send() -> Ack:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + settings["timeout"]
        async with Node(config) as node:
            try:
                await node.joined(settings["timeout"])
            except TimeoutError as error:
                raise _NotJoinedError(str(error)) from None
            try:
                call = node.send if sync else node.post
                left = max(0.0, give_up_at - loop.time())
                return await call(text, to=dest, mtype=settings["mtype"], timeout=left)
            finally:
                await node.withdraw(WITHDRAW_S)

    try:
        ack = run_until_signal(join_and_send)
    except _NotJoinedError as error:
        text = explained(ctx, str(error))
        if as_json:
            say_json(_fields(Ack("", Code.NET_STREAM_NOT_INITED, position, text, 0)))
        say(f"Error: {text}", err=True)
        sys.exit(NOT_JOINED)
    if isinstance(ack, signal.Signals):
        sys.exit(128 + ack)
    if as_json:
        say_json(_fields(ack))
    else:
        said = f"0 OK from {ack.src}" if ack.ok else failure(ack)
        say(said + (counted(ack, dest, "have it") if sync else ""))
    sys.exit(0 if ack.ok else 1)


def _body(body: str | None, file: Path | None, stdin: bool) -> str:
    """The text to send, from the one source that is named; without any, from the standard input."""
    sources = [name for name, given in (("BODY", body is not None), ("--file", file), ("--stdin", stdin)) if given]
    if len(sources) > 1:
        raise click.UsageError(f"{' and '.join(sources)} are given; expected one of them")
    if file is not None:
        return _file(file)
    return _standard_input() if body is None or body == "-" else body


def _file(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            data = opened.read(limits.MESSAGE_BYTES + 1)
        if len(data) > limits.MESSAGE_BYTES:
            raise ValueError(f"it has more than the {limits.MESSAGE_BYTES} bytes of a message")
        return data.decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise click.UsageError(f"file is '{path}'; expected a file with UTF-8 text: {reason}") from None


def _standard_input() -> str:
    if sys.stdin is None:
        raise click.UsageError("BODY is to come from the standard input, which is closed")
    if sys.stdin.isatty():
        say("BODY comes from this terminal; Ctrl-D ends it", err=True)
    # Read before the event loop starts: a loop can wait for a pipe, but not for every file.
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"BODY from the standard input is not UTF-8 text: {error.reason}") from None


def _fields(ack: Ack) -> dict[str, object]:
    fields = {"code": int(ack.code), "name": name(ack.code), "src": str(ack.src), "uuid": ack.uuid}
    return {**fields, "detail": detail(ack), **counted_object(ack)}
