"""The modules that a Worker costs its training process. The list shows what a change adds to each of them.

python -m tests.api.test_footprint    rewrite the list
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskd_net import BlockingNode, NodeConfig

LIST = Path(__file__).with_name("worker_modules.txt")

WORKER = """
import json, sys
from taskd_net import init_taskd_worker, send_to_manager, start_taskd_worker
assert init_taskd_worker(3) and start_taskd_worker() and send_to_manager(0, "STATUS")
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

HEAVY = {"email", "http", "importlib.metadata", "multiprocessing", "sqlite3", "unittest", "urllib.request", "xml"}
"""Large modules of the standard library."""


def loaded(script: str, **environment: str) -> set[str]:
    """The modules in a process that runs a script."""
    command = [sys.executable, "-W", "error", "-c", script]
    run = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(run.stderr.splitlines()[-1]))


def of_worker(folder: Path) -> set[str]:
    """The modules of a joined Worker beyond those of grpcio."""
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        modules = loaded(
            WORKER,
            RANK="3",
            LOCAL_WORLD_SIZE="8",
            TASKD_LOG_PATH=str(folder),
            TASKD_NET_UPSTREAM=mgr.address or "",
        )
    return modules - loaded("import grpc.aio, json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return of_worker(tmp_path_factory.mktemp("logs"))


def test_worker_loads_the_listed_modules_alone(modules: set[str]) -> None:
    """The parts of a parent, of TLS, probes, Managers and Agents are imported where they are first needed."""
    ours = {name for name in modules if name.split(".")[0] == "taskd_net"}
    assert ours == set(LIST.read_text().split()), "to accept it: python -m tests.api.test_footprint"


def test_worker_loads_protobuf_and_uvloop_and_nothing_else_of_others(modules: set[str]) -> None:
    packages = {name.split(".")[0] for name in modules} - {"taskd_net"} - sys.stdlib_module_names
    packages = {package for package in packages if not package.startswith("_cython_")}  # of uvloop
    assert packages == {"google", "uvloop"} and not modules & HEAVY


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as written:
        names = sorted(name for name in of_worker(Path(written)) if name.split(".")[0] == "taskd_net")
    LIST.write_text("\n".join(names) + "\n")
