"""The real etcd, Debian's package `etcd-server`: members on free ports, in folders of the test's."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import signal
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from taskd_net.base.address import Address
from tests.freezing import freeze
from tests.polling import asked_until
from tests.ports import free_port

ETCD = shutil.which("etcd") or shutil.which("etcd", path=str(Path(__file__).parents[2] / "build/etcd/usr/bin"))
WHY_NOT = "there is no etcd; `make etcd-server` unpacks Debian's"

STARTS_S = 20.0
"""Seconds for a member to start, on a busy machine."""


class Member:
    """A member of an etcd, which may be ended, stopped, and started again with its data.

    Args:
        name: among the members.
        folder: for its data.
        tls: flags of etcd for TLS with its clients; none for plain text.
        host: where it listens.
        wrapper: a command that runs it and reaches it, for example in a network namespace.

    Attributes:
        address: at which it serves clients.
        peers: the URL at which it serves other members.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        tls: Mapping[str, str] | None = None,
        *,
        host: str = "127.0.0.1",
        wrapper: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.address, self.peers = f"{host}:{free_port()}", f"http://{host}:{free_port()}"
        self._wrapper = wrapper
        self.tls = dict(tls or {})
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        """Its process."""
        assert self._process is not None, "started"
        return self._process

    async def start(self, cluster: str) -> None:
        """Start it, without waiting until it is ready.

        Args:
            cluster: all members, as etcd's flag `--initial-cluster` has them.
        """
        assert ETCD is not None
        self._cluster = cluster
        client = f"{'https' if self.tls else 'http'}://{self.address}"
        flags = {"name": self.name, "data-dir": str(self._folder), "initial-cluster": cluster}
        flags |= {"logger": "zap", "log-level": "error"}
        flags |= dict.fromkeys(("listen-client-urls", "advertise-client-urls"), client)
        flags |= dict.fromkeys(("listen-peer-urls", "initial-advertise-peer-urls"), self.peers)
        arguments = [f"--{name}={value}" for name, value in (flags | self.tls).items()]
        errors = asyncio.subprocess.DEVNULL if self.tls else None  # handshakes that fail on purpose
        self._process = await asyncio.create_subprocess_exec(*self._wrapper, ETCD, *arguments, stderr=errors)

    async def again(self) -> None:
        """Start it again, after its end."""
        await self.start(self._cluster)

    async def ready(self) -> None:
        """Wait until it serves clients: it does when it knows the leader of the members."""
        address = Address.parse(self.address)
        assert await asked_until(lambda: _listens(address, self._wrapper), STARTS_S), f"{self.name} does not start"

    async def kill(self) -> None:
        """End it with SIGKILL."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    def freeze(self) -> None:
        """Stop its process."""
        freeze(self.process.pid)

    def go_on(self) -> None:
        """Continue a process that was stopped."""
        self.process.send_signal(signal.SIGCONT)

    async def ask(self, path: str, timeout: float = STARTS_S, **fields: object) -> dict[str, Any]:
        """Send a request to etcd's JSON interface, which needs plain text.

        Raises:
            OSError: it has not answered within `timeout` seconds, or has refused.
        """
        data = json.dumps(fields).encode()
        request = urllib.request.Request(f"http://{self.address}/v3/{path}", data=data)

        def answered() -> dict[str, Any]:
            with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
                read: dict[str, Any] = json.load(answer)
                return read

        return await asyncio.to_thread(answered)

    async def leads(self) -> bool:
        """True if it is the leader of the members."""
        status = await self.ask("maintenance/status")
        return bool(status["leader"] == status["header"]["member_id"])

    async def catches_up(self, others: Sequence[Member]) -> None:
        """Wait until it has all that the other members have now: behind them, it costs an election a second turn."""
        statuses = [await each.ask("maintenance/status") for each in others]
        reached = max(int(status["raftIndex"]) for status in statuses)

        async def caught_up() -> bool:
            return int((await self.ask("maintenance/status")).get("raftAppliedIndex", 0)) >= reached

        assert await asked_until(caught_up, STARTS_S), f"{self.name} does not catch up"

    async def require_users(self, prefix: str, *, entitled: str, others: tuple[str, ...]) -> None:
        """Switch on etcd's users.

        Args:
            prefix: of keys.
            entitled: a user who may read and write below the prefix.
            others: users without rights.
        """
        await self.ask("auth/role/add", name="root")
        await self.ask("auth/user/add", name="root", options={"no_password": True})
        await self.ask("auth/user/grant", user="root", role="root")
        await self.ask("auth/role/add", name=entitled)
        key, end = (base64.b64encode(f"{prefix}{last}".encode()).decode() for last in ("/", "0"))
        permission = {"permType": "READWRITE", "key": key, "range_end": end}
        await self.ask("auth/role/grant", name=entitled, perm=permission)
        for user in (entitled, *others):
            await self.ask("auth/user/add", name=user, options={"no_password": True})
        await self.ask("auth/user/grant", user=entitled, role=entitled)
        await self.ask("auth/enable")


class Outage:
    """Bare puts to members in turn, while the context lasts: how long etcd itself took none.

    Args:
        members: that are asked.

    Attributes:
        longest: seconds between two puts that were answered, or since the last one.
    """

    LOOK_S = 0.25
    """Seconds until a put counts as not answered."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._last = 0.0
        self.longest = 0.0

    async def __aenter__(self) -> Outage:
        self._last = time.monotonic()
        self._task = asyncio.create_task(self._put())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self._count()

    def _count(self) -> None:
        self.longest = max(self.longest, time.monotonic() - self._last)

    async def _put(self) -> None:
        key = base64.b64encode(b"outage").decode()
        for member in itertools.cycle(self._members):
            try:
                await member.ask("kv/put", self.LOOK_S, key=key, value=key)
            except OSError:
                continue
            self._count()
            self._last = time.monotonic()
            await asyncio.sleep(self.LOOK_S / 5)


@asynccontextmanager
async def etcd_server(folder: Path, **where: Any) -> AsyncIterator[Member]:
    """Run one member, until it is ready."""
    async with etcd_members(folder, 1, **where) as (member,):
        yield member


@asynccontextmanager
async def etcd_members(folder: Path, number: int = 3, **where: Any) -> AsyncIterator[list[Member]]:
    """Run the members of one etcd, until they are ready.

    Args:
        folder: for their data.
        number: of members.
        where: host and wrapper of each `Member`.
    """
    members = [Member(f"m{index}", folder / f"m{index}", **where) for index in range(number)]
    cluster = ",".join(f"{each.name}={each.peers}" for each in members)
    async with AsyncExitStack() as stack:
        for each in members:
            await each.start(cluster)
            stack.push_async_callback(each.kill)
        for each in members:
            await each.ready()
        yield members


async def _listens(address: Address, wrapper: Sequence[str]) -> bool:
    if wrapper:
        code = f"import socket; socket.create_connection(({address.host!r}, {address.port}), 1.0)"
        null = asyncio.subprocess.DEVNULL
        asked = await asyncio.create_subprocess_exec(*wrapper, sys.executable, "-c", code, stderr=null)
        return await asked.wait() == 0
    try:
        _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError:
        return False
    writer.close()
    return True
