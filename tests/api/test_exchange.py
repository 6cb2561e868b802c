"""Reports of an Agent on their way to the Mgr."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from taskd_net import Ack, Code, Node, Position
from taskd_net.base.body import Body
from taskd_net.base.codes import NodeClosed
from taskd_net.job.exchange import Heartbeat, ReportQueue

pytestmark = pytest.mark.oldest


class Mgr:
    """The way to the Mgr: each send is seen, and waits for its answer."""

    position = Position.agent(2)

    def __init__(self) -> None:
        self.sent: asyncio.Queue[tuple[Body, str]] = asyncio.Queue()
        self.answers: asyncio.Queue[Code] = asyncio.Queue()

    async def joined(self) -> None:
        """It is joined."""

    async def send(self, body: str, *, uuid: str = "", **said: object) -> Ack:
        """Send a message."""
        assert said == {"to": Position.mgr(), "mtype": "DEFAULT", "wait": False}
        self.sent.put_nowait((Body.parse(body), uuid))
        return Ack(uuid, await self.answers.get(), Position.mgr(), "", 0)

    async def takes(self, code: Code = Code.OK) -> tuple[Body, str]:
        """The next report, answered so."""
        report = await self.sent.get()
        self.answers.put_nowait(code)
        return report


@asynccontextmanager
async def running(mgr: Mgr) -> AsyncIterator[ReportQueue]:
    """An outbox that sends."""
    outbox = ReportQueue(cast(Node, mgr), "DEFAULT", retry=0.0)
    task = asyncio.create_task(outbox.run())
    try:
        yield outbox
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_reports_are_sent_in_their_order_until_they_are_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mgr = Mgr()
    async with running(mgr) as outbox:
        await outbox.empty()
        outbox.put(Body("REGISTER", 0))
        outbox.put(Body("STATUS", 201))
        tries = [await mgr.takes(Code.NO_ROUTE), await mgr.takes(Code.NETWORK_ACK_LOST), await mgr.takes()]
        assert [body for body, _ in tries] == [Body("REGISTER", 0)] * 3 and len({uuid for _, uuid in tries}) == 1
        last = await mgr.takes()
        assert last[0] == Body("STATUS", 201) and last[1] not in {uuid for _, uuid in tries}
        await outbox.empty()
        assert caplog.text.count("report_not_taken") == 1


async def test_queue_of_a_node_that_is_closed_ends_without_an_error() -> None:
    """It is closed before what runs beside it is cancelled."""

    class Closed(Mgr):
        async def joined(self) -> None:
            raise NodeClosed("Agent/2 is closed")

    outbox = ReportQueue(cast(Node, Closed()), "DEFAULT", retry=0.0)
    outbox.put(Body("STATUS", 202))
    async with asyncio.timeout(10.0):
        await outbox.run()


async def test_newer_report_replaces_an_older_one_of_its_kind() -> None:
    mgr = Mgr()
    async with running(mgr) as outbox:
        for message in ("first", "second"):
            outbox.put(Body("STATUS", 202, message))
        outbox.put(Body("STATUS", 201))
        outbox.put(Body("STATUS", 202, "third"))
        assert (await mgr.sent.get())[0] == Body("STATUS", 201)
        # Also one that is on its way: the newer one is sent after it, whatever its answer.
        outbox.put(Body("STATUS", 201, "newer"))
        mgr.answers.put_nowait(Code.OK)
        assert [(await mgr.takes())[0].message for _ in range(2)] == ["third", "newer"]
        await outbox.empty()


async def test_keep_alive_is_sent_once_and_never_twice_at_a_time() -> None:
    mgr = Mgr()
    heartbeat = Heartbeat(cast(Node, mgr), "DEFAULT")
    heartbeat.close()
    for message in ("first", "dropped"):
        heartbeat.beat(Body("KEEP_ALIVE", 0, message))
    assert (await mgr.takes(Code.NO_ROUTE))[0].message == "first"
    assert heartbeat._task is not None
    await heartbeat._task
    heartbeat.beat(Body("KEEP_ALIVE", 0, "second"))
    assert (await mgr.sent.get())[0].message == "second"
    heartbeat.close()
    with pytest.raises(asyncio.CancelledError):
        await heartbeat._task
