"""Place of a job's Manager, as a launcher finds it: one that answers already, or an address for one of its own.

The launcher of node 0 starts a Manager unless one answers. It starts it at once: a wait would delay every job, and one
whose user starts nothing else would wait for ever. So a `taskd-net mgr` that a user starts later finds its address
taken, says so in one line, and ends. A Manager that is started before counts, and so does `--no-mgr`. A `mgr` that a
script starts just before `run` is there in time: it listens after a second, and torch alone takes longer.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import secrets
import socket
import time
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import attempt_of
from taskd_net.base.position import Role
from taskd_net.base.untrusted import shown
from taskd_net.core.membership import Membership
from taskd_net.job.arguments import LOOPBACK, secured
from taskd_net.job.node_proxy import identified
from taskd_net.job.ports import Ports, ports_of
from taskd_net.observe.identify import ServerKind
from taskd_net.observe.probe_codec import About

MGR_END_S: Final = 10.0
"""Seconds that a Manager has to drain and end after its job."""

HOLDER_S: Final = 2.0
"""Seconds for each answer of another process, which has the address of the Mgr."""

AGAIN_S: Final = 0.2
"""Seconds between two looks at that address."""

_ANYWHERE: Final = "192.0.2.1"
"""An address of documents, which is on every way out of this machine. Nothing is sent there."""

ALL: Final = "0.0.0.0"  # noqa: S104 - see `listen_host`

UNTIL_EOF: Final = b"--until-eof"
"""Flag of a Manager that a launcher has started."""


class Launched(Enum):
    """The launcher of a Manager at an address of this machine."""

    NONE = 0
    LIVES = 1
    ENDED = 2


def is_local(host: str) -> bool:
    """True for a host whose address this machine has."""
    return _bind(Address(host, 0)) is None


def listen_host(first: str, own: str, *, is_placed: bool, nodes: int = 2) -> str:
    """The host to listen at, on the node that others reach by the name `first`.

    A pod's name may be known seconds after the pod has begun, or lead to the pod before it. So a Manager listens at an
    address of this machine's own, and the others look the name up. Where the name leads to a loopback address of this
    host, as Debian's `/etc/hosts` has it, it leads others to another one. So the Manager listens at all then.

    Args:
        first: name or address of the first host.
        own: name of this host.
        is_placed: a platform says that this node has rank 0.
        nodes: of the job.

    Returns:
        `first`, where this machine has it, or it is another one; else an address of this machine.
    """
    if _is_ip(first) or first == "localhost":
        return first
    is_own = _is_same(first, own)
    if is_local(first):
        is_hidden = is_own and nodes > 1 and all(Address(each, 0).is_loopback for each in _resolved(first))
        return ALL if is_hidden else first
    return own_interface(own) if is_own or (is_placed and not _resolved(first)) else first


def own_interface(own: str) -> str:
    """An address of this machine by which others may reach it: `POD_IP`, that of its name, or that of a route."""
    found = [os.environ.get("POD_IP", ""), *_resolved(own), own_address(_ANYWHERE)]
    usable = (each for each in found if each and not Address(each, 0).is_loopback and is_local(each))
    return next(usable, ALL)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_same(one: str, other: str) -> bool:
    """True for two names of one host, of which one may have more of its domain."""
    one, other = f"{one.lower()}.", f"{other.lower()}."
    return one.startswith(other) or other.startswith(one)


def _resolved(host: str) -> list[str]:
    """The addresses of a host; empty where its name is not known, or not yet."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(place[0]) for *_, place in found]


