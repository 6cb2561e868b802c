"""The package as it was at an earlier commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import checkout

EARLIER = "860116a"
"""The last commit without direct links."""


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the earlier commit, out of git's history. Both use the installed dependencies."""
    folder = tmp_path_factory.mktemp("earlier")
    checkout.extract(EARLIER, folder)
    code = "import taskd_net; print(taskd_net.__file__)"
    env = {"PYTHONPATH": str(folder), "PATH": os.environ["PATH"]}
    found = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, check=True)
    assert found.stdout.decode().strip() == str(folder / "taskd_net" / "__init__.py")
    return folder
