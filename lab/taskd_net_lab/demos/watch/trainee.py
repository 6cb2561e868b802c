"""The training script of `demo watch`: ranks that wait for each other in each step, and some that do something else.

Each rank appends a line in JSON per step to `steps-RANK`. One that does something else writes the moment to
`hurt-RANK` before, which is the time of its last mark.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from taskd_net import train
from taskd_net_lab.demos.watch.terms import (
    CODE,
    EVALUATION,
    EVALUATION_S,
    EVALUATIONS,
    FAULT,
    FAULT_STEP,
    LOADER,
    LONG_S,
    NATIVE,
    PAUSE_S,
    RANKS,
)


def main(steps: int) -> None:
    """Train for some steps."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mine = str(rank) in os.environ[RANKS].split(",")
    for step in range(steps):
        if mine and step == FAULT_STEP:
            _hold_up(os.environ[FAULT], rank)
        loss = torch.ones(1)
        dist.all_reduce(loss)
        time.sleep(PAUSE_S)
        with Path(f"steps-{rank}").open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), "step": step, "loss": float(loss.item())}) + "\n")
        train.step(step)
    dist.destroy_process_group()


def _hold_up(fault: str, rank: int) -> None:
    """Do something else than to train."""
    if fault == CODE:
        augment_images(rank)
    elif fault == LOADER:
        with train.section("data"):
            read_shard(rank)
    elif fault == NATIVE:
        parse_natively(rank)
    elif fault == EVALUATION:
        _note(rank)
        for _ in range(EVALUATIONS):
            with train.section("evaluation"):
                time.sleep(EVALUATION_S)


def augment_images(rank: int) -> None:
    """Sleep in the script's own code."""
    _note(rank)
    time.sleep(LONG_S)


def read_shard(rank: int) -> None:
    """Sleep where data is loaded."""
    _note(rank)
    time.sleep(LONG_S)


def parse_natively(rank: int) -> None:
    """Wait in C for a lock that nobody releases, and hold the interpreter meanwhile."""
    # No sleep: the signal that asks for stacks would end it.
    lock = ctypes.create_string_buffer(64)  # zeros are a free one
    _note(rank)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(lock)


def _note(rank: int) -> None:
    """Write down the moment, whole or not at all."""
    path = Path(f"hurt-{rank}")
    new = path.with_suffix(".new")
    new.write_text(repr(time.monotonic()))
    new.rename(path)


if __name__ == "__main__":
    main(int(sys.argv[1]))
