"""The loop of the commands that show the state of the mesh or of its job, once or repeatedly, and their keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from taskd_net.base import upstreams
from taskd_net.base.address import Address
from taskd_net.base.expect import Expected
from taskd_net.cli.lines import say
from taskd_net.cli.settings import tls_of
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.document import Document, document

Show = Callable[[Document], None]


def look(
    ctx: click.Context,
    show: Show,
    *,
    interval: float,
    count: int,
    pressed: Callable[[str], bool] | None = None,
) -> None:
    """Show the state of the mesh, as the node at `--at` knows it; else as `repeat`.

    Raises:
        ConfigError: a setting is not usable.
        AskFailed: as for `repeat`.
    """
    addresses = upstreams.parse(ctx.params["at"], "at")
    expected = Expected.parse(ctx.params["expect"]) if ctx.params["expect"] is not None else None

    async def ask(client: NodeClient) -> Document:
        return document(await client.mesh(), expected)

    repeat(ctx, addresses, ask, show, interval=interval, count=count, pressed=pressed)


def repeat(
    ctx: click.Context,
    addresses: Sequence[Address],
    ask: Callable[[NodeClient], Awaitable[Document]],
    show: Show,
    *,
    interval: float,
    count: int,
    pressed: Callable[[str], bool] | None = None,
) -> None:
    """Ask a node and show its answer `count` times; 0: until a signal ends the process.

    With `pressed` each key is handed to it where the standard input is a terminal; True ends it.

    Raises:
        ConfigError: a setting is not usable.
        AskFailed: the node did not answer the first time; later failures are printed on stderr.
    """
    tls = tls_of(ctx)

    async def show_all() -> None:
        shown = 0
        async with NodeClient(addresses, ctx.params["timeout"], tls) as client:
            while True:
                try:
                    answer = await ask(client)
                except AskFailed as error:
                    if not shown:
                        raise
                    say(f"no answer: {error}", err=True)
                else:
                    show(answer)
                    shown += 1
                    if shown == count:
                        return
                await asyncio.sleep(interval)

    async def looked() -> None:
        work = asyncio.create_task(show_all())

        def on_key(key: str) -> None:
            if pressed is not None and pressed(key):
                work.cancel()

        with keys(pressed and on_key), contextlib.suppress(asyncio.CancelledError):
            await work

    end_at_once()
    asyncio.run(looked())


_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
"""A character, or the sequence of an arrow or a page key."""

_ENDING = (signal.SIGTERM, signal.SIGINT)


def end_at_once() -> None:
    """Let SIGTERM and SIGINT end the process at once.

    The system's own handling is in force: a handler of ours would not run while a write into a full pipe blocks.
    """
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def keys(pressed: Callable[[str], None] | None) -> Iterator[None]:
    """Hand over each key within this context, one that is a sequence as a whole; none without a terminal."""
    if pressed is None or not sys.stdin.isatty():
        yield
        return
    terminal, loop, wanted = sys.stdin.fileno(), asyncio.get_running_loop(), pressed
    before = termios.tcgetattr(terminal)

    def read() -> None:
        for key in _KEY.findall(os.read(terminal, 64).decode(errors="replace")):
            wanted(key)

    def end(number: int, _: object) -> None:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os._exit(128 + number)

    for number in _ENDING:
        signal.signal(number, end)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
