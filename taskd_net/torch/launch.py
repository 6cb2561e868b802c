"""`taskd-net run`: torchrun under a TaskD Agent, and on node 0 the job's Manager beside it."""

from __future__ import annotations

import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout, suppress
from functools import partial
from typing import Final

import torch
from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import record

from taskd_net.base import logs
from taskd_net.base.address import Address
from taskd_net.base.cause import AS_TERMINATED
from taskd_net.base.codes import ConfigError, TaskdNetError
from taskd_net.base.job_id import attempt_id, job_id_of, require_job_id
from taskd_net.base.limits import NODE_S
from taskd_net.base.logger import late_logger
from taskd_net.base.vocabulary import JOB, PLATFORM
from taskd_net.job import ancestors, cpu_quota, manager_place, run_arguments
from taskd_net.job.agent import last_words
from taskd_net.job.agent.agent import Told
from taskd_net.job.arguments import (
    HANG_TIMEOUT,
    JOB_ID,
    LOOPBACK,
    MGR_PORT_SET,
    NODE_TIMEOUT,
    ON_HANG_SET,
    PROXY_PORT,
    UPSTREAM,
    joined,
    secured,
)
from taskd_net.job.clusterd.place import clusterd_of_environment
from taskd_net.job.end_of_job import say_end
from taskd_net.job.launcher_signals import EarlySigint, LauncherSignals
from taskd_net.job.manager_place import Launched
from taskd_net.job.node_rank import NoAnswer, NoRank, held_rank
from taskd_net.job.own_host import own_name
from taskd_net.job.own_manager import NoManager, own_manager, routine
from taskd_net.job.own_manager import later as own_manager_later
from taskd_net.job.platforms.display import facts, sources
from taskd_net.job.ports import Ports, ports_of
from taskd_net.torch import seam
from taskd_net.torch.patching import patched
from taskd_net.torch.reasons import Failures

log: Final = late_logger()

AUTO: Final = "auto"
"""Value of `--nproc-per-node`: one process for each accelerator, else for each CPU."""


class Signalled(SignalException):
    """A signal ends this launcher.

    Args:
        text: the reason, for people.
        number: the signal.
        status: exit status of the launcher.

    Attributes:
        at_ns: time of the signal, in ns since the epoch.
    """

    def __init__(self, text: str, number: signal.Signals, status: int) -> None:
        super().__init__(text, number)
        self.status = status
        self.at_ns = time.time_ns()


def main(arguments: Sequence[str], early: EarlySigint) -> None:
    """Run a training script on this node. Its last words are the reason of its end.

    Args:
        arguments: those of torchrun, and `--mgr`.
        early: knows of a SIGINT that has come already.

    Raises:
        SystemExit: the Agent has to leave, a signal has come, an argument is wrong, or an error of this package, such
            as a Manager that cannot be started.
        ChildFailedError: as of torchrun.
    """
    failures = Failures()
    try:
        record(_run)(arguments, early, failures)
    except Signalled as error:
        # Its traceback shows where the signal came, which helps nobody.
        last_words.say([str(error), *failures.words(error.at_ns, error.sigval.name)])
        sys.exit(error.status)
    except TaskdNetError as error:
        last_words.say([str(error), *failures.words()])
        sys.exit(1)
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code not in (None, 0):
            last_words.say(failures.words())
        raise


