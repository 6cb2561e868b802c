"""`taskd-net run`: its arguments, and the Manager beside it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from taskd_net.job.cgroups import CGROUPS
from tests.ports import free_port
from tests.torch.cluster import PLAIN, SOON


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (
            ["--nnodes=2", "--rdzv-backend=c10d", "train.py"],
            2,
            "--rdzv-endpoint is missing beside --rdzv-backend c10d; expected HOST:PORT",
        ),
        (["--nproc-per-node=2"], 2, "the following arguments are required: training_script"),
        (["--run-path", "train.py"], 2, "--run-path runs the script as a Python function; expected a command"),
        (["--nnodes=0", "train.py"], 2, "--nnodes is '0'; expected a number of nodes"),
        (["--nnodes=2", "--node-rank=5", "train.py"], 2, "--node-rank is 5; expected 0 to 1, as --nnodes is 2"),
        (["--node-timeout=0", "train.py"], 2, "--node-timeout is '0'; expected a number of seconds, 1 to 86400"),
        (["--mgr-port=x", "train.py"], 2, "--mgr-port is 'x'; expected a port, 1 to 65535"),
        (["--master-addr=a b", "train.py"], 2, "--master-addr is 'a b'; expected a host name or an IP address"),
        (["--master-addr=$(X)", "train.py"], 2, "--master-addr is '$(X)'; expected a host name or an IP address"),
    ],
    ids=["rendezvous", "no-script", "function", "no-node", "rank", "time", "port", "host", "variable"],
)
def test_arguments_that_are_refused(arguments: list[str], status: int, said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "taskd_net.cli", "run", *arguments]
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=tmp_path, env=quiet, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == status
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"taskd-net run: {said}")


def run(folder: Path, *program: str, status: str = "0", logs: str | None = "log") -> subprocess.CompletedProcess[str]:
    """`taskd-net run --mgr` of one node, whose workers end with this status; `logs`: the folder that is asked for."""
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    for rank in (0, 1):
        (folder / f"end-{rank}").write_text(f"{status}\n")
    variables = {"MASTER_ADDR": f"{host}.1", "TASKD_NET_UPSTREAM": f"{host}.2:9602", "PYTHONWARNINGS": "ignore"}
    variables |= {} if logs is None else {"TASKD_LOG_PATH": str(folder / logs)}
    return subprocess.run(
        [sys.executable, *program, "run", "--mgr", "--nproc-per-node=2", f"--log-dir={folder}", str(PLAIN)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )


@pytest.mark.parametrize(("status", "expected"), [("0", 0), ("3", 65)])
def test_manager_beside_one_node(status: str, expected: int, tmp_path: Path) -> None:
    """The same failure twice in a row ends the job."""
    done = run(tmp_path, "-m", "taskd_net.cli", status=status)
    assert done.returncode == expected, done.stderr
    assert (tmp_path / "log" / "manager.log").read_text().count("manager_started") == 1


@pytest.mark.parametrize("logs", [None, "asked"])
def test_log_is_on_stderr_and_in_a_folder_where_one_is_named(logs: str | None, tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "taskd_net.cli", logs=logs)
    assert done.returncode == 0, done.stderr
    events = ("node_placed", "starts_manager", "go", "waits_for_release")
    assert all(event in done.stderr and event not in done.stdout for event in events), done.stdout
    said = [line.split()[2] for line in done.stderr.splitlines() if line.startswith("20")]
    assert said == list(events), "no line of a mesh in good order"
    assert not (tmp_path / "taskd_log").exists()
    files = {path.name for path in (tmp_path / (logs or "asked")).glob("*")}
    assert files == (set() if logs is None else {"agent-0.log", "manager.log"})


def test_all_events_are_on_stderr_where_a_level_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKD_STD_LOG_LEVEL", "INFO")
    done = run(tmp_path, "-m", "taskd_net.cli", logs=None)
    assert all(event in done.stderr for event in ("manager_started", "child_joined", "closed")), done.stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["--node-rank=1", "--master-addr={}"], "this node has ended: not joined within 2 s"),
        (["--rdzv-backend=c10d", "--rdzv-endpoint={}:20000"], "this node has ended: no Manager at {}:20000"),
    ],
    ids=["with-a-rank", "without"],
)
def test_manager_that_does_not_come_in_time(place: list[str], said: str, tmp_path: Path) -> None:
    """A scheduler starts the node again, as one whose Manager does not come back."""
    command = [sys.executable, "-m", "taskd_net.cli", "run", "--nnodes=2", "--node-timeout=2"]
    command += [each.format("nobody.invalid") for each in place]
    variables = {**os.environ, "TASKD_NET_UPSTREAM": f"127.0.0.1:{free_port()}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*command, str(PLAIN)], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == 143, done.stderr
    last = done.stderr.rpartition("taskd-net run: ")[2]
    assert last.startswith(said.format("nobody.invalid")) and last.count("\n") == 1 and "nobody.invalid" in last


def test_manager_that_cannot_start_says_why_in_the_last_line(tmp_path: Path) -> None:
    place = ["--mgr", "--nnodes=2", "--node-rank=0", "--master-addr=192.0.2.1", "--mgr-port=9601"]
    done = subprocess.run(
        [sys.executable, "-m", "taskd_net.cli", "run", *place, str(PLAIN)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == 1
    reason = "exit status 1: cannot listen on 192.0.2.1:9601: in use, or not an address of this machine"
    assert done.stderr.splitlines()[-1] == f"taskd-net run: the Manager of the job cannot start: {reason}"
    assert done.stderr.count("the Manager of the job cannot start") == 1


CPU = CGROUPS / "cpu"
LIMIT = 'echo $$ > "$1"; shift; exec "$@"'


@pytest.mark.skipif(not os.access(CPU / "cpu.cfs_quota_us", os.W_OK), reason="a cgroup of version 1 needs root")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one CPU is not bounded")
def test_auto_takes_no_more_processes_than_a_quota_has_cpus_for(tmp_path: Path) -> None:
    """A pod's limit of CPUs is a quota, beside which all cores of the machine are there."""
    group = CPU / f"taskd-net-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text(str(150_000))
        (tmp_path / "end-0").write_text("0\n")
        command = ["sh", "-c", LIMIT, "limit", str(group / "cgroup.procs")]
        command += [sys.executable, "-m", "taskd_net.cli", "run"]
        done = subprocess.run(
            [*command, "--standalone", "--nproc-per-node=auto", str(PLAIN)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=SOON,
            check=False,
        )
    finally:
        group.rmdir()
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:4] == ["0", "0", "1"]
    (line,) = [each for each in done.stderr.splitlines() if "auto_is_bounded" in each]
    assert f"processes=1 cpus={os.cpu_count()}" in line


