"""The CPUs that cgroups permit: the files of both versions, in the forms that the kernel writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net.job.cgroups import CGROUPS
from taskd_net.job.cpu_quota import bounded, permitted_cpus


@pytest.mark.parametrize(
    ("cgroup", "files", "cpus"),
    [
        ("0::/pod/main\n", {"pod/main/cpu.max": "200000 100000\n"}, 2.0),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/pod/main\n", {"pod/main/cpu.max": "max 100000\n", "pod/cpu.max": "250000 100000\n"}, 2.5),
        ("0::/pod/main\n", {"pod/main/cpu.max": "max 100000\n"}, None),
        ("0::/../other\n", {"cpu.max": "300000 100000\n"}, 3.0),
        ("0::/../other\n", {"../other/cpu.max": "300000 100000\n"}, None),
        (
            "3:cpu,cpuacct:/pod\n1:name=systemd:/x\n0::/\n",
            {"cpu/pod/cpu.cfs_quota_us": "400000\n", "cpu/pod/cpu.cfs_period_us": "100000\n"},
            4.0,
        ),
        (
            "3:cpuacct,cpu:/kubepods/pod\n",
            {"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            1.5,
        ),
        (
            "3:cpu:/pod\n",
            {"cpu/pod/cpu.cfs_quota_us": "-1\n", "cpu/pod/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ("3:cpuset:/pod\n", {"cpu/pod/cpu.cfs_quota_us": "1\n"}, None),
        ("0::/\n", {"cpu.max": "200000 0\n"}, None),
        ("0::/\n", {"cpu.max": "many\n"}, None),
        ("", {"cpu.max": "100000 100000\n"}, None),
    ],
)
def test_limit_of_a_cgroup_or_of_one_above(
    cgroup: str, files: dict[str, str], cpus: float | None, tmp_path: Path
) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroups"
    root.mkdir()
    own.write_text(cgroup)
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert permitted_cpus(own, root) == cpus


@pytest.mark.parametrize(("cpus", "processes"), [(None, 8), (2.9, 2), (0.5, 1), (64.0, 8)])
def test_processes_are_whole_cpus_and_one_at_least(cpus: float | None, processes: int) -> None:
    assert bounded(8, cpus) == processes


def test_files_that_are_not_there_are_no_limit(tmp_path: Path) -> None:
    assert permitted_cpus(tmp_path / "none", tmp_path) is None


@pytest.mark.skipif(
    not (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists(), reason="needs the kernel's cgroups of version 1"
)
def test_kernels_own_files_are_read() -> None:
    found = permitted_cpus()
    assert found is None or found > 0.0
