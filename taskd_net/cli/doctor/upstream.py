"""The parent: reachability, identity, and the difference between its clock and ours."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

from taskd_net import Position, Role, __version__
from taskd_net.base.address import Address
from taskd_net.base.states import State
from taskd_net.base.untrusted import shown
from taskd_net.cli.doctor.finding import Finding, ok, skipped, warning, wrong
from taskd_net.cli.doctor.listening import VISIT_S
from taskd_net.cli.mesh_lines import link_words
from taskd_net.core.membership import Membership
from taskd_net.net.joining.connecting import TRIED_AGAIN
from taskd_net.net.tls.files import Tls
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.document import by_position, document
from taskd_net.observe.identify import Found, ServerKind, identify
from taskd_net.observe.probe_codec import About

CONNECT_S = 3.0
"""Seconds for a connection: the first packet may be lost, and is sent again after one."""

CLOCK_S = 1.0
"""Seconds by which two clocks may differ. Clocks kept by NTP differ by milliseconds. From a second on, the order of log
lines of two machines is lost."""


async def check(upstream: Address, position: Position, tls: Tls | None, job_id: str = "") -> list[Finding]:
    """Check name, connection, kind of server, job, version and clock of the parent, in this order.

    `job_id`: of the node; empty for none.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        text = f"the host {upstream.host!r} cannot be resolved: {getattr(error, 'strerror', error)}"
        advice = f"`getent hosts {upstream.host}` asks the same; look for a typing error, then at DNS or /etc/hosts."
        return [wrong("name", text, advice)]
    hosts = list(dict.fromkeys(str(address[0]) for *_, address in found))
    findings = []
    if hosts != [upstream.host]:
        findings.append(ok("name", f"{upstream.host} is {', '.join(hosts)}"))
    failures = {host: await _connect(host, upstream.port) for host in hosts}
    wrongs = [failure for failure in failures.values() if failure is not None]
    if len(wrongs) == len(hosts):
        return [*findings, wrongs[0]]
    findings += [warning("upstream", failure.text, failure.advice) for failure in wrongs]
    return [*findings, *await _meet(upstream, position, tls, job_id)]


async def _connect(host: str, port: int) -> Finding | None:
    """Connect. Returns None, or the reason for failure."""
    where = Address(host, port)
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        text = f"{where} does not answer at all: the machine is down, or a firewall drops what is sent to it"
        return wrong(
            "upstream", text, f"`ping {host}`, then ask who keeps the firewall whether TCP port {port} is open."
        )
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            text = f"nobody listens at {where}; the machine is there"
            advice = "Start the parent, or correct the address: its first line says where it listens."
            if not host.startswith("127."):
                advice += " A Mgr listens on 127.0.0.1 alone unless it is told otherwise: --listen 0.0.0.0:9601."
            return wrong("upstream", text, advice)
        text = f"there is no way to {where}: {error.strerror or error}"
        return wrong("upstream", text, f"`ip route get {host}` shows the route; look at the network of this machine.")
    writer.close()
    return None


async def _meet(upstream: Address, position: Position, tls: Tls | None, job_id: str) -> list[Finding]:
    met = await identify(upstream, VISIT_S, tls)
    match met.kind:
        case ServerKind.OURS:
            assert met.about is not None
            link = await _link(upstream, position, tls)
            return [*_who(upstream, position, met.about, job_id), _version(met.about), clock(met), *link]
        case ServerKind.MESH:
            text = f"{upstream} knows the four calls; it is not a node of taskd_net, or too old to say who it is"
            return [ok("upstream", text), skipped("version", "it does not say"), skipped("clock", "it does not say")]
        case ServerKind.OTHER:
            text = f"{upstream} is a gRPC server, but not one of a mesh: it does not know the service TaskNet"
            return [wrong("upstream", text, "Correct the address: the Mgr's port is usually 9601, a Proxy's 9602.")]
        case ServerKind.SILENT:
            return [_silent(upstream)]
        case ServerKind.NONE:
            return [await _not_grpc(upstream, tls)]


