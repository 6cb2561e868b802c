"""`taskd-net run`: torchrun under a TaskD Agent, and with `--mgr` the job's Manager beside it."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import record

from taskd_net.base.job_id import job_id_of, require_job_id
from taskd_net.job.agent.agent import Told
from taskd_net.job.arguments import JOB_ID, LOOPBACK, MGR_PORT, MGR_PORT_SET, PROXY_PORT, UPSTREAM, joined
from taskd_net.job.clusterd.place import clusterd_of_environment
from taskd_net.job.own_manager import own_manager
from taskd_net.job.ports import ports_of
from taskd_net.torch import seam
from taskd_net.torch.patch import patched
from taskd_net.torch.reasons import Failures

MAX_RESTARTS: Final = "PET_MAX_RESTARTS"
"""torchrun's variable for `--max-restarts`."""


@record
def main(arguments: Sequence[str]) -> None:
    """Run a training script on this node. A failure of the job ends with the words of the first one of a rank.

    Args:
        arguments: those of torchrun, and `--mgr`.

    Raises:
        SystemExit: the Agent has to leave, or an argument is wrong.
        UnsupportedTorch: the installed torch has not been checked.
        NoCommand: `--run-path`.
        ChildFailedError, SignalException: as of torchrun.
    """
    failures = Failures()
    try:
        _run(arguments, failures)
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:
            for number, line in enumerate(failures.words()):
                sys.stderr.write(f"{'' if number else 'taskd-net run: '}{line}\n")
        raise


def _run(arguments: Sequence[str], failures: Failures) -> None:
    seam.check(torchrun=True)
    parser = _parser()
    args = parser.parse_args(arguments)
    _, nodes = torchrun.parse_min_max_nnodes(args.nnodes)
    if nodes > 1 and args.rdzv_backend != "static":
        text = f"--rdzv-backend {args.rdzv_backend} with {nodes} nodes gives them other ranks than --node-rank"
        parser.error(f"{text}; expected static, the default")
    told = _told(args)
    args.max_restarts = args.max_restarts or 0
    os.environ.setdefault("MASTER_ADDR", args.master_addr or LOOPBACK)  # the Proxy of the node looks for the Mgr there
    job_id = _name_job(args)
    with ExitStack() as stack:
        if args.mgr and args.node_rank == 0:
            size = f"{nodes}x{torchrun.determine_local_world_size(args.nproc_per_node)}"
            stack.enter_context(own_manager(size, job_id, restarts_itself=_restarts_itself(args)))
        named = {"start_program": not args.no_python, "failures": failures, "told": told}
        stack.enter_context(patched(args.node_rank, **named))
        torchrun.run(args)


def _parser() -> ArgumentParser:
    parser: ArgumentParser = torchrun.get_args_parser()
    parser.prog = "taskd-net run"
    if MAX_RESTARTS not in os.environ:
        parser.set_defaults(max_restarts=None)
    parser.add_argument(
        "--mgr", action="store_true", help="Start the Manager of the job, too, on the node with --node-rank 0."
    )
    parser.add_argument(
        "--job-id",
        default=os.environ.get(JOB_ID) or None,
        help=f"Id of the job; with --mgr, --rdzv-id where this is not given. Variable {JOB_ID}.",
    )
    parser.add_argument(
        "--mgr-port",
        default=os.environ.get(MGR_PORT_SET) or None,
        help=f"Port of the Mgr. Default: with --mgr, a port that follows from the id of the job; {MGR_PORT} without an "
        f"id, or without --mgr. Variable {MGR_PORT_SET}.",
    )
    return parser


def _name_job(args: Namespace) -> str:
    """Set the id of the job, and its ports, in the environment of this node's processes. Returns the id.

    torch gives `rdzv_id` a random value later, which differs from node to node and from start to start.

    Raises:
        ConfigError: the id or a port is of no use.
    """
    # Without --mgr, the Mgr is of another command, which knows nothing of --rdzv-id and of ports that follow from it.
    job_id = job_id_of(args.job_id) or (job_id_of(args.rdzv_id) if args.mgr else "")
    require_job_id("job_id", job_id)
    ports = ports_of(job_id if args.mgr else "")
    os.environ[MGR_PORT_SET] = args.mgr_port or str(ports.mgr)
    joined(os.environ["MASTER_ADDR"], "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET)
    if job_id:
        os.environ[JOB_ID] = job_id
    if ports.proxy != PROXY_PORT:
        os.environ.setdefault(UPSTREAM, f"{LOOPBACK}:{ports.proxy}")
    return job_id


def _told(args: Namespace) -> Told:
    """Instructions of the arguments about restarts. Beside a ClusterD, a number of restarts is one that is offered."""
    most, job = args.max_restarts, clusterd_of_environment() is None
    if args.mgr:
        return Told(most, "--mgr" if job else "the address of ClusterD", job)
    return Told(most, "" if most is None or not job else f"--max-restarts {most}")


def _restarts_itself(args: Namespace) -> bool:
    """True where the Manager of this launcher's job restarts processes, and no platform does."""
    return bool(args.mgr) and clusterd_of_environment() is None
