"""`taskd-net simulate`."""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

import click

from taskd_net import ConfigError
from taskd_net.base.schema import Kind
from taskd_net.cli.lines import say
from taskd_net.cli.options import FORMS
from taskd_net.cli.signals import run_until_signal

MOST: Final = 2048
"""Nodes at most: all of them are in one process, with one event loop."""


@click.command()
@click.option("--nodes", type=click.IntRange(3, MOST), default=512, show_default=True, help="Nodes of the mesh in all.")
@click.option(
    "--http-port",
    type=FORMS[Kind.PORT].param,
    default="8080",
    show_default=True,
    metavar="PORT",
    help="Port of the status page, on 127.0.0.1, or HOST:PORT.",
)
@click.option("--listen", default="127.0.0.1:9601", show_default=True, metavar="HOST:PORT", help="Address of the Mgr.")
@click.option(
    "--pause",
    type=click.FloatRange(0.1, 3600.0),
    default=5.0,
    show_default=True,
    help="Seconds from one change to the next.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the choice of nodes: the same story again.")
def simulate(nodes: int, http_port: str, listen: str, pause: float, seed: int) -> None:
    """Run a whole mesh in one process, until Ctrl-C, to try the status page, `tree` and `top` at its size.

    Its nodes are real, and talk over loopback: one Mgr, and a Proxy, an Agent and eight Workers for each node of the
    job. Workers send messages. Over time nodes are lost, strained and started again.

    \b
    Examples:
      taskd-net simulate
      taskd-net simulate --nodes 64 --http-port 0 --pause 2
    """
    from taskd_net.faces.page import StatusPage
    from taskd_net_lab.crowd import Crowd, Happening, allow_files

    began = time.monotonic()
    if (limit := allow_files(nodes)) is not None:
        say(f"The limit on open files is {limit}, which may be too low for {nodes} nodes: ulimit -n", err=True)

    def said(happening: Happening) -> None:
        say(f"{time.monotonic() - began:9.1f} s  {happening.position} {happening.words}")

    async def run() -> None:
        async with Crowd(nodes, listen, seed, said) as crowd, StatusPage(crowd.mgr, http_port) as page:
            say(f"{nodes} nodes are starting in this process: {page.url}", err=True)
            await crowd.join()
            at = crowd.mgr.address
            say(f"{nodes} nodes have joined after {time.monotonic() - began:.1f} s. They stay until Ctrl-C.", err=True)
            say(f"Look at them: {page.url}, taskd-net tree --at {at}, taskd-net top --at {at}", err=True)
            crowd.begin(pause)
            await crowd.wait()

    logger = logging.getLogger("taskd_net")
    level = logger.level
    logger.setLevel(logging.ERROR)  # every loss here is meant, and said in words
    try:
        stopped = run_until_signal(run)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    finally:
        logger.setLevel(level)
    if stopped is not None:
        say("Every node has ended.", err=True)
        sys.exit(0)
