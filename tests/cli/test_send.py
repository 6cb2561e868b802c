"""`taskd-net send` as a process: what arrives, what it prints, what it ends with."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskd_net import Code, Position
from tests.cli.inside import refused
from tests.cli.processes import Command, run
from tests.peers.mesh import Mesh, WatchedNode, both_links, soon
from tests.peers.slow import SlowChild
from tests.ports import free_address

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


@pytest.fixture
async def mgr(mesh: Mesh) -> WatchedNode:
    """The root."""
    return await mesh.mgr()


@both_links
async def test_message_arrives_and_its_answer_is_printed(mesh: Mesh, mgr: WatchedNode) -> None:
    worker = await mesh.worker(0, 3, mgr)
    assert await run("send", "Worker/0/3", "hello", "--mtype", "ACTION", "--upstream", mgr.address) == (
        0, "0 OK from Worker/0/3\n", ""
    )  # fmt: skip
    message = await worker.take()
    assert (message.body, message.mtype, message.sync, message.dst) == ("hello", "ACTION", True, worker.position)
    # By default it is an Agent of a rank that no job has, and when it has ended nobody knows it any more.
    assert re.fullmatch(r"Agent/1\d{9}", str(message.src))
    assert set(mgr.routes()) == {worker.position}
    assert (await mgr.send("x", to="Agent/All")).code == Code.NO_ROUTE


async def test_answer_as_json(mgr: WatchedNode) -> None:
    code, output, errors = await run("send", "Mgr", "x", "--json", "--upstream", mgr.address)
    message = await mgr.take()
    detail = "delivered (sync) or taken by the first hop (async)"
    expected = {"code": 0, "name": "OK", "src": "Mgr/0", "uuid": message.uuid, "detail": detail}
    assert (code, json.loads(output), errors) == (0, expected | {"receivers": 1, "failures": []}, "")


async def test_answer_to_a_broadcast_says_how_many(mesh: Mesh, mgr: WatchedNode) -> None:
    """Below a Proxy too; who sends it from there is not among them."""
    proxy = await mesh.proxy(0, mgr)
    for rank in range(3):
        await mesh.worker(0, rank, proxy)
    full = await mesh.worker(0, 7, mgr)
    code, output, _ = await run("send", "Worker/All/All", "x", "--upstream", proxy.address)
    assert code == 0 and re.fullmatch(r"0 OK from Worker/0/\d, 4 nodes have it\n", output)
    full.close_inbox()
    code, output, _ = await run("send", "Worker/All/All", "x", "--upstream", proxy.address)
    assert code == 1 and output.startswith("5000 RECV_BUF_NIL from Worker/0/7: ")
    assert output.endswith(", 3 nodes have it\n")
    code, output, _ = await run("send", "Worker/0/0,1,7", "x", "--json", "--upstream", proxy.address)
    answer = json.loads(output)
    assert (code, answer["code"], answer["receivers"]) == (1, 5000, 2)
    assert answer["failures"] == [{"position": "Worker/0/7", "code": 5000, "name": "RECV_BUF_NIL"}]
    code, output, _ = await run("send", "Worker/0/0,1,7,8", "x", "--upstream", proxy.address)
    assert code == 1 and output.endswith(", 2 nodes have it, not Worker/All/8 (5002), Worker/0/7 (5000)\n")


async def test_answer_to_a_broadcast_over_the_four_calls_says_that_it_does_not_know(
    mesh: Mesh, mgr: WatchedNode
) -> None:
    proxy = await mesh.proxy(0, mgr, links="tasknet")
    await mesh.worker(0, 0, proxy)
    for to in ("Worker/All/All", "Worker/0/All"):
        _, output, _ = await run("send", to, "x", "--upstream", mgr.address)
        assert output == "0 OK from Worker/0/0, nobody knows how many\n"


async def test_roles_are_read_in_any_case(mesh: Mesh, mgr: WatchedNode) -> None:
    worker = await mesh.worker(0, 3, mgr)
    sent = await run("send", "wORKER/0/3", "x", "--as", "agent/7", "--upstream", mgr.address)
    assert sent == (0, "0 OK from Worker/0/3\n", "")
    assert (await worker.take()).src == Position.agent(7)
    assert (await run("send", "mgr", "x", "--upstream", mgr.address))[1] == "0 OK from Mgr/0\n"


async def test_body_comes_from_a_file_as_it_is(mgr: WatchedNode, tmp_path: Path) -> None:
    (tmp_path / "body").write_text("é\n\nlast line\n")
    code, _, _ = await run("send", "Mgr", "--file", tmp_path / "body", "--upstream", mgr.address)
    assert (code, (await mgr.take()).body) == (0, "é\n\nlast line\n")


@pytest.mark.parametrize("body", [(), ("-",), ("--stdin",)])
async def test_body_comes_from_stdin_as_it_is(mgr: WatchedNode, body: tuple[str, ...]) -> None:
    code, _, _ = await run("send", "Mgr", *body, "--upstream", mgr.address, stdin="é\n\nlast line\n".encode())
    assert (code, (await mgr.take()).body) == (0, "é\n\nlast line\n")


async def test_nothing_on_stdin_is_an_empty_body(mgr: WatchedNode) -> None:
    code, _, _ = await run("send", "Mgr", "--upstream", mgr.address)
    assert (code, (await mgr.take()).body) == (0, "")


async def test_settings_come_from_the_environment(mgr: WatchedNode) -> None:
    env = {"TASKD_NET_UPSTREAM": str(mgr.address), "TASKD_NET_AS": "Worker/7/77", "TASKD_NET_MTYPE": "REPORT"}
    assert (await run("send", "Mgr", "x", env=env))[0] == 0
    message = await mgr.take()
    assert (message.src, message.mtype) == (Position.worker(7, 77), "REPORT")


async def test_broadcast_and_post(mesh: Mesh, mgr: WatchedNode) -> None:
    workers = [await mesh.worker(0, rank, mgr) for rank in range(2)]
    assert (await run("send", "Worker/All/All", "all", "--upstream", mgr.address))[0] == 0
    code, output, _ = await run("send", "Worker/0/1", "posted", "--no-sync", "--upstream", mgr.address)
    assert (code, output) == (0, "0 OK from Mgr/0\n")
    assert [(await worker.take()).body for worker in workers] == ["all", "all"]
    posted = await workers[1].take()
    assert (posted.body, posted.sync) == ("posted", False)


@pytest.mark.parametrize(
    ("dest", "code", "name", "detail"),
    [
        ("Worker/9/9", 5002, "NO_ROUTE", "nobody on the way knows the destination"),
        (
            "Worker/0,1/9",
            5002,
            "NO_ROUTE",
            "nobody on the way knows the destination, 0 nodes have it, not Worker/0/All (5002)",
        ),
    ],
)
async def test_not_delivered_is_1(mgr: WatchedNode, dest: str, code: int, name: str, detail: str) -> None:
    exit_code, output, errors = await run("send", dest, "x", "--upstream", mgr.address)
    assert (exit_code, errors) == (1, "")
    assert re.fullmatch(rf"{code} {name} from Mgr/0: {re.escape(detail)}\n", output)


async def test_message_that_is_too_large_is_1(mgr: WatchedNode) -> None:
    code, output, _ = await run("send", "Mgr", "--upstream", mgr.address, stdin=b"x" * 8_388_609)
    assert code == 1
    assert output.startswith("4999 CLIENT_ERR from Agent/")
    assert "the limit is 8388608" in output


async def test_not_joined_in_time_is_3() -> None:
    nowhere = free_address()
    code, output, errors = await run(
        "send", "Mgr", "x", "--upstream", nowhere, "--timeout", 0.3, "--as", "Worker/0/0", "--json"
    )
    assert code == 3
    assert errors.startswith(f"Error: nobody listens at {nowhere}; the machine is there. Try: taskd-net doctor ")
    assert errors.count("\n") == 1
    answer = json.loads(output)
    assert (answer["code"], answer["name"], answer["src"]) == (6002, "NET_STREAM_NOT_INITED", "Worker/0/0")


LEAF = "expected the position of an Agent or a Worker, e.g. Agent/0 or Worker/0/3"
ADDRESS = "expected host:port, e.g. 127.0.0.1:9602 or [::1]:9602"
SECONDS = "expected a number of seconds from 0 to 86400"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nobody", "x"), "DEST: 'nobody' is not a position; expected Role/serverRank[/processRank], e.g. Worker/0/3"),
        (("Boss/0", "x"), "DEST: role 'Boss' is not one of Mgr, Proxy, Agent, Worker"),
        (("worker/0/x", "x"), "DEST: processRank 'x' is not a natural number, a comma list of them, or 'All'"),
        (("Agent/-1", "x"), "DEST: serverRank '-1' is not a natural number, a comma list of them, or 'All'"),
        (("Mgr", "x", "--file", "y"), "BODY and --file are given; expected one of them"),
        (("Mgr", "--stdin", "--file", "y"), "--file and --stdin are given; expected one of them"),
        (
            ("Mgr", "--file", "/missing"),
            "file is '/missing'; expected a file with UTF-8 text: No such file or directory",
        ),
        (
            ("Mgr", "--file", "/dev/zero"),
            "file is '/dev/zero'; expected a file with UTF-8 text: it has more than the 8388608 bytes of a message",
        ),
        (("Mgr", "x", "--as", "Proxy/0"), f"as is 'Proxy/0'; {LEAF} (from --as)"),
        (("Mgr", "x", "--upstream", "here"), f"upstream is 'here'; {ADDRESS} (from --upstream)"),
        (("Mgr", "x", "--timeout", "inf"), f"timeout is 'inf'; {SECONDS} (from --timeout)"),
        ((), "Missing argument 'DEST'."),
    ],
)
def test_wrong_use_is_2(arguments: tuple[str, ...], expected: str) -> None:
    assert refused("send", *arguments) == expected


async def test_body_that_is_not_text_is_2() -> None:
    assert await run("send", "Mgr", stdin=b"\xff") == (
        2, "", "Error: BODY from the standard input is not UTF-8 text: invalid start byte\n"
    )  # fmt: skip


async def test_signal_ends_it_in_good_order(mgr: WatchedNode, mesh: Mesh) -> None:
    async with SlowChild("Worker/0/0") as mute:
        await mute.join(mgr.address or "")
        async with Command("send", "Worker/0/0", "x", "--timeout", 60, "--upstream", mgr.address) as sending:
            await soon(mute.asked.wait(), 20)
            sending.signal(signal.SIGINT)
            assert (await sending.rest(), await sending.exit_code()) == ("", 130)
    assert not [node for node in mgr.routes() if node.role == "Agent"]
