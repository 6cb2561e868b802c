"""`taskd-net run`: torchrun under a TaskD Agent, and with `--mgr` the job's Manager beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import record

from taskd_net.job.arguments import LOOPBACK, MGR_PORT, joined
from taskd_net.job.manager.config import STATE_FILE
from taskd_net.torch import seam
from taskd_net.torch.guardian import Guardian, ended
from taskd_net.torch.patch import patched

MGR_END_S: Final = 10.0
"""Seconds that the Manager of `taskd-net run --mgr` has to drain and end after the job."""


@record
def main(arguments: Sequence[str]) -> None:
    """Run a training script on this node.

    Args:
        arguments: those of torchrun, and `--mgr`.

    Raises:
        SystemExit: the Agent has to leave, or an argument is wrong.
        UnsupportedTorch: the installed torch has not been checked.
        NoCommand: `--run-path`.
        ChildFailedError, SignalException: as of torchrun.
    """
    seam.check(torchrun=True)
    parser = _parser()
    args = parser.parse_args(arguments)
    _, nodes = torchrun.parse_min_max_nnodes(args.nnodes)
    if nodes > 1 and args.rdzv_backend != "static":
        text = f"--rdzv-backend {args.rdzv_backend} with {nodes} nodes gives them other ranks than --node-rank"
        parser.error(f"{text}; expected static, the default")
    os.environ.setdefault("MASTER_ADDR", args.master_addr or LOOPBACK)  # the Proxy of the node looks for the Mgr there
    with ExitStack() as stack:
        if args.mgr and args.node_rank == 0:
            stack.enter_context(_mgr(args, nodes))
        stack.enter_context(patched(args.node_rank, start_program=not args.no_python))
        torchrun.run(args)


def _parser() -> ArgumentParser:
    parser: ArgumentParser = torchrun.get_args_parser()
    parser.prog = "taskd-net run"
    parser.add_argument(
        "--mgr", action="store_true", help="Start the Manager of the job, too, on the node with --node-rank 0."
    )
    return parser


@contextmanager
def _mgr(args: Namespace, nodes: int) -> Iterator[None]:
    """The Manager of the job, in a process of its own."""
    listen = joined(os.environ.get("POD_IP") or os.environ["MASTER_ADDR"], "MASTER_ADDR", MGR_PORT, "port")
    size = f"{nodes}x{torchrun.determine_local_world_size(args.nproc_per_node)}"
    job = os.environ.get("TASKD_NET_JOB_ID") or args.rdzv_id
    command = [sys.executable, "-m", "taskd_net.cli", "mgr", "--listen", listen, "--job-id", job, "--expect", size]
    with ExitStack() as stack:
        if not os.environ.get("TASKD_NET_STATE"):
            # Another run, perhaps with the same id, is another job.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="taskd-net-"))
            command += ["--state", str(Path(folder) / STATE_FILE)]
        guardian = stack.enter_context(Guardian())
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        guardian.guard(process.pid)
        try:
            yield
        finally:
            process.terminate()
            if ended(process, MGR_END_S):
                guardian.release(process.pid)
