"""`taskd-net run`."""

from __future__ import annotations

import gc
import os
import sys

import click

from taskd_net import TaskdNetError
from taskd_net.cli import first_process
from taskd_net.job.launcher_signals import EarlySigint


@click.command(
    short_help="Run a PyTorch training under TaskD's Manager.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS OF TORCHRUN] SCRIPT ...")
def run(arguments: tuple[str, ...]) -> None:
    """Run a training script on this node as torchrun does, under the command of the job's Manager.

    It takes the arguments of torchrun. Node 0 starts the Manager of the job, unless one answers at its address, a
    ClusterD is configured, or with --no-mgr; with --mgr in any case. The Proxy of the node runs in the same process.
    Restarts are the Manager's decision. --job-id keeps apart the jobs of one machine: the ports follow from it, unless
    --mgr-port names another. Needs the extra `torch`.

    \b
    Examples:
      taskd-net run --nproc-per-node 2 train.py
      taskd-net run --job-id night-7 --nproc-per-node 2 train.py
      taskd-net run --nnodes 2 --rdzv-backend c10d --rdzv-endpoint 10.0.0.7:29400 train.py
      taskd-net run --nnodes 2 --node-rank 1 --master-addr 10.0.0.7 --nproc-per-node 8 train.py --lr 0.1
    """
    if os.getpid() == 1:
        first_process.live()
    early = EarlySigint()
    try:
        # Objects of torch's modules live as long as this process. Garbage collection among them cost 0.2 s of the
        # start, and 0.3 s of the end.
        gc.disable()
        try:
            from taskd_net.torch import launch

            gc.freeze()
        finally:
            gc.enable()
        launch.main(arguments, early)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        sys.exit("taskd-net run needs torch, which is not installed: pip install 'taskd-net[torch]'")
    except TaskdNetError as error:
        sys.exit(f"taskd-net run: {error}")
