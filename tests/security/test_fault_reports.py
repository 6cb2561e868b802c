"""Reports of faults of devices in a mesh with certificates: each about the nodes that its sender speaks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from taskd_net import Ack, Code, Node, NodeConfig, Position, Role
from taskd_net.base.body import Body
from taskd_net.base.codes import ConfigError
from taskd_net.base.position import tool_of
from taskd_net.job.api.watcher import DeviceWatcher
from taskd_net.net.free_position import free_position, tool_position
from tests.cli.processes import PATIENCE_S, Daemon, run
from tests.manager.cluster import Leaf
from tests.peers.certificates import Folder

pytestmark = pytest.mark.timeout(120)

SEPARATE = "8C000006"
DEVICES = '["host-b/npu-0", "host-b/npu-1"]'


class Job:
    """A Mgr with its Manager, as a process, and Agents 0 and 1 below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mgr = Folder(folder / "mgr")
        self.address = ""
        self._stack = AsyncExitStack()

    def certificate(self, *names: str) -> Folder:
        """The folder with a certificate of these names."""
        made = Folder(self.folder / "_".join(names).replace("/", "_").replace("*", "any"), self.mgr.authority)
        made.issue(*(f"taskd://j/{name}" for name in names))
        return made

    async def start(self) -> None:
        """Start the processes; the Agents register, and have their go."""
        rules = self.folder / "rules"
        rules.mkdir()
        (rules / "faultCode.json").write_text(json.dumps({"SeparateNPUCodes": [SEPARATE]}))
        files = ("--ca", self.mgr.ca, "--server-key", self.mgr.key, "--server-crt", self.mgr.crt)
        given = ("--job", "j", "--job-id", "j", "--identity", "certificate", "--fault-config", rules)
        more = ("--state", self.folder / "state", "--fault-reporters", "Worker/0/7", "--plain-listen", "127.0.0.1:0")
        mgr = Daemon("mgr", *files, *given, *more, logs=self.folder)
        await self._stack.enter_async_context(mgr)
        self.address = mgr.address
        self.agents = [await self.agent(0, '["host-a/npu-0"]'), await self.agent(1, DEVICES)]

    @property
    def plain(self) -> str:
        """The address for processes without a certificate."""
        return next(str(line["plain_address"]) for line in self.lines() if "plain_address" in line)

    def lines(self) -> list[dict[str, object]]:
        """The lines of the Manager's log."""
        return [json.loads(line) for line in (self.folder / "manager.log").read_text().splitlines()]

    async def agent(self, node: int, devices: str) -> Leaf:
        """An Agent that has registered."""
        config = NodeConfig.agent(server_rank=node, upstream=self.address)
        leaf = Leaf(await self.join(config.position, f"Agent/{node}"))
        await leaf.register(Incarnation="p", Devices=devices)
        assert (await leaf.command()).code == 210
        return leaf

    async def join(self, position: Position, *names: str) -> Node:
        """A node with a certificate of these names."""
        tls = self.certificate(*names).connecting()
        node = Node(NodeConfig(position=position, upstream=self.address, tls=tls))
        await self._stack.enter_async_context(node)
        await node.joined(PATIENCE_S)
        return node

    def flags(self, *names: str) -> tuple[object, ...]:
        """The flags of a tool with a certificate of these names."""
        files = self.certificate(*names)
        return ("--upstream", self.address, "--ca", files.ca, "--client-key", files.key, "--client-crt", files.crt)

    async def devices(self) -> list[str]:
        """Devices with a fault, as the Manager lists them."""
        files = self.certificate("Agent/9")
        tls = ("--ca", files.ca, "--client-key", files.key, "--client-crt", files.crt)
        _, output, _ = await run("faults", "list", "--at", self.address, *tls, "--json")
        return [each["device"] for each in json.loads(output)["devices"]]

    def refused(self) -> set[object]:
        """Senders of refused reports, as the Manager's log names them."""
        return {line["reporter"] for line in self.lines() if line["event"] == "fault_refused"}

    async def close(self) -> None:
        """End everything."""
        await self._stack.aclose()


@pytest.fixture
async def job(tmp_path: Path) -> AsyncIterator[Job]:
    """A running job."""
    made = Job(tmp_path)
    try:
        await made.start()
        yield made
    finally:
        await made.close()


def fault(device: str, node: int | None = None, code: int = 1) -> str:
    """The body of a report."""
    extension = {"Device": device} | ({} if node is None else {"Node": str(node)})
    return Body("FAULT", code, SEPARATE, extension).to_json()


async def sent(node: Node, body: str) -> int:
    """The code of the answer of the Mgr."""
    ack = await node.send(body, to="Mgr", timeout=PATIENCE_S)
    assert ack.src == Position.mgr()
    return ack.code


async def test_a_worker_ends_no_other_node_and_releases_nothing_there(job: Job) -> None:
    mine = await job.join(Position.worker(0, 0), "Worker/0/0")
    stranger = await job.join(Position.agent(5000), "Agent/5000")
    for liar in (mine, stranger):
        for body in (fault("host-b/npu-0", 1), fault("host-b/npu-0"), fault("host-b/npu-0", 0), fault("npu", 1)):
            assert await sent(liar, body) == Code.CLIENT_ERR
    assert await job.devices() == []
    assert (await job.agents[1].report("FAULT", 1, SEPARATE, Device="host-b/npu-0")).ok
    assert (await job.agents[1].command()).code == 203
    release, over = Body("FAULT", 3, "host-b/npu-0").to_json(), fault("host-b/npu-0", code=0)
    assert [await sent(mine, body) for body in (release, over)] == [Code.CLIENT_ERR] * 2
    assert await job.devices() == ["host-b/npu-0"]
    assert job.refused() == {"Worker/0/0", "Agent/5000"}


