"""`taskd-net doctor --compat`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskd_net.cli.doctor.import_packages import check
from taskd_net.cli.group import group
from taskd_net.version import __version__
from tests.test_distributions import installed

pytestmark = pytest.mark.oldest

FILES = ("taskd/__init__.py", "mindx_elastic/__init__.py")
OURS = f"taskd_net_compat-{__version__}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the import path. Commands are imported when they run, so theirs is imported before."""
    import_module("taskd_net.cli.doctor.checkup")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    return tmp_path


def found() -> dict[str, tuple[str, str, str]]:
    """State, text and advice of each package."""
    return {each.check: (each.state.value, each.text, each.advice) for each in check()}


def test_packages_of_ours_alone(place: Path) -> None:
    installed(place, OURS, *FILES)
    text = f"it comes from taskd-net-compat {__version__}, and from nothing else"
    assert found() == {"taskd": ("ok", text, ""), "mindx_elastic": ("ok", text, "")}


def test_packages_of_nobody(place: Path) -> None:
    text = "no installed distribution has it; taskd-net-compat would bring it"
    assert found() == dict.fromkeys(("taskd", "mindx_elastic"), ("skipped", text, ""))


def test_packages_of_others_alone(place: Path) -> None:
    installed(place, "taskd-7.0", "taskd/__init__.py")
    assert found()["taskd"] == (
        "wrong",
        "taskd 7.0 has it, and not taskd-net-compat",
        "Remove it: pip uninstall taskd; then install taskd-net-compat.",
    )


def test_two_in_one_folder(place: Path) -> None:
    installed(place, OURS, *FILES)
    installed(place, "taskd-7.0", "taskd/__init__.py")
    both = f"taskd-net-compat {__version__} and taskd 7.0 both have the package taskd in {place}"
    assert found()["taskd"] == (
        "wrong",
        f"{both}, and overwrite each other",
        "Remove both, and install taskd-net-compat again: pip uninstall taskd taskd-net-compat.",
    )
    assert found()["mindx_elastic"][0] == "ok"


@pytest.mark.parametrize(("order", "state"), [("ab", "warning"), ("ba", "wrong")])
def test_two_in_two_folders(order: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "a", OURS, *FILES)
    installed(tmp_path / "b", "taskd-7.0", "taskd/__init__.py")
    monkeypatch.setattr("sys.path", [str(tmp_path / folder) for folder in order])
    seen, text, advice = found()["taskd"]
    assert (seen, advice) == (state, "Remove it: pip uninstall taskd.")
    assert text.startswith(f"{'taskd-net-compat' if order == 'ab' else 'taskd 7.0'}")
    assert str(tmp_path / "a") in text and str(tmp_path / "b") in text


def test_files_that_another_removal_took(place: Path) -> None:
    installed(place, OURS, *FILES, "taskd/api/__init__.py")
    (place / FILES[0]).unlink()
    state, text, advice = found()["taskd"]
    assert (state, text) == (
        "wrong",
        f"taskd-net-compat {__version__} has lost 1 of 2 files, such as taskd/__init__.py",
    )
    assert advice == "Install it again: pip install --force-reinstall --no-deps taskd-net-compat."


def test_another_version(place: Path) -> None:
    installed(place, "taskd_net_compat-0.0.1", *FILES)
    assert found()["taskd"] == (
        "wrong",
        f"it comes from taskd-net-compat 0.0.1, and taskd-net is {__version__}",
        f"Install taskd-net-compat {__version__}.",
    )


def test_command_for_people_and_for_programs(place: Path) -> None:
    installed(place, OURS, *FILES)
    done = CliRunner().invoke(group, ["doctor", "--compat"])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "nothing wrong was found")
    installed(place, "taskd-7.0", "taskd/__init__.py")
    done = CliRunner().invoke(group, ["doctor", "--compat", "--json"])
    report = json.loads(done.output)
    assert (done.exit_code, report["command"], report["wrong"]) == (1, None, 1)
    assert [each["state"] for each in report["checks"]] == ["wrong", "ok"]


@pytest.mark.parametrize("arguments", [["--json"], ["--compat", "mgr"], ["--json", "mgr"]])
def test_command_line_that_makes_no_sense(arguments: list[str]) -> None:
    done = CliRunner().invoke(group, ["doctor", *arguments])
    assert done.exit_code == 2 and "--compat" in done.output
