"""Installed distributions with the same import package."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from taskd_net.base.distributions import COMPAT, owners, require_alone

pytestmark = pytest.mark.oldest

OURS = "taskd_net_compat-0.1.0"


def installed(folder: Path, name: str, *files: str, record: str | None = None) -> None:
    """Install a distribution, as far as its RECORD."""
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    lines = [*files, f"{info.name}/METADATA", f"{info.name}/RECORD"]
    (info / "RECORD").write_text("".join(f"{line},sha256=x,1\n" for line in lines) if record is None else record)
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the import path."""
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    return tmp_path


def test_owners_are_those_with_files_of_the_package(place: Path) -> None:
    installed(place, OURS, "taskd/__init__.py", "taskd/api/__init__.py", "mindx_elastic/__init__.py")
    installed(place, "TaskD_Net-0.1.0", "taskd_net/__init__.py", "x/taskd/y.py")
    installed(place, "Mind.X_elastic-7.0rc1", "mindx_elastic/__init__.py", "mindx_elastic/__pycache__/x.pyc")
    (place / "taskd_net_compat.egg-info").mkdir()
    assert [(each.name, each.version, each.files) for each in owners("taskd")] == [
        (COMPAT, "0.1.0", ("taskd/__init__.py", "taskd/api/__init__.py"))
    ]
    assert [str(each) for each in owners("mindx_elastic")] == ["mind-x-elastic 7.0rc1", f"{COMPAT} 0.1.0"]
    assert owners("mindx_elastic")[0].files == ("mindx_elastic/__init__.py",)


def test_records_of_any_content_are_read(place: Path) -> None:
    for number, record in enumerate(["", "taskd", "\ntaskd/a.py,,", "taskd/\udcff", 'a,b\n"taskd/a,b.py",,\n']):
        (place / f"x{number}-1.dist-info").mkdir()
        (place / f"x{number}-1.dist-info" / "RECORD").write_text(record, errors="surrogateescape")
    (place / "without-1.dist-info").mkdir()
    (place / "folder-1.dist-info" / "RECORD").mkdir(parents=True)
    (place / "file-1.dist-info").touch()
    assert [each.name for each in owners("taskd")] == ["x2", "x3"]


def test_order_is_that_of_the_import_path_and_no_folder_counts_twice(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    installed(first, "taskd-7.0", "taskd/__init__.py")
    installed(second, OURS, "taskd/__init__.py")
    path = [str(second), str(first), f"{second}/../b", str(tmp_path / "nowhere"), "/dev/null"]
    assert [each.folder for each in owners("taskd", path)] == [second, first]


@pytest.mark.parametrize("name", [OURS, "taskd_net-0.1.0", "torch-2.13.0"])
def test_alone_is_fine(place: Path, name: str) -> None:
    installed(place, name, "taskd/__init__.py" if name == OURS else "other.py")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_alone("taskd")


def test_two_in_one_folder_are_refused_with_both_names_and_the_remedy(place: Path) -> None:
    installed(place, OURS, "taskd/__init__.py")
    installed(place, "taskd-7.0", "taskd/__init__.py")
    installed(place, "mindx_elastic-6.0", "mindx_elastic/__init__.py")
    with pytest.raises(ImportError) as raised:
        require_alone("taskd")
    assert raised.value.name == "taskd"
    assert str(raised.value) == (
        f"taskd-net-compat 0.1.0 and taskd 7.0 both have the package taskd in {place}, and overwrite each other. "
        "Remove both, and install taskd-net-compat again: pip uninstall taskd taskd-net-compat"
    )


def test_another_folder_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "a", OURS, "taskd/__init__.py")
    installed(tmp_path / "b", "taskd-7.0", "taskd/__init__.py")
    monkeypatch.setattr("sys.path", [str(tmp_path / "a"), str(tmp_path / "b")])
    with pytest.warns(RuntimeWarning) as warned:
        require_alone("taskd")
    (text,) = (str(each.message) for each in warned)
    assert text == (
        f"taskd-net-compat is in use for the package taskd; taskd 7.0 has it too, in {tmp_path / 'b'}. "
        "Remove it: pip uninstall taskd"
    )


def test_files_that_are_gone(place: Path) -> None:
    installed(place, OURS, "taskd/__init__.py", "taskd/api/__init__.py")
    (place / "taskd" / "__init__.py").unlink()
    assert [each.missing for each in owners("taskd")] == [["taskd/__init__.py"]]
