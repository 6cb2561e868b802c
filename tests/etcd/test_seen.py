"""The leader as commands, metrics and log show it, of real Managers with the real etcd."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Daemon, run
from tests.etcd.server import ETCD, WHY_NOT, etcd_server
from tests.freezing import freeze

pytestmark = pytest.mark.skipif(ETCD is None, reason=WHY_NOT)


async def test_commands_metrics_and_log_say_who_leads(tmp_path: Path) -> None:
    async with etcd_server(tmp_path / "etcd") as etcd:
        job = ("--job-id", "J", "--state", f"etcd://{etcd.address}/taskd/J")
        begun = time.time()
        async with Daemon("mgr", *job, logs=tmp_path / "a") as first:
            found = await leader(first)
            assert (found["name"], found["changes"], found["decides"]) == (first.address, 0, True)
            assert begun < found["since"] < time.time()
            first.signal(signal.SIGKILL)
        async with Daemon("mgr", *job, "--metrics-port", "0", logs=tmp_path / "b") as second:
            await second.said("manager_started")  # it stands by until the lease of the first one has ended
            later = await leader(second)
            assert (later["name"], later["changes"]) == (second.address, 1)
            assert later["term"] > found["term"] and later["since"] > found["since"]
            line = f"{second.address} leads since "
            assert line in (await run("job", "--at", second.address))[1]
            code, output, _ = await run("health", "--at", second.address)
            assert code == 0 and output.startswith(f"SERVING\n{line}") and "after 1 change, " in output
            assert line in (await run("doctor", "mgr", "--listen", second.address))[1]
            assert (await second.said(r"\bleads\s.*"))[0].count(second.address) == 1
            metrics = await scraped((await second.said(r"metrics_listening.*?address=(\S+)"))[1])
            since = metrics[f'leader_since_timestamp_seconds{{leader="{second.address}"}}']
            assert since == pytest.approx(later["since"])
            assert (metrics['leader_changes_total{id="J"}'], metrics["leader_decides"]) == (1, 1)
            freeze(etcd.process.pid)
            while (code := (await run("job", "--at", second.address))[0]) == 0:
                pass
            assert code == 1
            assert "DECIDES NOTHING" in (await run("health", "--at", second.address))[1]
            etcd.process.send_signal(signal.SIGCONT)
            await second.said("leader_decides_again")
            assert (await leader(second))["decides"]


async def leader(mgr: Daemon) -> dict[str, Any]:
    """The leader in the document of a Mgr."""
    code, output, errors = await run("job", "--at", mgr.address, "--json")
    assert (code, errors) == (0, "")
    found: dict[str, Any] = json.loads(output)["leader"]
    return found


async def scraped(address: str) -> dict[str, float]:
    """The metrics of a job, with their labels."""
    with await asyncio.to_thread(urllib.request.urlopen, f"http://{address}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    name = "taskd_net_job_"
    samples = (line.removeprefix(name).rsplit(maxsplit=1) for line in lines if line.startswith(name))
    return {key: float(value) for key, value in samples}
