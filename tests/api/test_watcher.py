"""taskd_net.job.api.watcher: a process of the user's reports faults of devices, over sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from taskd_net import Ack
from taskd_net.base.codes import ArgumentError, ConfigError
from taskd_net.job.api.watcher import DeviceWatcher
from taskd_net.job.manager import ManagerConfig
from tests.manager.cluster import agent, leaves, managed
from tests.polling import until

T = TypeVar("T")
SEPARATE, CALM = "8C000006", "8C000001"


@pytest.fixture
def config(tmp_path: Path) -> ManagerConfig:
    """A Manager's settings with a folder of rules."""
    codes = {"SeparateNPUCodes": [SEPARATE], "NotHandleFaultCodes": [CALM]}
    (tmp_path / "faultCode.json").write_text(json.dumps(codes))
    return ManagerConfig(job_id="J", fault_config=str(tmp_path), processes_per_node=2)


async def elsewhere(call: Callable[[], T]) -> T:
    """Make blocking calls, as a watcher's process does."""
    return await asyncio.to_thread(call)


async def test_reports_are_answered_and_shown(config: ManagerConfig) -> None:
    async with managed(config) as (node, manager), leaves(node, agent(0), agent(1)) as (zero, one):
        for leaf in (zero, one):
            await leaf.register()
            assert (await leaf.command()).code == 210
        at = time.time() - 5.0

        def watch() -> list[Ack]:
            with DeviceWatcher(node.address or "", node=1) as watcher:
                assert watcher.report(CALM, "npu-0", severity="minor").ok
                same = [watcher.report(SEPARATE, "npu-1", at=at) for _ in range(2)]
                return [*same, watcher.report(SEPARATE, "host-z/npu", "once", network=True)]

        assert [ack.code for ack in await elsewhere(watch)] == [0, 0, 0]
        assert (await one.command()).code == 203
        assert (await zero.command()).code == 208
        view = manager.view()
        assert view.counters.device_faults == {"L1 NotHandleFault": 1, "L6 SeparateNPU": 2}, "a doubled one counts once"
        (device,) = view.devices
        assert (device.device, device.node, device.isolated) == ("1/npu-1", 1, True)
        assert manager.job.state.records.agents.keys() == {0, 1}, "a watcher is no node of the job"


async def test_a_person_gives_a_device_free(config: ManagerConfig) -> None:
    async with managed(config) as (node, manager):
        refused = manager.view().counters.refused

        def release() -> Ack:
            with DeviceWatcher(node.address or "") as watcher:
                return watcher.release("host-b/npu-1")

        assert (await elsewhere(release)).ok
        await until(lambda: manager.view().counters.refused == refused + 1)


async def test_wrong_arguments_are_named_and_nothing_is_sent() -> None:
    watcher = DeviceWatcher("127.0.0.1:1")
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: watcher.report("8C", "host/npu"), "code is '8C'; expected 8 or 9 hexadecimal digits"),
        (lambda: watcher.report(SEPARATE, "npu"), "device is 'npu'; expected HOST/NAME, or a watcher with a node"),
        (lambda: watcher.report(SEPARATE, "host/npu", "gone"), "kind is 'gone'; expected one of occurred"),
        (lambda: watcher.report(SEPARATE, "host/npu", severity="x"), "severity is 'x'; expected one of notice"),
        (lambda: watcher.release(""), "device is ''; expected a name"),
    ]
    for call, text in wrong:
        with pytest.raises(ArgumentError, match=f"^{text}"):
            call()
    assert watcher.report(SEPARATE, "host/npu").code == 4999, "it is not started"
    with pytest.raises(ConfigError, match="upstream"):
        DeviceWatcher("nowhere")
