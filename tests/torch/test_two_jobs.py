"""Two jobs of `taskd-net run` on one machine."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from taskd_net import BlockingNode, ConfigError, NodeConfig
from taskd_net.base.address import Address
from taskd_net.job.manager_place import await_free
from taskd_net.job.ports import ports_of
from tests.ports import free_port
from tests.torch.cluster import PLAIN, SOON


class Job:
    """`taskd-net run --mgr` of one node, with two workers that end when the test says so.

    Args:
        folder: its own.
        arguments: further ones.
        variables: further ones of the environment.
    """

    def __init__(self, folder: Path, *arguments: str, variables: Mapping[str, str] = {}) -> None:
        folder.mkdir()
        self.folder = folder
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("TASKD_", "MASTER_"))}
        environment |= {"TASKD_LOG_PATH": str(folder / "log"), "PYTHONWARNINGS": "ignore", **variables}
        command = [sys.executable, "-m", "taskd_net.cli", "run", "--nproc-per-node=2", f"--log-dir={folder}"]
        self.process = subprocess.Popen(
            [*command, *arguments, str(PLAIN)],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> tuple[int, str]:
        """Let the workers end. Returns the exit status, and what was said on stderr."""
        for rank in (0, 1):
            (self.folder / f"end-{rank}").write_text("0\n")
        _, errors = self.process.communicate(timeout=SOON)
        return self.process.returncode, errors

    def logged(self, **fields: str) -> dict[str, Any]:
        """Wait until a line with these fields is in one of its logs. Returns the first."""
        give_up_at = time.monotonic() + SOON
        while not (found := [line for line in self._lines() if fields.items() <= line.items()]):
            assert time.monotonic() < give_up_at, list(self._lines())
            threading.Event().wait(0.05)
        return found[0]

    def _lines(self) -> Iterator[dict[str, Any]]:
        for path in (self.folder / "log").glob("*.log"):
            # The last line may be half written.
            yield from map(json.loads, path.read_text().rpartition("\n")[0].splitlines())


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[Job]]:
    """The jobs that a test has started; they end with it."""
    started: list[Job] = []
    yield started
    for job in started:
        job.process.terminate()
        job.process.communicate(timeout=SOON)


@pytest.mark.parametrize("option", ["--job-id", "--rdzv-id"])
def test_two_jobs_run_beside_each_other(option: str, tmp_path: Path, jobs: list[Job]) -> None:
    """Both have one node, and torch gives each a random id of its own for its rendezvous."""
    names = [f"{name}-{secrets.token_hex(4)}" for name in "ab"]
    jobs += [Job(tmp_path / name[0], f"{option}={name}") for name in names]
    for job, name in zip(jobs, names, strict=True):
        mgr, proxy = (f"127.0.0.1:{port}" for port in ports_of(name))
        job.logged(event="child_joined", node="Mgr/0", child="Proxy/0")
        job.logged(event="joined", node="Proxy/0", upstream=mgr)
        job.logged(event="joined", node="Agent/0", upstream=proxy)
    for job in jobs:
        status, errors = job.finish()
        assert status == 0, errors
        assert "child_refused" not in (job.folder / "log" / "manager.log").read_text()


@pytest.mark.parametrize("option", [[], ["--standalone"]], ids=["bare", "standalone"])
def test_two_jobs_of_one_node_without_addresses_never_meet(option: list[str], tmp_path: Path, jobs: list[Job]) -> None:
    jobs += [Job(tmp_path / name, *option) for name in "ab"]
    places = [job.logged(event="starts_manager")["address"] for job in jobs]
    assert len(set(places)) == 2
    for job, place in zip(jobs, places, strict=True):
        job.logged(event="joined", node="Proxy/0", upstream=place)
        job.logged(event="joined", node="Agent/0")
    for job in jobs:
        status, errors = job.finish()
        assert status == 0, errors
        log = (job.folder / "log" / "manager.log").read_text()
        joined = [line for line in map(json.loads, log.splitlines()) if line["event"] == "child_joined"]
        assert [line["child"] for line in joined if line["child"].startswith("Proxy/")] == ["Proxy/0"]
        assert len(joined) == 2 and "child_refused" not in log  # and the launcher's own place


@pytest.mark.parametrize("option", [[], ["--no-mgr"]], ids=["asked", "no-mgr"])
def test_manager_that_answers_is_used(option: list[str], tmp_path: Path, jobs: list[Job]) -> None:
    ours = f"127.{1 + secrets.randbelow(254)}.{1 + secrets.randbelow(254)}.1"
    variables = {"TASKD_NET_UPSTREAM": f"{ours}:9602"}
    with BlockingNode(NodeConfig.mgr(listen=f"{ours}:9601", job_id="a")) as mgr:
        jobs.append(Job(tmp_path / "a", f"--master-addr={ours}", *option, variables=variables))
        if not option:
            jobs[0].logged(event="uses_manager", address=f"{ours}:9601")
        jobs[0].logged(event="joined", node="Agent/0")
        assert {str(mgr.receive(SOON).src)} == {"Agent/0"}
        assert not (tmp_path / "a" / "log" / "manager.log").exists()


@pytest.mark.parametrize("option", [[], ["--mgr"]], ids=["bare", "mgr"])
def test_port_of_another_job_is_refused_in_one_line(option: list[str], tmp_path: Path, jobs: list[Job]) -> None:
    ours = f"127.{1 + secrets.randbelow(254)}.{1 + secrets.randbelow(254)}.1"
    port = free_port(ours)
    with BlockingNode(NodeConfig.mgr(listen=f"{ours}:{port}", job_id="a")) as mgr:
        jobs.append(Job(tmp_path / "b", *option, f"--mgr-port={port}", "--job-id=b", f"--master-addr={ours}"))
        status, errors = jobs[0].finish()
        text = f"the Mgr of job 'b' cannot listen on {ours}:{port}, where Mgr/0 of job 'a' listens"
        assert status == 1
        assert errors.splitlines()[-1] == f"taskd-net run: {text}: give this job another --job-id or --mgr-port"
        assert "Agent" not in errors
        assert not mgr.routes()


def test_node_with_the_address_of_another_jobs_mgr_stays_out(tmp_path: Path, jobs: list[Job]) -> None:
    """Its Mgr is said to be another command's, so the port is the usual one."""
    ours = f"127.{1 + secrets.randbelow(254)}.{1 + secrets.randbelow(254)}.1"
    variables = {"TASKD_NET_UPSTREAM": f"{ours}:9602", "TASKD_NET_JOB_ID": "b"}
    with BlockingNode(NodeConfig.mgr(listen=f"{ours}:9601", job_id="a")) as mgr:
        jobs.append(Job(tmp_path / "b", "--no-mgr", f"--master-addr={ours}", variables=variables))
        reason = f"this node is of job 'b', and Mgr/0 at {ours}:9601 is of job 'a'"
        jobs[0].logged(event="join_failed", node="Proxy/0", reason=reason)
        assert not mgr.routes()


def test_port_that_is_no_port_is_refused(tmp_path: Path, jobs: list[Job]) -> None:
    jobs.append(Job(tmp_path / "b", "--mgr", "--mgr-port=x"))
    status, errors = jobs[0].finish()
    assert status == 2 and errors == "taskd-net run: --mgr-port is 'x'; expected a port, 1 to 65535\n"


def test_mgr_waits_for_one_that_is_about_to_end() -> None:
    """Of this job, as far as anybody can tell: a process that is no node says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = Address("127.0.0.1", taken.getsockname()[1])
        threading.Timer(0.5, taken.close).start()
        await_free(listen, "a", SOON)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(
            ConfigError, match=rf"^the Mgr cannot listen on {listen}, where no gRPC server that answers"
        ):
            await_free(listen, "", 0.0)


def test_other_trouble_with_the_address_is_left_to_the_mgr() -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        await_free(Address(host, 9601), "a", 0.0)
