"""The parts that `ping`, `trace` and `send` share: a node to ask, and answers in words and as JSON."""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

import click

from taskd_net import Ack, Code, Position
from taskd_net.base import upstreams
from taskd_net.base.codes import describe
from taskd_net.base.position import ALL
from taskd_net.cli.settings import tls_of
from taskd_net.cli.signals import run_until_signal
from taskd_net.core.acks import FAILURES_TOLD
from taskd_net.observe.client import NodeClient
from taskd_net.observe.probe_codec import Echo

REACH_S: Final = 5.0
"""Seconds to reach the node that is asked: longer than a connection through a lost packet or two takes."""


def ask(
    ctx: click.Context, work: Callable[[NodeClient], Coroutine[Any, Any, None]], seconds: float = REACH_S
) -> signal.Signals | None:
    """Connect to the node at `--at`, and work with it until the work is done or a signal comes.

    Args:
        ctx: of the command.
        work: gets the connection.
        seconds: for one answer of the node.

    Returns:
        The signal; None where the work was done before.

    Raises:
        ConfigError: the address or a file of TLS is not usable.
        AskFailed: the node cannot be asked.
    """
    addresses, tls = upstreams.parse(ctx.params["at"], "at"), tls_of(ctx)

    async def asked() -> None:
        async with NodeClient(addresses, seconds, tls) as client:
            await work(client)

    return run_until_signal(asked)


def milliseconds(seconds: float) -> float:
    """Milliseconds as they are printed, to the microsecond."""
    return round(seconds * 1000.0, 3)


def as_object(echo: Echo) -> dict[str, object]:
    """An answer for `--json`."""
    fields = {"code": int(echo.code), "name": name(echo.code), "src": str(echo.src), "ms": milliseconds(echo.seconds)}
    return fields | {"link": echo.link, "detail": echo.detail}


def counted_object(answer: Ack | Echo) -> dict[str, object]:
    """The number of nodes that answered, and the nodes that did not, for `--json`; null where it is not known."""
    failures = [
        {"position": str(position), "code": int(code), "name": name(code)} for position, code in answer.failures
    ]
    return {"receivers": answer.receivers, "failures": failures}


def counted(answer: Ack | Echo, to: Position, done: str) -> str:
    """The same in words, as the end of a line; empty where code and `src` are all there is.

    Args:
        answer: from the mesh.
        to: the destination.
        done: a verb for the nodes that answered, such as `answered`.
    """
    count, said = answer.receivers, ((answer.src, answer.code),)
    if not any(rank == ALL or "," in rank for rank in to[1:]) or (count == 0 and answer.failures in ((), said)):
        return ""
    text = ", nobody knows how many"
    if count is not None:
        text = f", 1 node {done.replace('have', 'has')}" if count == 1 else f", {count} nodes {done}"
    if answer.failures not in ((), said):
        more = " and more" if len(answer.failures) == FAILURES_TOLD else ""
        text += ", not " + ", ".join(f"{position} ({int(code)})" for position, code in answer.failures) + more
    return text


def name(code: int) -> str:
    """`NO_ROUTE`; `UNKNOWN` for a code of a later version."""
    return Code(code).name if code in Code.__members__.values() else "UNKNOWN"


def failure(answer: Ack | Echo) -> str:
    """A failure and its reporter: `5002 NO_ROUTE from Mgr/0: nobody on the way knows the destination`."""
    return f"{answer.code} {name(answer.code)} from {answer.src}: {detail(answer)}"


def detail(answer: Ack | Echo) -> str:
    """The reason in an answer; without one, the meaning of its code."""
    return answer.detail or describe(answer.code).partition(": ")[2]
