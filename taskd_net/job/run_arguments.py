"""The arguments of `taskd-net run`: torchrun's, and its own. A wrong one is one line, before anything starts.

torch's own functions come in as arguments, so that this module needs no torch.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import natural, shown
from taskd_net.job.arguments import JOB_ID, MGR_PORT, MGR_PORT_SET

PROGRAM: Final = "taskd-net run"

NODES_MOST: Final = 65_536
"""Nodes of a job, as many as a Manager keeps records of."""

PROCESSES_MOST: Final = 65_536
"""Processes of a node."""

BACKENDS: Final = ("static", "c10d")
"""torchrun's rendezvous for several nodes. With the second one the Manager gives the ranks of nodes."""

_PORTS: Final = range(1, 65_536)


def parse(parser: ArgumentParser, processes_of: Callable[[str], int], arguments: Sequence[str]) -> Namespace:
    """Read the arguments, and check them.

    Args:
        parser: torchrun's.
        processes_of: the number of processes that `--nproc-per-node` means on this machine; may raise ValueError.
        arguments: of the command.

    Returns:
        torchrun's namespace, with `mgr`, `no_mgr`, `job_id`, `mgr_port`, and the numbers of `nodes` and of this node's
        `processes`. `max_restarts` is None where nobody has said it, and `node_rank` where the Manager is to give it.

    Raises:
        SystemExit: 2 for an argument that is wrong, with one line on stderr.
    """
    _add_own(parser)
    args = parser.parse_args(arguments)
    try:
        args.nodes = _nodes(args.nnodes)
        _check(args, processes_of)
    except ConfigError as error:
        parser.error(str(error))
    return args


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
    if "PET_NODE_RANK" not in os.environ:
        parser.set_defaults(node_rank=None)
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
        "--mgr-port",
        default=os.environ.get(MGR_PORT_SET) or None,
        help=f"Port of the Mgr. Default: one that follows from the id of the job; {MGR_PORT} without an id, with "
        f"--no-mgr, and where a ClusterD is configured; a free one for one node without any. Variable {MGR_PORT_SET}.",
    )


def _check(args: Namespace, processes_of: Callable[[str], int]) -> None:
    """Check what torchrun leaves to a traceback, or to a wait without end.

    Raises:
        ConfigError: names the argument, its value and the expected one.
    """
    if args.run_path:
        # A function that is called in the launcher's process cannot be ended, nor restarted alone.
        raise ConfigError("--run-path runs the script as a Python function; expected a command, such as a script")
    if args.nodes > 1 and args.rdzv_backend not in BACKENDS:
        text = f"--rdzv-backend is {shown(args.rdzv_backend)} with {args.nodes} nodes"
        raise ConfigError(f"{text}; expected {' or '.join(BACKENDS)}: the nodes meet by way of the Manager")
    if args.nodes > 1 and args.rdzv_backend != "static" and not args.rdzv_endpoint:
        raise ConfigError(f"--rdzv-endpoint is missing beside --rdzv-backend {args.rdzv_backend}; expected HOST:PORT")
    if args.node_rank is None and (args.nodes == 1 or args.rdzv_backend == "static"):
        args.node_rank = 0
    if args.standalone and args.nodes > 1:
        raise ConfigError(f"--standalone with --nnodes {args.nnodes}; expected one node")
    if args.node_rank is not None and not 0 <= args.node_rank < args.nodes:
        ranks = f"0 to {args.nodes - 1}" if args.nodes > 1 else "0"
        raise ConfigError(f"--node-rank is {args.node_rank}; expected {ranks}, as --nnodes is {args.nnodes}")
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
    if args.rdzv_endpoint:
        endpoint(args.rdzv_endpoint)


def _nodes(text: str) -> int:
    """The number of nodes in `N` or `MIN:MAX`: the greatest one.

    Raises:
        ConfigError: it has another form.
    """
    least, colon, most = text.partition(":")
    numbers = [natural(each.strip(), NODES_MOST) for each in ((least, most) if colon else (text,))]
    if any(not each for each in numbers) or (numbers[0] or 0) > (numbers[-1] or 0):
        raise ConfigError(f"--nnodes is {shown(text)}; expected a number of nodes, 1 to {NODES_MOST}, such as 2")
    return numbers[-1] or 1


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
