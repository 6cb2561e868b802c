"""The arguments of `taskd-net run`: torchrun's, and its own. A wrong one is one line, before anything starts.

What they leave open of this node's place in the job, platforms state (`platforms/place.py`). torch's own functions come
in as arguments, so that this module needs no torch.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import job_id_of
from taskd_net.base.limits import NODE_S, TIMEOUT_MAX_S
from taskd_net.base.schema import Kind
from taskd_net.base.untrusted import natural, shown
from taskd_net.base.vocabulary import ON_HANG, ON_HANG_REPORT
from taskd_net.job.arguments import (
    HANG_TIMEOUT,
    JOB_ID,
    LOOPBACK,
    MGR_PORT,
    MGR_PORT_SET,
    NODE_TIMEOUT,
    ON_HANG_SET,
    joined,
    read,
)
from taskd_net.job.manager.config import NODE_LEAST_S, NODE_LONGEST_S
from taskd_net.job.platforms.display import document, lines
from taskd_net.job.platforms.facts import NODES_MOST, Said
from taskd_net.job.platforms.place import BARE, DEFAULT, Flags, Place, settle
from taskd_net.job.platforms.torchrun import ENDPOINT, NODES, RANK, greatest

PROGRAM: Final = "taskd-net run"

PROCESSES_MOST: Final = 65_536
"""Processes of a node."""

BACKENDS: Final = ("static", "c10d")
"""torchrun's rendezvous for several nodes. With the second one the Manager gives the ranks of nodes."""

_PORTS: Final = range(1, 65_536)

_SHOW: Final = "--show-launcher"
_PLACE: Final = ("nnodes", "node_rank", "master_addr", "nproc_per_node", "rdzv_endpoint", "rdzv_backend")
"""torchrun's arguments for the place of a node. Its defaults for them, also by `PET_*`, are no flags."""


def parse(
    parser: ArgumentParser,
    processes_of: Callable[[str], int],
    arguments: Sequence[str],
    host: str = "",
    above: Sequence[str] = (),
) -> Namespace:
    """Read the arguments, and check them.

    Args:
        parser: torchrun's.
        processes_of: the number of processes that `--nproc-per-node` means on this machine; may raise ValueError.
        arguments: of the command.
        host: name of this host, with its domain if it has one.
        above: names of the programs above this process, the nearest first.

    Returns:
        torchrun's namespace, with `mgr`, `no_mgr`, `job_id`, `mgr_port`, `node_timeout` and `hang_timeout` in seconds
        or None, `on_hang`, the `place` of this node, and the numbers of `nodes` and of this node's `processes`.
        `max_restarts` is None where nobody has said it, and `node_rank` where the Manager is to give it.

    Raises:
        SystemExit: 2 for an argument that is wrong, with one line on stderr. 0 after `--show-launcher`, which prints.
    """
    _add_own(parser)
    # Without a script there is something to show, too.
    args = parser.parse_args([*arguments, "-"] if _SHOW in arguments else arguments)
    if not args.show_launcher and _SHOW in arguments:  # it is an argument of the script
        args = parser.parse_args(arguments)
    try:
        flags = _flags(args)
        args.place = _named(args, settle(flags, os.environ, host, above))
        _take(args, args.place)
        _check(args, processes_of)
    except ConfigError as error:
        parser.error(str(error))
    if args.show_launcher:
        shown_lines = [document(args.place, args.processes)] if args.json else lines(args.place, args.processes)
        sys.stdout.write("".join(f"{line}\n" for line in shown_lines))
        raise SystemExit(0)
    return args


def drop_empty() -> None:
    """Remove empty variables `PET_*`: a PyTorchJob sets some, and torchrun's parser fails at them."""
    for name in [name for name, value in os.environ.items() if name.startswith("PET_") and not value.strip()]:
        del os.environ[name]


def refuse(text: str) -> NoReturn:
    """Say in one line which argument is wrong, and end.

    Raises:
        SystemExit: 2.
    """
    sys.stderr.write(f"{PROGRAM}: {text}\n")
    raise SystemExit(2)


