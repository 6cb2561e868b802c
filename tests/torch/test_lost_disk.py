"""A job without a platform whose node 0 is lost with its disk: the state of the Manager in etcd outlives it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.supervision.__main__ import OURS
from benchmarks.supervision.job import Job
from tests.etcd.server import ETCD, WHY_NOT, etcd_server
from tests.polling import until
from tests.torch.cluster import SOON

pytestmark = [pytest.mark.torch, pytest.mark.skipif(ETCD is None, reason=WHY_NOT), pytest.mark.timeout(300)]

BUDGET = "failure 2 of node 1, which has 1 restarts"


@pytest.mark.parametrize("in_etcd", [True, False], ids=["etcd", "file"])
async def test_failures_before_the_loss_of_node_0_count_where_the_state_is_in_etcd(
    in_etcd: bool, tmp_path: Path
) -> None:
    """Rank 3 is killed, node 0 comes back on another host, and rank 3 is killed again."""
    variables = {"TMPDIR": str(tmp_path / "first")}
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    async with AsyncExitStack() as stack:
        if in_etcd:
            etcd = await stack.enter_async_context(etcd_server(tmp_path / "etcd"))
            variables["TASKD_NET_STATE"] = f"etcd://{etcd.address}/taskd/J"
        job = stack.enter_context(Job(replace(OURS[0], variables=variables), restarts=1))

        def stepped(since: float) -> bool:
            job.look()
            return job.stepped(since) is not None

        def ended() -> bool:
            job.look()
            return len(job.ended_at) == 2

        async def trains(since: float) -> None:
            await until(lambda: stepped(since), SOON)

        job.start()
        await trains(0.0)
        os.kill(job.pid(3), signal.SIGKILL)
        await trains(time.monotonic())
        for process in job.tree(0):
            process.kill()
        job.launchers[0].wait()
        since = time.monotonic()
        variables["TMPDIR"] = str(tmp_path / "second")
        job.start(0)
        await trains(since)
        os.kill(job.pid(3), signal.SIGKILL)
        if in_etcd:
            await until(ended, SOON)
            assert BUDGET in (job.folder / "out-1").read_text()
        else:
            await trains(time.monotonic())
