"""TaskD's documented start, word for word: `manager.py`, a line in a copy of torch/distributed/run.py, and torchrun."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

import taskd
from tests.torch.cluster import SOON, await_end

COMPAT: Final = Path(taskd.__file__).parents[1]

MANAGER: Final = """\
from taskd.api import init_taskd_manager, start_taskd_manager
import os

job_id=os.getenv("MINDX_TASK_ID")
node_nums=2
proc_per_node=1

init_taskd_manager({"job_id":job_id, "node_nums": node_nums, "proc_per_node": proc_per_node})
start_taskd_manager()
"""

START: Final = """\
sed -i '/import os/i import taskd.python.adaptor.patch' run.py

if [[ "${RANK}" -eq 0 ]]; then
    export MASTER_ADDR=${POD_IP}
    python manager.py &
fi

torchrun --nnodes 2 --node_rank $RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT --nproc_per_node 1 train.py
"""

TRAIN: Final = """\
import os
import select
from pathlib import Path

from taskd.api.taskd_worker_api import init_taskd_worker
from taskd.api.taskd_worker_api import start_taskd_worker

rank = int(os.environ["RANK"])
assert init_taskd_worker(rank,5000)
assert start_taskd_worker()
with Path("began").open("a") as file:
    print(os.getpid(), file=file)
while not Path("end").exists():
    select.select([], [], [], 0.02)
"""

SITE: Final = """\
import importlib.util
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch.distributed.run":
            return importlib.util.spec_from_file_location(name, {copy!r})


sys.meta_path.insert(0, Finder)
"""
"""Has Python take the copy for torch's own module."""


class Pod:
    """One node: a folder with the documented files, in which the start script runs.

    Args:
        folder: of the node.
        rank: of the node.
        variables: those of the platform.
    """

    def __init__(self, folder: Path, rank: int, variables: dict[str, str]) -> None:
        self.folder = folder
        folder.mkdir()
        original = find_spec("torch.distributed.run")
        assert original is not None and original.origin is not None
        shutil.copy(original.origin, folder / "run.py")
        for name, text in (("manager.py", MANAGER), ("start.sh", START), ("train.py", TRAIN)):
            (folder / name).write_text(text)
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(SITE.format(copy=str(folder / "run.py")))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKD_", "RANK", "MASTER_"))}
        self.environment = kept | {
            **variables,
            "RANK": str(rank),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{folder / 'site'}:{COMPAT}:{COMPAT.parent}",
            "PYTHONWARNINGS": "ignore",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        """Run the start script."""
        with (self.folder / "said").open("a") as said:
            process = subprocess.Popen(
                ["bash", "start.sh"],
                cwd=self.folder,
                env=self.environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def said(self) -> str:
        """The output of the script."""
        return (self.folder / "said").read_text()

    def pids(self) -> list[int]:
        """The training processes that have begun so far."""
        path = self.folder / "began"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def log(self) -> str:
        """The log files."""
        return "".join(path.read_text() for path in (self.folder / "taskd_log").glob("*.log"))

    def close(self) -> None:
        """End all that the script has started."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until(true: Callable[[], object], *pods: Pod) -> None:
    """Wait for a state that no event tells of, while the scripts run."""
    give_up_at = time.monotonic() + SOON
    while not true():
        runs = all(pod.processes[-1].poll() is None for pod in pods)
        assert runs and time.monotonic() < give_up_at, [pod.said() + pod.log() for pod in pods]
        select.select([], [], [], 0.02)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[tuple[Pod, Pod]]:
    """Two nodes with addresses of their own."""
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    with socket.socket() as free:
        free.bind((f"{host}.1", 0))
        port = free.getsockname()[1]
    platform = {"MASTER_ADDR": f"{host}.1", "MASTER_PORT": str(port), "MINDX_TASK_ID": "J"}
    made = [
        Pod(
            tmp_path / str(rank),
            rank,
            {**platform, "POD_IP": f"{host}.{1 + rank}", "TASKD_NET_UPSTREAM": f"{host}.{11 + rank}:9602"},
        )
        for rank in range(2)
    ]
    yield made[0], made[1]
    for pod in made:
        pod.close()


def test_job_of_two_nodes_with_a_fault(pods: tuple[Pod, Pod]) -> None:
    """The process of node 1 is killed: its Agent leaves, the platform starts the node again, and the job ends well."""
    first, second = pods
    one, two = first.start(), second.start()
    until(lambda: first.pids() and second.pids(), *pods)
    assert (first.folder / "run.py").read_text().count("\nimport taskd.python.adaptor.patch\nimport os\n") == 1
    (killed,) = second.pids()
    os.kill(killed, signal.SIGKILL)
    assert two.wait(SOON) == 1, second.said()
    two = second.start()
    until(lambda: len(first.pids()) == len(second.pids()) == 2, *pods)
    await_end(killed, first.pids()[0])
    for pod in pods:
        (pod.folder / "end").touch()
    assert (one.wait(SOON), two.wait(SOON)) == (0, 0), [pod.said() for pod in pods]
    await_end(*first.pids(), *second.pids())
    assert "manager_started" in first.log()
    for pod, code in ((first, 208), (second, 203)):
        assert f'"code": {code}' in pod.log(), pod.log()


@pytest.mark.parametrize("line", ["import taskd.python.adaptor.patch"])
def test_line_in_a_script_that_is_run(line: str, tmp_path: Path) -> None:
    """`python run.py` in place of torchrun: the module has another name then."""
    original = find_spec("torch.distributed.run")
    assert original is not None and original.origin is not None
    copy = tmp_path / "run.py"
    copy.write_text(Path(original.origin).read_text().replace("\nimport os\n", f"\n{line}\nimport os\n"))
    command = [sys.executable, "-c", f"import runpy; runpy.run_path({str(copy)!r}, run_name='__main__')", "--help"]
    environment = {**os.environ, "PYTHONPATH": f"{COMPAT}:{COMPAT.parent}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == 0 and "--nproc-per-node" in done.stdout, done.stderr
