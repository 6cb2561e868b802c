"""A worker whose function trains until the file `end` is there, and keeps its models, as a careless script does.

It writes a line in JSON per epoch to `epochs-RANK`, and the steps that it begins with to `steps-RANK`: it has them from
a survivor, by broadcast. In the first epoch, the rank of `--stuck` leaves its collectives.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from taskd_net.torch import rejoin

KEPT: list[object] = []
STEPS = torch.zeros(1)
"""Steps of this process, and of those before it."""


def train(epoch: int, reason: str) -> int:
    """Train until rank 0 sees the file."""
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    KEPT.append((model, dist.new_group([0, 1])))
    rank = dist.get_rank()
    of_all = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, STEPS)
    dist.broadcast(STEPS, src=max(range(len(of_all)), key=lambda each: of_all[each].item()))
    with Path(f"steps-{rank}").open("a") as file:
        file.write(f"{STEPS.item():.0f}\n")
    with Path(f"epochs-{rank}").open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), "epoch": epoch, "reason": reason}) + "\n")
    while True:
        model(torch.ones(2, 4)).sum().backward()
        goes_on = torch.tensor([float(rank == 0 and not Path("end").exists())])
        dist.all_reduce(goes_on)
        if not goes_on:
            return epoch
        STEPS.add_(1)
        if STEPS == 1:
            Path("stepped").touch()
        if epoch == 1 and rank == args.stuck:
            Path("stuck").touch()
            threading.Event().wait()


parser = argparse.ArgumentParser(description=train.__doc__)
parser.add_argument("--stuck", type=int)
parser.add_argument("--timeout", type=int, default=1800, help="seconds of a collective")
args = parser.parse_args()
rejoin(train, backend="gloo", timeout=timedelta(seconds=args.timeout))
