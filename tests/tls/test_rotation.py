"""Certificates that are read again when their files change: who gets the new ones, and what ends nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
import watchfiles

from taskd_net.base.times import LinkTimes
from taskd_net.cli.authority import Authority
from taskd_net.net.tls.files import Tls
from taskd_net.net.tls.rotation import Rotation
from tests.peers.certificates import DAY, Folder
from tests.peers.mesh import PATIENCE_S, soon

pytestmark = pytest.mark.timeout(60)

OFTEN = LinkTimes(certificates_look=0.1)
"""Changes without a notification are seen soon."""


class Log:
    """A log that can be waited for.

    Attributes:
        changed: towards whom certificates have changed, one after another.
        refused: a reason for each time that files were not usable.
    """

    def __init__(self) -> None:
        self.changed: asyncio.Queue[str] = asyncio.Queue()
        self.refused: asyncio.Queue[str] = asyncio.Queue()

    def debug(self, event: str, **_: str) -> None:
        assert event == "watch_failed"

    def info(self, event: str, *, towards: str) -> None:
        assert event == "certificates_changed"
        self.changed.put_nowait(towards)

    def warning(self, event: str, *, reason: str) -> None:
        assert event == "certificates_refused"
        self.refused.put_nowait(reason)


class Watched:
    """A rotation whose files are watched.

    Attributes:
        told: counts the calls that say that there are other certificates towards the parent.
    """

    def __init__(self, tls: Tls) -> None:
        self.log = Log()
        self.rotation = Rotation(tls, cast("Any", self.log), OFTEN)
        self.told = 0

    def _tell(self) -> None:
        self.told += 1

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch meanwhile; nothing but the end of it may end that."""
        task = asyncio.create_task(self.rotation.watch(self._tell))
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def changed(self) -> str:
        """Towards whom certificates have changed next."""
        return await soon(self.log.changed.get())


@contextlib.asynccontextmanager
async def serving(rotation: Rotation) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A server with a rotation; what it yields returns the certificate that the server shows at present."""
    assert rotation.server is not None
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", rotation.server.credentials)
    await server.start()
    try:
        yield lambda: asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=PATIENCE_S)
    finally:
        await server.stop(None)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Folder, Folder]:
    """The files for children and those for the parent, signed by one CA."""
    authority = Authority.new("CA", DAY)
    return Folder(tmp_path / "servers", authority), Folder(tmp_path / "clients", authority)


async def test_only_that_end_changes_whose_certificate_did(folders: tuple[Folder, Folder]) -> None:
    """A child that checks the parent's old certificate would move for nothing."""
    servers, clients = folders
    tls = Tls(
        ca=servers.ca,
        server_key=servers.key,
        server_crt=servers.crt,
        client_key=clients.key,
        client_crt=clients.crt,
    )
    watched = Watched(tls)
    rotation = watched.rotation
    async with serving(rotation) as shown, watched.watching():
        client, server = rotation.client, await shown()
        servers.issue()
        assert await watched.changed() == "children"
        assert await shown() != server
        assert (rotation.client, watched.told) == (client, 0)
        server = await shown()
        clients.issue()
        assert await watched.changed() == "parent"
        assert rotation.client not in (None, client)
        assert (await shown(), watched.told) == (server, 1)
        # Another CA is for both.
        servers.trust(servers.authority, Authority.new("other", DAY))
        assert [await watched.changed(), await watched.changed()] == ["children", "parent"]
        assert watched.told == 2
    assert watched.log.refused.empty()


async def test_node_without_children_changes_towards_its_parent_alone(folders: tuple[Folder, Folder]) -> None:
    watched = Watched(folders[1].connecting())
    async with watched.watching():
        folders[1].issue()
        assert await watched.changed() == "parent"
        assert (watched.rotation.server, watched.told) == (None, 1)


async def test_node_without_parent_changes_towards_its_children_alone(folders: tuple[Folder, Folder]) -> None:
    watched = Watched(folders[0].listening())
    async with watched.watching():
        folders[0].issue()
        assert await watched.changed() == "children"
        assert (watched.rotation.client, watched.told) == (None, 0)


async def test_change_that_is_heard_of_nowhere_is_seen(folders: tuple[Folder, Folder], tmp_path: Path) -> None:
    """The watched folder has links alone; what changes lies behind them."""
    links = tmp_path / "links"
    links.mkdir()
    for name in ("ca.crt", "node.key", "node.crt"):
        (links / name).symlink_to(folders[1].path / name)
    watched = Watched(
        Tls(ca=f"{links}/ca.crt", client_key=f"{links}/node.key", client_crt=f"{links}/node.crt"),
    )
    async with watched.watching():
        folders[1].issue()
        assert await watched.changed() == "parent"


async def test_folder_that_is_not_there_ends_nothing(folders: tuple[Folder, Folder]) -> None:
    """It cannot be watched, and the files are looked for again until they are there."""
    folder = folders[1]
    watched = Watched(folder.connecting())
    away = folder.path.with_name("away")
    folder.path.rename(away)
    async with watched.watching():
        assert "ca.crt" in await soon(watched.log.refused.get())
        away.rename(folder.path)
        folder.issue()
        assert await watched.changed() == "parent"
    assert watched.told == 1


async def test_system_without_a_watch_left_ends_nothing(
    folders: tuple[Folder, Folder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watches of a user are few, and those of all pods on a node count together."""

    def full(*_: object, **__: object) -> None:
        raise RuntimeError("Error creating recommended watcher: Too many open files (os error 24)")

    monkeypatch.setattr(watchfiles, "awatch", full)
    watched = Watched(folders[1].connecting())
    async with watched.watching():
        folders[1].issue()
        assert await watched.changed() == "parent"


ENDS = """
import os, sys, threading, time, types
import watchfiles.main
from taskd_net import BlockingNode, NodeConfig, Tls

class Late:
    # It is collected after the functions of atexit. A thread that wants the interpreter from now on never gets it.
    def __del__(self, sleep=time.sleep, write=os.write):
        sleep(0.5)
        write(1, b"%d in watchfiles" % len(inside))

inside, begun = [], threading.Semaphore(0)
real = watchfiles.main.RustNotify

class Counting:
    def __init__(self, *arguments):
        self.real = real(*arguments)

    def __enter__(self):
        self.real.__enter__()
        return self

    def __exit__(self, *error):
        self.real.__exit__(*error)

    def watch(self, *arguments):
        inside.append(self)
        begun.release()
        try:
            return self.real.watch(*arguments)
        finally:
            inside.remove(self)

watchfiles.main.RustNotify = Counting
late = sys.modules["late"] = types.ModuleType("late")
late.last = Late()
del late
ca, key, crt = sys.argv[1:]
node = BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0", tls=Tls(ca=ca, server_key=key, server_crt=crt))).start()
begun.acquire()
time.sleep(0.3)  # it is in `watch`
"""


@pytest.mark.oldest
def test_process_ends_after_the_thread_that_watches(tmp_path: Path) -> None:
    """With old releases of `watchfiles` a thread that is still in it aborts the process, with newer ones it hangs."""
    folder = Folder(tmp_path / "own")
    command = [sys.executable, "-c", ENDS, folder.ca, folder.key, folder.crt]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "0 in watchfiles", "")
