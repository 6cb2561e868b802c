"""The description of the package and the templates of a forge agree with the checkout."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

import pytest
import yaml

from tests.documents.pages import PAGES, ROOT
from tests.install.release import MINORS, minor_of, pythons

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the templates are part of a checkout")

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
FORGE: Final = ROOT / ".github"
UNTRACKED: Final = ("build", "dist", "taskd_log", "htmlcov", "certs")


def test_classifiers_name_the_pythons_that_a_release_is_tried_with() -> None:
    named = {int(minor) for line in PROJECT["project"]["classifiers"] for minor in re.findall(r" :: 3\.(\d+)$", line)}
    assert named == set(MINORS)
    further = re.search(r"(?m)^FURTHER = (.*)$", (ROOT / "Makefile").read_text())
    assert further is not None and named == {11, *map(int, further[1].split())}


def test_sdist_has_all_folders_and_files_of_the_checkout() -> None:
    """Its tests need the documents, and the documents link to the rest."""
    included = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    there = {f"/{path.name}" for path in ROOT.iterdir() if path.name not in UNTRACKED}
    visible = {name for name in there if not name.startswith("/.") and not name.endswith(".egg-info")}
    assert visible | {"/.ci", "/.github"} <= included | {"/pyproject.toml", "/PKG-INFO"}


def test_workflow_runs_targets_and_files_that_are_there() -> None:
    workflow = yaml.safe_load((FORGE / "workflows" / "ci.yml").read_text())
    lines = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"(?m)^([a-z-]+):.*## ", (ROOT / "Makefile").read_text()))
    assert lines
    for line in lines:
        program, *words = line.split()
        assert set(words) <= targets if program == "make" else (ROOT / program).exists(), line


def test_templates_have_names_and_name_commands_that_are_there() -> None:
    for path in (FORGE / "ISSUE_TEMPLATE").glob("*.md"):
        _, head, _ = path.read_text().split("---\n", 2)
        assert set(yaml.safe_load(head)) == {"name", "about"}


def test_a_python_that_does_not_run_is_none() -> None:
    assert minor_of("/no/python") is None
    assert pythons()