def _run(arguments: Sequence[str], early: EarlySigint, failures: Failures) -> None:
    seam.check(torchrun=True)
    run_arguments.drop_empty()
    made = torchrun.get_args_parser()
    args = run_arguments.parse(made, _processes_of, arguments, own_name(), ancestors.names())
    args.launches = args.mgr or not (args.no_mgr or clusterd_of_environment())
    if args.node_timeout is not None:
        os.environ[NODE_TIMEOUT] = str(args.node_timeout)  # for the Manager
    if args.hang_timeout is not None:
        os.environ[HANG_TIMEOUT] = str(args.hang_timeout)
    if args.on_hang is not None:
        os.environ[ON_HANG_SET] = args.on_hang
    told = _told(args)
    args.max_restarts = args.max_restarts or 0
    has_proxy = UPSTREAM in os.environ
    lost: list[NoRank] = []
    with ExitStack() as stack:
        signals = stack.enter_context(LauncherSignals(partial(_end, lost), _ending(args.signals_to_handle)))
        try:
            job_id, starts = _place(args)
        except ConfigError as error:
            run_arguments.refuse(str(error))
        stack.enter_context(_logged(args.node_rank))
        says_end = partial(_say_end, args, job_id, signals)
        stack.push(says_end)
        signals.take(early)
        values = {name: value for name, (value, _) in facts(args.place, args.processes).items() if value is not None}
        log.info(
            "node_placed", platform=args.place.platform or "none", **values, by=sources(args.place, args.processes)
        )
        if ":" in args.nnodes and args.nnodes.partition(":")[0].strip() != str(args.nodes):
            reason = f"a job has a fixed size: with --nnodes {args.nnodes} it waits for all of them"
            log.warning("nodes_are_fixed", nodes=args.nodes, reason=reason)
        args.nnodes = str(args.nodes)
        _say_bound(args)
        late = partial(_late, job_id) if args.launches and job_id and args.place.attempt is not None else str
        if reason := late():
            raise NoRank(reason)
        is_own = starts and stack.enter_context(_manager(args, job_id))
        if _may_start_later(args):
            seconds = args.node_timeout or NODE_S
            stack.enter_context(own_manager_later(partial(_manager_of_changed_address, args, job_id), seconds))
        stack.push(says_end)  # before the end of that Manager
        if args.launches or args.node_rank is None:
            try:
                given = _hold_rank(stack, args, job_id, lost, late, told.patience, is_own=is_own)
            except NoAnswer as error:
                if told.patience is None:
                    raise
                failures.left = str(error)
                raise SystemExit(AS_TERMINATED) from error
            if args.node_rank is None:
                args.node_rank = given
                stack.enter_context(_logged(given))
                log.info("rank_given", rank=given)
        _meet_as_static(args)
        if args.launches and args.node_rank and not has_proxy and manager_place.is_local(os.environ["MASTER_ADDR"]):
            # The Proxy of node 0 is on this machine, too.
            os.environ[UPSTREAM] = f"{LOOPBACK}:{manager_place.free_ports().proxy}"
        named = {"start_program": not args.no_python, "failures": failures, "told": told, "signals": signals}
        stack.enter_context(patched(args.node_rank, **named))
        torchrun.run(args)


def _processes_of(text: str) -> int:
    """The number of processes that `--nproc-per-node` means, as of torch. For `auto` without an accelerator the cgroup
    bounds it.

    Raises:
        ValueError: as of torch.
    """
    processes: int = torchrun.determine_local_world_size(text)
    if text != AUTO or torch.accelerator.is_available():
        return processes
    return cpu_quota.bounded(processes, cpu_quota.permitted_cpus())


def _say_bound(args: Namespace) -> None:
    """Say that `auto` takes fewer processes than torchrun's, and have torch take as many."""
    if args.nproc_per_node != AUTO:
        return
    args.nproc_per_node = str(args.processes)
    if (cpus := torchrun.determine_local_world_size(AUTO)) > args.processes:
        log.info("auto_is_bounded", processes=args.processes, cpus=cpus, reason="the cgroup permits no more CPU time")