async def test_reports_about_the_own_node_and_of_listed_positions_count(job: Job) -> None:
    worker = await job.join(Position.worker(1, 3), "Worker/1/*")
    proxy = await job.join(Position.worker(0, 7), "Worker/0/7")
    assert await sent(worker, fault("npu-5")) == 0
    assert await sent(proxy, fault("host-b/npu-1", 1)) == 0
    assert await job.devices() == ["1/npu-5", "host-b/npu-1"]


async def test_tools_report_about_the_node_of_their_certificate(job: Job) -> None:
    report = ("faults", "report", SEPARATE)
    one, every = job.flags("Agent/1"), job.flags("Agent/*")
    assert await run(*report, "Ascend910-3", "--node", 1, *one) == (0, "0 OK from Mgr/0\n", "")
    assert await run(*report, "host-b/npu-0", *one) == (0, "0 OK from Mgr/0\n", "")
    code, output, errors = await run(*report, "host-a/npu-0", *one)
    assert (code, output.partition(" ")[0], errors) == (1, "4999", "")
    assert output.endswith("Why: the line fault_refused in the Manager's log\n")
    code, output, _ = await run(*report, "host-a/npu-0", "--node", 0, *one)
    assert (code, output.partition(" ")[0]) == (1, "4999"), "a tool of node 0 needs the name of its Agent"
    code, _, errors = await run(*report, "host-a/npu-0", "--node", 0, "--timeout", 1, *job.flags("Worker/0/*"))
    assert code == 3 and "4002" in errors and "the certificate names no Agent/" in errors
    assert await job.devices() == ["1/Ascend910-3", "host-b/npu-0"]
    assert (await run(*report, "host-a/npu-0", *every))[0] == 0
    for flags in (one, every):
        assert (await run("faults", "release", "host-b/npu-0", *flags))[0] == 0
    assert (await run("faults", "release", "host-a/npu-0", *one))[0] == 1


async def test_a_watcher_reports_about_the_node_of_its_certificate(job: Job) -> None:
    def watch(node: int | None, *names: str) -> list[Ack]:
        tls = job.certificate(*names).connecting()
        with DeviceWatcher(job.address, node=node, tls=tls) as watcher:
            ours = watcher.report(SEPARATE, "host-b/npu-0", timeout=PATIENCE_S)
            return [ours, watcher.report(SEPARATE, "host-a/npu-0", timeout=PATIENCE_S)]

    for node, names, codes in (
        (1, ("Agent/1",), [0, 4999]),
        (None, ("Agent/1",), [0, 4999]),
        (None, ("Agent/*",), [0, 0]),
        (1, ("Agent/0", "Agent/1"), [0, 4999]),
    ):
        assert [ack.code for ack in await asyncio.to_thread(watch, node, *names)] == codes, names
    with pytest.raises(ConfigError, match=r"^node is None; expected one of 0, 1, whose Agents"):
        await asyncio.to_thread(watch, None, "Agent/0", "Agent/1")


async def test_a_process_without_a_certificate_is_no_tool_of_a_node(job: Job) -> None:
    """The plain address lets in local processes at any free position, and none of a tool that speaks for nodes."""
    plain = job.plain
    async with Node(NodeConfig(position=free_position(), upstream=plain, service=True)) as tool:
        await tool.joined(PATIENCE_S)
        assert await sent(tool, fault("host-b/npu-0", 1)) == Code.CLIENT_ERR
    for rank in (2_000_001_000, 2_100_000_000):
        position = Position.agent(rank)
        assert tool_of(position) in ("1", "All")
        async with Node(NodeConfig(position=position, upstream=plain, service=True)) as tool:
            with pytest.raises(TimeoutError, match="4002"):
                await tool.joined(1.0)


def test_positions_of_tools_follow_their_certificates(tmp_path: Path) -> None:
    mgr = Folder(tmp_path / "mgr")

    def found(node: int | None, *names: str) -> str | None:
        made = Folder(tmp_path / "tool", mgr.authority)
        made.issue(*(f"taskd://j/{name}" for name in names))
        position = tool_position(node, made.connecting())
        assert position.role == Role.AGENT and 10**9 <= int(position.server_rank) < 2**31
        return tool_of(position)

    assert found(None, "Agent/1") == found(1, "Agent/1") == found(1, "Agent/0", "Agent/1") == "1"
    assert found(1, "Agent/2") == found(1, "Agent/5", "Agent/2") == "2", "the Manager says what it refuses"
    assert found(None, "*/3/*") == found(None, "Worker/1/*", "Agent/3") == "3"
    assert found(None, "Agent/*") == found(7, "Agent/*") == found(None, "Agent/1", "*/*/*") == "All"
    assert found(None, "Worker/1/*") is None and found(100_000, "Agent/100000") is None
    assert tool_of(tool_position(1, None)) is None, "no certificate, so no node to speak for"
