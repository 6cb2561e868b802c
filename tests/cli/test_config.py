"""`taskd-net config`: what it prints, and that this is a file with the same settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group
from taskd_net.cli.settings import COMMANDS

pytestmark = pytest.mark.timeout(180)


def config(*arguments: str) -> str:
    """The output of `taskd-net config`."""
    done = CliRunner().invoke(group, ["config", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_every_value_is_printed_with_the_place_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "taskd-net.toml"
    file.write_text("grace = 60")
    monkeypatch.setenv("RANK", "3")
    lines = config("proxy", "--config", str(file), "--ack-timeout", "5").splitlines()
    assert lines[0] == "[proxy]"
    said = [line.rpartition("  # ") for line in lines[1:]]
    places = {name.strip(): place for name, _, place in said}
    assert places["ack_timeout = 5.0"] == "--ack-timeout"
    assert places["server_rank = 3"] == "environment variable RANK"
    assert places["grace = 60.0"] == f"file {file}"
    assert places['links = "direct"'] == "default"
    assert places["# server_crt is not set"] == "default"
    assert places["# metrics_port is not set"] == "default"
    assert [name.removeprefix("# ").partition(" ")[0] for name in places] == [
        setting.name for setting in COMMANDS["proxy"]
    ]


def test_without_a_command_all_are_printed() -> None:
    assert list(tomllib.loads(config())) == list(COMMANDS)
    assert list(json.loads(config("--json"))) == list(COMMANDS)


def test_what_is_printed_can_be_used_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKD_NET_GRACE", "60")
    monkeypatch.setenv("TASKD_LOG_PATH", 'a "folder"\\é')
    file = tmp_path / "taskd-net.toml"
    file.write_text(config())
    before = json.loads(config("--json"))
    monkeypatch.delenv("TASKD_NET_GRACE")
    monkeypatch.delenv("TASKD_LOG_PATH")
    monkeypatch.setenv("TASKD_NET_CONFIG", str(file))
    after = json.loads(config("--json"))
    assert {command: {name: said["value"] for name, said in after[command].items()} for command in after} == {
        command: {name: said["value"] for name, said in before[command].items()} for command in before
    }
    assert after["mgr"]["grace"] == {"value": 60.0, "source": "file", "name": str(file)}


def test_json_may_be_asked_for_before_or_after_the_command() -> None:
    assert config("--json", "mgr") == config("mgr", "--json")


def test_what_no_node_could_run_with_is_refused() -> None:
    done = CliRunner().invoke(group, ["config", "listen", "--as", "Mgr"])
    text = "Error: as is 'Mgr'; expected the position of an Agent or a Worker, e.g. Agent/0 or Worker/0/3 (from --as)\n"
    assert (done.exit_code, done.output) == (2, text)
