"""The files of `deploy/`, and the program's reading of their settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from click.testing import CliRunner

from taskd_net.cli.group import group
from taskd_net.cli.settings import COMMANDS
from tests.cli.processes import ROOT

DEPLOY = ROOT / "deploy"
CLOSING_S = 3.0
"""Seconds that a daemon may take beyond its `drain`, by docs/configuration.md."""


def settings_of(arguments: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """The settings in force of a daemon with these arguments, by the daemon's own reading of them.

    Args:
        arguments: `proxy`, and its flags.
        env: all of its environment.
    """
    command = arguments[0]
    known = {variable for setting in COMMANDS[command] for variable in setting.variables}
    assert set(env) <= known | {"PYTHONFAULTHANDLER"}, set(env) - known
    # An empty variable counts as unset, so the environment of the tests has no effect.
    around = dict.fromkeys(known | {"TASKD_NET_CONFIG"}, "")
    done = CliRunner().invoke(group, ["config", *arguments, "--json"], env={**around, **env})
    assert done.exit_code == 0, done.output
    return {name: said["value"] for name, said in json.loads(done.stdout)[command].items()}


def port_of(address: str) -> int:
    """The port of `host:port`."""
    return int(address.rpartition(":")[2])


def containerfile() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, with their arguments."""
    lines = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line and not line.startswith("#")]
    assert not any(line.endswith("\\") for line in lines), "an instruction a line"
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]
