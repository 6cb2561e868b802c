"""The place of a job's state: a file, or a prefix in etcd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from taskd_net.etcd.place import Place, is_etcd
from taskd_net.job_view import JobCounters
from taskd_net.jobs.outbox import INFINITY
from taskd_net.manager.config import ManagerConfig
from taskd_net.manager.keeping import Keeping

T = TypeVar("T")


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

    def hurry(self) -> None:
        """The Manager ends: wait for nothing without end."""

    async def close(self) -> None:
        """End."""


class NotKept:
    """The state of a Manager that keeps none: it decides, and has nothing after its end."""

    again = INFINITY
    path = ""
    lost = False

    async def load(self, now: float, read: Callable[[Mapping[str, str]], T]) -> T | None:
        """None: there is none."""
        return None

    async def save(self, now: float, parts: Mapping[str, str | None]) -> bool:
        """True at once."""
        return True

    async def confirmed(self) -> bool:
        """True at once."""
        return True

    def term(self) -> int | None:
        """0: nobody else decides."""
        return 0

    def hurry(self) -> None:
        """Nothing is waited for."""

    async def close(self) -> None:
        """There is nothing to end."""


def kept(config: ManagerConfig, name: str, counters: JobCounters, log: Any, on_lost: Callable[[], None]) -> Kept:
    """The state of a Manager.

    Args:
        config: the settings.
        name: of the Manager, for people.
        counters: count failures, and say whether everything is stored.
        log: takes the lines.
        on_lost: called when another Manager decides on this job.

    Raises:
        ConfigError: the place in etcd, or a file of its TLS, is not usable.
    """
    state, job_id = config.state, config.job_id or ""
    if state is None:
        return NotKept()
    if not is_etcd(state):
        return Keeping(state, job_id, counters, log)
    from taskd_net.manager.etcd_keeping import EtcdKeeping  # without etcd, its modules are not loaded

    return EtcdKeeping(Place.parse(state), job_id, name, config.state_tls, counters, log, on_lost)
