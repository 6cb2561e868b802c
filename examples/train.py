"""A training process with a Worker: it reports its steps, and saves a checkpoint on command.

One process for each rank, as torchrun starts them; the Proxy of the node is at 127.0.0.1:9602 or TASKD_NET_UPSTREAM:

    RANK=0 LOCAL_WORLD_SIZE=1 python train.py --steps 1000
"""

import argparse
import os
import threading
import time

import taskd_net
from taskd_net import Command

save_now = threading.Event()


def on_checkpoint(command: Command) -> None:
    """Handle a CHECKPOINT in the Worker's own thread; the training loop does the work."""
    print(f"checkpoint, asked for by {command.src}", flush=True)
    save_now.set()


def main() -> None:
    """Train."""
    arguments = argparse.ArgumentParser(description="Train, as a Worker of the mesh.")
    arguments.add_argument("--steps", type=int, default=1000)
    arguments.add_argument("--step-seconds", type=float, default=0.05)
    options = arguments.parse_args()

    # A failed call returns False and logs the reason. The training goes on without a mesh.
    taskd_net.register_handler("CHECKPOINT", on_checkpoint)
    taskd_net.init_taskd_worker(rank_id=int(os.environ["RANK"]))
    taskd_net.start_taskd_worker()
    # True when the Manager has it, False after 3 s.
    if not taskd_net.send_to_manager(0, "START", f"{options.steps} steps"):
        print("no Manager: start `taskd-net mgr` and `taskd-net proxy`; the training goes on without", flush=True)

    weight = 0.0
    for step in range(1, options.steps + 1):
        time.sleep(options.step_seconds)  # stands for a real step
        loss = (weight - 3.0) ** 2
        weight -= 0.05 * 2 * (weight - 3.0)
        if step % 20 == 0:
            # Queued, so that the step does not wait. Given up after 30 s without a Manager.
            taskd_net.send_to_manager(0, "STEP", f"step {step}, loss {loss:.4f}", timeout=30.0, wait=False)
        if save_now.is_set():
            save_now.clear()
            # Returns when the Manager has it, or after 3 s; at once if the Manager is known to be away.
            taskd_net.send_to_manager(0, "SAVED", f"step {step}", {"weight": str(weight)})
    taskd_net.send_to_manager(0, "DONE", f"weight {weight:.3f}")
    taskd_net.destroy_taskd_worker()


if __name__ == "__main__":
    main()