def _who(upstream: Address, position: Position, about: About, job_id: str) -> list[Finding]:
    who = f"{about.position} at {upstream}"
    if Membership(job_id).excludes(about.job_id):
        text = f"{who} is of job {shown(about.job_id)}, and this node of job {shown(job_id)}: it is refused there"
        return [wrong("upstream", text, "Correct the address, or --job-id (TASKD_NET_JOB_ID).")]
    if about.position.identity == position.identity:
        text = f"{who} has the position of this node: its upstream is itself, or somebody else has its rank"
        return [wrong("upstream", text, "Correct the address; on each node --server-rank is another.")]
    if about.position.role != Role.MGR and about.parent is None:
        text = f"{who} answers, but has no upstream itself at present: nothing gets further than there"
        return [warning("upstream", text, f"Run `taskd-net doctor proxy` on the machine of {about.position}.")]
    below = "" if about.parent is None else f", joined to {about.parent}"
    return [ok("upstream", f"{who} answers{below}")]


async def _link(upstream: Address, position: Position, tls: Tls | None) -> list[Finding]:
    """The link of the node that runs with this position, as its parent knows it; no finding where none does."""
    try:
        async with NodeClient(upstream, VISIT_S, tls) as client:
            mesh = await client.mesh()
    except AskFailed as error:
        return [skipped("link", f"{upstream} does not tell the state of the mesh: {error}")]
    node = by_position(document(mesh)).get(str(position.identity))
    if node is None or not node["link"] or node["parent"] != str(mesh.root):
        return []
    text = f"{position.identity} runs; its link is {link_words(node)}"
    if node["state"] == State.NOT_ANSWERING:
        advice = "Its process is stopped, or holds its interpreter or event loop: look at its log."
        return [warning("link", f"{text}; it is not answering", advice)]
    if (node["link_reason"] or "").endswith(TRIED_AGAIN):
        advice = "Open that port in the firewall for this machine; the link then moves to it by itself."
        return [warning("link", text, advice)]
    return [ok("link", text)]


def _version(about: About) -> Finding:
    if about.version == __version__:
        return ok("version", f"both are taskd_net {__version__}")
    text = f"{about.position} is taskd_net {about.version}, this is {__version__}"
    return warning("version", text, "They work together, by what both know; use one version in a job.")


def clock(met: Found) -> Finding:
    """The offset of the two clocks, to within half a round trip."""
    ahead, error = met.clock, met.clock_error
    off = f"{abs(ahead):.3f} s {'behind' if ahead > 0 else 'ahead of'} the upstream's, to within {error:.3f} s"
    if abs(ahead) - error > CLOCK_S:
        text = f"this machine's clock is {off}"
        return wrong(
            "clock", text, "Let NTP keep both clocks (`timedatectl`); certificates and log lines depend on it."
        )
    return ok("clock", f"this machine's clock is {off}")


def _silent(upstream: Address) -> Finding:
    text = f"{upstream} takes connections and says nothing: its process is stopped, or busy, or no node"
    return wrong("upstream", text, "On its machine: `ps -o stat,etime,args`, state T is stopped; then its log.")


async def _not_grpc(upstream: Address, tls: Tls | None) -> Finding:
    """Something takes connections there, and no more is known: try a handshake of TLS.

    As this node would do it; a node without TLS only wants to know whether that is what is spoken, and trusts nobody.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(tls.ca)
    context.set_alpn_protocols(["h2"])
    if tls is not None and tls.client_crt is not None:
        context.load_cert_chain(tls.client_crt, tls.client_key)
    name = tls.server_name if tls is not None and tls.server_name is not None else upstream.host
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(upstream.host, upstream.port, ssl=context, server_hostname=name)
        writer.close()
    except TimeoutError:
        return _silent(upstream)
    except ssl.SSLCertVerificationError as error:
        text = f"the certificate that {upstream} shows is not accepted: {error.verify_message}"
        return wrong(
            "tls", text, "Compare ca, and the names in its server_crt with the host of --upstream or --server-name."
        )
    except OSError:
        text = f"{upstream} takes connections, but is no gRPC server"
        if tls is None:
            return wrong("upstream", text, "Correct the address: something else listens there.")
        text += " with TLS: it speaks plain text, or something else listens there"
        return wrong("upstream", text, "Give the parent the files of TLS, or this node none; or correct the address.")
    if tls is None:
        text = f"{upstream} speaks TLS, and this node is configured for plain text"
        return wrong("upstream", text, "Give this node the files of TLS, or let the parent do without.")
    text = f"{upstream} does not accept this node: its certificate, client_crt, is not of the CA that is trusted there"
    return wrong("tls", text, "Compare client_crt with the ca of the parent; the log there says more.")
