"""`taskd-net demo` as a user runs it: what comes out, how it ends, and that nothing is left running."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from click.testing import CliRunner

from taskd_net.cli.demo import demo

EVERYWHERE = [
    ("worker_to_mgr", 0),
    ("mgr_to_worker", 0),
    ("worker_to_worker_same_node", 0),
    ("worker_to_worker_other_node", 0),
    ("agent_to_mgr", 0),
    ("mgr_to_proxy", 0),
    ("multicast", 0),
    ("broadcast", 0),
    ("no_route", 5002),
    ("bad_role", 4003),
    ("full_inbox", 5001),
    ("full_inbox_again", 0),
]

# A process that was started by a demo under test has this in its environment, whoever its parent is by now.
MARK = "TEST_OF_TASKD_NET_DEMO"


class Running:
    """A demo that runs as a process of its own."""

    def __init__(self, process: subprocess.Popen[str], mark: str) -> None:
        self.process = process
        self.mark = mark
        self.seen = ""

    def until(self, text: str) -> None:
        """Read stderr until a line has this text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.seen += line
            if text in line:
                return
        pytest.fail(f"ended without {text!r}:\n{self.seen}", pytrace=False)

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end. Returns exit code, stdout and stderr."""
        # It takes 9 s at rest, 20 beside eight busy processes, and longer beside the heaviest tests.
        stdout, stderr = self.process.communicate(timeout=150)
        return self.process.returncode, stdout, self.seen + stderr

    def programs(self, *names: str) -> list[psutil.Process]:
        """Wait until each of these programs of the demo of a job runs; returns all processes of the demo."""
        deadline = time.monotonic() + 50
        while time.monotonic() < deadline:
            found = self.marked()
            modules = [each.cmdline()[3].rpartition(".")[2] for each in found if len(each.cmdline()) > 3]
            if set(names) <= set(modules):
                return found
            time.sleep(0.05)
        pytest.fail(f"not all of {names} have begun")

    def marked(self) -> list[psutil.Process]:
        """The living processes that the demo has started."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid != self.process.pid and process.environ().get(MARK) == self.mark and process.cmdline():
                    found.append(process)
            except psutil.Error:
                continue  # it has ended, or is somebody else's
        return found

    def nodes(self) -> dict[str, psutil.Process]:
        """The living processes that the demo has started, by the position of their node."""
        found = {}
        for process in psutil.process_iter():
            try:
                if process.pid != self.process.pid and process.environ().get(MARK) == self.mark:
                    found[process.cmdline()[3]] = process
            except psutil.Error:
                continue  # it has ended, or is somebody else's
        return found


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[Running]:
    mark = str(uuid4())
    process = subprocess.Popen(
        [sys.executable, "-m", "taskd_net.cli", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK: mark, **environment},
    )
    with process:
        try:
            yield Running(process, mark)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.more
@pytest.mark.oldest
def test_the_default_size() -> None:
    with running("--json") as started:
        code, stdout, stderr = started.finish()
        assert code == 0, stderr
        assert started.nodes() == {}
    assert stdout.count("\n") == 1
    report = json.loads(stdout)
    assert report.keys() == {"joined", "expected", "sends", "broadcast", "recovered_s", "ok"}
    assert report["ok"] is True
    assert report["joined"] == report["expected"] == 13
    assert report["broadcast"] == {"expected": 400, "delivered": 400, "duplicates": 0}
    assert 0 < report["recovered_s"] < 10
    assert [(sends["name"], sends["expected_code"]) for sends in report["sends"]] == EVERYWHERE
    for sends in report["sends"]:
        assert sends.keys() == {"name", "code", "expected_code", "p50_us", "p99_us"}
        assert sends["code"] == sends["expected_code"]
        assert 0 < sends["p50_us"] <= sends["p99_us"]


@pytest.mark.more
def test_another_size() -> None:
    with running("--nodes", "3", "--workers", "6", "--json") as started:
        code, stdout, stderr = started.finish()
        assert code == 0, stderr
        assert started.nodes() == {}
    report = json.loads(stdout)
    assert report["ok"] is True
    assert report["joined"] == report["expected"] == 13
    assert report["broadcast"] == {"expected": 300, "delivered": 300, "duplicates": 0}
    assert [(sends["name"], sends["code"]) for sends in report["sends"]] == EVERYWHERE


