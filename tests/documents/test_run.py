"""Every command of ours in the documents works, on a mesh.

A command that ends must exit with 0, or with 1 where that is a finding (a missing node). A command that goes on must
print something, and ends by SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from taskd_net import Node, NodeConfig
from tests.cli import processes
from tests.cli.processes import Daemon
from tests.documents.pages import PAGES, Command, commands
from tests.etcd.server import ETCD, etcd_server

pytestmark = [
    pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout"),
    pytest.mark.timeout(240),
]

NOT_RUN: Final = {
    ("bench",): "takes minutes: tests/benchmarks and tests/lab/test_bench.py run its measures, `make bench` all of it",
    ("clusterd-sim",): "goes on until its scenario ends: tests/lab/clusterd/test_command.py and tests/sim run it",
    ("simulate",): "goes on until Ctrl-C: tests/lab/test_simulate.py runs it",
    ("run",): "needs torch: tests/torch runs it in `make torch`",
    ("context",): "they follow each other, and tests/cli/test_context.py runs them so",
    ("demo",): "tests/cli/test_demo.py and tests/lab/demos/job run it",
}
"""Commands that test_commands.py checks and this module does not run, by first words, each with the reason."""

NAMED: Final = {
    *(("send",), ("listen",), ("ping",), ("trace",), ("health",), ("certs",), ("doctor",), ("forget",), ("faults",)),
}
"""Commands that sentences name without arguments."""

RUN_ELSEWHERE: Final = {
    "README.md": "tests/documents/test_first_minutes.py and tests/install/new_user.py do, in its order",
    "docs/operators-guide.md": "tests/guide runs them, in their situations, and compares what they print",
    "docs/diagnosis.md": "tests/cli/test_diagnosis.py does",
    "docs/security.md": "tests/cli/test_certs.py runs them one after another, with the files that they make",
}

OWN_IP: Final = f"127.{os.getpid() >> 16 & 127}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"
"""A loopback address for each run, because a Manager with `POD_IP` has a fixed port."""
WORKERS: Final = ("Worker/0/0", "Worker/0/3", "Worker/0/7", "Worker/3/24")
TOGETHER: Final = 2


def chosen() -> list[Command]:
    """The commands to run, each once."""
    found: dict[object, Command] = {}
    for command in commands():
        words = command.words[1:]
        if not command.words[0].endswith("taskd-net") or not command.complete or words[:1] in NOT_RUN:
            continue
        if (command.page in RUN_ELSEWHERE) if command.shown else (words in NAMED):
            continue
        found[words, tuple(command.variables.items())] = command
    return list(found.values())


class Places:
    """The substitutes for the addresses and files of the documents.

    Args:
        mgr, proxy: their addresses.
        folder: for files.
        etcd: for the state of a Manager; a file where there is no etcd.
    """

    def __init__(self, mgr: str, proxy: str, folder: Path, etcd: str) -> None:
        self._folder = folder
        self._etcd = etcd
        self._addresses = {
            **dict.fromkeys(("10.0.0.7:9601", "127.0.0.1:9601", "node-0:9601"), mgr),
            **dict.fromkeys(("127.0.0.1:9602", "node-3:9602"), proxy),
            **dict.fromkeys(("0.0.0.0:9601", "[::]:9602", "127.0.0.1:0"), "127.0.0.1:0"),
            "10.0.0.7": OWN_IP,
            "8080": "0",  # of the status page
        }
        self._upstreams = {"proxy": mgr, "doctor": mgr, "config": mgr}
        self._mgr, self._proxy = mgr, proxy
        self._settings = folder / "settings.toml"
        self._settings.write_text("drain = 5.0\n")
        (folder / "etc-certs").mkdir()
        self._faults = folder / "fault-config"
        self._faults.mkdir()
        (self._faults / "faultCode.json").write_text('{"NotHandleFaultCodes": ["8C0A4E00"]}')
        (self._faults / "events.jsonl").write_text('{"at": 0, "device": "npu-0", "code": "8C0A4E00"}\n')

    def words(self, words: Iterable[str]) -> list[str]:
        """The arguments with substitutes."""
        found = [self._addresses.get(word, word) for word in words]
        listens = [number for number, word in enumerate(found) if word == "--listen"]
        for number in listens:
            found[number + 1] = "127.0.0.1:0"
        etc = str(self._folder / "etc-certs")
        files = {
            **dict.fromkeys(("taskd-net.toml", "/etc/taskd-net.toml"), str(self._settings)),
            "/etc/taskd-net/certs": etc,
            "/etc/taskd/plugins": etc,
            "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/taskd/J": self._etcd,
            "/var/lib/taskd/j.sqlite3": str(self._folder / "j.sqlite3"),
            "/etc/mindx-dl/fault-config": str(self._faults),
            "events.jsonl": str(self._faults / "events.jsonl"),
            "events.svg": str(self._folder / "events.svg"),
        }
        return [files.get(word, word) for word in found]

    def variables(self, command: Command) -> dict[str, str]:
        """The environment: the document's assignments, and substitutes for a user's defaults."""
        given = {name: self._addresses.get(value, value) for name, value in command.variables.items()}
        ours = {"TASKD_LOG_PATH": str(self._folder), "TASKD_NET_AT": self._mgr, "HOME": str(self._folder)}
        ours["XDG_CONFIG_HOME"] = str(self._folder)
        if "--upstream" not in command.words:
            ours["TASKD_NET_UPSTREAM"] = self._upstreams.get(command.words[1], self._proxy)
        if command.words[1] in ("mgr", "proxy") and "POD_IP" not in given:
            ours["TASKD_NET_LISTEN"] = "127.0.0.1:0"
        return {**ours, **given}


async def carried_out(command: Command, places: Places, folder: Path) -> str:
    """Run a command. Returns its fault, empty without one."""
    words = places.words(command.words[1:])
    goes_on = (words[0] == "top" and "--count" not in words) or {"--watch", "0"} & set(words)
    endless = bool(goes_on) or words[0] in ("mgr", "proxy", "listen")
    fed = b"step 100" if command.fed or words[0] == "send" else None
    variables = {**places.variables(command), "TASKD_NET_STATE": str(folder / "state")}
    run = processes.Command(*words, env=variables, stdin=fed, cwd=folder)
    async with run:
        if endless:
            if words[0] == "listen":
                await run.said(" ready, ")
            elif not await run.line() or (words[0] == "ping" and not await run.line()):  # after its heading
                return f"prints nothing: {run.errors}"
            run.signal(signal.SIGTERM)
        output = await run.rest()
        code = await run.exit_code()
    allowed = {0, -signal.SIGTERM, 128 + signal.SIGTERM} if endless else {0} if words[0] != "tree" else {0, 1}
    if words[0] == "doctor":
        allowed = {0, 1}  # a finding here: the port of the node beside it is taken
    if words[0] == "job":
        allowed = allowed | {1}  # an Agent in trouble
    if words[0] == "forget":
        allowed = {0, 1}  # a connected or unknown node is not forgotten
    return "" if code in allowed else f"ended with {code}: {output}{run.errors}"


@pytest.mark.more
async def test_every_command_is_understood_and_carried_out(tmp_path: Path) -> None:
    known = chosen()
    assert len(known) > 40
    faults: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        deciding = ("--job-id", "J", "--state", str(tmp_path / "state"))
        mgr = await stack.enter_async_context(Daemon("mgr", *deciding, logs=tmp_path))
        proxy = await stack.enter_async_context(Daemon("proxy", "--upstream", mgr.address, logs=tmp_path))
        etcd = str(tmp_path / "etcd.sqlite3")
        if ETCD is not None:
            member = await stack.enter_async_context(etcd_server(tmp_path / "etcd"))
            etcd = f"etcd://{member.address}/taskd/J"
        places = Places(mgr.address, proxy.address, tmp_path, etcd)
        turns = asyncio.Semaphore(TOGETHER)
        home = {"XDG_CONFIG_HOME": str(tmp_path)}
        async with processes.Command("context", "add", "prod", "--at", mgr.address, env=home) as made:
            assert await made.exit_code() == 0

        async def run(number: int, command: Command) -> None:
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "order.json").write_text("{}")
            async with turns:
                if command.words[1:3] == ("certs", "issue"):
                    async with processes.Command("certs", "init", cwd=folder) as made:
                        assert await made.exit_code() == 0
                if fault := await carried_out(command, places, folder):
                    faults[f"{command.page}: {command.text}"] = fault

        takes_a_place = ("listen", "proxy")
        for number, command in enumerate(known):
            if command.words[1] in takes_a_place:
                await run(number, command)
        for name in (*WORKERS, "Agent/2", "Agent/1000"):
            role, server_rank, *rank = re.split("/", name)
            config = (
                NodeConfig.worker(server_rank=int(server_rank), rank=int(rank[0]), upstream=proxy.address)
                if role == "Worker"
                else NodeConfig.agent(server_rank=int(server_rank), upstream=proxy.address)
            )
            node = await stack.enter_async_context(Node(config))
            await node.joined(20.0)
            reader = asyncio.create_task(_read(node))
            stack.push_async_callback(_ended, reader)
        await asyncio.gather(
            *(run(number, command) for number, command in enumerate(known) if command.words[1] not in takes_a_place)
        )
    assert faults == {}


async def _read(node: Node) -> None:
    async for _ in node.messages():
        pass


async def _ended(reader: asyncio.Task[None]) -> None:
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


def test_what_is_run_elsewhere_is_there() -> None:
    pages = {command.page for command in commands()}
    assert set(RUN_ELSEWHERE) <= pages
