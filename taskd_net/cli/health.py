"""`taskd-net health`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click

from taskd_net.base import upstreams
from taskd_net.base.address import Address
from taskd_net.cli.command import command
from taskd_net.cli.job_lines import leader_words
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.settings import tls_of
from taskd_net.net.tls.files import Tls
from taskd_net.observe.client import AskFailed, NodeClient, ask_health
from taskd_net.observe.document import Document
from taskd_net.observe.fields import document_of


@command(
    "health",
    short_help="Print the health of a node, for scripts and probes.",
)
@click.option("--service", default="", help="TaskNet or liveness; without it the server as a whole.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def health(ctx: click.Context, /, at: str, service: str, as_json: bool, timeout: float, **_: object) -> None:
    """Ask the node at --at for its health, by the protocol that gRPC has for it.

    A Proxy is SERVING while it has an upstream that leads to the Mgr; its service liveness for as long as it runs. A
    Mgr whose Manager has its state in etcd also says who leads, which changes no exit code.

    \b
    Examples:
      taskd-net health
      taskd-net health --at 127.0.0.1:9602 --service liveness
      taskd-net health --at node-3:9602 --json

    \b
    Exit codes:
      0      SERVING
      1      NOT_SERVING: a Proxy without an upstream, or a node that ends
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked, or no service of that name
    """
    addresses, tls = upstreams.parse(at, "at"), tls_of(ctx)
    try:
        address, status = asyncio.run(_first(addresses, service, timeout, tls))
    except AskFailed as error:
        if as_json:
            say_json({"address": at, "service": service, "status": None, "detail": str(error)})
        raise
    job = None if service else asyncio.run(_job(address, timeout, tls))
    leader = None if job is None else job["leader"]
    if as_json:
        said = {"address": str(address), "service": service, "status": status}
        say_json(said | ({} if leader is None else {"leader": leader}))
    else:
        say(status)
        if job is not None and leader is not None:
            say(leader_words(leader, job["time"]))
    sys.exit(0 if status == "SERVING" else 1)


async def _first(addresses: Sequence[Address], service: str, timeout: float, tls: Tls | None) -> tuple[Address, str]:
    """The first of some addresses that answers, and the health there."""
    for left, address in zip(reversed(range(len(addresses))), addresses, strict=True):
        try:
            return address, await ask_health(address, service, timeout / len(addresses), tls)
        except AskFailed as error:
            if not (left and error.unreached):
                raise
    raise AssertionError("an address at least")


async def _job(address: Address, timeout: float, tls: Tls | None) -> Document | None:
    """The document of the node's job; None where it has none, or does not say."""
    try:
        async with NodeClient((address,), timeout, tls) as client:
            return document_of(await client.job())
    except AskFailed:
        return None