def test_the_smallest_size_as_people_read_it() -> None:
    with running("--nodes", "1", "--workers", "1") as started:
        code, stdout, stderr = started.finish()
        assert code == 0, stderr
        assert started.nodes() == {}
    assert "\x1b" not in stdout + stderr
    tree = [re.sub(r"127.0.0.1:\d+", "ADDRESS", line.rstrip()) for line in stdout.splitlines()[1:5]]
    assert tree == [
        " Mgr/0  ADDRESS",
        " └── Proxy/0  ADDRESS  was killed and started again",
        "     ├── Agent/0",
        "     └── Worker/0/0",
    ]
    assert re.search(r"✓ +a rank that does not exist +100 +5002 +5002 ", stdout)
    assert "4 of 4 nodes have joined" in stderr
    assert "Left out: Worker → Worker on another node (needs --nodes 2)" in stderr
    assert "Left out: Worker → Worker on the same node" in stderr
    assert "Left out: multicast" in stderr
    assert "Everything as it had to be" in stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--nodes", "0"], "0 is not in the range 1<=x<=16"),
        (["--nodes", "17"], "17 is not in the range 1<=x<=16"),
        (["--workers", "0"], "0 is not in the range 1<=x<=64"),
        (["--workers", "65"], "65 is not in the range 1<=x<=64"),
        (["--workers", "many"], "'many' is not a valid integer range"),
        (["--workers", "1"], "1 is too few for 2 nodes"),
        (["--http-port", "80a"], "address is '80a'; expected host:port"),
        (["extra"], "No such command 'extra'"),
    ],
)
def test_bad_arguments(arguments: list[str], reason: str) -> None:
    done = CliRunner().invoke(demo, [*arguments, "--json"])
    assert done.exit_code == 2
    assert reason in done.output


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        pytest.param(signal.SIGINT, "taskd-net demo", marks=pytest.mark.more),
        (signal.SIGINT, "have joined"),
        (signal.SIGTERM, "have joined"),
    ],
)
def test_a_signal_ends_everything(number: signal.Signals, moment: str) -> None:
    with running("--nodes", "1", "--workers", "2", "--json") as started:
        started.until(moment)
        started.process.send_signal(number)
        code, stdout, stderr = started.finish()
        assert started.nodes() == {}
    assert code == 128 + number
    assert f"interrupted by {number.name}" in stderr
    assert json.loads(stdout)["ok"] is False
    assert "Traceback" not in stderr


def test_a_kept_mesh_with_its_page_stays_until_a_signal() -> None:
    """Also after somebody has killed one of its nodes, which is what it is kept for."""
    with running("--nodes", "1", "--workers", "2", "--keep", "--http-port", "0") as started:
        started.until("stays up until Ctrl-C")
        page = re.search(r"see (http://127\.0\.0\.1:\d+/)", started.seen)
        assert page is not None, started.seen
        with urllib.request.urlopen(page[1], timeout=20) as answer:  # noqa: S310
            assert b"<title>" in answer.read()
        mgr = re.search(r"taskd-net tree --at (\S+)", started.seen)
        assert mgr is not None
        worker = started.nodes()["Worker/0/1"]
        worker.kill()
        worker.wait(10)
        ask = [sys.executable, "-m", "taskd_net.cli", "tree", "--at", mgr[1], "--expect", "1x2"]
        tree = subprocess.run(ask, check=False, capture_output=True, text=True, timeout=50)
        assert (tree.returncode, "missing of 1x2: 1: Worker 1" in tree.stdout) == (1, True), tree
        started.process.send_signal(signal.SIGINT)
        code, stdout, stderr = started.finish()
        assert started.nodes() == {}
    assert code == 0, stderr
    assert stdout.count("Worker → Mgr") == 1


def test_a_page_whose_port_is_taken_is_refused_before_the_tour() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running("--nodes", "1", "--workers", "1", "--http-port", port) as started:
            code, _, stderr = started.finish()
    assert code == 1
    assert f"Mgr/0: http_port is 127.0.0.1:{port}; cannot listen there: Address already in use" in stderr


def test_a_killed_controller_leaves_no_orphans() -> None:
    with running("--nodes", "1", "--workers", "2") as started:
        started.until("have joined")
        nodes = started.nodes()
        assert nodes.keys() == {"Mgr/0", "Proxy/0", "Agent/0", "Worker/0/0", "Worker/0/1"}
        started.process.kill()
        _, alive = psutil.wait_procs(nodes.values(), timeout=10)
        assert alive == []


@pytest.mark.more
def test_a_worker_that_dies_is_the_reason_to_fail() -> None:
    with running("--workers", "4", "--json") as started:
        started.until("have joined")
        worker = started.nodes()["Worker/1/3"]
        assert worker.environ()["GRPC_ENABLE_FORK_SUPPORT"] == "0"
        worker.kill()
        code, stdout, stderr = started.finish()
        assert started.nodes() == {}
    assert code == 1
    assert f"Worker/1/3 (pid {worker.pid}) was ended by SIGKILL" in stderr
    report = json.loads(stdout)
    assert (report["ok"], report["joined"], report["expected"]) == (False, 9, 9)


DIES_AS_AN_AGENT = """
import os, sys
if "Agent/0" in sys.orig_argv:
    os.write(2, b"an early line\\nno memory for an Agent\\n")
    os._exit(3)
"""


def test_a_process_that_dies_early_is_shown_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(DIES_AS_AN_AGENT)
    with running("--nodes", "1", "--workers", "1", PYTHONPATH=str(tmp_path)) as started:
        code, stdout, stderr = started.finish()
        assert started.nodes() == {}
    assert code == 1
    assert stdout == ""  # no tree and no table of a mesh that never was
    assert re.search(r"✗ Agent/0 \(pid \d+\) ended with exit code 3; the end of its stderr:\n", stderr)
    assert "\n    an early line\n    no memory for an Agent\n" in stderr
