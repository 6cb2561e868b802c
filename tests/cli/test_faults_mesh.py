"""`taskd-net faults report`, `list` and `release`, and `tree` and `job`, as processes that ask a daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskd_net import Node
from tests.cli.inside import refused
from tests.cli.processes import PATIENCE_S, Daemon, run
from tests.manager.cluster import Leaf, agent

pytestmark = pytest.mark.timeout(120)

CODES = {"SeparateNPUCodes": ["8C000006"], "NotHandleFaultCodes": ["8C0000AA"]}
CUSTOM = {
    "FaultFrequency": [{"EventId": ["8C0000AA"], "TimeWindow": 60, "Times": 2, "FaultHandling": "ManuallySeparateNPU"}]
}


async def test_faults_of_devices_from_the_command_line(tmp_path: Path) -> None:
    files = tmp_path / "config"
    files.mkdir()
    (files / "faultCode.json").write_text(json.dumps(CODES))
    (files / "faultCustomization.json").write_text(json.dumps(CUSTOM))
    given = ("--job-id", "J", "--state", tmp_path / "state", "--fault-config", files)
    async with Daemon("mgr", *given, logs=tmp_path) as mgr, Node(agent(1)(mgr.address)) as node:
        await node.joined(PATIENCE_S)
        one = Leaf(node)
        await one.register(Incarnation="p", Devices='["npu-0", "npu-1"]')
        assert (await one.command()).code == 210
        up = ("--upstream", mgr.address)

        code, output, errors = await run("faults", "list", "--at", mgr.address)
        assert (code, errors) == (0, "") and "0 with a fault, 0 isolated; mode rescheduling" in output
        code, output, errors = await run("faults", "report", "8c000006", "npu-1", "--node", 1, *up)
        assert (code, output, errors) == (0, "0 OK from Mgr/0\n", "")
        assert (await one.command()).code == 203

        code, output, _ = await run("faults", "list", "--at", mgr.address, "--json")
        (device,) = json.loads(output)["devices"]
        assert code == 1 and (device["device"], device["level"], device["isolated"]) == ("1/npu-1", "L6", True)
        lines = [json.loads(line) for line in (tmp_path / "manager.log").read_text().splitlines()]
        (by,) = {line["reporter"] for line in lines if line["event"] == "device_fault"}
        assert by == device["reporter"] and by.startswith("Agent/1"), "the tool's own position"
        line = "1/npu-1 (node 1, rank 3)  ISOLATED for"
        for shown in (
            ("faults", "list", "--at", mgr.address),
            ("job", "--at", mgr.address),
            ("tree", "--at", mgr.address),
        ):
            _, output, errors = await run(*shown)
            assert line in output and "L6 SeparateNPU 8C000006" in output and not errors, shown
            assert f"reported by {by}" in output, shown
        _, output, _ = await run("tree", "--at", mgr.address, "--json")
        assert json.loads(output)["devices"] == [device]

        for _ in range(2):
            for kind in ("occurred", "recovered"):
                more = ("--kind", kind)
                assert (await run("faults", "report", "8C0000AA", "host-z/npu", *more, *up))[0] == 0
        _, output, _ = await run("faults", "list", "--at", mgr.address)
        assert "host-z/npu (node unknown)  ISOLATED for" in output and "ManuallySeparateNPU" in output
        assert (await run("faults", "release", "host-z/npu", *up))[0] == 0
        _, output, _ = await run("faults", "list", "--at", mgr.address)
        assert "host-z/npu" not in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "8C0", "host/npu"), "code is '8C0'; expected 8 or 9 hexadecimal digits"),
        (("report", "8C000006", "npu"), "device is 'npu'; expected HOST/NAME, or --node"),
        (("report", "8C000006", "host/npu", "--at-time", "-1"), "at is -1.0; expected seconds since the epoch"),
        (("release", ""), "device is ''; expected a name"),
    ],
)
def test_a_wrong_argument_is_named(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("faults", *arguments)


async def test_without_a_mgr_nothing_is_sent() -> None:
    more = ("--upstream", "127.0.0.1:1", "--timeout", "0.2")
    code, output, errors = await run("faults", "report", "8C000006", "host/npu", *more)
    assert (code, output) == (3, "") and errors.startswith("Error: ")
    code, _, errors = await run("faults", "list", "--at", "127.0.0.1:1")
    assert code == 3 and errors.startswith("Error: ")
