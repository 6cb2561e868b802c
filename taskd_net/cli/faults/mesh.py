"""`taskd-net faults report`, `list` and `release`: faults of devices in the mesh of a job."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Any, Final

import click

from taskd_net import Ack, Node, Position
from taskd_net.base import upstreams
from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError, Code
from taskd_net.cli.command import JSON, Command
from taskd_net.cli.job_lines import devices
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.probing import failure
from taskd_net.cli.screen import Screen
from taskd_net.cli.settings import COMMANDS, CONTEXT, node_config, tls_of
from taskd_net.cli.signals import run_until_signal
from taskd_net.cli.tool import NOT_JOINED, WITHDRAW_S, start_output
from taskd_net.cli.unreached import explained
from taskd_net.cli.watching import repeat
from taskd_net.job.decide.device_reports import NODES_MOST, DeviceReport, release_body
from taskd_net.job.faults.events import FaultKind, Severity, read_event
from taskd_net.net.free_position import tool_position
from taskd_net.observe.client import NodeClient
from taskd_net.observe.document import Document
from taskd_net.observe.fields import document_of

MGR: Final = Position.mgr()

_SENDS: Final = [CONTEXT, *(each for each in COMMANDS["send"] if each.name not in ("as", "mtype"))]
"""The settings of `taskd-net send`, but for what a report has of its own."""


_NODE: Final = click.option(
    "--node",
    type=click.IntRange(0, NODES_MOST),
    help="Rank of the device's node, where no Agent says it, or the certificate names several.",
)


@click.command("report", cls=Command, params=[*_SENDS], short_help="Report a fault of a device to the job's Manager.")
@click.argument("code")
@click.argument("device")
@_NODE
@click.option(
    "--kind",
    type=click.Choice([each.value for each in FaultKind]),
    default=FaultKind.OCCURRED.value,
    show_default=True,
    help="The fault has begun, is over, or has no end.",
)
@click.option("--severity", type=click.Choice([each.value for each in Severity]), help="As the driver says it.")
@click.option("--network", is_flag=True, help="It is a fault of the network.")
@click.option("--at-time", type=float, help="Its time, in seconds since the epoch.  [default: now]")
@click.pass_context
def report(ctx: click.Context, /, code: str, device: str, node: int | None, **event: Any) -> None:
    """Report the fault with this CODE of this DEVICE, and wait until the Manager has stored it.

    CODE has 8 or 9 hexadecimal digits. DEVICE is HOST/NAME as the Agents or the mapping file name it, or a NAME with
    --node.

    \b
    Examples:
      taskd-net faults report 8C0A4E00 host-b/Ascend910-3
      taskd-net faults report 8C0A4E00 Ascend910-3 --node 1 --kind recovered
      taskd-net faults report 81078603 Ascend910-3 --node 1 --network --upstream 10.0.0.7:9601

    \b
    Exit codes:
      0      the Manager has it
      1      it was not delivered, or nobody knows: the answer's code says why
      2      a flag, a variable, the file, CODE or DEVICE is wrong
      3      not joined within the timeout: nothing was sent
      128+N  ended by signal N; whether it was delivered is not known
    """
    when = event.pop("at_time")
    given = {name: event[name] for name in ("kind", "severity", "network") if event[name] is not None}
    try:
        if "/" not in device and node is None:
            raise ArgumentError(f"device is {device!r}; expected HOST/NAME, or --node with the rank of its node")
        found = read_event({"code": code, "device": device, **given}, time.time() if when is None else when)
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    _send(ctx, DeviceReport(found, node).body, node)


@click.command("release", cls=Command, params=[*_SENDS], short_help="Give a separated device free.")
@click.argument("device")
@_NODE
@click.pass_context
def release(ctx: click.Context, /, device: str, node: int | None, **_: object) -> None:
    """Give DEVICE free, which waits for a person: it was separated manually, or a reset has failed on it.

    Removing its name from the list of separated devices does the same. DEVICE is a name of `taskd-net faults list`.

    \b
    Examples:
      taskd-net faults release host-b/Ascend910-3

    \b
    Exit codes:
      0      the Manager has it
      1      it was not delivered, or nobody knows: the answer's code says why
      2      a flag, a variable, the file or DEVICE is wrong
      3      not joined within the timeout: nothing was sent
      128+N  ended by signal N; whether it was delivered is not known
    """
    try:
        body = release_body(device)
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    _send(ctx, body, node)


@click.command(
    "list",
    cls=Command,
    params=[CONTEXT, *COMMANDS["job"], JSON],
    short_help="Show the devices with a fault, and the isolated ones.",
)
@click.pass_context
def listing(ctx: click.Context, /, at: str, as_json: bool, **_: object) -> None:
    """Show the devices with a fault, and the isolated ones, as the Manager of the Mgr at --at knows them.

    \b
    Examples:
      taskd-net faults list
      taskd-net faults list --at 10.0.0.7:9601 --json | jq -r .devices[].device

    \b
    Exit codes:
      0  shown, and no device is isolated
      1  a device is isolated
      2  a flag or a variable is wrong
      3  nobody at --at who can be asked, or a node without a Manager
    """
    screen = Screen()
    isolated = 0

    async def ask(client: NodeClient) -> Document:
        job = document_of(await client.job())
        return {name: job[name] for name in ("time", "fault_mode", "devices", "devices_known", "devices_isolated")}

    def show(answer: Document) -> None:
        nonlocal isolated
        isolated = answer["devices_isolated"]
        if as_json:
            say_json(answer)
        else:
            screen.say_all(devices(answer)[1:] or [("the Manager has no rules for faults of devices", "")], again=False)

    repeat(ctx, upstreams.parse(at, "at"), ask, show, interval=1.0, count=1)
    sys.exit(1 if isolated else 0)


def _send(ctx: click.Context, body: Body, node: int | None) -> None:
    """Send a message to the Mgr as a tool of a node, and end the process with its answer."""
    config = node_config(ctx, tool_position(node, tls_of(ctx)), service=True)
    timeout: float = ctx.params["timeout"]
    start_output(ctx)

    async def join_and_send() -> Ack | str:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout
        async with Node(config) as node:
            try:
                await node.joined(timeout)
            except TimeoutError as error:
                return str(error)
            try:
                return await node.send(body.to_json(), to=MGR, timeout=max(0.0, give_up_at - loop.time()))
            finally:
                await node.withdraw(WITHDRAW_S)

    ack = run_until_signal(join_and_send)
    if isinstance(ack, signal.Signals):
        sys.exit(128 + ack)
    if isinstance(ack, str):
        say(f"Error: {explained(ctx, ack)}", err=True)
        sys.exit(NOT_JOINED)
    if ack.code == Code.CLIENT_ERR:
        say(f"{failure(ack)}. Why: the line fault_refused in the Manager's log")
    else:
        say(f"0 OK from {ack.src}" if ack.ok else failure(ack))
    sys.exit(0 if ack.ok else 1)
