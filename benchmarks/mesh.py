"""The processes of one system, joined: a chain of three for two hops, a tree for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.processes import Process

MGR, PROXY, WORKER = "Mgr/0", "Proxy/0", "Worker/0/0"
UP, DOWN = "up", "down"

ROLES: Final = ("Worker", "Proxy", "Mgr")


class Chain:
    """Worker, Proxy and Mgr of a system, a process each. `processes` collects all started ones, to be ended.

    `certificates` is the folder with the files of TLS; empty for plain text.
    `worker` and `mgr` name another system for one of them.
    For NATS and ZeroMQ the server or relay is in the Proxy's place, and the other two are its clients.
    """

    def __init__(
        self,
        system: str,
        processes: list[Process],
        *,
        worker: str | None = None,
        mgr: str | None = None,
        certificates: str = "",
    ) -> None:
        self.system = system
        brokered = system in ("nats", "zmq")

        def start(position: str, upstream: str = "", *, of: str = system) -> Process:
            process = Process(of, [position], upstream, certificates)
            processes.append(process)
            return process

        if brokered:
            self.proxy = start(PROXY)
            self.mgr = start(MGR, self.proxy.address)
        else:
            self.mgr = start(MGR, of=mgr or system)
            self.proxy = start(PROXY, self.mgr.address)
        self.worker = start(WORKER, self.proxy.address, of=worker or system)

    def ready(self) -> None:
        """Wait until every member can reach every other."""
        for process in (self.mgr, self.proxy, self.worker):
            process.ask("ready")

    def ends(self, direction: str) -> tuple[Process, Process, str]:
        """The sender, the receiver, and the receiver's position."""
        return (self.worker, self.mgr, MGR) if direction == UP else (self.mgr, self.worker, WORKER)

    @property
    def roles(self) -> Sequence[Process]:
        """The processes in the order of `ROLES`."""
        return self.worker, self.proxy, self.mgr
