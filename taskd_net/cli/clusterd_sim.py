"""`taskd-net clusterd-sim`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Final

import click

from taskd_net import ConfigError
from taskd_net.address import Address
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.signals import run_until_signal

LISTEN: Final = "127.0.0.1:8899"


@click.command("clusterd-sim")
@click.option("--scenario", "path", required=True, metavar="FILE", help="The scenario, in YAML.")
@click.option("--listen", default=LISTEN, show_default=True, metavar="HOST:PORT", help="Port 0 takes a free one.")
@click.option("--json", "as_json", is_flag=True, help="Print what it sees and decides as JSON lines.")
def clusterd_sim(path: str, listen: str, as_json: bool) -> None:
    """Play ClusterD for clients under development. It is no ClusterD: it recovers nothing, and is not for production.

    A stand-in with ClusterD's calls, codes and states. A scenario says which jobs there are, which faults come, and
    which answers are wrong. The stand-in runs until its scenario or a signal ends it. Needs the extra `sim`.

    \b
    Examples:
      taskd-net clusterd-sim --scenario recover.yaml
      taskd-net clusterd-sim --scenario recover.yaml --listen 127.0.0.1:0 --json
    """
    try:
        from taskd_net.sim.clusterd.reader import ScenarioError, load
        from taskd_net.sim.clusterd.run import Run
    except ModuleNotFoundError as error:
        sys.exit(f"taskd-net clusterd-sim needs {error.name}, which is not installed: pip install 'taskd-net[sim]'")
    try:
        scenario, address = load(path), Address.parse(listen)
    except ScenarioError as error:
        for problem in str(error).splitlines():
            say(problem, err=True)
        sys.exit(2)
    except (OSError, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    say("A stand-in for ClusterD, for development only.", err=True)
    began = time.monotonic()

    def show(event: str, fields: Mapping[str, object]) -> None:
        line = {"at": round(time.monotonic() - began, 6), "event": event, **fields}
        if as_json:
            say_json(line)
        else:
            say(f"{line['at']:9.3f} {event} " + " ".join(f"{name}={value}" for name, value in fields.items()))

    async def run() -> None:
        await Run(scenario, address, show).until_end()

    try:
        run_until_signal(run)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