def _say_end(
    args: Namespace, job_id: str, signals: LauncherSignals, _: object, error: BaseException | None, __: object
) -> None:
    """Tell the Manager of a SIGINT that the Agent has not told it of. Where none listens, nobody can hear it."""
    if not isinstance(error, Signalled) or error.sigval != signal.SIGINT or signals.said or args.nodes == 1:
        return
    signals.said = True
    upstream = joined(os.environ["MASTER_ADDR"], "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET)
    mgr = Address.parse(upstream)
    if manager_place.is_local(mgr.host) and not manager_place.is_taken(mgr):
        reason = f"no Manager listens at {upstream}"
    else:
        tls = secured({}, listens=False, connects=True)
        reason = say_end(upstream, job_id, tls, args.node_rank, error.sigval.name)
    if reason:
        log.warning("end_not_said", reason=reason)


def _late(job_id: str) -> str:
    """The reason why the launcher of an attempt is late: a later one runs. Empty where no Mgr of one answers."""
    upstream = joined(os.environ["MASTER_ADDR"], "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET)
    return manager_place.later_attempt(Address.parse(upstream), job_id)


def _hold_rank(
    stack: ExitStack,
    args: Namespace,
    job_id: str,
    lost: list[NoRank],
    late: Callable[[], str],
    patience: float | None,
    *,
    is_own: bool,
) -> int:
    """Hold the rank of this node until the end of the stack's block. Returns it.

    Args:
        stack: of the launcher.
        args: the arguments. Without a rank in them the Manager gives one.
        job_id: of the job; empty for none.
        lost: gets the reason where another launcher turns out to run this node.
        late: as of `held_rank`.
        patience: as of `Told`.
        is_own: this launcher has started the Manager. It has come first then, and has rank 0 again after a loss of
            both, unless another one has that.

    Raises:
        NoRank: another launcher has it, all are taken, the Manager is for another size, or this node is late.
        NoAnswer: the Manager does not answer in time.
    """
    wanted, hold = args.node_rank, partial(held_rank, nodes=args.nodes, late=late)
    upstream = joined(os.environ["MASTER_ADDR"], "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET)
    tls = secured({}, listens=False, connects=True)
    if wanted is None and is_own:
        with suppress(NoRank):
            return stack.enter_context(hold(upstream, job_id, tls, 0, partial(_leave, lost)))
    seconds = patience if wanted is None else None
    return stack.enter_context(hold(upstream, job_id, tls, wanted, partial(_leave, lost), seconds=seconds))


def _leave(lost: list[NoRank], reason: NoRank) -> None:
    """End this launcher, which has begun: another one runs its node, as a Manager that has come later knows."""
    lost.append(reason)
    log.error("rank_lost", reason=str(reason))
    os.kill(os.getpid(), signal.SIGTERM)


def _place(args: Namespace) -> tuple[str, bool]:
    """Set the id of the job, and its addresses, in the environment of this node's processes.

    torch gives `rdzv_id` a random value later, which differs from node to node and from start to start. So the id is
    taken before.

    Returns:
        The id, and whether this launcher may start a Manager.

    Raises:
        ConfigError: the id or an address is of no use.
    """
    addressed = "MASTER_ADDR" in os.environ or args.master_addr not in (None, "", LOOPBACK)
    host, port = run_arguments.endpoint(args.rdzv_endpoint) if args.nodes > 1 and args.rdzv_endpoint else ("", None)
    if host:
        args.master_addr = os.environ["MASTER_ADDR"] = host
    # The Proxy of the node looks for the Mgr there.
    os.environ["MASTER_ADDR"] = args.place.first_host.value or os.environ.get("MASTER_ADDR") or LOOPBACK
    # The Mgr of another command knows nothing of --rdzv-id and the platform's id, and of ports that follow from it.
    job_id = args.place.job_id.value if args.launches else job_id_of(args.job_id)
    name, attempt = job_id, args.place.attempt
    if args.launches and attempt is not None:
        job_id = attempt_id(name, attempt.value)
    require_job_id("job_id", job_id)
    if job_id:
        os.environ[JOB_ID] = job_id
    # All attempts have one address, so that one that comes late learns of the later one.
    ports = ports_of(name if args.launches else "")
    if args.launches and port and not job_id and args.rdzv_backend != "static":
        # torch's store for the meeting of nodes is not needed, so its port is free, and all nodes know it.
        ports = Ports(port, ports_of(f"{host}:{port}").proxy)
    args.listen = _listen_host(args)
    is_first = args.node_rank == 0 if args.node_rank is not None else manager_place.is_local(args.listen)
    starts = args.launches and is_first
    alone = args.nodes == 1 and not (addressed or job_id or args.mgr_port or UPSTREAM in os.environ)
    if args.launches and (args.standalone or alone):
        usual = Address(LOOPBACK, ports.mgr)
        if args.standalone or args.mgr or manager_place.launched(usual) is not Launched.NONE or not _answers(usual):
            ports = manager_place.free_ports()
        else:
            starts = False
    os.environ[MGR_PORT_SET] = args.mgr_port or str(ports.mgr)
    joined(os.environ["MASTER_ADDR"], "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET)
    if ports.proxy != PROXY_PORT:
        os.environ.setdefault(UPSTREAM, f"{LOOPBACK}:{ports.proxy}")
    return job_id, starts


def _listen_host(args: Namespace) -> str:
    placed = args.node_rank == 0 and bool(args.place.platform)
    return manager_place.listen_host(os.environ["MASTER_ADDR"], own_name(), is_placed=placed, nodes=args.nodes)


def _meet_as_static(args: Namespace) -> None:
    """Have several nodes meet by way of the Manager, or by torch's static rendezvous where that is not possible.

    torch's others would connect to a store before this launcher has an Agent. Scripts serve at the address of node 0.
    """
    if args.nodes == 1:
        return
    if args.launches and args.node_rank == 0 and args.listen not in (manager_place.ALL, os.environ["MASTER_ADDR"]):
        args.master_addr = args.listen  # the name is not known yet, or leads to the pod before this one
    if args.rdzv_backend == "static":
        return
    args.rdzv_backend, args.rdzv_endpoint = "static", ""
    if args.node_rank == 0 and not manager_place.is_local(args.master_addr):
        args.master_addr = manager_place.own_address(args.master_addr)


def _answers(usual: Address) -> bool:
    """True where a Mgr without a launcher answers at TaskD's address: the user of one node has started it."""
    try:
        return manager_place.answers(usual, "", 0.0)
    except ConfigError:  # somebody else is there, and this job needs none of it
        return False


@contextmanager
def _manager(args: Namespace, job_id: str) -> Iterator[bool]:
    """The Manager of the job in a process of its own, unless one answers at its address, or that is elsewhere.

    Returns:
        True where it is a process of this launcher.

    Raises:
        ConfigError: somebody else has its address.
        NoManager: it cannot be started, or not again.
    """
    listen = _listen(args.listen)
    if not args.mgr and not manager_place.is_local(listen.host):
        log.info("uses_manager", address=str(listen), reason="the address is none of this machine's")
        yield False
    elif not args.mgr and manager_place.answers(listen, job_id):
        log.info("uses_manager", address=str(listen), reason="it answers")
        yield False
    else:
        with ExitStack() as own:
            is_own = True
            try:
                own.enter_context(_started(args, job_id, listen))
            except NoManager:
                if args.mgr or not manager_place.answers(listen, job_id):
                    raise
                log.info("uses_manager", address=str(listen), reason="it was faster")
                is_own = False
            yield is_own


def _listen(host: str) -> Address:
    """The address at which this launcher starts the Manager, if it does.

    Args:
        host: as of `listen_host`.
    """
    host = host if host == manager_place.ALL else os.environ.get("POD_IP") or host
    return Address.parse(joined(host, "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET))


def _started(args: Namespace, job_id: str, listen: Address) -> AbstractContextManager[None]:
    restarts = JOB if clusterd_of_environment() is None else PLATFORM
    log.info("starts_manager", address=str(listen), restarts=restarts)
    size = f"{args.nodes}x{args.processes}"
    return own_manager(size, job_id, restarts_itself=restarts == JOB, host=listen.host)


def _may_start_later(args: Namespace) -> bool:
    """True where the Manager's address is none of this machine's yet, and this node may be node 0."""
    is_first = args.node_rank in (0, None) and args.launches and not args.mgr
    return is_first and not manager_place.is_local(_listen(args.listen).host)


def _manager_of_changed_address(args: Namespace, job_id: str) -> AbstractContextManager[None] | None:
    """The Manager of the job, where its address is one of this machine's by now, and nobody listens there.

    A name may have led to another pod at the start of this launcher, and an address come later than that.
    """
    listen = _listen(_listen_host(args))
    if not manager_place.is_local(listen.host) or manager_place.is_taken(listen):
        return None
    return _started(args, job_id, listen)


def _end(lost: Sequence[NoRank], number: signal.Signals) -> Signalled:
    if lost:
        return Signalled(str(lost[0]), number, 1)
    if number == signal.SIGINT:  # the other launchers leave with 1, too
        return Signalled(f"{number.name} has come, and the job ends", number, 1)
    return Signalled(f"{number.name} has come, and this node leaves", number, 128 + number)


def _ending(names: str) -> set[signal.Signals]:
    """The signals that end this launcher: of `--signals-to-handle`, and the two that always do."""
    named = {each.strip() for each in names.split(",")}
    return {each for each in signal.Signals if each.name in named} | {signal.SIGTERM, signal.SIGINT}


def _told(args: Namespace) -> Told:
    """Instructions of the arguments about restarts. Beside a ClusterD, a number of restarts is one that is offered."""
    most, job = args.max_restarts, clusterd_of_environment() is None
    patience = (args.node_timeout or NODE_S) if args.launches and job else None
    if args.mgr:
        return Told(most, "--mgr" if job else "the address of ClusterD", job, patience)
    return Told(most, "" if most is None or not job else f"--max-restarts {most}", patience=patience)


@contextmanager
def _logged(node_rank: int | None) -> Iterator[None]:
    """Log to stderr, and into a file of the Agent where the environment asks for one, once its rank is known.

    The standard output is for the training processes.
    """
    with redirect_stdout(sys.stderr):
        try:
            file_name = f"agent-{node_rank}.log" if logs.wants_file() and node_rank is not None else None
            logs.start(file_name, routine=routine())
        except ConfigError as error:  # a full disk or a wrong mount is no reason not to train
            logs.start(None, stdout=True, routine=routine())
            log.warning("no_log_file", reason=str(error))
    try:
        yield
    finally:
        logs.stop()
