"""What `ping` and `trace` share: they ask a node that listens, print what comes, and end with it or with a signal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

import click
import uvloop

from taskd_net import Ack, Code, ConfigError, Position
from taskd_net.address import Address
from taskd_net.cli.settings import tls_of, wrong
from taskd_net.cli.signals import stop_signal
from taskd_net.codes import describe
from taskd_net.limits import FAILURES_TOLD
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.probe_codec import Echo
from taskd_net.position import ALL

NOT_ASKED: Final = 3
"""Exit code: no node at `--at` could be asked."""

REACH_S: Final = 5.0
"""Seconds to reach the node that is asked: longer than a connection through a lost packet or two takes."""


def destination(text: str) -> Position:
    """DEST.

    Raises:
        click.UsageError: it is not a position.
    """
    try:
        return Position.parse(text)
    except ValueError as error:
        raise click.UsageError(f"DEST: {error}") from None


def ask(ctx: click.Context, work: Callable[[NodeClient], Coroutine[Any, Any, None]]) -> int | None:
    """Connect to the node at `--at` and work with it until the work is done or a signal comes.

    Returns the number of the signal, None where the work was done before one came.

    Exits with NOT_ASKED, and one line that says why, where the node cannot be asked.
    """
    try:
        address = Address.parse(ctx.params["at"], "at")
    except ConfigError as error:
        raise wrong(ctx, error) from None

    tls = tls_of(ctx)

    async def asked() -> int | None:
        stop = stop_signal()
        async with NodeClient(address, REACH_S, tls) as client:
            working = asyncio.create_task(work(client))
            ends: set[asyncio.Future[Any]] = {working, stop}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            working.cancel()
            await asyncio.wait([working])
            if working.cancelled():
                return stop.result()
            await working
            return None

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(asked())
    except ConfigError as error:
        raise wrong(ctx, error) from None
    except AskFailed as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(NOT_ASKED)


def milliseconds(seconds: float) -> float:
    """As they are printed: to the microsecond."""
    return round(seconds * 1000.0, 3)


def as_object(echo: Echo) -> dict[str, object]:
    """An answer for `--json`."""
    fields = {"code": int(echo.code), "name": name(echo.code), "src": str(echo.src), "ms": milliseconds(echo.seconds)}
    return fields | {"link": echo.link, "detail": echo.detail}


def counted_object(answer: Ack | Echo) -> dict[str, object]:
    """The number of nodes that answered, and those that did not, for `--json`; null where that is not known."""
    failures = [
        {"position": str(position), "code": int(code), "name": name(code)} for position, code in answer.failures
    ]
    return {"receivers": answer.receivers, "failures": failures}


def counted(answer: Ack | Echo, to: Position, done: str) -> str:
    """The same for people, as the end of a line; empty where code and `src` say all of it.

    Args:
        answer: what came.
        to: the destination.
        done: what the nodes have done.
    """
    count, said = answer.receivers, ((answer.src, answer.code),)
    if not any(rank == ALL or "," in rank for rank in to[1:]) or (count == 0 and answer.failures in ((), said)):
        return ""
    text = f", {count} {'node' if count == 1 else 'nodes'} {done}" if count is not None else ", nobody knows how many"
    if answer.failures not in ((), said):
        more = " and more" if len(answer.failures) == FAILURES_TOLD else ""
        text += ", not " + ", ".join(f"{position} ({int(code)})" for position, code in answer.failures) + more
    return text


def name(code: int) -> str:
    """`NO_ROUTE`; `UNKNOWN` for a code of a later version."""
    return Code(code).name if code in Code.__members__.values() else "UNKNOWN"


def failure(echo: Echo) -> str:
    """What went wrong, and who says so: `5002 NO_ROUTE from Mgr/0: nobody on the way knows the destination`."""
    return f"{echo.code} {name(echo.code)} from {echo.src}: {echo.detail or describe(echo.code).partition(': ')[2]}"
