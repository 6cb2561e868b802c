"""docs/configuration.md and the help say all there is."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group
from taskd_net.cli.options import SettingOption
from taskd_net.cli.settings import COMMANDS
from tests.cli.settings_table import DOCUMENT, written

NAMES = [*COMMANDS, "config", "doctor"]

pytestmark = [
    pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout"),
    pytest.mark.timeout(180),
]


def rows() -> dict[str, list[str]]:
    """The rows of the tables of flags, by flag."""
    found = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for flag in re.findall(r"`(--[a-z-]+)`", cells[0]) if line.startswith("| `--") else ():
            assert flag not in found, f"{flag} has two rows"
            found[flag] = cells
    return found


def options(command: str) -> list[click.Option]:
    """The options of a command, as far as its help has them."""
    params = group.commands[command].params
    return [param for param in params if isinstance(param, click.Option) and not param.hidden]


@pytest.mark.parametrize("command", NAMES)
def test_every_flag_has_a_row_that_names_its_commands(command: str) -> None:
    for option in options(command):
        for flag in (*option.opts, *option.secondary_opts):
            of = rows()[flag][3] if isinstance(option, SettingOption) else rows()[flag][1]
            assert command in of or of.startswith("all"), flag


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_is_described_with_its_variables_key_and_default(command: str) -> None:
    for setting in COMMANDS[command]:
        _, environment, key, of, default, allowed, _, price = rows()[setting.opts[0]]
        for variable in setting.variables:
            assert f"`{variable}`" in environment, setting.name
        assert key == f"`{setting.name}`"
        assert command in re.split(r", | and ", of), setting.name
        value = setting.default
        if value is not None:
            assert f"`{str(value).lower() if isinstance(value, bool) else value}`" in default, (setting.name, command)
        assert allowed and price


def test_the_table_is_made_from_the_declarations() -> None:
    text = DOCUMENT.read_text()
    assert text == written(text), "python -m tests.cli.settings_table writes it"


def test_no_row_is_about_a_flag_that_is_not_there() -> None:
    flags = {flag for name in NAMES for option in options(name) for flag in (*option.opts, *option.secondary_opts)}
    assert set(rows()) == flags


def test_variables_in_the_document_exist() -> None:
    known = {variable for settings in COMMANDS.values() for setting in settings for variable in setting.variables}
    named = set(re.findall(r"\bTASKD_\w+[A-Z]\b", DOCUMENT.read_text()))
    assert named <= known | {"TASKD_NET_CONFIG", "TASKD_NET_CONTEXT"}


@pytest.mark.parametrize("command", NAMES)
def test_help_has_examples_and_exit_codes(command: str) -> None:
    done = CliRunner().invoke(group, [command, "--help"])
    assert done.exit_code == 0
    assert f"  taskd-net {command} " in done.output
    for heading in ("Examples:", "Exit codes:"):
        assert heading in done.output
    assert all(len(line) <= 88 for line in done.output.splitlines())
