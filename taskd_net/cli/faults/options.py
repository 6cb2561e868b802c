"""The settings and the files that the commands share."""

from __future__ import annotations

from typing import Final, NamedTuple

import click

from taskd_net.base.codes import ArgumentError, ConfigError
from taskd_net.base.schema import described
from taskd_net.cli.options import SettingOption, place
from taskd_net.job.faults.config import FaultSettings
from taskd_net.job.faults.reading import poll_interval, read_rules
from taskd_net.job.faults.rules import POLL_FILE, FaultRules, Problem
from taskd_net.job.manager.fault_folder import read_folder

_SETTINGS: Final = described(FaultSettings)


def options(*names: str) -> list[click.Parameter]:
    """The options of settings."""
    return [SettingOption(name, _SETTINGS[name]) for name in names]


def config(ctx: click.Context, **given: object) -> FaultSettings:
    """The settings that a command was given; others have their defaults.

    Raises:
        click.UsageError: names the setting, its value, what was expected, and its source.
    """
    values = {name: ctx.params[name] for name in _SETTINGS if name in ctx.params}
    try:
        return FaultSettings(**{**values, **given})
    except ConfigError as error:
        field = str(error).partition(" ")[0]
        for param in ctx.command.params:
            if isinstance(param, SettingOption) and param.name == field:
                raise click.UsageError(f"{error} (from {place(param.origin(ctx))})") from None
        raise click.UsageError(str(error)) from None


class Files(NamedTuple):
    """The rules of a folder.

    Args:
        rules: the rules.
        problems: everything in the files that is not as expected.
        interval: seconds between two looks.
    """

    rules: FaultRules
    problems: tuple[Problem, ...]
    interval: int


def read_files(config: FaultSettings) -> Files:
    """Read the folder of the settings.

    Raises:
        RulesRefused: the files cannot be used.
        ConfigError: the folder cannot be read, or there is none.
    """
    if config.fault_config is None:
        raise ConfigError("fault_config is None; expected a folder with faultCode.json")
    try:
        files = read_folder(config.fault_config)
    except (OSError, ValueError) as error:
        text = f"fault_config is {config.fault_config!r}; expected a folder that can be read"
        raise ConfigError(f"{text}: {error}") from None
    rules, problems = read_rules(files, config.edition, config.linkdown_timeout)
    interval, problem = poll_interval(files.get(POLL_FILE))
    return Files(rules, problems if problem is None else (*problems, problem), interval)


def rules_of(config: FaultSettings) -> FaultRules:
    """The rules of the folder, or those of no file without one.

    Raises:
        click.ClickException: the files cannot be used.
    """
    if config.fault_config is None:
        return FaultRules.of_no_file(config.edition, config.linkdown_timeout)
    try:
        return read_files(config).rules
    except (ArgumentError, ConfigError) as error:
        raise click.ClickException(str(error)) from None
