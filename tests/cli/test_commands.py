"""The table of commands: a module for each, and words for those whose distribution is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from taskd_net import __version__
from taskd_net.cli.commands import HOMES, LAB, OF_DEMO, Commands
from taskd_net.cli.group import OneLineErrors, group

IN_LAB = [([name], HOMES) for name, home in HOMES.items() if not home.startswith("taskd_net.")]
IN_LAB += [([name], OF_DEMO) for name in OF_DEMO]


def fresh(homes: Mapping[str, str]) -> click.Group:
    """A group that has loaded no command yet."""
    return OneLineErrors("taskd-net", commands=Commands(homes))


def test_every_command_has_its_name_in_its_module() -> None:
    demo = group.commands["demo"]
    assert isinstance(demo, click.Group)
    for commands in (group.commands, demo.commands):
        assert {name: command.name for name, command in commands.items()} == {name: name for name in commands}


def test_modules_of_the_lab_are_those_of_commands_for_development() -> None:
    assert [words for words, _ in IN_LAB] == [
        *(["bench"], ["clusterd-sim"], ["simulate"]),
        *(["job"], ["faults"], ["recovery"], ["training"], ["watch"], ["mindspore"]),
    ]


@pytest.mark.parametrize(("words", "homes"), IN_LAB)
@pytest.mark.parametrize("arguments", [[], ["--help"], ["x", "--scenario", "y", "-z"]])
def test_without_the_lab_its_commands_say_what_to_install(
    words: list[str], homes: Mapping[str, str], arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [])
    done = CliRunner().invoke(fresh(homes), [*words, *arguments])
    said = f"Error: {words[0]} is in the distribution {LAB}; install {LAB}=={__version__}\n"
    assert (done.exit_code, done.output) == (2, said)


def test_a_lab_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "taskd_net_lab-0.0.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: taskd-net-lab\nVersion: 0.0.7\n")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    done = CliRunner().invoke(fresh(HOMES), ["simulate", "--nodes", "3"])
    said = f"is in {LAB}, which is 0.0.7; expected {__version__}, as taskd-net: install {LAB}=={__version__}"
    assert (done.exit_code, done.output) == (2, f"Error: simulate {said}\n")


def test_without_the_lab_its_commands_are_listed_and_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = fresh({name: home for name, home in HOMES.items() if name != "demo"})
    assert [commands.commands[name].name for name in ("mgr", "send")] == ["mgr", "send"]
    monkeypatch.setattr("sys.path", [])
    demo = CliRunner().invoke(fresh(OF_DEMO), ["--help"])
    assert demo.output.count(f"Not installed: it is in {LAB}=={__version__}.") == len(OF_DEMO)
    complete = ShellComplete(commands, {}, "taskd-net", "_TASKD_NET_COMPLETE")
    assert [each.value for each in complete.get_completions([], "clus")] == ["clusterd-sim"]
    assert complete.get_completions(["clusterd-sim"], "--sc") == []