def own_address(towards: str) -> str:
    """The address of this machine by which a host reaches it; the loopback one where no way leads there."""
    try:
        family, _, _, _, place = socket.getaddrinfo(towards, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return LOOPBACK


def is_taken(listen: Address) -> bool:
    """True where another process listens at an address of this machine."""
    return _bind(listen) == errno.EADDRINUSE


def free_ports() -> Ports:
    """A pair of ports of this machine that nobody uses, below those that systems give to connections."""
    while True:
        ports = ports_of(secrets.token_hex(8))
        if not any(is_taken(Address(LOOPBACK, port)) for port in ports):
            return ports


def launched(listen: Address) -> Launched:
    """The launcher of the Manager that listens at an address; NONE where no launcher of this machine has started one.

    A Manager whose launcher has ended is about to end: its input has.
    """
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if UNTIL_EOF in words and str(listen).encode() in words:
                return Launched.LIVES if _is_held(path) else Launched.ENDED
    return Launched.NONE


def answers(listen: Address, job_id: str, seconds: float = MGR_END_S) -> bool:
    """Look for a Mgr of this job at an address of this machine.

    Args:
        listen: the address.
        job_id: of the job; empty for none.
        seconds: to wait for one that is about to end, or does not say what it is.

    Returns:
        True for one of this job, or without an id; False where nobody listens.

    Raises:
        ConfigError: somebody else listens there.
    """
    give_up_at = time.monotonic() + seconds
    while is_taken(listen):
        holder = "a Manager whose launcher has ended"
        if launched(listen) is not Launched.ENDED:
            kind, about, holder = _holder(listen)
            if kind is ServerKind.MESH:
                return True
            if about is not None:
                if about.position.role == Role.MGR and not Membership(job_id).excludes(about.job_id):
                    return True
                give_up_at = 0.0
        if time.monotonic() >= give_up_at:
            raise _taken(listen, job_id, holder)
        time.sleep(AGAIN_S)
    return False


def later_attempt(mgr: Address, job_id: str) -> str:
    """Look for the Mgr of a later attempt of this job at its address.

    Args:
        mgr: the address, of any machine.
        job_id: of this attempt.

    Returns:
        Words about that Mgr; empty where none answers, or it is of this attempt, an earlier one or another job.
    """
    about = identified(mgr, secured({}, listens=False, connects=True), HOLDER_S).about
    if about is None:
        return ""
    own, other = attempt_of(job_id), attempt_of(about.job_id)
    if own[0] != other[0] or own[1] >= other[1]:
        return ""
    return f"this is attempt {own[1]} of job {shown(own[0])}, and {about.position} at {mgr} is of attempt {other[1]}"


def await_free(listen: Address, job_id: str, seconds: float = MGR_END_S) -> None:
    """Wait until nobody listens at the address of the Mgr.

    A Mgr of this job may be about to end: its launcher was killed, and started again.

    Args:
        listen: the address.
        job_id: of the job; empty for none.
        seconds: the time at most.

    Raises:
        ConfigError: the Mgr of another job listens there, or one that does not end.
    """
    give_up_at = time.monotonic() + seconds
    while is_taken(listen):
        _, about, holder = _holder(listen)
        if (about is not None and about.job_id != job_id) or time.monotonic() >= give_up_at:
            raise _taken(listen, job_id, holder)
        time.sleep(AGAIN_S)


def _holder(listen: Address) -> tuple[ServerKind, About | None, str]:
    """The process that listens at an address: its kind, what it says of itself, and both in words."""
    found = identified(listen, secured({}, listens=False, connects=True), HOLDER_S)
    return found.kind, found.about, found.kind.value if found.about is None else str(found.about)


def _taken(listen: Address, job_id: str, holder: str) -> ConfigError:
    of_job = f" of job {shown(job_id)}" if job_id else ""
    text = f"the Mgr{of_job} cannot listen on {listen}, where {holder} listens"
    return ConfigError(f"{text}: give this job another --job-id or --mgr-port")


def _is_held(manager: Path) -> bool:
    """True while the parent of a Manager holds the other end of its input."""
    pipe = (manager / "fd" / "0").readlink()
    parent = (manager / "stat").read_text().rpartition(")")[2].split()[1]
    ends = []
    for descriptor in Path(f"/proc/{parent}/fd").iterdir():
        with suppress(OSError):
            ends.append(descriptor.readlink())
    return pipe in ends


def _bind(address: Address) -> int | None:
    """The error of listening at an address; None without one."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen(1)
    except socket.gaierror:
        return errno.EADDRNOTAVAIL
    except OSError as error:
        return error.errno or errno.EIO
    return None
