"""The real etcd, Debian's package `etcd-server`: one member on free ports, in a folder of the test's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from taskd_net.address import Address
from tests.api.conftest import free_port
from tests.polling import asked_until

ETCD = shutil.which("etcd") or shutil.which("etcd", path=str(Path(__file__).parents[2] / "build/etcd/usr/bin"))
WHY_NOT = "there is no etcd; `make etcd` unpacks Debian's etcd-server"

STARTS_S = 20.0
"""Seconds for a member to start, on a busy machine."""


class Member(NamedTuple):
    """A member that runs."""

    address: str
    process: asyncio.subprocess.Process


@asynccontextmanager
async def etcd_server(folder: Path) -> AsyncIterator[Member]:
    """Run one member, until it is ready."""
    assert ETCD is not None
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    arguments = ["--data-dir", str(folder), "--listen-client-urls", client, "--advertise-client-urls", client]
    arguments += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    arguments += ["--initial-cluster", f"default={peer}", "--log-level", "error"]
    process = await asyncio.create_subprocess_exec(ETCD, *arguments)
    address = Address.parse(client.removeprefix("http://"))
    try:
        await asked_until(lambda: _listens(address), STARTS_S)  # it does when it knows its leader
        yield Member(str(address), process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listens(address: Address) -> bool:
    try:
        _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError:
        return False
    writer.close()
    return True
