"""`taskd-net tree`, `top` and `health` against real processes, some of which are killed and stopped."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import refused
from tests.cli.processes import PATIENCE_S, Command, Daemon, run
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(120)


class Member(Command):
    """A Worker."""

    program = ("-m", "tests.cli.member")


class Job:
    """A Mgr that expects 2x2, its two Proxies, and the Workers 0, 1 and 2; nobody is rank 3."""

    def __init__(self) -> None:
        self.mgr: Daemon
        self.proxies: list[Daemon] = []
        self.workers: list[Member] = []

    async def start(self, stack: AsyncExitStack, logs: Path) -> None:
        """Start all of them, and wait until they have joined."""
        self.mgr = await stack.enter_async_context(Daemon("mgr", "--expect", "2x2", logs=logs))
        for rank in (0, 1):
            proxy = Daemon("proxy", "--server-rank", rank, "--upstream", self.mgr.address, logs=logs)
            self.proxies.append(await stack.enter_async_context(proxy))
        for rank in (0, 1, 2):
            node = rank // 2
            member = Member(self.proxies[node].address, node, rank)
            self.workers.append(await stack.enter_async_context(member))
        for worker in self.workers:
            assert await worker.line() == "joined"

    async def tree(self, *arguments: object) -> tuple[int, str]:
        """The output of `tree`, and its exit code."""
        code, output, errors = await run("tree", "--at", self.mgr.address, *arguments)
        assert not errors
        return code, output

    async def document(self) -> dict[str, Any]:
        """The document."""
        return dict(json.loads((await self.tree("--json"))[1]))

    async def until(self, position: str, state: str) -> float:
        """Wait until a node is in a state. Returns the seconds that it took."""
        began = time.monotonic()
        while True:
            states = {node["position"]: node["state"] for node in (await self.document())["nodes"]}
            if states.get(position) == state:
                return time.monotonic() - began
            assert time.monotonic() - began < PATIENCE_S, states


@pytest.fixture
async def job(tmp_path: Path) -> AsyncIterator[Job]:
    """A job whose processes all run."""
    made = Job()
    async with AsyncExitStack() as stack:
        await made.start(stack, tmp_path)
        yield made


async def test_a_job_with_a_missing_a_killed_and_a_frozen_rank(job: Job) -> None:
    await job.until("Worker/1/2", "joined")
    code, text = await job.tree()
    assert code == 1
    assert "missing of 2x2: 1: Worker 3\n" in text and "Worker/1/3  NEVER SEEN\n" in text
    assert text.splitlines()[0] == "Mgr/0: 6 nodes, 6 joined"
    code, text = await job.tree("--expect", "1x2")
    assert code == 0 and "missing of 1x2: none\n" in text

    job.workers[0].signal(signal.SIGKILL)
    await job.until("Worker/0/0", "lost")
    job.workers[1].signal(signal.SIGSTOP)
    await job.until("Worker/0/1", "not_answering")
    code, text = await job.tree()
    assert code == 1 and "missing of 2x2: 2: Worker 0,3\n" in text
    lines = {line.strip("│├└─ ").split("  ")[0]: line for line in text.splitlines()}
    assert "LOST  for " in lines["Worker/0/0"] and "NOT ANSWERING  for " in lines["Worker/0/1"]
    job.workers[1].signal(signal.SIGCONT)
    await job.until("Worker/0/1", "joined")

    job.proxies[1].signal(signal.SIGKILL)
    await job.until("Worker/1/2", "cut_off")
    assert "CUT OFF" in (await job.tree())[1]
    assert (await run("health", "--at", job.mgr.address))[:2] == (0, "SERVING\n")


async def test_watch_shows_it_again_and_top_shows_rates(job: Job) -> None:
    async with Command("tree", "--at", job.mgr.address, "--watch", "--json") as watch:
        first = json.loads(await watch.line())
        job.workers[2].signal(signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while {n["position"]: n["state"] for n in first["nodes"]}.get("Worker/1/2") != "lost":
                first = json.loads(await watch.line())
        watch.signal(signal.SIGINT)
        await watch.rest()
        assert await watch.exit_code() == -signal.SIGINT

    async with Command("top", "--at", job.mgr.address, "--interval", "0.2", "--json", "--role", "Worker") as top:
        # Beside the lines, which come five times a second: who reads one after each message falls behind them.
        seen = asyncio.Event()
        sending = asyncio.create_task(_send_until(seen, job.proxies[0].address))
        rates: dict[str, Any] = {}
        while not rates.get("Worker/0/0", {}).get("down_messages"):
            rates = json.loads(await top.line())["rates"]
        seen.set()
        await soon(sending, PATIENCE_S)
        top.signal(signal.SIGTERM)
        await top.rest()
        assert await top.exit_code() == -signal.SIGTERM

    # The sender of these messages has left, and the Mgr hears of that.
    async with asyncio.timeout(PATIENCE_S):
        while len(json.loads((await run("tree", "--at", job.mgr.address, "--json"))[1])["nodes"]) > 6:
            continue

    code, table, errors = await run("top", "--at", job.mgr.address, "--count", 1, "--role", "worker", "--by", "node")
    assert (code, errors) == (0, "")
    heading, columns, *rows = table.rstrip("\n").split("\n")
    assert heading.startswith("Mgr/0: 6 nodes, 1 in trouble, 2 missing, ") and columns.startswith("NODE ")
    states = dict(row.split()[:2] for row in rows)
    assert states.pop("Worker/1/2") in ("lost", "gone")  # gone after 30 s, which a busy machine takes for the commands
    assert states == {"Worker/0/0": "joined", "Worker/0/1": "joined"}


async def _send_until(seen: asyncio.Event, proxy: str) -> None:
    """Send messages, one after another. Each sender leaves: one that is killed as it registers may join afterwards."""
    while not seen.is_set():
        assert (await run("send", "Worker/0/0", "x", "--upstream", proxy))[0] == 0


@pytest.mark.parametrize("command", [("tree",), ("top",), ("tree", "--json", "--watch")])
async def test_nobody_to_ask_ends_it_with_3_and_one_line(command: tuple[str, ...]) -> None:
    code, output, errors = await run(*command, "--at", "127.0.0.1:9")
    assert (code, output) == (3, "")
    assert errors.startswith("Error: nobody listens at 127.0.0.1:9; ") and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("tree", "--expect", "4"), "expect is '4'; expected nodes x processes per node, e.g. 4x8 (from --expect)"),
        (("tree", "--at", "nowhere"), "at is 'nowhere'; expected host:port"),
        (("health", "--at", "nowhere"), "at is 'nowhere'; expected host:port"),
        (("mgr", "--expect", "0x8"), "expect is '0x8'; expected nodes x processes per node, e.g. 4x8 (from --expect)"),
        (("mgr", "--metrics-port", "x"), "metrics_port is 'x'; expected a port, or host:port"),
    ],
)
def test_wrong_values_are_named(arguments: tuple[str, ...], text: str) -> None:
    assert text in refused(*arguments)


async def test_health_as_json(tmp_path: Path) -> None:
    async with Daemon("proxy", "--upstream", "127.0.0.1:9", logs=tmp_path) as proxy:
        code, output, _ = await run("health", "--at", proxy.address, "--json")
        assert (code, json.loads(output)) == (1, {"address": proxy.address, "service": "", "status": "NOT_SERVING"})
    code, output, errors = await run("health", "--at", proxy.address, "--json")
    assert (code, json.loads(output)["status"]) == (3, None)
    assert json.loads(output)["detail"] == f"no node answers at {proxy.address}"
    assert errors.startswith(f"Error: nobody listens at {proxy.address}; ")


async def test_metrics_are_served_where_it_was_said_and_end_with_the_daemon(tmp_path: Path) -> None:
    async with Daemon("mgr", "--log-std-level", "INFO", "--metrics-port", "0", logs=tmp_path) as mgr:
        address = (await mgr.said(r"metrics_listening\s+address=(\S+)"))[1]
        host, port = address.split(":")
        assert host == "127.0.0.1"
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = (await soon(reader.read(), PATIENCE_S)).decode()
        assert "taskd_net_joined 1.0" in text
        writer.close()
        taken = await run("mgr", "--listen", "127.0.0.1:0", "--metrics-port", port, "--log-path", str(tmp_path / "2"))
        assert taken[0] == 1 and "cannot listen there: Address already in use (from --metrics-port)" in taken[2]
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0
