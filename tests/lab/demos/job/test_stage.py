"""The stage without processes of its own: the controller's end of the witnesses' connections."""

from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest

from taskd_net_lab.demos.job.evidence import Seen
from taskd_net_lab.demos.job.stage import Stage
from taskd_net_lab.demos.job.terms import ASKS, BEGAN, ENDED


@pytest.mark.parametrize("reads", [True, False], ids=["answer-read", "answer-unread"])
async def test_a_killed_worker_has_ended_whether_it_has_read_its_answer_or_not(reads: bool) -> None:
    """The kernel resets the connection of a process that is gone with an answer unread."""
    who, pid = "Worker/3", os.getpid()
    async with Stage() as stage:
        with socket.socket(socket.AF_UNIX) as witness:
            witness.connect(str(stage.folder / "socket"))
            for what in (BEGAN, ASKS):
                witness.sendall(json.dumps({"who": who, "what": what}).encode() + b"\n")
            flags = 0 if reads else socket.MSG_PEEK
            assert await asyncio.to_thread(witness.recv, 1, flags) == b"\n"
        await stage.until(lambda seen: seen.count(who, ENDED) == 1, "the Worker has ended")
        assert stage.evidence.seen == [Seen(who, what, pid) for what in (BEGAN, ASKS, ENDED)]
