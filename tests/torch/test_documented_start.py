"""TaskD's documented start, word for word: `manager.py`, a line in a copy of torch/distributed/run.py, and torchrun."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.ports import free_port
from tests.torch.cluster import SOON, await_end
from tests.torch.start import COMPAT, Pod, torchs_own, until

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


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[tuple[Pod, Pod]]:
    """Two nodes with addresses of their own."""
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    port = free_port(f"{host}.1")
    platform = {"MASTER_ADDR": f"{host}.1", "MASTER_PORT": str(port), "MINDX_TASK_ID": "J"}
    files = {"manager.py": MANAGER, "start.sh": START, "train.py": TRAIN}
    made = [
        Pod(
            tmp_path / str(rank),
            rank,
            {**platform, "POD_IP": f"{host}.{1 + rank}", "TASKD_NET_UPSTREAM": f"{host}.{11 + rank}:9602"},
            files,
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


@pytest.mark.parametrize("line", ["import taskd.python.adaptor.patch", "import mindx_elastic.api"])
def test_line_in_a_script_that_is_run(line: str, tmp_path: Path) -> None:
    """`python run.py` in place of torchrun: the module has another name then."""
    copy = tmp_path / "run.py"
    copy.write_text(torchs_own().read_text().replace("\nimport os\n", f"\n{line}\nimport os\n"))
    command = [sys.executable, "-c", f"import runpy; runpy.run_path({str(copy)!r}, run_name='__main__')", "--help"]
    environment = {**os.environ, "PYTHONPATH": f"{COMPAT}:{COMPAT.parent}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == 0 and "--nproc-per-node" in done.stdout, done.stderr
