"""The place of a job's state: a file, or a prefix in etcd."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from taskd_net.base.address import Address
from taskd_net.job.decide.outbox import INFINITY
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.manager.config import ManagerConfig
from taskd_net.job.manager.keeping import Keeping, Unshared
from taskd_net.node.node import Node
from taskd_net.observe.job_view import JobCounters, LeaderView

if TYPE_CHECKING:
    from taskd_net.job.keep.leader import Leader

T = TypeVar("T")

_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on


class Kept(Protocol):
    """A state that is kept while a Manager runs."""

    again: float

    @property
    def path(self) -> object:
        """The place, for people."""

    @property
    def lost(self) -> bool:
        """True where another Manager decides on this job."""

    async def confirmed(self) -> bool:
        """Wait until the Manager may act on what is committed; False where it never may, or ends."""

    async def load(self, now: float, read: Callable[[Mapping[str, str]], T]) -> T | None:
        """Read the state; None where there is none. Raises ConfigError."""

    async def save(self, now: float, parts: Mapping[str, str | None]) -> bool:
        """Commit what has changed. Returns whether the Manager may act on it."""

    def term(self) -> int | None:
        """The leader's fencing number, 0 without one; None while another Manager may lead."""

    def leader_view(self) -> LeaderView:
        """The lead, for faces; empty where nobody else could lead."""

    def move(self, then: float, now: float) -> None:
        """Take note that the clock has moved from `then` to `now`."""

    def hurry(self) -> None:
        """The Manager ends: wait for nothing without end."""

    async def close(self) -> None:
        """End."""


class NotKept(Unshared):
    """The state of a Manager that keeps none: it decides, and has nothing after its end."""

    again = INFINITY
    path = ""

    async def load(self, now: float, read: Callable[[Mapping[str, str]], T]) -> T | None:
        """None: there is none."""
        return None

    async def save(self, now: float, parts: Mapping[str, str | None]) -> bool:
        """True at once."""
        return True

    async def close(self) -> None:
        """There is nothing to end."""


def leader_of(config: ManagerConfig, node: Node, log: Any, limits: EtcdLimits) -> Leader:
    """The lease of a job with its state in etcd, not taken yet.

    Args:
        config: the settings.
        node: the Mgr, whose address is the Manager's name.
        log: takes the lines.
        limits: of the lease and of requests.

    Raises:
        ConfigError: the place in etcd, or a file of its TLS, is not usable.
    """
    from taskd_net.job.keep.client import EtcdClient  # without etcd, its modules are not loaded
    from taskd_net.job.keep.leader import Leader

    place = Place.parse(config.state or "")
    return Leader(EtcdClient(place, config.state_tls, limits), place, name_of(node), log, limits)


def name_of(node: Node) -> str:
    """The name of a Manager: the address of its Mgr, with the name of the host for one that listens everywhere."""
    if node.address is None:
        return str(node.position)
    address = Address.parse(node.address)
    return str(Address(socket.gethostname(), address.port) if address.host in _EVERYWHERE else address)


def kept(
    config: ManagerConfig,
    node: Node,
    counters: JobCounters,
    log: Any,
    on_lost: Callable[[], None],
    leader: Leader | None = None,
    limits: EtcdLimits = EtcdLimits(),
) -> Kept:
    """The state of a Manager.

    Args:
        config: the settings.
        node: the Mgr, whose address is the Manager's name.
        counters: count failures, and say whether everything is stored.
        log: takes the lines.
        on_lost: called when another Manager decides on this job.
        leader: the lease that this process has taken; None to take one.
        limits: of the lease and of requests.

    Raises:
        ConfigError: the place in etcd, or a file of its TLS, is not usable.
    """
    state, job_id = config.state, config.job_id or ""
    if state is None:
        return NotKept()
    if not config.in_etcd:
        return Keeping(state, job_id, counters, log)
    from taskd_net.job.manager.etcd_keeping import EtcdKeeping  # without etcd, its modules are not loaded

    return EtcdKeeping(leader or leader_of(config, node, log, limits), job_id, counters, log, on_lost)
