"""The word that a signal ends the job, for a launcher whose Agent has not said it: it has none yet, or has not joined.

The launcher says it in the place of its Agent. It does that only while it holds the rank of its node: another launcher
may run that node. Where no Manager answers, nobody can hear it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final
from uuid import uuid4

from taskd_net.base import vocabulary
from taskd_net.base.address import Address
from taskd_net.base.codes import TaskdNetError
from taskd_net.job.agent import messages
from taskd_net.job.node_rank import held_rank
from taskd_net.net.retry import Retry
from taskd_net.net.tls.files import Tls
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig
from taskd_net.node.node import Node
from taskd_net.observe.client import AskFailed, NodeClient

SAY_S: Final = 3.0
"""Seconds for each of the two steps. A Manager that is there answers at once."""


def say_end(
    upstream: str, job_id: str, tls: Tls | None, rank: int | None, signal: str, *, seconds: float = SAY_S
) -> str:
    """Tell the Manager of a job that a signal has ended it.

    Args:
        upstream: address of the Mgr.
        job_id: of the job; empty for none.
        tls: files of the node.
        rank: of the node; None where the Manager gives it.
        signal: its name.
        seconds: for each of two steps, to hold the rank and to say the word.

    Returns:
        The reason why nobody has heard it; empty where the Manager has.
    """
    try:
        with held_rank(upstream, job_id, tls, rank, lambda _: None, seconds=seconds, answered=True) as held:
            config = NodeConfig.agent(server_rank=held, upstream=upstream, job_id=job_id or None, tls=tls)
            said = SimpleQueue[str]()
            with BlockingNode(config) as node:
                node.beside(lambda own: _say(own, Address.parse(upstream), tls, signal, seconds, said))
                with suppress(Empty):
                    return said.get(timeout=seconds)
            return f"the Manager at {upstream} has not taken it within {seconds:g} s"
    except TaskdNetError as error:
        return str(error)


async def _say(node: Node, mgr: Address, tls: Tls | None, signal: str, seconds: float, said: SimpleQueue[str]) -> None:
    try:
        async with asyncio.timeout(seconds), NodeClient(mgr, seconds, tls) as client:
            restarts = (await client.job()).restarts
        if restarts != vocabulary.JOB:
            said.put(f"the Manager at {mgr} leaves restarts to a platform")
            return
        async with asyncio.timeout(seconds):
            await node.joined()
            for body in (messages.registration(str(uuid4())), messages.leaves(signal, job=True)):
                ack = await node.send(body.to_json(), to="Mgr", timeout=seconds, retry=Retry())
                if not ack.ok:
                    said.put(f"the Manager at {mgr} has not taken it: code {ack.code}")
                    return
        said.put("")
    except TimeoutError:
        said.put(f"the Manager at {mgr} has not taken it within {seconds:g} s")
    except AskFailed as error:
        said.put(str(error))
