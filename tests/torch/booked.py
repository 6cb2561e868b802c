"""A script that marks steps of 0.1 s and sections of known seconds. One rank is killed once; it says what it has done.

A line of `done-RANK` has a step, one of `spent-RANK` a section with its seconds. It ends when there is a file `end`.
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

from taskd_net import train

STEPS = 30
SECTIONS = {5: ("data", 2.0), 10: ("evaluation", 1.5), 12: ("checkpoint", 2.0)}
"""Sections after a step."""

KILLED, KILLED_AT = 3, 20

rank = int(os.environ["RANK"])
saved, killed = Path(f"saved-{rank}"), Path("killed")


def spend(name: str, seconds: float) -> None:
    """Pass some time in a section."""
    Path(f"in-{name}").touch()
    with train.section(name):
        since = time.monotonic()
        select.select([], [], [], seconds)
        with Path(f"spent-{rank}").open("a") as file:
            file.write(f"{name} {time.monotonic() - since}\n")


spend("load", 1.0)
for step in range(int(saved.read_text()) if saved.exists() else 0, STEPS):
    select.select([], [], [], 0.1)
    with Path(f"done-{rank}").open("a") as file:
        file.write(f"{step}\n")
    train.step(step, of=STEPS - 1)
    if step in SECTIONS:
        spend(*SECTIONS[step])
        if SECTIONS[step][0] == "checkpoint":
            saved.write_text(f"{step + 1}")
    if rank == KILLED and step == KILLED_AT and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
with train.waiting():
    while not Path("end").exists():
        select.select([], [], [], 0.02)
