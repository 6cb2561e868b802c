"""The list of separated devices at a path that leads to no regular file, in a folder of others, on a full disk."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.processes import PATIENCE_S, Daemon, run
from tests.cli.small_disk import OnSmallDisk, needs_mounts
from tests.polling import until
from tests.scenarios.test_host_process import NOBODY, as_nobody, needs_root

pytestmark = pytest.mark.timeout(180)

CODE = "8C0000AA"
OFTEN = {"EventId": [CODE], "TimeWindow": 60, "Times": 2, "FaultHandling": "ManuallySeparateNPU"}


def settings(folder: Path, file: Path) -> list[str]:
    """Arguments of a Mgr whose list is at `file`."""
    rules = folder / "rules"
    rules.mkdir()
    (rules / "faultCode.json").write_text(json.dumps({"NotHandleFaultCodes": [CODE]}))
    (rules / "faultCustomization.json").write_text(json.dumps({"FaultFrequency": [OFTEN]}))
    paths = {"--state": folder / "state", "--fault-config": rules, "--fault-separated": file}
    return ["mgr", "--job-id", "J", *(str(word) for pair in paths.items() for word in pair)]


async def separate(mgr: Daemon, device: str) -> None:
    """Report a device until it is separated."""
    for kind in ("occurred", "recovered") * 2:
        code, output, errors = await run("faults", "report", CODE, device, "--kind", kind, "--upstream", mgr.address)
        assert code == 0, (output, errors)


async def separated(mgr: Daemon) -> set[str]:
    """Names of devices that the Manager holds separated."""
    _, output, _ = await run("faults", "list", "--at", mgr.address, "--json")
    return {device["device"] for device in json.loads(output)["devices"] if device["isolated"]}


@needs_root
@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR])
async def test_a_list_that_becomes_a_fifo_or_a_device_releases_nothing_and_is_not_replaced(
    tmp_path: Path, kind: int
) -> None:
    """An empty read, as of `/dev/null` or of a FIFO between two writers, is no list without names."""
    file, odd = tmp_path / "separated", tmp_path / "odd"
    os.mknod(odd, kind | 0o666, os.makedev(1, 3))
    async with Daemon(*settings(tmp_path, file), logs=tmp_path) as mgr:
        await separate(mgr, "host/npu-0")
        await until(file.exists, PATIENCE_S)
        odd.replace(file)
        await mgr.said("separated_list_unreadable")
        for _ in range(2):
            os.close(os.open(file, os.O_RDWR))
            assert await separated(mgr) == {"host/npu-0"}
        await separate(mgr, "host/npu-1")
        await mgr.said("separated_list_not_written")
        assert stat.S_IFMT(file.stat().st_mode) == kind, "it is left as it is"
        assert await separated(mgr) == {"host/npu-0", "host/npu-1"}
        file.unlink()
        await mgr.said("separated_list_written")
        assert file.read_text() == "host/npu-0,host/npu-1\n"
        for event in ("unreadable", "not_written", "written"):
            assert mgr.errors.count(f"separated_list_{event} ") == 1, mgr.errors


@needs_root
async def test_a_list_in_a_folder_of_another_user_is_one_line_and_holds_nothing_up(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    os.chown(ours, NOBODY, NOBODY)
    arguments = settings(tmp_path, theirs / "separated")
    async with Daemon(*arguments, "--state", str(ours / "state"), logs=ours, wrapper=as_nobody(NOBODY)) as mgr:
        for number in range(2):
            await separate(mgr, f"host/npu-{number}")
        await mgr.said("separated_list_not_written")
        assert len(await separated(mgr)) == 2
        os.chown(theirs, NOBODY, NOBODY)
        await mgr.said("separated_list_written")
        assert (theirs / "separated").read_text() == "host/npu-0,host/npu-1\n"
    assert mgr.errors.count("separated_list_not_written") == 1, mgr.errors


@needs_mounts
async def test_a_list_on_a_full_disk_is_one_line_and_releases_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    async with OnSmallDisk(disk, 64, *settings(tmp_path, disk / "separated"), logs=tmp_path) as mgr:
        await separate(mgr, "host/npu-0")
        await until((mgr.disk / "separated").exists, PATIENCE_S)
        mgr.fill()
        await separate(mgr, "host/npu-1")
        await mgr.said("separated_list_not_written")
        assert await separated(mgr) == {"host/npu-0", "host/npu-1"}
        assert (mgr.disk / "separated").read_text() == "host/npu-0\n", "the old one is whole"
        (mgr.disk / "ballast").unlink()
        await mgr.said("separated_list_written")
        assert (mgr.disk / "separated").read_text() == "host/npu-0,host/npu-1\n"
    assert mgr.errors.count("separated_list_not_written") == 1, mgr.errors


@needs_root
@pytest.mark.parametrize(("wrapper", "owner"), [((), 12_345), (tuple(as_nobody(NOBODY)), NOBODY)])
async def test_a_list_keeps_the_rights_of_the_people_who_remove_names(
    tmp_path: Path, wrapper: tuple[str, ...], owner: int
) -> None:
    """Each write replaces the file. Root keeps its owner, too; nobody may not give a file away."""
    ours = tmp_path / "ours"
    ours.mkdir()
    file = ours / "separated"
    file.touch()
    file.chmod(0o646)
    os.chown(file, 12_345, NOBODY)
    os.chown(ours, NOBODY, NOBODY)
    arguments = settings(tmp_path, file)
    async with Daemon(*arguments, "--state", str(ours / "state"), logs=ours, wrapper=wrapper) as mgr:
        await separate(mgr, "host/npu-0")
        await until(lambda: file.read_text() == "host/npu-0\n", PATIENCE_S)
        found = file.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o646, owner, NOBODY)
