"""`taskd-net mgr` and `taskd-net proxy`: the daemons."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import click

from taskd_net import Position
from taskd_net.cli.command import command
from taskd_net.cli.daemon import DaemonCommand, serve
from taskd_net.cli.settings import manager_config, node_config

EPILOG: Final = """\b
Signals:
  SIGTERM, SIGINT  take on nothing new, let what is under way end (--drain), leave
                   with 0; the second one leaves at once, with 128 + its number
  SIGHUP           read the file again; logging and --drain change at once, a log
                   line names what else has changed and needs a restart

\b
Exit codes:
  0    ended by a signal, in good order
  1    cannot start: an address is in use, a file of TLS is not usable
  2    a flag, a variable or the file is wrong
"""


@command(
    "mgr",
    cls=DaemonCommand,
    short_help="Run the root of a job's tree.",
    epilog=f"""\b
Examples:
  taskd-net mgr --listen 0.0.0.0:9601
  taskd-net mgr --job-id J --expect 2x2 --state /var/lib/taskd/j.sqlite3
  POD_IP=10.0.0.7 taskd-net mgr
  taskd-net mgr --config /etc/taskd-net.toml

{EPILOG}""",
)
@click.pass_context
def mgr(ctx: click.Context, /, **_: object) -> None:
    """Run the root of a job's tree, until a signal ends it.

    With --job-id it is the Manager of that job: it reads the reports of Agents and Workers, decides, and keeps its
    state in a file. Without, it decides nothing, and prints messages to it, one JSON object a line.

    It prints "taskd-net mgr Mgr/0 ready, listening on HOST:PORT" when it listens, and notifies systemd. It logs to
    stderr and to manager.log.
    """
    manager = manager_config(ctx)
    decides, standby = manager is not None, manager is not None and manager.in_etcd
    config = replace(node_config(ctx, Position.mgr()), confirms=decides, standby=standby)
    serve(ctx, config, "manager.log", manager)


@command(
    "proxy",
    cls=DaemonCommand,
    short_help="Run the Proxy of a node.",
    epilog=f"""\b
Examples:
  taskd-net proxy --upstream 10.0.0.7:9601 --server-rank 3
  taskd-net proxy --listen [::]:9602 --upstream node-0:9601
  RANK=3 TASKD_NET_UPSTREAM=10.0.0.7:9601 taskd-net proxy

{EPILOG}""",
)
@click.pass_context
def proxy(ctx: click.Context, /, server_rank: int, **_: object) -> None:
    """Run the Proxy of a node, until a signal ends it. Its upstream is the Mgr or another Proxy.

    It prints "taskd-net proxy Proxy/N ready, listening on HOST:PORT, upstream HOST:PORT" when it listens, and notifies
    systemd. The log says "joined" when its upstream has accepted it. Messages to it are printed, one JSON object a
    line. It logs to stderr and to taskd-proxy-N.log.
    """
    serve(ctx, node_config(ctx, Position.proxy(server_rank)), f"taskd-proxy-{server_rank}.log")