def _add_own(parser: ArgumentParser) -> None:
    parser.prog = PROGRAM
    parser.error = refuse  # type: ignore[method-assign, assignment] # argparse's has 60 lines of usage before it
    if "PET_MAX_RESTARTS" not in os.environ:
        parser.set_defaults(max_restarts=None)
    parser.set_defaults(**dict.fromkeys(_PLACE))
    starts = parser.add_mutually_exclusive_group()
    starts.add_argument(
        "--mgr", action="store_true", help="Start the Manager of the job on node 0, whoever answers at its address."
    )
    starts.add_argument(
        "--no-mgr",
        action="store_true",
        help="Start no Manager. Default: node 0 starts one unless one answers, or a ClusterD is configured.",
    )
    parser.add_argument(
        "--job-id",
        default=os.environ.get(JOB_ID) or None,
        help=f"Id of the job. Default: --rdzv-id, unless the Manager is another command's. Variable {JOB_ID}.",
    )
    parser.add_argument(
        _SHOW,
        action="store_true",
        help="Print the place of this node in its job, and the source of each fact. Start nothing.",
    )
    parser.add_argument("--json", action="store_true", help=f"With {_SHOW}: one JSON object.")
    parser.add_argument(
        "--mgr-port",
        default=os.environ.get(MGR_PORT_SET) or None,
        help=f"Port of the Mgr. Default: one that follows from the id of the job; {MGR_PORT} without an id, with "
        f"--no-mgr, and where a ClusterD is configured; a free one for one node without any. Variable {MGR_PORT_SET}.",
    )
    parser.add_argument(
        "--node-timeout",
        default=os.environ.get(NODE_TIMEOUT) or None,
        help="Seconds that the nodes wait for one that has not come, or is lost, and for the Manager. Give each node "
        f"the same. Default: {NODE_S:g}. Variable {NODE_TIMEOUT}.",
    )
    parser.add_argument(
        "--hang-timeout",
        default=os.environ.get(HANG_TIMEOUT) or None,
        help="Seconds without a step after which the job counts as hung, for the Manager that this command starts; 0: "
        f"never. Default: learnt from the steps. Variable {HANG_TIMEOUT}.",
    )
    parser.add_argument(
        "--on-hang",
        default=os.environ.get(ON_HANG_SET) or None,
        help="That Manager's answer to a hang: report it, restart the guilty ranks, or restart all. Default: "
        f"{ON_HANG_REPORT}. Variable {ON_HANG_SET}.",
    )


def _flags(args: Namespace) -> Flags:
    """The place of this node as far as flags state it.

    Raises:
        ConfigError: a flag of it is wrong.
    """
    nodes = None if args.nnodes is None else _nodes(args.nnodes)
    if args.rdzv_endpoint is None and args.rdzv_backend is not None:
        args.rdzv_endpoint = os.environ.get(ENDPOINT) or None
    backend = args.rdzv_backend or os.environ.get("PET_RDZV_BACKEND") or BACKENDS[0]
    if nodes is not None:
        _check_rendezvous(nodes, backend, args)
    host = args.master_addr or ""
    if args.rdzv_endpoint:
        host = endpoint(args.rdzv_endpoint)[0]
    gives_ranks = bool(args.rdzv_endpoint) and backend != "static"
    rank = args.node_rank
    if rank is None and gives_ranks:
        rank = natural(os.environ.get(RANK, "").strip(), NODES_MOST)
    if args.standalone and rank:
        raise ConfigError(f"--node-rank is {rank}; expected 0 beside --standalone")
    return Flags(nodes, rank, host, args.nproc_per_node or "", gives_ranks, args.standalone)


def _named(args: Namespace, place: Place) -> Place:
    """The place with the id of the job that flags or variables state."""
    if own := job_id_of(args.job_id):
        return replace(place, job_id=Said(own, JOB_ID if own == os.environ.get(JOB_ID) else "--job-id"))
    if args.no_mgr:  # the Mgr of another command knows no other id
        return replace(place, job_id=Said("", DEFAULT))
    if run := job_id_of(args.rdzv_id):
        return replace(place, job_id=Said(run, "--rdzv-id"))
    return place


def _take(args: Namespace, place: Place) -> None:
    """Give torchrun's arguments their values by the place of this node."""
    args.nodes = place.nodes.value
    if args.nnodes is None:
        args.nnodes = os.environ[NODES] if place.nodes.by == NODES else str(args.nodes)
    args.node_rank = None if place.rank is None else place.rank.value
    if args.master_addr is None:
        # A store of torch for one node is on this machine, whatever MASTER_ADDR says of the Mgr.
        is_here = place.nodes.value == 1 and place.first_host.by == BARE
        args.master_addr = LOOPBACK if is_here else place.first_host.value or LOOPBACK
    args.nproc_per_node = place.processes.value or "1"
    if args.rdzv_backend is None:
        args.rdzv_backend = os.environ.get("PET_RDZV_BACKEND") or BACKENDS[0]
    if args.rdzv_endpoint is None:
        of_static = args.rdzv_backend == "static" or args.nodes == 1
        args.rdzv_endpoint = place.endpoint or (os.environ.get(ENDPOINT, "") if of_static else "")


def _check_rendezvous(nodes: int, backend: str, args: Namespace) -> None:
    """Check what several nodes need to meet.

    Raises:
        ConfigError: names the argument.
    """
    if nodes > 1 and backend not in BACKENDS:
        text = f"--rdzv-backend is {shown(backend)} with {nodes} nodes"
        raise ConfigError(f"{text}; expected {' or '.join(BACKENDS)}: the nodes meet by way of the Manager")
    if nodes > 1 and args.rdzv_backend not in (None, "static") and not args.rdzv_endpoint:
        raise ConfigError(f"--rdzv-endpoint is missing beside --rdzv-backend {args.rdzv_backend}; expected HOST:PORT")
    if args.standalone and nodes > 1:
        raise ConfigError(f"--standalone with --nnodes {args.nnodes}; expected one node")


