"""Completion in shells: `taskd-net completion`, and the positions that an argument may have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import click
from click.shell_completion import get_completion_class

from taskd_net import ConfigError, Role
from taskd_net.base import upstreams
from taskd_net.cli.lines import say
from taskd_net.cli.settings import tls_of
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.document import tree_order

VARIABLE: Final = "_TASKD_NET_COMPLETE"
"""Variable by which a script of click's asks the command for words."""

ASK_S: Final = 1.0
"""Seconds for the positions of a mesh: somebody waits at a key."""

_FORMS: Final = ("Mgr", "Proxy/0", "Agent/0", "Worker/0/0")
"""One position of each role, where no node can be asked."""

_EVERY: Final = ("Proxy/All", "Agent/All", "Worker/All/All")


def positions(*, several: bool) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """The completion of an argument that is a position: those of the mesh at `--at`, the role in any case.

    Args:
        several: whether broadcasts are positions as well.
    """

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            known = asyncio.run(_known(ctx))
        except (AskFailed, ConfigError):
            known = list(_FORMS)
        words = [*known, *(_EVERY if several else ())]
        return [word for word in words if word.casefold().startswith(incomplete.casefold())]

    return complete


async def _known(ctx: click.Context) -> list[str]:
    """The positions in the mesh, as the node that the command names knows them.

    Raises:
        ConfigError: the address or a file of TLS is not usable.
        AskFailed: the node does not answer in time.
    """
    name = "at" if "at" in ctx.params else "upstream"
    async with NodeClient(upstreams.parse(ctx.params[name], name), ASK_S, tls_of(ctx)) as client:
        mesh = await client.mesh()
    known = sorted((position for position, _ in mesh.nodes), key=tree_order)
    return ["Mgr" if position.role == Role.MGR else str(position) for position in known]


@click.command("completion", short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> None:
    """Print the script with which SHELL completes commands, flags, values, files, and positions of the mesh at --at.

    \b
    Examples:
      eval "$(taskd-net completion bash)"                   # in ~/.bashrc
      source <(taskd-net completion zsh)                    # in ~/.zshrc
      taskd-net completion fish | source                    # in config.fish

    \b
    Exit codes:
      0    printed
      2    SHELL is none of these
    """
    made = get_completion_class(shell)
    assert made is not None
    for line in made(ctx.find_root().command, {}, "taskd-net", VARIABLE).source().splitlines():
        say(line)
