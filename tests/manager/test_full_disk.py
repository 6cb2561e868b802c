"""The state on a disk that is really full: a small file system of the daemon's own."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from taskd_net import Node
from taskd_net.job.manager.keeping import Store
from taskd_net.observe.document import Document
from tests.cli.processes import PATIENCE_S, Daemon, run
from tests.cli.small_disk import OnSmallDisk, needs_mounts
from tests.manager.cluster import Leaf, agent


class WithJob(OnSmallDisk):
    """A Mgr with a Manager on a small disk."""

    async def shown(self, holds: Callable[[Document], bool]) -> Document:
        """The output of `taskd-net job`, once it is as expected."""
        while True:
            _, output, errors = await run("job", "--at", self.address, "--json")
            assert errors == ""
            found: Document = json.loads(output)
            if holds(found):
                return found


@needs_mounts
@pytest.mark.timeout(120)
async def test_decisions_go_on_while_the_disk_is_full_and_are_stored_later(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    arguments = ("mgr", "--job-id", "J", "--state", disk / "state")
    async with (
        WithJob(disk, 512, *arguments, logs=tmp_path) as mgr,
        Node(agent(0)(mgr.address)) as first,
        Node(agent(1)(mgr.address)) as second,
    ):
        zero, one = Leaf(first), Leaf(second)
        for each in (zero, one):
            await each.node.joined(PATIENCE_S)
            await each.register()
            assert (await each.command()).code == 210
        await mgr.shown(lambda found: found["counters"]["acknowledged"] == 2 and found["state"]["durable"])
        mgr.fill()
        for count in (2, 1, 0):
            await one.fault(3)
            assert (await one.command()).code == 203
            assert (await zero.command()).message == str(count)
            await one.register()
            assert (await one.command()).code == 210
        full = await mgr.shown(lambda found: found["counters"]["acknowledged"] == 11)
        assert not full["state"]["durable"] and full["state"]["failures"]
        assert full["trouble"] == [f"the state in {disk / 'state'} is not durable: a restart may repeat commands"]
        (mgr.disk / "ballast").unlink()
        later = await mgr.shown(lambda found: found["state"]["durable"])
        assert (later["restarts_left"], later["trouble"]) == (0, [])
        for file in mgr.disk.glob("state*"):
            shutil.copy(file, tmp_path)
    assert mgr.errors.count("state_not_stored") == 1, mgr.errors
    store = Store(tmp_path / "state", "J")
    parts = store.open()
    store.close()
    assert sum(name.startswith("decision/") for name in parts) == len(later["decisions"])


@needs_mounts
@pytest.mark.timeout(120)
async def test_manager_goes_on_from_its_state_while_the_disk_is_full(tmp_path: Path) -> None:
    """Its record of the Agent and the restarts that are left come from the file, which cannot be written."""
    disk, state = tmp_path / "disk", tmp_path / "state"
    disk.mkdir()
    store = Store(state, "J")
    async with (
        Daemon("mgr", "--job-id", "J", "--state", state, logs=tmp_path) as mgr,
        Node(agent(0)(mgr.address)) as node,
    ):
        leaf = Leaf(node)
        await node.joined(PATIENCE_S)
        await leaf.register()
        assert (await leaf.command()).code == 210
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0
    before = store.open()
    store.close()
    fill = f"cp {state} {disk}/state && {{ head -c 100M /dev/zero >{disk}/ballast 2>{tmp_path}/full || true; }}"
    async with WithJob(disk, 512, "mgr", "--job-id", "J", "--state", disk / "state", logs=tmp_path, first=fill) as mgr:
        await mgr.said("event=manager_resumed|manager_resumed")
        found = await mgr.shown(lambda found: True)
        assert found["restarts_left"] == 3
    assert any(name.startswith("agent/") for name in before)


@pytest.mark.timeout(120)
async def test_state_that_is_removed_under_a_manager_is_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    arguments = ("mgr", "--job-id", "J", "--state", folder / "state")
    async with Daemon(*arguments, logs=tmp_path) as mgr, Node(agent(0)(mgr.address)) as first:
        zero = Leaf(first)
        await first.joined(PATIENCE_S)
        await zero.register()
        assert (await zero.command()).code == 210
        shutil.rmtree(folder)
        async with Node(agent(1)(mgr.address)) as second:
            one = Leaf(second)
            await second.joined(PATIENCE_S)
            await one.register()
            assert (await one.command()).code == 210
        mgr.signal(signal.SIGKILL)
        await mgr.exit_code()
    assert mgr.errors.count("state_not_stored") == mgr.errors.count("state_durable") == 1, mgr.errors
    store = Store(folder / "state", "J")
    parts = store.open()
    store.close()
    assert {"agent/0", "agent/1"} <= set(parts), sorted(parts)
