"""The real etcd, Debian's package `etcd-server`: one member on free ports, in a folder of the test's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.api.conftest import free_port

ETCD = shutil.which("etcd") or shutil.which("etcd", path=str(Path(__file__).parents[2] / "build/etcd/usr/bin"))
WHY_NOT = "there is no etcd; `make etcd` unpacks Debian's etcd-server"


@asynccontextmanager
async def etcd_server(folder: Path) -> AsyncIterator[str]:
    """Run one member. Yields its address."""
    assert ETCD is not None
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    arguments = ["--data-dir", str(folder), "--listen-client-urls", client, "--advertise-client-urls", client]
    arguments += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    arguments += ["--initial-cluster", f"default={peer}", "--log-level", "error"]
    process = await asyncio.create_subprocess_exec(ETCD, *arguments)
    try:
        yield client.removeprefix("http://")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
