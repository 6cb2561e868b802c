"""A leader that was stopped for longer than its lease, on the wire: a child that refuses nothing gets no command."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from taskd_net.base.body import Body
from tests.cli.processes import PATIENCE_S
from tests.etcd.server import ETCD, WHY_NOT
from tests.etcd.test_standby import LEADS, job
from tests.peers.child import RawChild
from tests.peers.mesh import soon

pytestmark = [pytest.mark.skipif(ETCD is None, reason=WHY_NOT), pytest.mark.timeout(150)]

STOPPED_S = 8.0
"""Seconds of the stop, more than the lease."""

GAP_S = STOPPED_S - 1.0
"""Seconds without an event in the record of a node that was stopped; in life it has several a second."""


async def reported(child: RawChild, msg_type: str, code: int, message: str = "") -> Any:
    """Send a report; returns its Ack."""
    body = Body(msg_type, code, message).to_json()
    return await child.transfer(child.message("Mgr/0", body), timeout=PATIENCE_S)


async def registered(child: RawChild, address: str) -> None:
    """Join, register, and ask for the go."""
    await child.join(address)
    for report in (("REGISTER", 0), ("STATUS", 201, "3")):
        assert (await reported(child, *report)).code == 0


def code_of(message: Any) -> int:
    """The code of a command."""
    return Body.parse(message.body).code


@pytest.mark.parametrize(
    "seconds", [0.0, *(pytest.param(late, marks=pytest.mark.long) for late in (1.0, 2.0, 2.8, 2.9, 3.0, 3.1))]
)
async def test_leader_that_was_stopped_writes_no_command(tmp_path: Path, seconds: float) -> None:
    """It has one that nobody acknowledges, which is due again every 3 s, and a report of a fault to decide on.

    Args:
        seconds: from a resend to the stop.
    """
    record = tmp_path / "record"
    async with (
        job(tmp_path, "--record", str(record)) as (_, _, leads, stands, _),
        RawChild("Agent/0", one_at_a_time=True) as silent,
        RawChild("Agent/1", one_at_a_time=True) as other,
    ):
        silent.drop_acks = True
        for child in (silent, other):
            await registered(child, leads.address)
        assert code_of(await other.take()) == 210
        assert [code_of(await silent.take()) for _ in range(2)] == [210, 210], "it is sent again"
        await asyncio.sleep(seconds)
        leads.signal(signal.SIGSTOP)
        stopped = asyncio.get_running_loop().time()
        fault = asyncio.create_task(reported(other, "STATUS", 202, json.dumps({"fault_ranks": [1]})))
        await stands.said(LEADS)
        await asyncio.sleep(max(0.0, stopped + STOPPED_S - asyncio.get_running_loop().time()))
        had = silent.received.qsize()  # of before the stop
        assert not other.received.qsize() and not fault.done()
        leads.signal(signal.SIGCONT)
        await leads.said("lead_lost")
        await leads.said(f"stands_by .*leader={stands.address}")
        for child in (silent, other):
            assert await soon(child.ended(), PATIENCE_S) is not grpc.StatusCode.OK
            await child.drained()
        assert (silent.received.qsize(), other.received.qsize()) == (had, 0)
        await asyncio.wait([fault])
        assert isinstance(fault.exception(), grpc.aio.AioRpcError) or fault.result().code != 0
        leads.signal(signal.SIGTERM)
        assert await leads.exit_code() == 0
    before, after = written(record)
    assert before >= 3 and after == 0


def written(record: Path) -> tuple[int, int]:
    """The messages that a node has written on its links before it was stopped, and after that, by its record."""
    counts, last, after = [0, 0], None, 0
    for line in map(json.loads, record.read_text().splitlines()[1:]):
        match line.get("given"):
            case [float(now), *_]:
                if last is not None and now - last > GAP_S:
                    after = 1
                last = now
        counts[after] += sum(len(each["Writes"]["frames"]) for each in writes(line.get("ready")))
    assert after, "it was stopped"
    return counts[0], counts[1]


def writes(ready: Any) -> Iterator[dict[str, Any]]:
    """The writes of an outcome, link by link."""
    if isinstance(ready, dict) and "Ready" in ready:
        yield from (each for _, each in ready["Ready"]["writes"]["map"])
