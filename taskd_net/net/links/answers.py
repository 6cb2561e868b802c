"""Answers to a node's own requests, for coroutines that await them."""

from __future__ import annotations

import asyncio
from functools import partial

from taskd_net.core.frame import Ack
from taskd_net.core.ready import Token
from taskd_net.net.links.session import Host


def settle(answer: asyncio.Future[Ack], ack: Ack) -> None:
    """Pass on an answer, unless its caller has gone."""
    if not answer.done():
        answer.set_result(ack)


async def until_answered(host: Host, token: Token, answer: asyncio.Future[Ack]) -> Ack:
    """Wait for an answer. Where the caller is cancelled meanwhile, the Router forgets the request."""
    try:
        return await answer
    finally:
        if answer.cancelled():
            host.perform(host.router.cancel(token))


def awaited(host: Host) -> tuple[Token, asyncio.Future[Ack]]:
    """A name for a request of a node, and the future of its answer."""
    answer: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
    return host.request(partial(settle, answer)), answer
