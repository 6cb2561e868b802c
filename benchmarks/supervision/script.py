"""The training of `make supervise`: a small model with DDP on CPUs, the same under each launcher.

Each process appends events to `events-RANK`, as JSON lines with the time (`time.monotonic`): `process`, its first line;
`step`; `fault`, it is about to fail; `done`. The file `fault-RANK` tells a rank how to fail at its next step, and
`finish` after which step all succeed.
`hang-RANK` lets a rank hang then.
"""

import atexit
import json
import os
import signal
import sys
import time

RANK = int(os.environ["RANK"])
FILE = os.open(f"events-{RANK}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
PAUSE_S = 0.05
"""After a step, as at a device that computes: the processor is free meanwhile."""

SLOW_S = 4.0
"""Seconds that a process needs to die, with `slow`: an exporter or a device that is being closed."""

HANG_S = 600.0
"""Seconds for which a rank with a file `hang-RANK` does not end."""

WIDTH = 64
STEPS_WITH_BUG = 3
"""The step of each start at which `bug` raises."""


def note(event: str, step: int = 0) -> None:
    """Append an event."""
    where = {"rank": RANK, "pid": os.getpid(), "node": int(os.environ["BENCH_NODE"])}
    line = {"event": event, "at": time.monotonic(), "step": step, **where}
    os.write(FILE, (json.dumps(line) + "\n").encode())


note("process")

REJOINS = os.environ.get("BENCH_REJOINS") == "on"
if REJOINS:
    from taskd_net.torch import rejoin  # first, so that it joins the mesh while torch is imported

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def main() -> None:
    """Train until all shall succeed."""
    if REJOINS:
        rejoin(lambda epoch, reason: train(), backend="gloo")
    else:
        dist.init_process_group("gloo")
        train()
        dist.destroy_process_group()
    note("done")
    if os.path.exists(f"hang-{RANK}"):  # noqa: PTH110 - as below
        time.sleep(HANG_S)


def train() -> None:
    """Train in a process group."""
    model = DistributedDataParallel(torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    while not (finish := last_step()) or step < finish:
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


def last_step() -> int:
    """The step after which all succeed; 0 for none yet."""
    try:
        with open("finish") as file:  # noqa: PTH123 - a training imports as little as possible
            return int(file.read())
    except FileNotFoundError:
        return 0


def fail(step: int) -> None:
    """Fail as the file of this rank says. A fault happens once, a bug in each start."""
    try:
        with open(f"fault-{RANK}") as file:  # noqa: PTH123 - as above
            kind = file.read()
    except FileNotFoundError:
        return
    if kind == "bug":
        if step > STEPS_WITH_BUG:
            note("fault")
            raise IndexError("the same bug each time")
        return
    os.rename(f"fault-{RANK}", f"fault-{RANK}.done")  # noqa: PTH104 - as above
    note("fault")
    if kind == "memory":
        hog = []
        while True:
            hog.append(bytearray(os.urandom(1 << 20)))
    if kind == "exit":
        sys.exit(3)
    if kind == "slow":
        atexit.register(time.sleep, SLOW_S)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("a failure")


if __name__ == "__main__":
    main()
