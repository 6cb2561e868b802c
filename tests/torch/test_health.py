"""The health check of an Agent, and torch's watchdog under it."""

from __future__ import annotations

import http.client
import json
import math
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskd_net.torch.health import HealthServer, Loop
from tests.ports import free_port
from tests.torch.cluster import PLAIN, SOON, Cluster, lives

HOST = "127.0.0.1"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A free port."""
    monkeypatch.setenv("POD_IP", HOST)
    return free_port(HOST)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Mgr, and nodes that end with the test."""
    made = Cluster(tmp_path)
    yield made
    made.close()


def get(port: int, path: str = "/healthz", host: str = HOST) -> tuple[int, dict[str, Any]]:
    """Ask a server. Returns the status, and the object in the body if it is one."""
    connection = http.client.HTTPConnection(host, port, timeout=SOON)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if response.headers["content-type"] == "application/json" else {}
    finally:
        connection.close()


def test_loop_that_stands_still_is_503_until_it_moves(port: int) -> None:
    loop = Loop()
    server = HealthServer(lambda: math.ceil(time.time() - loop.seconds), port, 1, lambda: {"more": 1})
    server.start()
    try:
        assert get(port) == (200, {"ok": True, "more": 1})
        loop.move()
        give_up_at = time.monotonic() + SOON
        while (came := get(port))[0] == 200:
            assert time.monotonic() < give_up_at
            select.select([], [], [], 0.05)
        assert came == (503, {"ok": False, "more": 1}) and 1.0 <= loop.seconds < SOON
        with loop.busy():
            assert get(port)[0] == 200
        assert get(port)[0] == 200
        assert get(port, "/")[0] == 404
    finally:
        server.stop()
        server.stop()
    with pytest.raises(ConnectionRefusedError):
        get(port)


@pytest.mark.parametrize("number", [0, -1, 65536])
def test_number_that_is_no_port_is_one_line(number: int, caplog: pytest.LogCaptureFixture) -> None:
    server = HealthServer(lambda: 0, number, 1, dict)
    server.start()
    server.stop()
    (record,) = [each for each in caplog.records if each.name == "taskd_net"]
    assert f"TORCHELASTIC_HEALTH_CHECK_PORT is {number}; expected a port" in record.getMessage()


def test_port_in_use_is_one_line(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server((HOST, port)):
        server = HealthServer(lambda: 0, port, 1, dict)
        server.start()
        server.stop()
    (record,) = [each for each in caplog.records if each.name == "taskd_net"]
    assert f"TORCHELASTIC_HEALTH_CHECK_PORT is {HOST}:{port}; cannot listen there" in record.getMessage()


TIMED = """
import os, time
from pathlib import Path
from torch.distributed.elastic.timer import FileTimerClient
print(os.getpid(), os.environ["TORCHELASTIC_TIMER_FILE"], flush=True)
client = FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"])
first = not Path("began-" + os.environ["RANK"]).exists()
Path("began-" + os.environ["RANK"]).touch()
short = first and os.environ["RANK"] == "1"
client.acquire("step", time.time() + (0.5 if short else 600))
print("acquired", flush=True)
while short or not Path("end").exists():
    time.sleep(0.05)
client.release("step")
"""


def test_watchdog_ends_one_worker_and_the_health_check_shows_it(cluster: Cluster, port: int, tmp_path: Path) -> None:
    script = tmp_path / "timed.py"
    script.write_text(TIMED)
    where = f"{cluster.host}.1"
    node = cluster.run(
        str(script),
        TORCHELASTIC_ENABLE_FILE_TIMER="1",
        TORCHELASTIC_HEALTH_CHECK_PORT=str(port),
        POD_IP=where,
    )
    cluster.report(201)
    status, before = get(port, host=where)
    assert status == 200
    assert before["agent"] == {"rank": 0, "state": "INIT", "joined": True} and before["proxy"] == {"joined": True}
    assert before["watchdog_seconds"] is None
    cluster.command(210, "32767")

    assert json.loads(cluster.report(202).message)["fault_ranks"] == [1]
    assert node.process.poll() is None
    pids = [node.pid(0), int(node.line("attempt_0/1/stdout.log").split()[0])]
    timer_file = node.line("attempt_0/1/stdout.log").split()[1]
    assert lives(pids[0]) and not lives(pids[1]) and Path(timer_file).is_fifo()
    status, failed = get(port, host=where)
    assert (status, failed["agent"]["state"]) == (200, "FAILED")
    assert [(each["rank"], each["pid"], each["state"]) for each in failed["workers"]] == [
        (0, pids[0], "HEALTHY"),
        (1, pids[1], "FAILED"),
    ]
    assert failed["loop_seconds"] < 60 and failed["watchdog_seconds"] < 60

    cluster.command(209, '["1"]')
    assert node.file("attempt_0/1/stdout.log.1").exists()
    assert node.line("attempt_0/1/stdout.log").split()[1] == timer_file
    assert node.line("attempt_0/1/stdout.log", 1) == "acquired"
    (node.folder / "end").touch()
    assert node.status() == 0, node.said()
    assert not Path(timer_file).exists()
    with pytest.raises(ConnectionRefusedError):
        get(port, host=where)


def test_port_that_is_no_number_is_one_line_and_the_training_goes_on(cluster: Cluster) -> None:
    node = cluster.start(str(PLAIN), TORCHELASTIC_HEALTH_CHECK_PORT="http")
    for rank in (0, 1):
        (node.folder / f"end-{rank}").write_text("0\n")
    assert node.status() == 0, node.said()
    assert [node.log().count("no_health_check"), node.said().count("no_health_check")] == [1, 1]
