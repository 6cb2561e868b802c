"""`taskd-net ping` and `taskd-net trace` as processes, in a tree of processes."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from taskd_net.base.position import Position
from taskd_net.cli.ping import Summary, percentile
from taskd_net.observe.probe_codec import Echo
from tests.cli.inside import refused
from tests.cli.processes import Command, Daemon, run
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh
from tests.peers.parent import RawParent
from tests.ports import free_address

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(120)]

MS = r"\d+\.\d+ ms"


@dataclass
class Tree:
    """A Mgr, two Proxies, two Workers; the second Proxy does without the fast link."""

    mgr: Daemon
    proxies: list[Daemon]
    workers: list[Command]


@pytest.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    """All of it as processes."""
    async with AsyncExitStack() as stack:
        mgr = await stack.enter_async_context(Daemon("mgr", logs=tmp_path))
        proxies, workers = [], []
        for rank, links in enumerate(("direct", "tasknet")):
            arguments = ("--upstream", mgr.address, "--server-rank", rank, "--links", links)
            proxies.append(await stack.enter_async_context(Daemon("proxy", *arguments, logs=tmp_path)))
            worker = Command("listen", "--as", f"Worker/{rank}/{rank}", "--upstream", proxies[rank].address)
            workers.append(await stack.enter_async_context(worker))
        for worker in workers:
            await worker.said(" ready, upstream ")
        yield Tree(mgr, proxies, workers)


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


async def test_ping_and_trace_of_a_tree(tree: Tree) -> None:
    at = ("--at", tree.mgr.address)
    code, output, errors = await run("ping", "Worker/0/0", "--count", 3, "--interval", 0.01, *at)
    lines = output.splitlines()
    assert (code, errors, len(lines)) == (0, "", 5)
    assert lines[0] == f"PING Worker/0/0 from Mgr/0 at {tree.mgr.address}"
    for number, line in enumerate(lines[1:4], 1):
        assert re.fullmatch(rf"{number}  Worker/0/0  {MS}", line)
    figures = r"min \S+, avg \S+, median \S+, p99 \S+, max \S+ ms"
    assert re.fullmatch(rf"Worker/0/0: 3 sent, 3 answered, 0 % lost; {figures}", lines[4])

    code, output, errors = await run("trace", "Worker/1/1", *at)
    lines = output.splitlines()
    assert (code, errors, len(lines)) == (0, "", 4)
    # The reason of a kind comes with the report of its node, which may not be there yet.
    reason = "this node is configured for tasknet links at best"
    assert re.fullmatch(rf" 1  tasknet  Proxy/1  {MS}(  tasknet: {reason})?", lines[1])
    assert re.fullmatch(rf" 2  tasknet  Worker/1/1  {MS}(  tasknet: the parent offers no direct link)?", lines[2])
    assert lines[3] == "reached Worker/1/1: 2 hops"

    code, output, _ = await run("ping", "Worker/0/All", "--count", 1, *at)
    assert code == 0 and re.search(rf"\n1  \S+  {MS}, 1 node answered\n", output)
    code, output, _ = await run("ping", "Worker/0/All", "--count", 1, "--json", *at)
    answer = json.loads(output.splitlines()[0])
    assert (code, answer["receivers"], answer["failures"]) == (0, 1, [])
    _, output, _ = await run("ping", "Worker/1/All", "--count", 1, *at)
    assert re.search(rf"\n1  \S+  {MS}, nobody knows how many\n", output)

    for to, expected in (("Worker/All/All", 0), ("Worker/0,1/0,1", 0), ("Proxy/All", 0), ("Worker/0,1/0,9", 1)):
        assert (await run("ping", to, "--count", 1, *at))[0] == expected, to
    assert (await run("ping", "worker/0/0", "--count", 1, *at))[1].startswith("PING Worker/0/0 from Mgr/0 ")

    # Started elsewhere, the way is another.
    code, output, _ = await run("trace", "Worker/1/1", "--at", tree.proxies[0].address)
    assert [line.split()[1:3] for line in output.splitlines()[1:-1]] == [
        ["direct", "Mgr/0"], ["tasknet", "Proxy/1"], ["tasknet", "Worker/1/1"],
    ]  # fmt: skip

    # Of all that no application has seen anything.
    assert (await run("send", "Worker/All/All", "a message", "--upstream", tree.mgr.address))[0] == 0
    for worker in tree.workers:
        assert (await worker.line()).endswith(" default a message")


async def test_what_is_missing_and_what_is_frozen(tree: Tree) -> None:
    at = ("--at", tree.mgr.address)
    code, output, errors = await run("ping", "Worker/0/9", "--count", 2, "--interval", 0.01, "--json", *at)
    *answers, summary = [json.loads(line) for line in output.splitlines()]
    assert (code, errors) == (1, "")
    assert [(answer["seq"], answer["code"], answer["name"], answer["src"]) for answer in answers] == [
        (1, 5002, "NO_ROUTE", "Mgr/0"), (2, 5002, "NO_ROUTE", "Mgr/0"),
    ]  # fmt: skip
    assert (summary["sent"], summary["answered"], summary["loss"], summary["p99_ms"]) == (2, 0, 1.0, None)

    code, output, _ = await run("trace", "Worker/1/9", "--at", tree.proxies[0].address)
    assert code == 1
    assert re.search(
        r"^ 1  direct   Mgr/0  .*\n 2  -        5002 NO_ROUTE from Mgr/0: nobody on the way", output, re.MULTILINE
    )
    assert output.endswith("ends after Mgr/0\n")

    tree.workers[0].signal(signal.SIGSTOP)
    # A hop has 95 % of what its sender waits: long enough here that a busy Proxy answers before the Mgr gives it up.
    code, output, _ = await run("trace", "Worker/0/0", "--timeout", 8, "--json", *at)
    traced = json.loads(output)
    assert (code, traced["reached"], traced["from"]) == (1, False, "Mgr/0")
    way, end = traced["hops"]
    assert (way["code"], way["src"], way["link"]) == (0, "Proxy/0", "direct")
    assert (end["code"], end["name"], end["src"]) == (6001, "NETWORK_ACK_LOST", "Worker/0/0")
    code, output, _ = await run("ping", "Worker/All/All", "--timeout", 8, "--count", 1, *at)
    assert code == 1 and "6001 NETWORK_ACK_LOST from Worker/0/0" in output
    # One's trouble is nobody else's.
    assert (await run("ping", "Worker/1/1", "--count", 1, *at))[0] == 0
    tree.workers[0].signal(signal.SIGCONT)


REASON: Final = "it knows no probes (not a node of taskd_net, or an older one), so it was not asked"
NOT_ASKED: Final = f"4999 CLIENT_ERR from Worker/0/5: {REASON}"


async def test_foreign_child(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/5") as leaf:
        await leaf.join(mgr.address or "")
        code, output, _ = await run("trace", "Worker/0/5", "--at", mgr.address)
        assert code == 1
        assert " 1  tasknet  4999 CLIENT_ERR from Worker/0/5: it knows no probes" in output
        assert output.endswith("ends after Mgr/0\n")
        code, output, _ = await run("ping", "Worker/0/5", "--at", mgr.address)
        assert code == 1
        (_, said) = output.splitlines()
        assert said.startswith("Worker/0/5: 4999 CLIENT_ERR from Worker/0/5: it knows no probes")
        code, output, _ = await run("ping", "Worker/0/5", "--json", "--at", mgr.address)
        (summary,) = map(json.loads, output.splitlines())
        assert (code, summary["sent"], summary["loss"]) == (1, 0, None)
        assert "was not asked" in summary["not_asked"]
        code, output, _ = await run("ping", "Worker/All/All", "--at", mgr.address)
        (_, said) = output.splitlines()
        assert (code, said) == (1, f"Worker/All/All: {NOT_ASKED}")
        await mesh.worker(0, 0, mgr)
        at = ("--count", 2, "--interval", 0.01, "--at", mgr.address)
        code, output, _ = await run("ping", "Worker/All/All", *at)
        (_, one, _, said) = output.splitlines()
        assert code == 1 and one.endswith(" ms, 1 node answered")
        assert said.startswith("Worker/All/All: 2 sent, 2 answered, 0 % lost; min ") and said.endswith(f"; {NOT_ASKED}")
        code, output, _ = await run("ping", "Worker/0/0,5", *at, "--json")
        *_, summary = map(json.loads, output.splitlines())
        assert (code, summary["sent"], summary["answered"], summary["loss"]) == (1, 2, 2, 0.0)
        assert summary["not_asked"] == NOT_ASKED
        # A node that is missing is a loss.
        code, output, _ = await run("ping", "Worker/0/0,5,9", *at)
        assert code == 1 and output.endswith("Worker/0/0,5,9: 2 sent, 0 answered, 100 % lost\n")
        assert leaf.received.empty()


async def test_signal_ends_a_series_with_its_summary(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with Command("ping", "Mgr", "--count", 0, "--at", mgr.address) as pinging:
        assert (await pinging.line()).startswith("PING ")
        assert re.fullmatch(rf"1  Mgr/0  {MS}", await pinging.line())
        pinging.signal(signal.SIGINT)
        assert re.search(r"\d+ answered, 0 % lost", await pinging.rest())
        assert await pinging.exit_code() == 0


@pytest.mark.parametrize("command", ["ping", "trace"])
async def test_nobody_to_ask(command: str) -> None:
    address = free_address()
    code, _, errors = await run(command, "Mgr", "--at", address)
    assert code == 3
    assert errors.startswith(f"Error: nobody listens at {address}; ")
    async with RawParent() as foreign:
        code, _, errors = await run(command, "Mgr", "--at", foreign.address)
        assert (code, errors.count("\n")) == (3, 1)
        assert "is not a node of taskd_net" in errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ping", "nobody"), "DEST: 'nobody' is not a position"),
        (("ping", "Mgr", "--at", "9601"), "at is '9601'; expected host:port"),
        (("ping", "Mgr", "--timeout", "soon"), "timeout is 'soon'; expected a number of seconds"),
        (("trace", "Worker/All/All"), "DEST: Worker/All/All is more than one position"),
        (("trace", "Boss/1"), "DEST: role 'Boss' is not one of"),
        (("ping", "Boss/1"), "DEST: role 'Boss' is not one of"),
        (("ping", "worker/0"), "DEST: a Worker needs a rank: Worker/NODE/RANK, e.g. Worker/0/3 or Worker/All/0,3,7"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: tuple[str, ...], text: str) -> None:
    assert text in refused(*arguments)


def test_summary() -> None:
    summary = Summary()
    assert Summary().complete is False
    assert summary.as_text("Mgr/0") == "Mgr/0: 0 sent, 0 answered, nothing lost"
    assert summary.as_object("Mgr/0")["loss"] is None
    for number in range(1, 101):
        summary.add(Echo(0, Position.mgr(), number / 1000.0))
    assert summary.complete
    assert summary.as_object("Mgr/0") == {
        "to": "Mgr/0", "sent": 100, "answered": 100, "loss": 0.0,
        "min_ms": 1.0, "avg_ms": 50.5, "median_ms": 50.5, "p99_ms": 99.0, "max_ms": 100.0,
    }  # fmt: skip
    summary.add(Echo(5002, Position.mgr(), 9.0))
    assert (summary.sent, summary.as_object("Mgr/0")["answered"]) == (101, 100)
    assert "101 sent, 100 answered, 0.99 % lost; min 1.0, " in summary.as_text("Mgr/0")
    assert [percentile([1.0], 0.99), percentile([1.0, 2.0], 0.99), percentile([1.0, 2.0], 0.5)] == [1.0, 2.0, 1.0]
