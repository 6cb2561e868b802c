"""The record of a node in a file that ends: the disk is full, the file is gone, the path leads to something else."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.base.codes import ConfigError
from taskd_net.core.replay import replay
from taskd_net.node.driver import Driver
from tests.cli.processes import PATIENCE_S
from tests.cli.small_disk import OnSmallDisk, needs_mounts

KIB_OF_DISK = 64
MESSAGES = 200


@needs_mounts
@pytest.mark.timeout(120)
@pytest.mark.parametrize("links", ["direct", "batched", "tasknet"])
async def test_messages_go_on_while_the_disk_of_the_record_is_full(tmp_path: Path, links: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    async with OnSmallDisk(disk, KIB_OF_DISK, "mgr", "--record", disk / "record", logs=tmp_path) as mgr:
        config = NodeConfig.worker(server_rank=0, rank=0, upstream=mgr.address, links=links)
        async with Node(config) as node:
            await node.joined(PATIENCE_S)
            acks = [await node.send(f"message {number}", to="Mgr") for number in range(MESSAGES)]
            late = NodeConfig.worker(server_rank=0, rank=1, upstream=mgr.address, links=links)
            async with Node(late) as other:
                await other.joined(PATIENCE_S)
                acks.append(await other.send("one more", to="Mgr"))
        lines = (mgr.disk / "record").read_text().splitlines()
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0
    assert [ack.code for ack in acks] == [0] * len(acks)
    assert mgr.errors.count("record_ended") == 1 and "No space left on device" in mgr.errors
    assert mgr.errors.count("child_lost") <= 2, mgr.errors
    assert len(lines) > 10 and replay(lines) == [], "it ends behind a whole line"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no/file", "No such file or directory"),
        (".", "Is a directory"),
        ("fifo", "it is a FIFO or a socket"),
        ("a\0b", "embedded null byte"),
    ],
)
async def test_record_that_cannot_be_written_is_refused(tmp_path: Path, path: str, words: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigError, match=f"^record is '.*'; expected a file that can be written: {words}$"):
        Driver(NodeConfig.mgr(record=f"{tmp_path}/{path}"))


async def test_record_whose_file_is_removed_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "folder" / "record"
    path.parent.mkdir()
    async with Node(NodeConfig.mgr(record=str(path))) as node:
        shutil.rmtree(path.parent)
        for _ in range(3):
            assert (await node.send("to nobody", to="Worker/0/0")).code == 5002
    assert caplog.text.count("record_ended") == 1 and "the file was removed" in caplog.text


async def test_record_on_a_device_without_room_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with Node(NodeConfig.mgr(record="/dev/full")) as node:
        assert (await node.send("to nobody", to="Worker/0/0")).code == 5002
    assert caplog.text.count("record_ended") == 1 and "No space left on device" in caplog.text
