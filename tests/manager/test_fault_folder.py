"""taskd_net.job.manager.fault_folder: the folder as Kubernetes changes it, and as a person does."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from taskd_net.job.faults import editions
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import FaultType
from taskd_net.job.faults.rules import CODES_FILE, CUSTOMIZATION_FILE, POLL_FILE, FaultRules
from taskd_net.job.manager.fault_folder import FaultFolder, read_folder
from taskd_net.job.manager.watching import LOOK_S
from tests.fault_levels.scene import CODES, L1, L5, files
from tests.polling import PATIENCE_S, until

MOVED = {**CODES, "NotHandleFaultCodes": [], "RestartNPUCodes": [L5, L1]}
CHANGE = "handling 'mindx-dl-fault-config' configmap change"


class Lines(list[tuple[str, str, dict[str, Any]]]):
    """The lines of a log."""

    def info(self, event: str, **fields: Any) -> None:
        self.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.append(("error", event, fields))

    @property
    def events(self) -> list[str]:
        """The events alone."""
        return [event for _, event, _ in self]


def put(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files in place."""
    for name, data in contents.items():
        (folder / name).write_bytes(data)


def swap(folder: Path, version: str, contents: Mapping[str, bytes]) -> None:
    """Update the volume as Kubernetes does: a new folder, then one rename that leads the link `..data` to it."""
    data = folder / f"..{version}"
    data.mkdir()
    put(data, contents)
    link = folder / "..data_tmp"
    link.symlink_to(data.name)
    link.rename(folder / "..data")
    for name in contents:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


@asynccontextmanager
async def following(folder: FaultFolder, every: float = LOOK_S) -> AsyncIterator[asyncio.Queue[FaultRules]]:
    """The rules of a folder, each when they have changed."""
    rules: asyncio.Queue[FaultRules] = asyncio.Queue()
    task = asyncio.create_task(folder.follow(rules.put_nowait, every))
    try:
        yield rules
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def soon(rules: asyncio.Queue[FaultRules]) -> FaultRules:
    """The next rules."""
    async with asyncio.timeout(PATIENCE_S):
        return await rules.get()


async def test_a_swap_of_kubernetes_is_in_force_within_a_second(tmp_path: Path) -> None:
    lines = Lines()
    swap(tmp_path, "one", {**files(), POLL_FILE: b"3600"})
    async with following(FaultFolder(str(tmp_path), lines)) as rules:
        assert (await soon(rules)).codes[L1] is FaultType.NOT_HANDLE
        for version, codes, expected in (("two", MOVED, FaultType.RESTART_NPU), ("three", CODES, FaultType.NOT_HANDLE)):
            began = time.monotonic()
            swap(tmp_path, version, files(codes))
            assert (await soon(rules)).codes[L1] is expected
            assert time.monotonic() - began < 5.0, "not by the period of an hour"
    assert lines.events == [f"{CHANGE} succeed"] * 3


async def test_a_broken_file_leaves_the_rules_in_force_and_says_why(tmp_path: Path) -> None:
    lines = Lines()
    put(tmp_path, files())
    async with following(FaultFolder(str(tmp_path), lines)) as rules:
        await soon(rules)
        put(tmp_path, {CODES_FILE: b"{"})
        await until(lambda: len(lines) == 3)
        put(tmp_path, files(MOVED))
        assert (await soon(rules)).codes[L1] is FaultType.RESTART_NPU
    warned, failed = lines[1:3]
    assert warned[1] == "fault_file_problem"
    assert failed[:2] == ("error", f"{CHANGE} failed") and failed[2]["reason"].startswith(f"{CODES_FILE} is no JSON")
    assert lines.events[-1] == f"{CHANGE} succeed"


