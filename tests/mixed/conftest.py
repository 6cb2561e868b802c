"""The package as it was at an earlier commit."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EARLIER = "860116a"
"""The last commit without direct links."""


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the earlier commit, out of git's history. Both use the installed dependencies."""
    folder = tmp_path_factory.mktemp("earlier")
    archive = subprocess.run(["git", "archive", EARLIER, "taskd_net"], cwd=ROOT, capture_output=True, check=False)
    assert archive.returncode == 0, f"the history of this checkout has no {EARLIER}: {archive.stderr.decode()}"
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    code = "import taskd_net; print(taskd_net.__file__)"
    env = {"PYTHONPATH": str(folder), "PATH": os.environ["PATH"]}
    found = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, check=True)
    assert found.stdout.decode().strip() == str(folder / "taskd_net" / "__init__.py")
    return folder
