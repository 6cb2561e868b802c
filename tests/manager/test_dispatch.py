"""Commands on their way: one attempt at a time, withdrawn ones, and the receivers of a broadcast."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any, Final

import pytest

from taskd_net import Ack, Code, Node, NodeConfig
from taskd_net.job.decide.traffic import Command
from taskd_net.job.manager.dispatch import _UNDELIVERED, Dispatch
from tests.fork_server import ROOT, forked
from tests.manager.cluster import SOON, agent, leaves, worker
from tests.polling import until


class Sender:
    """A Mgr's Dispatch, and the answers to its attempts."""

    def __init__(self, node: Node) -> None:
        self._answers = asyncio.Queue[tuple[str, Ack]]()
        self.late: list[str] = []
        self.gone: list[str] = []
        self.dispatch = Dispatch(node, self._answered, self.gone.append)

    def _answered(self, uuid: str, ack: Ack, late: bool) -> None:
        self.late += [uuid] * late
        self._answers.put_nowait((uuid, ack))

    def send(self, uuid: str, to: str) -> None:
        """Begin an attempt."""
        self.dispatch.send(Command(to, 203, uuid=uuid))

    async def answer(self) -> tuple[str, int, int | None]:
        """The uuid, the code and the receivers of the next answer."""
        async with asyncio.timeout(SOON):
            uuid, ack = await self._answers.get()
        return uuid, ack.code, ack.receivers


async def test_an_attempt_outlasts_the_absence_of_its_receiver_and_is_alone() -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        sender = Sender(node)
        for _ in range(2):
            sender.send("a", "Agent/0")
        sender.send("withdrawn", "Agent/0")
        sender.dispatch.withdraw("withdrawn")
        sender.dispatch.withdraw("unknown")
        async with leaves(node, agent(0)) as (zero,):
            assert (await zero.take())[0].uuid == "a"
            assert await sender.answer() == ("a", 0, 1)
            sender.send("b", "Agent/0")
            assert (await zero.take())[0].uuid == "b"
            assert await sender.answer() == ("b", 0, 1)
        sender.send("c", "Agent/0")
        await sender.dispatch.close()


async def test_an_acknowledgement_is_late_after_a_send_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        sender, send = Sender(node), node.send
        lost = {"a": [Code.NETWORK_ACK_LOST], "b": [Code.NO_ROUTE, Code.RECV_BUF_BUSY], "c": [Code.NETWORK_ACK_LOST]}

        async def losing(*args: Any, uuid: str, **more: Any) -> Ack:
            ack = await send(*args, uuid=uuid, **more)
            return ack._replace(code=lost[uuid].pop()) if ack.ok and lost.get(uuid) else ack

        monkeypatch.setattr(node, "send", losing)
        async with leaves(node, agent(0)) as (zero,):
            for uuid in "abcd":
                sender.send(uuid, "Agent/0")
                assert await sender.answer() == (uuid, 0, 1)
                assert (await zero.take())[0].uuid == uuid, "once"
            sender.send("c", "Agent/0")
            assert await sender.answer() == ("c", 0, 1)
    assert sender.late == ["a", "c"], "what was certainly not delivered, or is acknowledged, is clear"


async def test_a_receiver_that_leaves_after_it_may_have_taken_a_command_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        sender, send = Sender(node), node.send
        lost: dict[str, list[Code]] = {"taken": [Code.NETWORK_ACK_LOST], "never": []}

        async def losing(*args: Any, uuid: str, **more: Any) -> Ack:
            ack = await send(*args, uuid=uuid, **more)
            return ack._replace(code=lost[uuid].pop()) if lost[uuid] else ack

        monkeypatch.setattr(node, "send", losing)
        for uuid in lost:
            sender.send(uuid, "Agent/0")
        await until(lambda: bool(sender.gone))
        await sender.dispatch.close()
    assert set(sender.gone) == {"taken"}


LAUNCHER: Final = """
import asyncio, os, sys
from taskd_net import Node, NodeConfig

async def main():
    async with Node(NodeConfig.agent(server_rank=1, upstream=sys.argv[1], confirms=True)) as node:
        await node.joined(60.0)
        print("joined", flush=True)
        await node.receive()
        os._exit(1)

asyncio.run(main())
"""


async def test_a_launcher_that_leaves_with_its_acknowledgement_is_gone() -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        sender, arguments = Sender(node), ("-c", LAUNCHER, node.address or "")
        with forked():
            process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, cwd=ROOT)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"joined\n"
        sender.send("a", "Agent/1")
        await until(lambda: bool(sender.gone))
        assert await process.wait() == 1
        await sender.dispatch.close()
    assert set(sender.gone) == {"a"}


async def test_no_attempt_leaves_while_another_manager_may_lead() -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node, leaves(node, agent(0)) as (zero,):
        terms: list[int | None] = [None, None, 7]
        asked = asyncio.Event()

        def term() -> int | None:
            if len(terms) == 1:
                asked.set()
                return terms[0]
            return terms.pop(0)

        dispatch = Dispatch(node, lambda *_: None, lambda _: None, term)
        dispatch.send(Command("Agent/0", 203, uuid="a", extension={"Incarnation": "i"}))
        message, said = await zero.take()
        assert asked.is_set() and message.uuid == "a"
        assert said.extension == {"Incarnation": "i", "Term": "7"}
        await dispatch.close()


async def test_a_broadcast_counts_its_receivers() -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node, leaves(node, worker(0, 0), worker(1, 8)):
        sender = Sender(node)
        sender.send("a", "Worker/All/All")
        assert await sender.answer() == ("a", 0, 2)


async def test_a_broadcast_that_is_not_counted_has_reached_the_known_receivers() -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        sender = Sender(node)
        config = NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=node.address or "", links="tasknet")
        async with Node(config) as proxy, leaves(proxy, worker(0, 0), worker(0, 1)):
            ack = await node.send("x", to="Worker/All/All")
            assert ack.ok and ack.receivers is None, "the four calls have no place for it"
            sender.send("b", "Worker/All/All")
            assert await sender.answer() == ("b", 0, 2)


SURELY_NOT_IN_AN_INBOX: Final = {
    *(Code.RECV_BUF_NIL, Code.RECV_BUF_BUSY, Code.NO_ROUTE, Code.NETWORK_SEND_LOST, Code.NET_STREAM_NOT_INITED),
}
PERHAPS_IN_AN_INBOX: Final = {
    *(Code.NIL_MESSAGE, Code.NIL_HEADER, Code.NIL_POSITION, Code.DST_ROLE_ILLEGAL, Code.DST_SRV_RANK_ILLEGAL),
    *(Code.DST_PROCESS_RANK_ILLEGAL, Code.DST_TYPE_ILLEGAL, Code.CLIENT_ERR, Code.EXCEED_MAX_REGISTRY_NUM),
    *(Code.SERVER_ERR, Code.NETWORK_ACK_LOST, Code.NET_ERR),
}


def test_each_code_says_whether_the_message_may_be_in_an_inbox() -> None:
    """A new code has to be put on one side. Those of the other makes count as unclear."""
    assert set(Code) == {Code.OK} | SURELY_NOT_IN_AN_INBOX | PERHAPS_IN_AN_INBOX
    assert _UNDELIVERED == SURELY_NOT_IN_AN_INBOX