@pytest.mark.parametrize("told", [True, False])
async def test_by_setting_a_change_waits_for_the_end_of_the_period(
    told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file system tells of it; and where it does not tell, without the setting."""
    now = [1000.0]
    monkeypatch.setattr("taskd_net.job.manager.fault_folder.monotonic", lambda: now[0])
    if not told:
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    looks = 0

    class Counted(FaultFolder):
        def look(self, told: bool = True) -> FaultRules | None:
            nonlocal looks
            found = super().look(told)
            looks += 1
            return found

    put(tmp_path, {**files(), POLL_FILE: b"30"})
    async with following(Counted(str(tmp_path), Lines(), watch=not told), every=0.01) as rules:
        await soon(rules)
        put(tmp_path, files(MOVED))
        now[0] += 29.9
        before = looks
        await until(lambda: looks > before + 3)
        assert rules.empty()
        now[0] += 0.1
        assert (await soon(rules)).codes[L1] is FaultType.RESTART_NPU


async def test_a_folder_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines()
    folder = tmp_path / "later"
    async with following(FaultFolder(str(folder), lines)) as rules:
        await until(lambda: lines.events == [f"{CHANGE} failed"])
        folder.mkdir()
        put(folder, files())
        assert (await soon(rules)).codes[L1] is FaultType.NOT_HANDLE
    assert lines[0][2]["reason"] == f"{folder} is no folder"


def test_the_line_of_the_current_edition(tmp_path: Path) -> None:
    lines = Lines()
    put(tmp_path, files())
    assert FaultFolder(str(tmp_path), lines, Edition.CURRENT).look() is not None
    (line,) = lines
    assert line[1] == f"{CHANGE} complete" and line[2]["codes"] == 6 and line[2]["edition"] == "current"


def test_problems_are_said_up_to_a_number(tmp_path: Path) -> None:
    lines = Lines()
    put(tmp_path, files({"RestartNPUCodes": [L5, *["x"] * 50]}))
    folder = FaultFolder(str(tmp_path), lines)
    assert folder.look() is not None and folder.look() is None
    assert lines.events[:-2] == ["fault_file_problem"] * editions.PROBLEMS_LOGGED
    assert lines[-2][2]["more"] == 30
    assert "RestartNPUCodes[1] is 'x'; expected 8 or 9 hexadecimal digits" in lines[0][2]["problem"]


def test_the_settings_of_the_reading(tmp_path: Path) -> None:
    put(tmp_path, files())
    rules = FaultFolder(str(tmp_path), Lines(), Edition.DOCUMENTED, 9).look()
    assert rules is not None and {rule.timeout for rule in rules.duration.values()} == {9}


def test_all_files_are_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link is led to another folder between two files, and the folder before is gone."""
    swap(tmp_path, "one", {CODES_FILE: b"1", CUSTOMIZATION_FILE: b"1"})
    from taskd_net.job.manager import fault_folder

    read, swaps = fault_folder._read, iter(["two", "three"])

    def read_and_swap(path: Path) -> bytes | None:
        found = read(path)
        if path.name == CODES_FILE and (version := next(swaps, None)):
            swap(tmp_path, version, {CODES_FILE: version.encode(), CUSTOMIZATION_FILE: version.encode()})
        return found

    monkeypatch.setattr(fault_folder, "_read", read_and_swap)
    assert read_folder(tmp_path) == {CODES_FILE: b"three", CUSTOMIZATION_FILE: b"three"}
    versions = iter(range(100))
    monkeypatch.setattr(fault_folder, "_version", lambda _: f"..{next(versions)}")
    with pytest.raises(OSError, match="changes while it is read"):
        read_folder(tmp_path)


def test_a_file_that_is_too_large_is_named(tmp_path: Path) -> None:
    put(tmp_path, {**files(), CUSTOMIZATION_FILE: b" " * 5_000_000})
    lines = Lines()
    assert FaultFolder(str(tmp_path), lines).look() is None
    assert lines[0][2]["reason"] == f"{CUSTOMIZATION_FILE}: it has more than {editions.FILE_BYTES} bytes"
    with pytest.raises(FileNotFoundError, match="is no folder"):
        read_folder(tmp_path / CODES_FILE)
    (tmp_path / CUSTOMIZATION_FILE).unlink()
    assert set(read_folder(tmp_path)) == {CODES_FILE} and json.loads(read_folder(tmp_path)[CODES_FILE]) == CODES
