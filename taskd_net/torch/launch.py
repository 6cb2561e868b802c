"""`taskd-net run`: torchrun under a TaskD Agent, and with `--mgr` the job's Manager beside it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Final

from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import record

from taskd_net.base import logs
from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import job_id_of, require_job_id
from taskd_net.base.logger import late_logger
from taskd_net.job import run_arguments
from taskd_net.job.agent.agent import Told
from taskd_net.job.arguments import JOB_ID, LOOPBACK, MGR_PORT_SET, PROXY_PORT, UPSTREAM, joined
from taskd_net.job.clusterd.place import clusterd_of_environment
from taskd_net.job.own_manager import own_manager
from taskd_net.job.ports import ports_of
from taskd_net.torch import seam
from taskd_net.torch.patch import patched
from taskd_net.torch.reasons import Failures

log: Final = late_logger()


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
    args = run_arguments.parse(torchrun.get_args_parser(), torchrun.determine_local_world_size, arguments)
    told = _told(args)
    args.max_restarts = args.max_restarts or 0
    os.environ.setdefault("MASTER_ADDR", args.master_addr or LOOPBACK)  # the Proxy of the node looks for the Mgr there
    try:
        job_id = _name_job(args)
    except ConfigError as error:
        run_arguments.refuse(str(error))
    with ExitStack() as stack:
        stack.enter_context(_logged(args.node_rank))
        if args.mgr and args.node_rank == 0:
            size = f"{args.nodes}x{args.processes}"
            stack.enter_context(own_manager(size, job_id, restarts_itself=_restarts_itself(args)))
        named = {"start_program": not args.no_python, "failures": failures, "told": told}
        stack.enter_context(patched(args.node_rank, **named))
        torchrun.run(args)


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


@contextmanager
def _logged(node_rank: int) -> Iterator[None]:
    """Log to stderr, and into a file of the Agent where the environment asks for one.

    The standard output is for the training processes.
    """
    with redirect_stdout(sys.stderr):
        try:
            logs.start(f"agent-{node_rank}.log" if logs.wants_file() else None)
        except ConfigError as error:  # a full disk or a wrong mount is no reason not to train
            logs.start(None, stdout=True)
            log.warning("no_log_file", reason=str(error))
    try:
        yield
    finally:
        logs.stop()


def _restarts_itself(args: Namespace) -> bool:
    """True where the Manager of this launcher's job restarts processes, and no platform does."""
    return bool(args.mgr) and clusterd_of_environment() is None
