"""`taskd-net job`, `taskd-net job why`, and `taskd-net job hang`."""

from __future__ import annotations

import sys

import click
from click.core import ParameterSource

from taskd_net.base import upstreams
from taskd_net.cli.command import JSON, Command, command
from taskd_net.cli.hang_lines import draw_hang, hang_of, is_stuck
from taskd_net.cli.job_lines import draw
from taskd_net.cli.job_stacks import job_stacks
from taskd_net.cli.lines import say_json
from taskd_net.cli.screen import Screen
from taskd_net.cli.settings import params_of
from taskd_net.cli.watching import repeat
from taskd_net.cli.why_lines import draw_why, why
from taskd_net.observe.client import NodeClient
from taskd_net.observe.document import Document
from taskd_net.observe.fields import document_of


class JobGroup(Command, click.Group):
    """A group that shows the Manager where no command follows."""


@command(
    "job",
    cls=JobGroup,
    invoke_without_command=True,
    short_help="Show the job's Manager: streams, Agents, decisions.",
)
@click.option("--watch", is_flag=True, help="Repeat it each second, until a signal.")
@click.option("--all", "everything", is_flag=True, help="Show each Agent, and the last 50 decisions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --watch one a line.")
@click.pass_context
def job(ctx: click.Context, /, at: str, watch: bool, everything: bool, as_json: bool, **_: object) -> None:
    """Show the state of the Manager of the Mgr at --at.

    It shows the streams with their owners, Agents with their faults, the restarts that are left, and the last decisions
    with their cause, commands and answers. docs/manager.md describes the JSON object. `why` shows the failures, and
    `hang` whether the job stands still.

    \b
    Examples:
      taskd-net job
      taskd-net job --at 10.0.0.7:9601 --watch
      taskd-net job --json | jq -r .trouble[]
      taskd-net job why
      taskd-net job hang

    \b
    Exit codes:
      0      shown, and there is no trouble
      1      the job is hung, an Agent has failed or was sent away, the state is
             not durable, or a plugin is off
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked, or a node without a Manager

    128+N: ended by signal N, as with --watch.
    """
    if ctx.invoked_subcommand is not None:
        for param in ctx.command.params:
            if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{param.opts[0]} stands before {ctx.invoked_subcommand}; expected it behind")
        return
    screen = Screen()
    trouble = False

    async def ask(client: NodeClient) -> Document:
        return document_of(await client.job())

    def show(answer: Document) -> None:
        nonlocal trouble
        trouble = bool(answer["trouble"])
        if as_json:
            say_json(answer)
        else:
            screen.say_all(draw(answer, everything=everything), again=watch)

    repeat(ctx, upstreams.parse(at, "at"), ask, show, interval=1.0, count=0 if watch else 1)
    sys.exit(1 if trouble else 0)


@click.command(
    "why", cls=Command, params=[*params_of("job"), JSON], short_help="Show why the job has failed, and what followed."
)
@click.pass_context
def job_why(ctx: click.Context, /, at: str, as_json: bool, **_: object) -> None:
    """Show the failures of the job, as the Manager of the Mgr at --at knows them.

    Of the last failure it shows the rank that failed first, on any node, with the script's line and the traceback, the
    ranks that failed because of it, and what the Manager did. Then come the failures before, nine at most. The JSON
    object has `job`, `time`, `ended` and `failures`, which docs/manager.md describes.

    \b
    Examples:
      taskd-net job why
      taskd-net job why --at 10.0.0.7:9601
      taskd-net job why --json | jq -r .failures[-1].first.message

    \b
    Exit codes:
      0      shown, also where no rank has failed
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked, or a node without a Manager

    128+N: ended by signal N.
    """
    screen = Screen()

    async def ask(client: NodeClient) -> Document:
        return document_of(await client.job())

    def show(answer: Document) -> None:
        if as_json:
            say_json(why(answer))
        else:
            screen.say_all(draw_why(answer), again=False)

    repeat(ctx, upstreams.parse(at, "at"), ask, show, interval=1.0, count=1)


@click.command(
    "hang",
    cls=Command,
    params=[*params_of("job"), JSON],
    short_help="Show whether the job stands still, and who holds it up.",
)
@click.pass_context
def job_hang(ctx: click.Context, /, at: str, as_json: bool, **_: object) -> None:
    """Show whether the job stands still, as the Manager of the Mgr at --at judges it.

    It shows the ranks that hold up the others, each with the reason, or that they are not known, and the limits. The
    JSON object has `job`, `time` and `hang`, which docs/manager.md describes. docs/watching.md explains the states.

    \b
    Examples:
      taskd-net job hang
      taskd-net job hang --at 10.0.0.7:9601
      taskd-net job hang --json | jq .hang.guilty[].rank

    \b
    Exit codes:
      0      the job goes on, or nothing is known of a hang
      1      it is suspected or hung
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked, or a node without a Manager

    128+N: ended by signal N.
    """
    screen = Screen()
    stuck = False

    async def ask(client: NodeClient) -> Document:
        return document_of(await client.job())

    def show(answer: Document) -> None:
        nonlocal stuck
        stuck = is_stuck(answer)
        if as_json:
            say_json(hang_of(answer))
        else:
            screen.say_all(draw_hang(answer), again=False)

    repeat(ctx, upstreams.parse(at, "at"), ask, show, interval=1.0, count=1)
    sys.exit(1 if stuck else 0)


assert isinstance(job, JobGroup)
job.add_command(job_why)
job.add_command(job_hang)
job.add_command(job_stacks)
