"""The file of contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net import ConfigError
from taskd_net.cli import context_file
from taskd_net.cli.context_file import Contexts, load, save


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the file, which is missing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "taskd-net"


def test_file_is_in_the_folder_of_xdg(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert context_file.path() == folder / "contexts.toml"
    monkeypatch.setenv("HOME", "/home/me")
    for other in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", other)
        assert context_file.path() == Path("/home/me/.config/taskd-net/contexts.toml")


def test_what_is_saved_is_loaded(folder: Path) -> None:
    assert load() == Contexts()
    kept = Contexts("a.b", {'a.b "é"': {"at": "h:1", "enable_tls": False}, "a.b": {"at": "[::1]:2", "ca": "/x y"}})
    save(kept)
    assert load() == kept
    assert [path.name for path in folder.iterdir()] == ["contexts.toml"]
    assert (folder / "contexts.toml").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o077 == 0


def test_unknown_context_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"^context is 'x'; expected one that was added: there is none yet"):
        Contexts().named("x")
    with pytest.raises(ConfigError, match=r"expected one that was added: a, b$"):
        Contexts(None, {"b": {}, "a": {}}).named("x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("current = 3", "expected `current` and tables"),
        ("other = 'x'", "expected `current` and tables"),
        ("contexts = 3", "expected `current` and tables"),
        ("[contexts.x]\nlisten = 'h:1'", r"has \[contexts.x\]; expected a table of at, enable_tls, ca"),
        ("current = ", "expected a TOML file that can be read"),
    ],
)
def test_file_with_something_else_is_refused(folder: Path, text: str, expected: str) -> None:
    folder.mkdir(parents=True)
    (folder / "contexts.toml").write_text(text)
    with pytest.raises(ConfigError, match=rf"^contexts .*{expected}"):
        load()


def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    assert load() == Contexts()
    with pytest.raises(ConfigError, match=r"expected a file that can be written: "):
        save(Contexts())
