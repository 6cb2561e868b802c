"""Checks of the addresses to listen at."""

from __future__ import annotations

import asyncio
import errno
import socket

from taskd_net import Position, Role
from taskd_net.base.address import Address
from taskd_net.cli.doctor.finding import Finding, ok, warning, wrong
from taskd_net.observe.identify import ServerKind, identify

VISIT_S = 3.0
"""Seconds for whoever is met to say who it is."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def reached(listen: Address) -> Address:
    """The address by which this machine reaches who listens there."""
    return Address(_EVERYWHERE.get(listen.host, listen.host), listen.port)


async def check(listen: Address, position: Position, *, tls: bool) -> list[Finding]:
    """Resolve the address, and bind it for a moment. `tls`: whether children are to speak TLS there."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        text = f"the host of listen, {listen.host!r}, cannot be resolved: {getattr(error, 'strerror', error)}"
        return [wrong("name", text, "Give an IP address of this machine, or 0.0.0.0 for all of them.")]
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as bound:
        # As gRPC does: closing connections of an earlier process are not in the way.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
        except OSError as error:
            return [await _explain(listen, position, error, tls=tls)]
    findings = [
        ok("port", f"{listen} is free" if listen.port else f"{listen.host} can be listened on, at any free port")
    ]
    if position.role == Role.MGR and Address(str(address[0]), listen.port).is_loopback:
        text = f"at {listen} only nodes on this machine can connect"
        findings.append(warning("address", text, "For Proxies on other machines: --listen 0.0.0.0:9601."))
    return findings


def check_direct(listen: Address) -> list[Finding]:
    """Bind the port of direct links for a moment, where one is chosen."""
    if not listen.port:
        return []
    with socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((listen.host, listen.port))
        except OSError as error:
            text = f"the port of direct links, {listen}, cannot be listened on: {error.strerror or error}"
            advice = f"If this node runs, it is that. `ss -ltnp 'sport = :{listen.port}'` names the process."
            return [warning("direct-port", text, advice)]
    return [ok("direct-port", f"{listen} is free for direct links")]


async def _explain(listen: Address, position: Position, error: OSError, *, tls: bool) -> Finding:
    match error.errno:
        case errno.EADDRINUSE if tls:
            text = f"{listen} is in use; by whom cannot be asked, as TLS is spoken here"
            advice = f"If this node runs, it is that. `ss -ltnp 'sport = :{listen.port}'` names the process."
            return warning("port", text, advice)
        case errno.EADDRINUSE:
            return await _in_use(listen, position)
        case errno.EADDRNOTAVAIL:
            text = f"{listen.host} is not an address of this machine"
            return wrong("address", text, "`ip address` lists those that are; 0.0.0.0 stands for all of them.")
        case errno.EACCES:
            text = f"this user may not listen on port {listen.port}"
            return wrong("port", text, "Ports below 1024 are for root; the usual ones are 9601 and 9602.")
        case _:
            return wrong("port", f"{listen} cannot be listened on: {error.strerror}", "Choose another address.")


async def _in_use(listen: Address, position: Position) -> Finding:
    met = await identify(reached(listen), VISIT_S)
    if met.about is not None and met.about.position.identity == position.identity:
        return ok(
            "port", f"{listen} is in use by {met.about.position} itself, which runs (taskd_net {met.about.version})"
        )
    who = f"{met.about}, another node of the mesh" if met.about is not None else met.kind.value
    if met.kind in (ServerKind.NONE, ServerKind.SILENT):
        who = "a process that does not answer as a node does"
    text = f"{listen} is in use by {who}"
    advice = f"`ss -ltnp 'sport = :{listen.port}'` names the process; end it, or choose another --listen."
    return wrong("port", text, advice)
