"""The training script of the demo: a small model with DDP on CPUs, and a checkpoint after each step.

Each rank appends a line in JSON per step to `steps-RANK`: its pid, epoch, step and loss. Under a Manager that recovers
in place, `rejoin` keeps its process where another rank is replaced; elsewhere it runs the training once.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from taskd_net.torch import rejoin

CHECKPOINT = "checkpoint"


def main() -> None:
    """Train, in one process group after another."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--steps", type=int, required=True, help="number of steps")
    parser.add_argument("--pause", type=float, required=True, help="seconds after each step")
    args = parser.parse_args()
    rejoin(lambda epoch, reason: train(epoch, args.steps, args.pause), backend="gloo")


def train(epoch: int, steps: int, pause: float) -> None:
    """Train from the checkpoint, or from the beginning, to the last step.

    Args:
        epoch: number of the epoch.
        steps: number of steps.
        pause: seconds after each.
    """
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(_load(model, optimizer), steps):
        loss = _step(model, optimizer, step)
        with Path(f"steps-{dist.get_rank()}").open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), "epoch": epoch, "step": step, "loss": loss}) + "\n")
        dist.barrier()  # a checkpoint is that of a step which all ranks have written down
        if dist.get_rank() == 0:
            _save(model, optimizer, step)
        time.sleep(pause)


def _step(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, step: int) -> float:
    """One step, on data of its own. Returns the loss of all ranks."""
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    inputs = torch.randn(16, 8, generator=generator)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    return float(total.item()) / float(dist.get_world_size())


def _load(model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> int:
    """Take the state of the last checkpoint. Returns the first step to do."""
    if not Path(CHECKPOINT).exists():
        return 0
    saved = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"]) + 1


def _save(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, step: int) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, f"{CHECKPOINT}.new")
    Path(f"{CHECKPOINT}.new").rename(CHECKPOINT)


if __name__ == "__main__":
    main()
