"""The host of the leader is lost: each packet to it and from it is dropped, and no connection is closed."""

from __future__ import annotations

import re
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import pytest

from tests.cli.processes import Command
from tests.etcd.server import ETCD, WHY_NOT, etcd_server
from tests.etcd.test_standby import LEADS
from tests.faults.figures import Figures
from tests.faults.network import Machines, why_not
from tests.polling import until

pytestmark = [
    pytest.mark.skipif(ETCD is None, reason=WHY_NOT),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.timeout(900),
]

BACK_S = 12.0
"""Seconds from the loss until a Worker below the Proxy has a message of the next leader."""

BUSY_S = 5.0
"""Seconds that a busy machine may take longer."""


class Hosts:
    """A host with etcd, a standby, a Proxy and a Worker, and another host with the Mgr that leads.

    Args:
        machines: both.
        folder: for logs and etcd.
        stack: ends the processes.
    """

    def __init__(self, machines: Machines, folder: Path, stack: AsyncExitStack) -> None:
        self._machines = machines
        self._folder = folder
        self._stack = stack
        self.addresses = [f"{machines.host(machine)}:9601" for machine in range(2)]

    async def start(self) -> None:
        """Start all; the Mgr of the second host leads."""
        here = self._machines.wrapper(0)
        where = {"host": self._machines.host(0), "wrapper": here}
        etcd = await self._stack.enter_async_context(etcd_server(self._folder / "etcd", **where))
        self._state = f"etcd://{etcd.address}/taskd/J"
        self.far = await self.mgr(1)
        self.near = await self.mgr(0)
        below = f"{self._machines.host(0)}:9602"
        upstream = ("--upstream", ",".join(reversed(self.addresses)), "--listen", below)
        self.proxy = await self._run("proxy", *upstream, "--log-path", self._folder / "proxy", machine=0)
        self.leaf = await self._run("listen", "--as", "Worker/0/0", "--upstream", below, machine=0)
        await self.leaf.said("ready, upstream")
        await self.is_below(1)

    async def mgr(self, machine: int) -> Command:
        """Start a Mgr, and wait until it leads or stands by."""
        more = ("--listen", self.addresses[machine], "--log-path", self._folder / f"mgr-{machine}")
        mgr = await self._run("mgr", "--job-id", "J", "--state", self._state, *more, machine=machine)
        assert "ready" in await mgr.line()
        return mgr

    async def is_below(self, machine: int) -> None:
        """Wait until the Proxy has joined the Mgr of a machine."""
        joined = re.compile(r"\] joined .*upstream=(\S+)")
        await until(lambda: joined.findall(self.proxy.errors)[-1:] == [self.addresses[machine]], BACK_S + BUSY_S)

    async def hello(self, machine: int, text: str) -> None:
        """A message passes from a Mgr through the Proxy to the Worker."""
        send = ("send", "Worker/0/0", text, "--upstream", self.addresses[machine], "--timeout", "30")
        sender = await self._run(*send, machine=0)
        assert await sender.exit_code() == 0, sender.errors
        assert text in await self.leaf.line()

    async def _run(self, *arguments: object, machine: int) -> Command:
        return await self._stack.enter_async_context(Command(*arguments, wrapper=self._machines.wrapper(machine)))


async def lost(folder: Path) -> tuple[float, float]:
    """Lose the host of the leader, and find it again. Seconds until the standby leads, and until the nodes are back."""
    with Machines() as machines:
        async with AsyncExitStack() as stack:
            hosts = Hosts(machines, folder, stack)
            await hosts.start()
            await hosts.hello(1, "before")
            for machine in range(2):
                machines.drop_packets(machine)
            began = time.monotonic()
            try:
                await hosts.near.said(LEADS)
                led = time.monotonic() - began
                await hosts.is_below(0)
                back = time.monotonic() - began
                await hosts.hello(0, "after")
                assert "lead_lost" not in hosts.far.errors, "it cannot know yet"
            finally:
                for machine in range(2):
                    machines.pass_packets(machine)
            # The host comes back: its Mgr leads no more, and later again.
            await hosts.far.said(f"stands_by .*leader={re.escape(hosts.addresses[0])}")
            hosts.near.signal(signal.SIGTERM)
            assert await hosts.near.exit_code() == 0
            await hosts.far.said(f"(?s)stands_by .*{LEADS}")
            await hosts.is_below(1)
    return led, back


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.long)], ids=["once", "many"])
async def test_standby_leads_and_the_nodes_are_back(tmp_path: Path, figures: Figures, times: int) -> None:
    """Each time with new processes, whose logs leave no line out."""
    led, back = zip(*[await lost(tmp_path / str(number)) for number in range(times)], strict=True)
    assert max(back) < BACK_S + BUSY_S
    promised = BACK_S if times > 1 else None
    figures.add("host", "the standby leads after: p50", median(led), "s")
    figures.add("host", "the longest", max(led), "s", at_most=6.0 if promised else None)
    figures.add("host", "the nodes are back, from the loss on: p50", median(back), "s")
    figures.add("host", "the longest", max(back), "s", at_most=promised)
