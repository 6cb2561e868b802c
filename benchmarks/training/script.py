"""The training of the measure `training`: a small model with DDP on CPUs, the same under every launcher.

Each process appends its steps to `events-RANK`, as JSON lines with the time (`time.monotonic`): `process`, its first
line; `called`, torch is imported; `joined`, it is in a process group; `loaded`, it has the checkpoint; `step`.
"""

import json
import os
import time

BEGAN = time.monotonic()
"""The beginning of this process, before torch is imported."""

RANK = int(os.environ["RANK"])
FILE = os.open(f"events-{RANK}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
CHECKPOINT = "checkpoint"
STEPS_OF_A_CHECKPOINT = 10
PAUSE_S = 0.02
"""After a step, as at a device that computes: the processor is free meanwhile."""

WIDTH = 256


def note(event: str, at: float) -> None:
    """Append an event."""
    os.write(FILE, (json.dumps({"event": event, "rank": RANK, "pid": os.getpid(), "at": at}) + "\n").encode())


note("process", BEGAN)

IN_PLACE = os.environ.get("TASKD_NET_IN_PLACE") == "on"
if IN_PLACE:
    from taskd_net.torch import rejoin  # first, so that it joins the mesh while torch is imported

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def main() -> None:
    """Train until the launcher ends this process."""
    if IN_PLACE:
        note("called", time.monotonic())
        rejoin(lambda epoch, reason: train(), backend="gloo")
    else:
        note("called", time.monotonic())
        dist.init_process_group("gloo")
        train()


def train() -> None:
    """Train in a process group, from the checkpoint."""
    note("joined", time.monotonic())
    torch.manual_seed(0)
    layers = (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1))
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    if os.path.exists(CHECKPOINT):  # noqa: PTH110 - a training imports as little as possible
        saved = torch.load(CHECKPOINT, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"] + 1
    note("loaded", time.monotonic())
    while True:
        inputs = torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(4 * step + RANK))
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % STEPS_OF_A_CHECKPOINT == 0 and RANK == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, f"{CHECKPOINT}.new")
            os.rename(f"{CHECKPOINT}.new", CHECKPOINT)  # noqa: PTH104 - as above
        dist.barrier()  # a step is one of all ranks
        note("step", time.monotonic())
        step += 1
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
