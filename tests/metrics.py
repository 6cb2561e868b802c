"""The metrics that nodes really export for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from prometheus_client.samples import Sample

from taskd_net import Node, NodeConfig
from taskd_net.faces.metrics import Collector
from tests.observe.jobs import IN_ETCD

Exported: TypeAlias = dict[str, dict[str, set[str]]]
"""Names of samples, with the values that each of their labels has had."""


async def samples(node: Node) -> Sequence[Sample]:
    """The samples of one scrape."""
    collector = Collector(node, asyncio.get_running_loop())
    return await asyncio.to_thread(lambda: [sample for metric in collector.collect() for sample in metric.samples])


async def exported() -> Exported:
    """The export of a busy Mgr with a Manager, of a Proxy, and of their processes."""
    found: Exported = {}
    async with (
        Node(NodeConfig.mgr(listen="127.0.0.1:0", expect="1x1")) as mgr,
        Node(NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=str(mgr.address))) as proxy,
    ):
        await proxy.joined(20)
        assert (await proxy.send("1", to="Mgr")).ok and (await mgr.send("2", to="Proxy/0")).ok
        await proxy.send("3", to="Worker/9/9")
        mgr.driver.job_view = lambda: IN_ETCD
        mgr.driver.certificate_ends = lambda: dict.fromkeys(("server", "client"), datetime.now(UTC))
        for node in (mgr, proxy):
            for sample in await samples(node):
                labels = found.setdefault(sample.name, {})
                for label, value in sample.labels.items():
                    labels.setdefault(label, set()).add(value)
    from prometheus_client import CollectorRegistry, ProcessCollector

    found |= {
        sample.name: {}
        for metric in ProcessCollector(registry=CollectorRegistry()).collect()
        for sample in metric.samples
    }
    return found
