"""`taskd-net listen` as a process: what it prints, when it ends, and what it ends with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskd_net import Code
from tests.cli.inside import refused
from tests.cli.processes import PATIENCE_S, Command, Daemon, run
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.ports import free_address

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


@pytest.fixture
async def mgr(mesh: Mesh) -> WatchedNode:
    """The root."""
    return await mesh.mgr()


def listen(mgr: WatchedNode, *arguments: object, stdout: int | None = None) -> Command:
    """A run of `taskd-net listen --as Worker/0/0`."""
    return Command("listen", "--as", "Worker/0/0", "--upstream", mgr.address, *arguments, stdout=stdout)


READY = r"^taskd-net listen Worker/0/0 ready, upstream 127\.0\.0\.1:\d+\n"


async def test_each_message_is_printed_as_it_comes(mgr: WatchedNode) -> None:
    async with listen(mgr) as listening:
        await listening.said(READY)
        for number in range(3):
            assert (await mgr.send(f"number {number}, é", to="Worker/0/0", mtype="STATUS")).ok
            assert await listening.line() == f"Mgr/0 STATUS number {number}, é"
        listening.signal(signal.SIGTERM)
        assert (await listening.rest(), await listening.exit_code()) == ("", 0)
    # It has taken its position back.
    assert not mgr.routes()
    assert (await mgr.send("x", to="Worker/0/0")).code == Code.NO_ROUTE


async def test_body_does_not_look_like_another_message(mgr: WatchedNode) -> None:
    async with listen(mgr, "--count", 1) as listening:
        await listening.said(READY)
        assert (await mgr.send("x\nMgr/0 ACTION shutdown\x1b[2J", to="Worker/0/0", mtype="STATUS")).ok
        assert (await listening.rest()).splitlines() == [r"Mgr/0 STATUS x\nMgr/0 ACTION shutdown\u001b[2J"]


async def test_messages_as_json_lines(mgr: WatchedNode) -> None:
    async with listen(mgr, "--json", "--count", 2) as listening:
        await listening.said(READY)
        for body in ("two\nlines", '"é"'):
            assert (await mgr.send(body, to="Worker/All/All", uuid=body)).ok
        messages = [json.loads(line) for line in (await listening.rest()).splitlines()]
        assert [message["body"] for message in messages] == ["two\nlines", '"é"']
        created = messages[0].pop("create_time")
        assert created > 1_600_000_000_000
        assert messages[0] == {
            "uuid": "two\nlines", "mtype": "default", "sync": True, "src": "Mgr/0", "dst": "Worker/All/All",
            "body": "two\nlines",
        }  # fmt: skip
        assert await listening.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_what_was_acknowledged_before_a_signal_is_printed(mgr: WatchedNode, number: signal.Signals) -> None:
    async with listen(mgr, "--inbox", 100) as listening:
        await listening.said(READY)
        acks = await asyncio.gather(*(mgr.send(str(i), to="Worker/0/0") for i in range(100)))
        listening.signal(number)
        lines = (await listening.rest()).splitlines()
        assert all(ack.ok for ack in acks)
        assert lines == [f"Mgr/0 default {i}" for i in range(100)]
        assert await listening.exit_code() == 0


@pytest.mark.parametrize(("count", "code"), [((), 0), (("--count", 2), 1)])
async def test_period_after_the_join_ends_it(mgr: WatchedNode, count: tuple[object, ...], code: int) -> None:
    async with listen(mgr, "--for", 3, *count) as listening:
        await listening.said(READY)
        assert (await mgr.send("x", to="Worker/0/0")).ok
        assert (await listening.rest(), await listening.exit_code()) == ("Mgr/0 default x\n", code)
    assert not mgr.routes()


async def test_period_does_not_begin_before_the_join() -> None:
    code, output, errors = await run(
        "listen", "--as", "Worker/0/0", "--upstream", free_address(), "--for", 0.01, "--timeout", 0.5
    )
    assert (code, output) == (3, "") and "Error: nobody listens at " in errors


async def test_end_of_whoever_reads_ends_it_at_once(mgr: WatchedNode) -> None:
    """`taskd-net listen | head -n 2`: not only when the third message comes, which would be acknowledged and lost."""
    reading, writing = os.pipe()
    head = await asyncio.create_subprocess_exec("head", "-n", "2", stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    async with listen(mgr, stdout=writing) as listening:
        os.close(writing)
        await listening.said(READY)
        for body in "ab":
            assert (await mgr.send(body, to="Worker/0/0")).ok
        output, _ = await soon(head.communicate(), PATIENCE_S)
        assert output == b"Mgr/0 default a\nMgr/0 default b\n"
        assert await listening.exit_code() == 0
    assert listening.errors.count("\n") == 1  # the line that says ready
    assert (await mgr.send("c", to="Worker/0/0")).code == Code.NO_ROUTE


async def test_reader_that_is_stopped_costs_5001_and_not_the_link(mgr: WatchedNode) -> None:
    """Messages are held back where they are, not lost, and the node goes on."""
    async with listen(mgr) as listening:
        await listening.said(READY)
        sent = []
        while (ack := await mgr.send("x" * 50_000, to="Worker/0/0")).ok:
            sent.append(ack)
            assert len(sent) < 100
        assert (ack.code, str(ack.src)) == (Code.RECV_BUF_BUSY, "Worker/0/0")
        for _ in sent:
            assert len(await listening.line()) == 50_000 + len("Mgr/0 default ")
        assert (await mgr.send("again", to="Worker/0/0")).ok
        assert await listening.line() == "Mgr/0 default again"


async def test_a_position_that_a_node_has_is_refused(mgr: WatchedNode) -> None:
    async with listen(mgr) as first:
        await first.said(READY)
        for command in (("listen", "--timeout", 20), ("send", "Mgr", "x")):
            code, output, errors = await run(*command, "--as", "Worker/0/0", "--upstream", mgr.address)
            assert (code, output) == (2, "")
            text = "as is 'Worker/0/0', which a node has that answers; --take-over takes its messages, and cuts it off"
            assert errors == f"Error: {text} (from --as)\n"
        assert (await mgr.send("kept", to="Worker/0/0")).ok
        assert await first.line() == "Mgr/0 default kept"
        async with listen(mgr, "--take-over") as second:
            await second.said(READY)
            assert (await mgr.send("taken", to="Worker/0/0")).ok
            assert await second.line() == "Mgr/0 default taken"


async def test_a_node_that_is_stopped_keeps_its_position(mgr: WatchedNode) -> None:
    async with listen(mgr) as first:
        await first.said(READY)
        first.signal(signal.SIGSTOP)
        code, _, errors = await run("listen", "--as", "Worker/0/0", "--upstream", mgr.address, "--timeout", 20)
        first.signal(signal.SIGCONT)
        assert code == 2 and "which a node has that does not answer (6001 NETWORK_ACK_LOST" in errors


async def test_timeout(mgr: WatchedNode) -> None:
    arguments = ("listen", "--as", "Worker/0/0", "--upstream", mgr.address, "--timeout", 0.3)
    code, output, _ = await run(*arguments)
    assert (code, output) == (0, "")
    code, output, _ = await run(*arguments, "--count", 1)
    assert (code, output) == (1, "")


async def test_not_joined_in_time_is_3() -> None:
    nowhere = free_address()
    code, output, errors = await run("listen", "--as", "Agent/0", "--upstream", nowhere, "--timeout", 0.3)
    assert (code, output) == (3, "")
    assert f"Error: nobody listens at {nowhere}; the machine is there. Try: " in errors


LEAF = "expected the position of an Agent or a Worker, e.g. Agent/0 or Worker/0/3"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), f"as is missing; {LEAF}"),
        (("--as", "Worker/0"), f"as is 'Worker/0'; {LEAF} (from --as)"),
        (("--as", "Agent/0", "--count", "0"), "Invalid value for '--count': 0 is not in the range x>=1."),
    ],
)
def test_wrong_use_is_2(arguments: tuple[str, ...], expected: str) -> None:
    assert refused("listen", *arguments) == expected


async def test_position_that_somebody_else_takes_is_said(mesh: Mesh, mgr: WatchedNode) -> None:
    async with listen(mgr) as listening:
        await listening.said(READY)
        await mesh.worker(0, 0, mgr)
        await listening.said(r"position_taken .*position=Worker/0/0")
        listening.signal(signal.SIGINT)
        assert await listening.exit_code() == 0


async def test_all_of_it_between_processes_alone(tmp_path: Path) -> None:
    """Mgr, two Proxies, two listeners and a sender, across the tree."""
    async with Daemon("mgr", logs=tmp_path) as mgr:
        left = Daemon("proxy", "--upstream", mgr.address, "--server-rank", 0, logs=tmp_path)
        right = Daemon("proxy", "--upstream", mgr.address, "--server-rank", 1, logs=tmp_path)
        async with left, right:
            listeners = [
                Command("listen", "--as", f"Worker/{rank}/{rank}", "--count", 1, "--upstream", proxy.address)
                for rank, proxy in enumerate((left, right))
            ]
            async with listeners[0], listeners[1]:
                for listener in listeners:
                    await listener.said(" ready, ")
                assert (await run("send", "Worker/All/All", "stop", "--upstream", left.address))[0] == 0
                for listener in listeners:
                    assert (await soon(listener.line())).endswith(" default stop")
                    assert await listener.exit_code() == 0
