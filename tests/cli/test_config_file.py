"""The TOML file: keys for all commands, tables for one, and unknown names."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net import ConfigError
from taskd_net.base import limits
from taskd_net.cli.config_file import load

NAMES = {"mgr": ["grace", "listen"], "proxy": ["grace", "upstream"]}


def loaded(tmp_path: Path, text: str, command: str = "mgr") -> dict[str, object]:
    """The settings of a command in a file with this text."""
    path = tmp_path / "file.toml"
    path.write_text(text)
    return load(path, command, NAMES)


def test_a_table_counts_before_the_top_and_others_are_left_out(tmp_path: Path) -> None:
    text = 'grace = 1\nupstream = "u"\n[mgr]\ngrace = 2\n[proxy]\ngrace = 3\n'
    assert loaded(tmp_path, text) == {"grace": 2}
    assert loaded(tmp_path, text, "proxy") == {"grace": 3, "upstream": "u"}
    assert loaded(tmp_path, "") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grase = 1", "grase = 1; expected a setting; did you mean grace?"),
        ("moon = 1", "moon = 1; expected a setting$"),
        ("[mgr]\nupstream = 1", r"\[mgr\] upstream = 1; expected a setting of mgr"),
        ("[other]", r"\[other\]; expected a table of one of the commands mgr, proxy"),
        ("grace", "expected a TOML file"),
        ("a = " + "[" * 5000, "nested too deeply"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, text)


def test_a_file_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"more than {limits.CONFIG_BYTES} bytes"):
        loaded(tmp_path, "#" * (limits.CONFIG_BYTES + 1))
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "nothing", "mgr", NAMES)
