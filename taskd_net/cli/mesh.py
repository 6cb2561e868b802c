"""What the commands that look at the mesh share: they ask a node for its state, once or again and again."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final

import click

from taskd_net import ConfigError
from taskd_net.address import Address
from taskd_net.cli.keys import end_at_once, keys
from taskd_net.cli.settings import tls_of, wrong
from taskd_net.expect import Expected
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.document import Document, document
from taskd_net.tls.files import Tls

NOT_ASKED: Final = 3
"""Exit code: no node at `--at` could be asked."""

Show = Callable[[Document], None]


def address_of(ctx: click.Context, text: str, field: str) -> Address:
    """The address of the node that is asked.

    Raises:
        click.UsageError: it is not an address.
    """
    try:
        return Address.parse(text, field)
    except ConfigError as error:
        raise wrong(ctx, error) from None


def look(
    ctx: click.Context,
    show: Show,
    *,
    interval: float,
    count: int,
    pressed: Callable[[str], None] | None = None,
) -> None:
    """Show the state of the mesh, as the node at `--at` knows it, so many times; 0: until a signal comes.

    With `pressed` each key is handed to it where the standard input is a terminal, and `q` ends it.

    Where the node does not answer the first time, this ends the process with NOT_ASKED; later it is said on stderr, and
    asked again. A signal ends the process.
    """
    address = address_of(ctx, ctx.params["at"], "at")
    try:
        expected = Expected.parse(ctx.params["expect"]) if ctx.params["expect"] is not None else None
    except ConfigError as error:
        raise wrong(ctx, error) from None
    timeout, tls = float(ctx.params["timeout"]), tls_of(ctx)

    async def looked() -> None:
        work = asyncio.create_task(_show_all(address, tls, expected, timeout, show, interval, count))

        def on_key(key: str) -> None:
            if pressed is not None and key != "q":
                pressed(key)
            else:
                work.cancel()

        with keys(pressed and on_key), contextlib.suppress(asyncio.CancelledError):
            await work

    end_at_once()
    try:
        asyncio.run(looked())
    except ConfigError as error:
        raise wrong(ctx, error) from None
    except AskFailed as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(NOT_ASKED)


async def _show_all(
    address: Address,
    tls: Tls | None,
    expected: Expected | None,
    timeout: float,
    show: Show,
    interval: float,
    count: int,
) -> None:
    shown = 0
    async with NodeClient(address, timeout, tls) as asker:
        async for mesh in _documents(asker, expected, interval):
            show(mesh)
            shown += 1
            if shown == count:
                return


async def _documents(asker: NodeClient, expected: Expected | None, interval: float) -> AsyncIterator[Document]:
    answered = False
    while True:
        try:
            mesh = await asker.mesh()
        except AskFailed as error:
            if not answered:
                raise
            click.echo(f"no answer: {error}", err=True)
        else:
            answered = True
            yield document(mesh, expected)
        await asyncio.sleep(interval)
