"""`taskd-net clusterd-sim`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Final

import click

from taskd_net import ConfigError
from taskd_net.base.address import Address
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.signals import run_until_signal

LISTEN: Final = "127.0.0.1:8899"


@click.group("clusterd-sim", invoke_without_command=True)
@click.option("--scenario", "path", metavar="FILE", help="The scenario, in YAML.")
@click.option("--listen", default=LISTEN, show_default=True, metavar="HOST:PORT", help="Port 0 takes a free one.")
@click.option(
    "--speed",
    type=click.FloatRange(1, 1000),
    default=1.0,
    show_default=True,
    help="Divides the times of the real ClusterD that the scenario does not set.",
)
@click.option(
    "--resets",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Draws the time of each reset from 0.04 to 6 s, from this seed; the scenario's counts for nothing then.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what it sees and decides as JSON lines.")
@click.pass_context
def clusterd_sim(
    context: click.Context, path: str | None, listen: str, speed: float, resets: int | None, as_json: bool
) -> None:
    """Play ClusterD for clients under development. It is no ClusterD: it recovers nothing, and is not for production.

    A stand-in with ClusterD's calls, codes, states and times. A scenario says which jobs there are, which faults come,
    and which answers are wrong. The stand-in runs until its scenario or a signal ends it.

    \b
    Examples:
      taskd-net clusterd-sim --scenario recover.yaml
      taskd-net clusterd-sim --scenario recover.yaml --speed 20 --listen 127.0.0.1:0 --json
      taskd-net clusterd-sim check recover.jsonl
    """
    if context.invoked_subcommand is not None:
        return
    if path is None:
        raise click.UsageError("--scenario is missing; expected a file")
    from taskd_net_lab.clusterd.reader import ScenarioError, load
    from taskd_net_lab.clusterd.run import Run
    from taskd_net_lab.clusterd.run import resets as draw

    try:
        scenario, address = load(path, speed), Address.parse(listen)
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
        drawn = None if resets is None else draw(resets, speed)
        await Run(scenario, address, show, drawn).until_end()

    try:
        run_until_signal(run)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


@clusterd_sim.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def check(files: tuple[str, ...]) -> None:
    """Play recordings of a real ClusterD against the stand-in, and compare what both do.

    Contents, codes, ends of streams and states have to be the same, and each wait within 1 s or 20 %. Exit code 0: all
    agree. 1: some differ; each difference is a line. 2: a file is no recording.
    """
    from taskd_net_lab.clusterd import recordings

    differ = 0
    for file in files:
        try:
            found = recordings.check(file)
        except (OSError, ConfigError) as error:
            raise click.UsageError(str(error)) from None
        differ += bool(found)
        for line in found:
            say(f"{file}: {line}")
    say(f"{len(files) - differ} of {len(files)} recordings agree")
    sys.exit(1 if differ else 0)
