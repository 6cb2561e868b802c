"""Kills for want of memory: the counters of both versions of cgroups, in the forms that the kernel writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskd_net.job.agent.memory import MemoryKills
from taskd_net.job.cgroups import CGROUPS, PROC

V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
PLACES = {
    "v2": ("0::/job/rank\n", "job/rank/memory.events", V2),
    "v2-in-a-container": ("0::/\n", "memory.events", V2),
    "v1": ("4:memory:/job/rank\n1:cpu:/\n0::/\n", "memory/job/rank/memory.oom_control", V1),
    "v1-with-others": ("4:cpuset,memory:/job/rank\n", "memory/job/rank/memory.oom_control", V1),
    "v1-in-a-container": ("4:memory:/kubepods/pod1/c\n0::/\n", "memory/memory.oom_control", V1),
}


class Machine:
    """The kernel's files of one machine.

    Args:
        folder: of the test.
        place: of `PLACES`.
    """

    def __init__(self, folder: Path, place: str) -> None:
        self.cgroup, path, self.form = PLACES[place]
        self.file = folder / "cgroup" / path
        self.file.parent.mkdir(parents=True)
        self.proc = folder / "proc"
        self.kills = MemoryKills(self.proc, folder / "cgroup")
        self.count(0)

    def count(self, number: int) -> None:
        """The kernel has killed so many processes."""
        self.file.write_text(self.form.format(number))

    def begin(self, pid: int) -> None:
        """A process starts in the cgroup."""
        (self.proc / str(pid)).mkdir(parents=True)
        (self.proc / str(pid) / "cgroup").write_text(self.cgroup)
        self.kills.begin(pid)


@pytest.mark.parametrize("place", PLACES)
def test_counter_that_has_risen_since_the_start(place: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, place)
    machine.count(2)
    for pid in (1, 2, 3, 4):
        machine.begin(pid)
    assert not machine.kills.end(1, killed=True), "another one has killed it"
    machine.count(3)
    assert not machine.kills.end(2, killed=False), "it was not killed"
    assert machine.kills.end(3, killed=True)
    assert not machine.kills.end(4, killed=True), "the kill was another process's"
    assert not machine.kills.end(3, killed=True), "once"


def test_two_at_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "v2")
    machine.begin(1)
    machine.begin(2)
    machine.count(2)
    assert machine.kills.end(1, killed=True) and machine.kills.end(2, killed=True)


@pytest.mark.parametrize("text", ["", "oom_kill_disable 0\nunder_oom 0\n", "oom_kill many\n", "oom_kill -1\n"])
def test_kernel_without_the_counter(text: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "v1")
    machine.file.write_text(text)
    machine.begin(1)
    machine.count(1)
    assert not machine.kills.end(1, killed=True), "nothing is known of its start"
    machine.begin(2)
    machine.file.write_text(text)
    assert not machine.kills.end(2, killed=True)


def test_machine_without_cgroups(tmp_path: Path) -> None:
    kills = MemoryKills(tmp_path, tmp_path)
    kills.begin(1)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "cgroup").write_text("1:cpu:/\n")
    kills.begin(2)
    assert not kills.end(1, killed=True) and not kills.end(2, killed=True)


def test_counter_of_this_machine() -> None:
    """The kernel's own files can be read, where a memory cgroup has this process."""
    text = (PROC / "self" / "cgroup").read_text()
    has = "memory" in text or (CGROUPS / "memory.events").exists()
    kills = MemoryKills()
    kills.begin(os.getpid())
    assert (os.getpid() in kills._known) or not has
