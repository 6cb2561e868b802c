"""How a Worker and an Agent report to the Mgr."""

from __future__ import annotations

import asyncio
import time
from typing import Final
from uuid import uuid4

from taskd_net import limits
from taskd_net.api.body import Body
from taskd_net.api.member import Refused, log
from taskd_net.blocking import BlockingNode
from taskd_net.codes import describe
from taskd_net.node import Node
from taskd_net.position import Position

MGR: Final = Position.mgr()


async def report_until_taken(node: Node, body: Body, mtype: str) -> None:
    """Send one report to the Mgr until it has it, with the same uuid, so that it is there once."""
    uuid, text, failed = str(uuid4()), body.to_json(), False
    await node.joined()
    while not (ack := await node.send(text, to=MGR, mtype=mtype, uuid=uuid)).ok:
        if not failed:
            log.warning("report_not_taken", node=str(node.position), code=body.code, reason=describe(ack.code))
        failed = True
        await asyncio.sleep(limits.REPORT_RETRY_S)
    log.debug("report_taken", node=str(node.position), code=body.code)


async def stay_registered(node: Node, body: Body, mtype: str) -> None:
    """Register with the Mgr, and again from time to time: one that was restarted has forgotten who is there.

    Nothing else would tell it: behind a Proxy, a node's own link outlives the Mgr's.
    """
    while True:
        await report_until_taken(node, body, mtype)
        await asyncio.sleep(limits.REGISTER_EVERY_S)


def report(node: BlockingNode, body: Body, mtype: str, timeout: float) -> None:
    """Send one report to the Mgr, and again with the same uuid where that may help.

    Args:
        node: the sender.
        body: what it says.
        mtype: the kind of message.
        timeout: seconds for each attempt.

    Raises:
        Refused: the Mgr has not acknowledged it.
    """
    uuid, text = str(uuid4()), body.to_json()
    ack = node.send(text, to=MGR, mtype=mtype, timeout=timeout, uuid=uuid)
    for _ in range(1, limits.REPORT_ATTEMPTS):
        if ack.code < 5000:  # it is there, or would be refused again
            break
        time.sleep(limits.REPORT_RETRY_S)
        ack = node.send(text, to=MGR, mtype=mtype, timeout=timeout, uuid=uuid)
    if not ack.ok:
        raise Refused(f"the Mgr has not got it: {describe(ack.code)}{': ' + ack.detail if ack.detail else ''}")
