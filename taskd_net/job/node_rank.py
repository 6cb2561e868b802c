"""The rank of a node whose launcher has none: the job's Manager gives it, before the Agent of the node joins.

The launcher asks by a place of its own in the mesh, as tools do, and keeps that place: the Manager sees by it that the
launcher lives.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError, NodeTimeout, TaskdNetError
from taskd_net.base.untrusted import natural, shown
from taskd_net.job.member import log
from taskd_net.net.free_position import tool_position
from taskd_net.net.tls.files import Tls
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig

ASK_S: Final = 180.0
"""Seconds for an answer: as long as an Agent has to join, which is the start of a job's other pods."""

TELL_S: Final = 30.0
"""Seconds between two lines about the wait."""

AGAIN_S: Final = 2.0
"""Seconds after which a request without an answer is sent again: the Manager may have been started again."""


class NoRank(TaskdNetError):
    """The Manager has given no rank; the text says why."""


@contextmanager
def given_rank(
    upstream: str, job_id: str, tls: Tls | None, host: str | None = None, seconds: float = ASK_S
) -> Iterator[int]:
    """The rank of this node, for as long as the block lasts.

    Args:
        upstream: address of the Mgr.
        job_id: of the job; empty for none.
        tls: files of the node.
        host: name of this host; None for its own.
        seconds: for an answer.

    Raises:
        NoRank: the Manager does not answer in time, or all ranks are taken.
    """
    position = tool_position(None, tls)
    config = NodeConfig.agent(
        server_rank=position.server_rank, upstream=upstream, job_id=job_id or None, service=True, tls=tls
    )
    with BlockingNode(config) as node:
        yield _ask(node, upstream, host or socket.gethostname(), seconds)
        node.withdraw(1.0)


def _ask(node: BlockingNode, upstream: str, host: str, seconds: float) -> int:
    body = Body(vocabulary.NODE_RANK, 0, uuid4().hex, {vocabulary.HOST: host}).to_json()
    began = time.monotonic()
    tell_at = began + 1.0
    while (passed := time.monotonic() - began) < seconds:
        if began + passed >= tell_at:
            log.warning("waits_for_rank", address=upstream, seconds_left=round(seconds - passed))
            tell_at = began + passed + TELL_S
        try:
            node.joined(AGAIN_S)
            if not node.send(body, to="Mgr", timeout=AGAIN_S).ok:
                continue
            answer = Body.parse(node.receive(AGAIN_S).body)
        except NodeTimeout:
            continue
        return read_rank(answer)
    raise NoRank(f"no Manager at {upstream} has given this node a rank within {seconds:g} s")


def read_rank(answer: Body) -> int:
    """The rank in the Manager's answer.

    Raises:
        NoRank: it has given none.
        ArgumentError: the answer is none.
    """
    if reason := answer.extension.get(vocabulary.REASON):
        raise NoRank(reason)
    rank = natural(answer.message, 2**31 - 1) if answer.code == vocabulary.RANK_GIVEN else None
    if rank is None:
        raise ArgumentError(f"the Manager answers {shown(answer.message)} with code {answer.code}; expected a rank")
    return rank