def _check(args: Namespace, processes_of: Callable[[str], int]) -> None:
    """Check what torchrun leaves to a traceback, or to a wait without end.

    Raises:
        ConfigError: names the argument, its value and the expected one.
    """
    if args.run_path:
        # A function that is called in the launcher's process cannot be ended, nor restarted alone.
        raise ConfigError("--run-path runs the script as a Python function; expected a command, such as a script")
    if args.nodes > 1 and args.rdzv_backend not in BACKENDS:
        _check_rendezvous(args.nodes, args.rdzv_backend, args)
    if args.max_restarts is not None and args.max_restarts < 0:
        raise ConfigError(f"--max-restarts is {args.max_restarts}; expected 0 or more")
    try:
        processes = processes_of(args.nproc_per_node)
    except ValueError as error:
        raise ConfigError(f"--nproc-per-node is {shown(args.nproc_per_node)}: {error}") from None
    if not 0 < processes <= PROCESSES_MOST:
        text = f"--nproc-per-node is {shown(args.nproc_per_node)}, {processes} processes"
        raise ConfigError(f"{text}; expected 1 to {PROCESSES_MOST}")
    args.processes = processes
    # One node takes any free port for 0, as torch does.
    if args.master_port is not None and args.master_port not in _PORTS and (args.nodes > 1 or args.master_port != 0):
        raise ConfigError(f"--master-port is {args.master_port}; expected a port, 1 to 65535")
    if args.mgr_port is not None and natural(args.mgr_port.strip(), _PORTS[-1]) in (None, 0):
        raise ConfigError(f"--mgr-port is {shown(args.mgr_port)}; expected a port, 1 to 65535")
    args.node_timeout = None if args.node_timeout is None else _node_timeout(args.node_timeout)
    args.hang_timeout = None if args.hang_timeout is None else _hang_timeout(args.hang_timeout)
    if args.on_hang is not None and args.on_hang not in ON_HANG:
        raise ConfigError(f"--on-hang is {shown(args.on_hang)}; expected {', '.join(ON_HANG[:-1])} or {ON_HANG[-1]}")
    if args.rdzv_endpoint:
        endpoint(args.rdzv_endpoint)
    first, by = args.place.first_host
    if not first:
        first, by = os.environ.get(BARE) or LOOPBACK, BARE
    joined(first, by, MGR_PORT, MGR_PORT_SET)


def _node_timeout(text: str) -> float:
    """The seconds of `--node-timeout`.

    Raises:
        ConfigError: they are none, or out of bounds.
    """
    seconds = read(text, Kind.SECONDS)
    if not isinstance(seconds, float) or not NODE_LEAST_S <= seconds <= NODE_LONGEST_S:
        bounds = f"{NODE_LEAST_S:g} to {NODE_LONGEST_S:g}"
        raise ConfigError(f"--node-timeout is {shown(text)}; expected a number of seconds, {bounds}")
    return seconds


def _hang_timeout(text: str) -> float:
    """The seconds of `--hang-timeout`.

    Raises:
        ConfigError: they are none, or out of bounds.
    """
    seconds = read(text, Kind.SECONDS)
    if not isinstance(seconds, float) or not 0.0 <= seconds <= TIMEOUT_MAX_S:
        raise ConfigError(f"--hang-timeout is {shown(text)}; expected a number of seconds, 0 to {TIMEOUT_MAX_S:g}")
    return seconds


def _nodes(text: str) -> int:
    """The number of nodes in `N` or `MIN:MAX`: the greatest one.

    Raises:
        ConfigError: it has another form.
    """
    nodes = greatest(text)
    if nodes is None:
        raise ConfigError(f"--nnodes is {shown(text)}; expected a number of nodes, 1 to {NODES_MOST}, such as 2")
    return nodes


def endpoint(text: str) -> tuple[str, int | None]:
    """Host and port of `--rdzv-endpoint`; None for a port that it does not name.

    Raises:
        ConfigError: it is none.
    """
    stripped = text.strip()
    host, colon, port = stripped.rpartition(":")
    # An IPv6 address has brackets where a port follows.
    if not colon or stripped.endswith("]"):
        host, port = stripped, ""
    number = natural(port, _PORTS[-1]) if port else None
    try:
        bracketed = host.startswith("[") and host.endswith("]")
        if (port and number is None) or (port and ":" in host and not bracketed):
            raise ConfigError(text)
        bare = host.removeprefix("[").removesuffix("]")
        Address.parse(str(Address(bare, number or MGR_PORT)))
    except ConfigError:
        raise ConfigError(f"--rdzv-endpoint is {shown(text)}; expected HOST:PORT, such as 10.0.0.7:29400") from None
    return bare, number
