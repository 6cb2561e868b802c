"""The list of commands: each with help and, in case of wrong use, one line."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from taskd_net.cli.commands import HOMES
from taskd_net.cli.group import group
from taskd_net.cli.settings import COMMANDS


def test_every_command_with_settings_is_there() -> None:
    others = {"config", "doctor", "certs", "demo", "faults", "bench", "clusterd-sim", "run", "context", "completion"}
    others |= {"simulate"}
    assert set(COMMANDS) | others == set(group.commands)


@pytest.mark.parametrize("name", sorted(group.commands))
def test_every_command_has_a_line_and_a_text(name: str) -> None:
    command = group.commands[name]
    assert command.get_short_help_str(limit=100).endswith(".") and command.help
    assert CliRunner().invoke(group, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize("name", ["health", "tree"])
def test_a_command_loads_neither_other_commands_nor_the_manager(name: str) -> None:
    """A probe of Kubernetes starts a process every few seconds."""
    code = f"import sys; from taskd_net.cli.group import group; group.commands[{name!r}]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    others = {home for command, home in HOMES.items() if command != name}
    rooms = {"taskd_net.node.node", "taskd_net.job.manager.runtime", "taskd_net.job.decide", "taskd_net_lab"}
    assert loaded & (others | rooms) == set()


@pytest.mark.parametrize("arguments", [["moon"], ["mgr", "--moon"], ["send"], ["ping", "a", "b"]])
def test_wrong_use_is_one_line(arguments: list[str]) -> None:
    done = CliRunner().invoke(group, arguments)
    assert done.exit_code == 2 and done.output.count("\n") == 1 and done.output.startswith("Error: ")
