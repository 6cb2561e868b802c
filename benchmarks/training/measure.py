"""Failures of a training under each launcher, in turns: the measure `training`."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.measures import Bench
from benchmarks.training.launchers import LAUNCHERS, Job, Launcher
from benchmarks.training.timeline import RANKS

KILLS: Final = 2
"""Kills in a turn of a launcher."""

STEPS: Final = 20
"""Steps of each rank before a measurement and after it."""

REST_S: Final = 4.0
"""Seconds of a measurement of CPU time."""


def training(bench: Bench) -> None:
    """From a kill to the first step of all ranks, and what a launcher costs, beside torchrun and ft_launcher."""
    for turn in bench._turns("recoveries of a training"):
        for launcher in LAUNCHERS:
            with bench._turn(f"training, turn {turn}", launcher.name), Job(launcher) as job:
                job.until_steps(STEPS)
                _cost(bench, launcher, job)
                for number in range(KILLS):
                    _kill(bench, launcher, job, (turn * KILLS + number) % RANKS)


def _kill(bench: Bench, launcher: Launcher, job: Job, rank: int) -> None:
    recovery = job.recovery(killed := job.kill(rank))
    for part, seconds in recovery.seconds.items():
        bench.results.add("training", part, "ms", launcher.name, seconds * 1e3)
    bench.results.add("training", "kill to first step of all", "ms", launcher.name, recovery.total * 1e3)
    bench.results.add("training", "processes restarted", "", launcher.name, recovery.restarted)
    if recovery.survivors is not None:
        survivors = recovery.survivors * 1e3
        bench.results.add("training", "the others joined after the new one called", "ms", launcher.name, survivors)
    job.until_steps(STEPS, since=killed + recovery.total)


def _cost(bench: Bench, launcher: Launcher, job: Job) -> None:
    before, began = job.use(), time.perf_counter()
    time.sleep(REST_S)
    after, took = job.use(), time.perf_counter() - began
    bench.results.add("training", "launcher, CPU", "% of a core", launcher.name, (after.cpu - before.cpu) / took * 100)
    bench.results.add("training", "launcher, memory", "MB", launcher.name, after.memory / 1e6)
