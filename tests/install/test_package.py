"""The description of the package and the templates of a forge agree with the checkout."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from taskd_net import __version__
from tests.documents.pages import PAGES, ROOT
from tests.install.release import MINORS, minor_of, pythons

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the templates are part of a checkout")

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAB: Final[dict[str, Any]] = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())
FORGE: Final = ROOT / ".github"
UNTRACKED: Final = ("build", "dist", "taskd_log", "htmlcov", "certs")


def test_classifiers_name_the_pythons_that_a_release_is_tried_with() -> None:
    named = {int(minor) for line in PROJECT["project"]["classifiers"] for minor in re.findall(r" :: 3\.(\d+)$", line)}
    assert named == set(MINORS)
    further = re.search(r"(?m)^FURTHER = (.*)$", (ROOT / "Makefile").read_text())
    assert further is not None and named == {11, *map(int, further[1].split())}


def test_version_has_a_dated_section_in_the_changelog() -> None:
    sections = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text())
    assert sections[:1] == [__version__]


def test_the_lab_needs_the_package_of_this_version() -> None:
    (own,) = (one for one in map(Requirement, LAB["project"]["dependencies"]) if one.name == "taskd-net")
    assert str(own.specifier) == f"=={__version__}"
    assert LAB["tool"]["hatch"]["version"]["path"] == "../taskd_net/version.py"


def pinned() -> dict[str, Version]:
    """The versions of constraints.txt."""
    pairs = (line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_tools_of_developers_are_groups_and_no_extras() -> None:
    groups = PROJECT["dependency-groups"]
    assert {"test", "lint", "docs"} <= set(groups)
    assert set(groups) & set(PROJECT["project"]["optional-dependencies"]) == set()


def test_constraints_are_versions_that_the_description_allows() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (extras,), (groups,) = (re.findall(rf"(?m)^{name} = (.*)$", makefile) for name in ("EXTRAS", "GROUPS"))
    project, versions = PROJECT["project"], pinned()
    lines = [
        *project["dependencies"],
        *(line for name in extras.split() for line in project["optional-dependencies"][name]),
        *(line for name in groups.split() for line in PROJECT["dependency-groups"][name]),
        *LAB["project"]["dependencies"],
        *LAB["project"]["optional-dependencies"]["bench"],
    ]
    needed = [one for one in map(Requirement, lines) if one.name != project["name"]]
    assert [
        str(one) for one in needed if not one.specifier.contains(versions.get(canonicalize_name(one.name), "0"))
    ] == []


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
