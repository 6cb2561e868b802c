"""Imports of TaskD's references, each in an interpreter of its own: what they need, and what they do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.environment import COMPAT, with_compat
from tests.test_distributions import installed

pytestmark = pytest.mark.oldest

HEAVY = ("torch", "mindspore", "numpy", "click", "starlette", "uvicorn")


def run(code: str, folder: Path, path: Path = COMPAT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code with the import packages, in an empty folder."""
    kept = {name: value for name, value in with_compat(path).items() if not name.startswith(("TASKD_LOG", "ELASTIC_"))}
    environment = kept | variables
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "line",
    [
        "import taskd; assert taskd.__version__",
        "from taskd.api import init_taskd_manager, start_taskd_manager",
        "from taskd.api.taskd_agent_api import init_taskd_agent, start_taskd_agent, register_func",
        "from taskd.api.taskd_worker_api import init_taskd_worker, start_taskd_worker, destroy_taskd_worker",
        "from taskd .api.taskd_proxy_api import init_taskd_proxy",
        "from taskd.python.toolkit.recover_module.recover_manager import DLRecoverManager, report_stop_complete",
        "from taskd.python.toolkit.recover_module.pb import recover_pb2 as pb; pb.ClientInfo(jobId='J', role='taskd')",
        "from taskd.python.framework.agent.ms_mgr.msrun_plugin import MSRunPlugin; MSRunPlugin()",
        "from taskd.python.utils.validator import *; assert StringValidator('a').is_valid()",
        "import mindx_elastic; assert mindx_elastic.__version__",
        "from mindx_elastic.recover_manager import DLRecoverManager, pb; pb.ClientInfo(taskId='T', role='taskd')",
    ],
)
def test_line_of_the_references(line: str, tmp_path: Path) -> None:
    """Nothing is printed, no file is made, and no package for other purposes is imported."""
    done = run(f"{line}\nimport sys\nassert not set(sys.modules) & set({HEAVY})", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "others"),
    [
        (
            "init_taskd_worker",
            {"taskd_net.job.api.agent", "taskd_net.job.api.proxy", "taskd_net.job.manager", "taskd_net.job.clusterd"},
        ),
        ("init_taskd_proxy", {"taskd_net.job.api.agent", "taskd_net.job.api.worker", "taskd_net.job.manager"}),
        ("init_taskd_manager", {"taskd_net.job.api.agent", "taskd_net.job.api.worker", "taskd_net.mindspore"}),
    ],
)
def test_role_loads_its_own_modules_alone(call: str, others: set[str], tmp_path: Path) -> None:
    done = run(f"from taskd.api import {call}\nimport sys\nassert not set(sys.modules) & {others}", tmp_path)
    assert done.returncode == 0, done.stderr


def test_log_object_is_the_same_everywhere(tmp_path: Path) -> None:
    code = "import logging; from taskd.python.utils.log import run_log; assert run_log is logging.getLogger('taskd')"
    done = run(f"{code}\nrun_log.info('rank 3')", tmp_path, ELASTIC_LOG_PATH="elsewhere")
    assert done.returncode == 0 and "rank 3" in done.stdout
    assert "rank 3" in (tmp_path / "taskd_log" / "taskd.log").read_text()


def test_folder_of_elastic_agents_log(tmp_path: Path) -> None:
    code = "import mindx_elastic; from taskd.python.utils.log import run_log; run_log.info('rank 3')"
    done = run(code, tmp_path, ELASTIC_LOG_PATH=str(tmp_path / "there"))
    assert done.returncode == 0, done.stderr
    assert "rank 3" in (tmp_path / "there" / "taskd.log").read_text()


@pytest.mark.parametrize(
    ("package", "name", "version"), [("taskd", "taskd", "7.0"), ("mindx_elastic", "mindx-elastic", "6")]
)
def test_another_distribution_is_named_by_the_first_import(
    package: str, name: str, version: str, tmp_path: Path
) -> None:
    place = tmp_path / "site-packages"
    file = f"{package}/__init__.py"
    installed(place, "taskd_net_compat-0.1.0", file)
    (place / file).write_text((COMPAT / file).read_text())
    assert run(f"import {package}", tmp_path, place).returncode == 0
    installed(place, f"{name.replace('-', '_')}-{version}", record=f"{file},,\n")
    done = run(f"import {package}", tmp_path, place)
    text = f"taskd-net-compat 0.1.0 and {name} {version} both have the package {package} in {place}"
    assert done.returncode == 1 and f"ImportError: {text}" in done.stderr
    assert f"pip uninstall {name} taskd-net-compat" in done.stderr
