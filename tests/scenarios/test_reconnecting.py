"""Across a reconnect: no duplicates, no reordering, and no dead half of a link at the parent."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from taskd_net import Retry
from taskd_net.base.limits import ANNOUNCE_POSITIONS
from taskd_net.net.links.peer import parent_metadata
from tests.cli.processes import Command
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, both_links, soon
from tests.peers.parent import RawParent
from tests.peers.stubs import name
from tests.peers.wire import Wire
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)

PERSISTENT = Retry(attempts=1000, within=30.0)


@pytest.mark.oldest
@both_links
@pytest.mark.parametrize("downwards", [True, False])
async def test_message_whose_answer_was_cut_off_is_not_delivered_again(mesh: Mesh, downwards: bool) -> None:
    """It arrived, the link broke before the answer, and the sender resends over the new link."""
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        proxy = await mesh.proxy(0, wire.address)
        worker = await mesh.worker(0, 0, proxy)
        sender, receiver = (mgr, worker) if downwards else (worker, mgr)
        for turn in range(3):
            await mesh.logged("joined", node=proxy.position, times=turn + 1)
            wire.freeze(up=downwards, down=not downwards)
            sending = asyncio.create_task(sender.send(str(turn), to=receiver.position, retry=PERSISTENT))
            await mesh.until(lambda turn=turn: receiver.statistics.delivered == turn + 1)  # type: ignore[misc]
            wire.cut()
            wire.thaw()
            assert (await soon(sending)).ok
            assert (await receiver.take()).body == str(turn)
        assert receiver.statistics.delivered == 3
        assert receiver.statistics.duplicates >= 3
        assert receiver.waiting() == 0


@pytest.mark.oldest
@both_links
@pytest.mark.parametrize("kind", ["send", "post"])
@pytest.mark.parametrize("downwards", [True, False])
async def test_order_is_kept_across_reconnects(mesh: Mesh, kind: str, downwards: bool) -> None:
    """Consecutive sends with repeated cuts: arrivals keep the order of sending."""
    mgr = await mesh.mgr()
    count = 300
    async with Wire(mgr.address or "") as wire:
        proxy = await mesh.proxy(0, wire.address)
        worker = await mesh.worker(0, 0, proxy)
        sender, receiver = (mgr, worker) if downwards else (worker, mgr)
        got: list[int] = []

        async def take() -> None:
            async for message in receiver.messages():
                got.append(int(message.body))
                mesh.changed()

        async def cut() -> None:
            while True:
                before = len(got)
                await mesh.until(lambda before=before: len(got) >= before + count // 10)  # type: ignore[misc]
                wire.cut()

        taking, cutting = asyncio.create_task(take()), asyncio.create_task(cut())
        if kind == "send":
            for number in range(count):
                assert (await soon(sender.send(str(number), to=receiver.position, retry=PERSISTENT), 30)).ok
            assert got == list(range(count))
        else:
            for number in range(count):
                # After the first hop the outcome is unknown; before it the sender has the message, and goes on.
                while not (await sender.post(str(number), to=receiver.position, uuid=str(number))).ok:  # noqa: ASYNC110 - it has to be tried
                    await asyncio.sleep(0.001)
            assert (await soon(sender.send(str(count), to=receiver.position, retry=PERSISTENT), 30)).ok
            assert got[-1] == count
            assert got == sorted(set(got))
        for task in (taking, cutting):
            task.cancel()
        await asyncio.wait([taking, cutting])
        # Posts that are on their way are lost with the connection, many at a time.
        assert mesh.count("joined", node=proxy.position) > (3 if kind == "send" else 1)


@pytest.mark.oldest
@both_links
async def test_dead_half_of_a_connection_is_replaced_when_the_child_returns(mesh: Mesh) -> None:
    """Only the child sees the break: the new registration wins at once, and the old stream ends."""
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        proxy = await mesh.proxy(0, wire.address)
        worker = await mesh.worker(0, 0, proxy)
        for turn in range(3):
            wire.cut_below()
            await mesh.logged("joined", node=proxy.position, times=turn + 2)
            # Not by an unanswered ping, which takes 7 s.
            await mesh.logged("child_replaced", node=mgr.position, child=proxy.position, times=turn + 1)
            await mesh.logged("child_lost", node=mgr.position, child=proxy.position, times=turn + 1)
            assert (await mgr.send("x", to=worker.position)).ok
            assert (await worker.send("x", to="Mgr")).ok
            assert set(mgr.routes()) == {proxy.position, worker.position}
        assert len(mgr.driver.links) == 1


async def test_announcement_of_a_large_subtree_is_cut_into_bounded_requests(mesh: Mesh) -> None:
    """No request exceeds its bound, and all together name all nodes below."""
    below = {f"Worker/0/{rank}" for rank in range(2 * ANNOUNCE_POSITIONS + 17)}
    address = free_address()
    parent = RawParent()
    # A parent without our kinds of announcements needs a single request of any size.
    parent.says = parent_metadata(0, ())
    await parent.start(address)
    proxy = await mesh.proxy(0, address)
    async with RawChild("Proxy/7") as inner:
        await inner.join(proxy.address or "")
        ranks = sorted(below)
        for start in range(0, len(ranks), 1000):
            assert (await inner.announce(*ranks[start : start + 1000])).code == 0
        await parent.stop()
        await mesh.logged("upstream_lost", node=proxy.position)
        async with RawParent() as again:
            await again.stop()
            again.says = parent.says
            await again.start(address)
            await mesh.logged("joined", node=proxy.position, times=2)
            sizes, named = [], set[str]()
            while not again.requests["PathDiscovery"].empty():
                request = await again.requested("PathDiscovery")
                sizes.append(len(request.path))
                named |= {name(position) for position in request.path}
            assert named == below | {"Proxy/7", "Proxy/0"}
            assert max(sizes) <= ANNOUNCE_POSITIONS
            assert len(sizes) == 3


def _may_have_names_of_its_own() -> bool:
    """True if a process can have its own file of host names: a mount namespace, which needs root."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


class _WithHosts(Command):
    """`taskd-net` in a mount namespace with the test's own /etc/hosts."""

    def __init__(self, hosts: Path, *arguments: object) -> None:
        super().__init__(*arguments)
        script = f'mount --bind {hosts} /etc/hosts && exec "$0" -m taskd_net.cli "$@"'
        start = f"os.execvp('unshare', ['unshare', '--mount', 'sh', '-c', {script!r}, sys.executable, *sys.argv[1:]])"
        self.program = ("-c", f"import os, sys; {start}")


@pytest.mark.skipif(
    not _may_have_names_of_its_own(), reason="needs root and mount namespaces, to give a process other host names"
)
async def test_parent_whose_name_resolves_elsewhere_is_found(mesh: Mesh, tmp_path: Path) -> None:
    """The parent and its name moved to another address: no node below needs a restart."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost parent.test\n")
    old = await mesh.mgr()
    port = (old.address or "").rpartition(":")[2]
    async with _WithHosts(hosts, "listen", "--as", "Worker/0/0", "--upstream", f"parent.test:{port}") as worker:
        await worker.said("ready")
        assert (await old.send("old", to="Worker/0/0")).ok
        assert await worker.line() == "Mgr/0 default old"
        new = await mesh.mgr(f"127.0.0.2:{port}")
        # In place, because the file itself is mounted.
        hosts.write_text("127.0.0.1 localhost\n127.0.0.2 parent.test\n")
        await old.close()
        await mesh.logged("child_joined", times=2, timeout=20)
        assert (await new.send("new", to="Worker/0/0")).ok
        assert await worker.line() == "Mgr/0 default new"
