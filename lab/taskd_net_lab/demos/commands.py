"""The demos of a job: `taskd-net demo job`, `faults`, `recovery`, `training`, `watch` and `mindspore`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib.util import find_spec
from typing import Protocol, TypeVar

import click
from rich.text import Text

from taskd_net.demo import display
from taskd_net.demo.fleet import Interrupted, on_interrupt
from taskd_net_lab.demos.faults.scenarios import SCENARIOS as FAULTS
from taskd_net_lab.demos.job.run import Result, play_all
from taskd_net_lab.demos.job.scenarios import SCENARIOS
from taskd_net_lab.demos.mindspore.scenarios import REAL_SCENARIOS as REAL_LAUNCHES
from taskd_net_lab.demos.mindspore.scenarios import SCENARIOS as LAUNCHES
from taskd_net_lab.demos.mindspore.scenarios import play_all as play_launches
from taskd_net_lab.demos.mindspore.stage import has_mindspore
from taskd_net_lab.demos.recovery.scenarios import FURTHER_KILLS
from taskd_net_lab.demos.recovery.scenarios import SCENARIOS as RECOVERIES
from taskd_net_lab.demos.training.scenarios import SCENARIOS as TRAININGS
from taskd_net_lab.demos.training.scenarios import play_all as play_trainings
from taskd_net_lab.demos.watch.scenarios import SCENARIOS as WATCHES
from taskd_net_lab.demos.watch.scenarios import play_all as play_watches


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([each.name for each in SCENARIOS]), metavar="[SCENARIO]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def job(names: tuple[str, ...], as_json: bool) -> None:
    """Show what the Manager of a job decides, in real processes on this machine.

    A job of two nodes with two simulated training processes each. Processes are killed, a card is switched, a plugin
    hangs. In each SCENARIO (default: all) the Manager is killed with -9 in the middle. Exits with 0 if every process
    and every command was as expected, as seen from outside the Manager. No process is left.

    \b
    Examples:
      taskd-net demo job
      taskd-net demo job worker-dies rank-0-dies --json
    """
    _show_scenarios(SCENARIOS, names, play_all, as_json=as_json)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([each.name for each in FAULTS]), metavar="[SCENARIO]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def faults(names: tuple[str, ...], as_json: bool) -> None:
    """Show what is done about faults of devices, in real processes on this machine.

    The processes of `demo job`, with rules that are mounted as Kubernetes does and edited while the job runs. Faults
    come by `taskd-net faults report`, and a program stands in for the reset of a device. Exits with 0 if every process,
    command and reset was as expected, as seen from outside the Manager. No process is left.

    \b
    Examples:
      taskd-net demo faults
      taskd-net demo faults level-1-to-5 level-3-to-5 --json
    """
    _show_scenarios(FAULTS, names, play_all, as_json=as_json)


@click.command()
@click.argument(
    "names", nargs=-1, type=click.Choice([each.name for each in (*RECOVERIES, *FURTHER_KILLS)]), metavar="[SCENARIO]..."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def recovery(names: tuple[str, ...], as_json: bool) -> None:
    """Show how a job is recovered on ClusterD's orders, in real processes on this machine.

    The processes of `demo job`, with a stand-in for ClusterD, and a double of the training framework. Exits with 0 if
    every process, command and report was as expected, as seen from outside the Manager. No process is left.

    A SCENARIO is a flow, such as `dump`, or a flow with a kill at each of its stages: `dump-clusterd-killed`,
    `dump-manager-killed`. Default: all flows, and the kills of `recover` and `retry`.

    \b
    Examples:
      taskd-net demo recovery
      taskd-net demo recovery recover hot-switch --json
      taskd-net demo recovery dump-manager-killed
    """
    _show_scenarios((*RECOVERIES, *FURTHER_KILLS) if names else RECOVERIES, names, play_all, as_json=as_json)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([each.name for each in TRAININGS]), metavar="[SCENARIO]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def training(names: tuple[str, ...], as_json: bool) -> None:
    """Show a PyTorch training under a Manager, in real processes on this machine.

    Two nodes with two training processes each, on CPUs. Processes are killed, and the training goes on from its
    checkpoint. Exits with 0 if processes, exit codes, log files and losses were as expected, as seen from outside. No
    process is left. Needs the extra `torch`, and a minute for each SCENARIO (default: all).

    \b
    Examples:
      taskd-net demo training
      taskd-net demo training worker-killed --json
    """
    _need_torch("training")
    _show_scenarios(TRAININGS, names, play_trainings, as_json=as_json)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([each.name for each in WATCHES]), metavar="[SCENARIO]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def watch(names: tuple[str, ...], as_json: bool) -> None:
    """Show how a training that stands still is noticed, and who holds it up, in real processes on this machine.

    One node with four training processes, on CPUs. In each SCENARIO a drawn rank holds up the others, or is busy for
    long. Shows after which time the Manager has noticed, the ranks that it names, and where they are. Exits with 0 if
    it was in time, named nobody else, and the stacks show the function that holds up the job, as the demo knows them.
    No process is left. Needs the extra `torch`, and half a minute for each SCENARIO (default: all).

    \b
    Examples:
      taskd-net demo watch
      taskd-net demo watch in-the-loader stopped --json
    """
    _need_torch("watch")
    _show_scenarios(WATCHES, names, play_watches, as_json=as_json)


@click.command()
@click.argument(
    "names", nargs=-1, type=click.Choice([each.name for each in (*LAUNCHES, *REAL_LAUNCHES)]), metavar="[SCENARIO]..."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def mindspore(names: tuple[str, ...], as_json: bool) -> None:
    """Show msrun's training processes under a Manager, and without one, in real processes on this machine.

    One node with two training processes, which need no framework. Workers fail and are restarted, the Manager is
    killed, the platform's reset files change. Exits with 0 if processes, signals, reports and exit codes were as
    expected, as seen from outside. No process is left.

    The launcher is a double of msrun. Where mindspore is installed, each SCENARIO runs with its msrun, too, under the
    name `SCENARIO-msrun`. Default: all.

    \b
    Examples:
      taskd-net demo mindspore
      taskd-net demo mindspore worker-fails plugin-reset --json
    """
    if any(name.endswith("-msrun") for name in names) and not has_mindspore():
        sys.exit("mindspore is not installed: pip install 'mindspore==2.10.*'")
    known = (*LAUNCHES, *REAL_LAUNCHES) if has_mindspore() else LAUNCHES
    _show_scenarios(known, names, play_launches, as_json=as_json)


def _need_torch(name: str) -> None:
    """End the process where torch is not installed."""
    if find_spec("torch") is None:
        sys.exit(f"taskd-net demo {name} needs torch, which is not installed: pip install 'taskd-net[torch]'")


class _Named(Protocol):
    """A scenario of any demo."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """A sentence for people."""


S = TypeVar("S", bound=_Named)
PlayAll = Callable[[Sequence[S], Callable[[Result], None]], Awaitable[list[Result]]]


def _show_scenarios(known: Sequence[S], names: Collection[str], play: PlayAll[S], *, as_json: bool) -> None:
    """Play scenarios, print their results, and end the process.

    Args:
        known: all that there are.
        play: plays some of them.
        names: those to play; none for all.
        as_json: print one JSON object.
    """
    messages = display.console(stderr=True)
    scenarios = [each for each in known if each.name in names or not names]
    titles = {each.name: each.title for each in scenarios}
    width = max(24, *(len(name) + 1 for name in titles))
    began = time.monotonic()

    def show(result: Result) -> None:
        mark = Text(" ✓ ", "bold green") if result.ok else Text(" ✗ ", "bold red")
        took = Text(f"  {result.seconds:.1f} s", "bright_black")
        name = Text(f"{result.name:<{width}}", "bold")
        messages.print(mark + name + Text(titles[result.name]) + took, soft_wrap=True)
        if result.words:
            messages.print(Text(f"     {result.words}"), soft_wrap=True)
        for problem in result.problems:
            messages.print(Text(f"     {problem}", "red"), soft_wrap=True)

    try:
        results = asyncio.run(_interruptible(play(scenarios, show)))
    except Interrupted as failed:
        messages.print(Text(f" ✗ {failed}", "red"), soft_wrap=True)
        sys.exit(failed.exit_code)
    ok = all(result.ok for result in results)
    if as_json:
        click.echo(json.dumps({"scenarios": [result.as_json() for result in results], "ok": ok}))
    took = time.monotonic() - began
    words = "Everything as it had to be, in" if ok else "Failed, after"
    messages.print(Text(f" {words} {took:.1f} s.", "bold green" if ok else "bold red"), soft_wrap=True)
    sys.exit(int(not ok))


async def _interruptible(results: Awaitable[list[Result]]) -> list[Result]:
    """Play scenarios; a signal ends all of them."""
    playing = asyncio.ensure_future(results)
    signals: list[signal.Signals] = []

    def interrupt(number: signal.Signals) -> None:
        signals.append(number)
        playing.cancel()

    on_interrupt(interrupt)
    try:
        return await playing
    except asyncio.CancelledError:
        if not signals:
            raise
        raise Interrupted(signals[0]) from None
