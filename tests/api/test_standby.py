"""`start_taskd_manager` with the state in etcd: it stands by, and leads when nobody else does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from taskd_net import BlockingNode, Node, NodeConfig, NodeTimeout, Position
from taskd_net.base.body import Body
from taskd_net.job import api
from taskd_net.job.api import manager
from taskd_net.job.keep.leader import Leader
from taskd_net.job.keep.place import Place
from taskd_net.job.manager import succession
from taskd_net.net.wire.etcd_pb2 import KeyValue
from tests.api.conftest import OWN_IP, SOON, until
from tests.etcd.double import Double


def test_it_stands_by_while_another_process_leads(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd, place = Double(), Place.parse("etcd://127.0.0.1:2379/taskd/job")
    leads = place.key("leader")
    etcd.keys[place.key("job")] = KeyValue(key=place.key("job"), value=b"job")
    etcd.keys[leads] = KeyValue(key=leads, value=b'{"leader": "another"}', create_revision=1)
    monkeypatch.setenv("POD_IP", OWN_IP)
    monkeypatch.setenv("TASKD_NET_STATE", str(place))
    monkeypatch.setattr(
        succession, "leader_of", lambda _, __, log, limits: Leader(etcd, place, "this one", log, limits)
    )
    assert api.init_taskd_manager({"job_id": "job"})
    result = threads.submit(api.start_taskd_manager)
    with BlockingNode(NodeConfig.worker(server_rank=0, rank=3, upstream=f"{OWN_IP}:9601")) as worker:
        until(lambda: "another" in manager.slot.member.node.run(_standby))
        with pytest.raises(NodeTimeout, match="standby of another"):
            worker.joined(1.0)
        assert api.last_reports() == {} and not result.done()
        etcd.keys.pop(leads)
        worker.joined(SOON)
        assert worker.send(Body("REGISTER", 101).to_json(), to="Mgr").ok
        until(lambda: Position.worker(0, 3) in api.last_reports())
    assert api.destroy_taskd_manager() and result.result(SOON) is True
    assert leads not in etcd.keys, "the lease was given back"


async def _standby(node: Node) -> str:
    return node.standby
