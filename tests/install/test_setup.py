"""Setting up an environment by `make`: its words, and its end without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.pages import PAGES, ROOT

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the Makefile is part of a checkout")


@pytest.mark.more
def test_without_a_network_it_ends_in_words(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", ".venv-docs/stamp", f"PYTHON={sys.executable}"],
        check=False,
        cwd=tmp_path,
        env=env | {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stdout.startswith("setting up .venv-docs: half a minute, and longer where packages are downloaded\n")
    assert ".venv-docs: the packages could not be installed; pip says why above." in done.stderr
    assert "No matching distribution found" in done.stderr and "Traceback" not in done.stderr
