"""The training of `make supervise`: a small model with DDP on CPUs, the same under each launcher."""

import os
import time

from benchmarks.supervision.failing import done, fail, is_last, note

note("process")  # before torch is imported

REJOINS = os.environ.get("BENCH_REJOINS") == "on"
if REJOINS:
    from taskd_net.torch import rejoin  # first, so that it joins the mesh while torch is imported

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

PAUSE_S = 0.05
"""After a step, as at a device that computes: the processor is free meanwhile."""

WIDTH = 64


def main() -> None:
    """Train until all shall succeed."""
    if REJOINS:
        rejoin(lambda epoch, reason: train(), backend="gloo")
    else:
        dist.init_process_group("gloo")
        train()
        dist.destroy_process_group()
    done()


def train() -> None:
    """Train in a process group."""
    model = DistributedDataParallel(torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    while not is_last(step):
        loss = model(torch.randn(16, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count = torch.tensor([step])
        dist.all_reduce(count, dist.ReduceOp.MAX)  # a step is one of all ranks
        step = int(count) + 1
        note("step", step)
        fail(step)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