OTHER_TORCH = """
import subprocess, sys
import torch.distributed.run
from torch.distributed.elastic.agent.server import local_elastic_agent
from torch.distributed.elastic.multiprocessing import tail_log

torch.__version__ = "2.99.0"
{change}
started = subprocess.Popen
class Popen(started):
    def __init__(self, *arguments, **named):
        print("a process is started")
        super().__init__(*arguments, **named)
subprocess.Popen = Popen
sys.argv[0] = "taskd-net"
from taskd_net.cli import main
main()
"""
"""`taskd-net` on a torch of another version, which says when it starts a process."""


@pytest.mark.torch_range
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "local_elastic_agent.start_processes = lambda name, command: None",
            "local_elastic_agent:start_processes of torch 2.99.0 has the parameters (name command); expected (name ",
        ),
        ("del tail_log.TailLog", "tail_log:TailLog.__init__ of torch 2.99.0 has the parameters (no such name)"),
        (
            "sys.modules['torch.distributed.elastic.timer'] = None",
            "timer:FileTimerServer.__init__ of torch 2.99.0 has the parameters (no such name)",
        ),
        ("", ""),
    ],
    ids=["parameters", "name-that-is-gone", "module-that-is-gone", "names-that-fit"],
)
def test_other_torch_is_refused_in_words_or_used_with_a_warning(change: str, said: str, tmp_path: Path) -> None:
    done = run(tmp_path, "-c", OTHER_TORCH.format(change=change))
    if said:
        assert done.returncode == 1 and not done.stdout, done.stdout
        (line,) = done.stderr.splitlines()
        assert line.startswith("taskd-net run: ") and said in line
        assert line.endswith("has been checked with 2.12, 2.13, 2.14, 2.15")
        assert not list(tmp_path.glob("*/attempt_*"))
    else:
        assert done.returncode == 0 and "a process is started" in done.stdout, done.stderr
        assert done.stderr.count("torch_unchecked") == 1
