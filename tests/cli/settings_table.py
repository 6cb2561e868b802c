"""The tables of settings in docs/configuration.md, one a group, made from their declarations.

`python -m tests.cli.settings_table` writes them; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from taskd_net.base.schema import Group, Reload, Setting
from taskd_net.cli.options import SettingOption
from taskd_net.cli.settings import COMMANDS, SETTINGS

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
HEAD: Final = (
    "| Flag | Environment | Key | Of | Default | Range | Changes with | Meaning, and the price of a change |",
    "|---|---|---|---|---|---|---|---|",
)
BEGIN: Final = "<!-- settings: written by `python -m tests.cli.settings_table` -->\n"
END: Final = "<!-- settings: end -->"
_CHANGES: Final = {Reload.RESTART: "restart", Reload.SIGHUP: "SIGHUP", Reload.WATCHED: "the file"}


def _grouped(options: dict[str, SettingOption], text: Callable[[SettingOption], str]) -> str:
    """The text of a setting; where commands differ, with the commands that each is for."""
    commands: dict[str, list[str]] = {}
    for command, option in options.items():
        commands.setdefault(text(option), []).append(command)
    if len(commands) == 1:
        return next(iter(commands))
    return "; ".join(f"{', '.join(names)}: {said.rstrip('.')}" for said, names in commands.items())


def _default(option: SettingOption) -> str:
    value = option.setting.default
    return (
        f"`{str(value).lower() if isinstance(value, bool) else value}`" if value is not None else option.setting.unset
    )


def _commands(flag: str) -> list[str]:
    return [name for name, settings in COMMANDS.items() if any(flag in option.opts for option in settings)]


def _row(name: str, setting: Setting) -> str:
    options = {command: option for command, settings in COMMANDS.items() for option in settings if option.name == name}
    flags = next(iter(options.values()))
    cells = (
        ", ".join(f"`{flag}`" for flag in (*flags.opts, *flags.secondary_opts)) + (" ●" if setting.matters else ""),
        _grouped(options, lambda option: ", then ".join(f"`{variable}`" for variable in option.variables)),
        f"`{name}`",
        ", ".join(_commands(flags.opts[0])),
        _grouped(options, _default),
        setting.range,
        _CHANGES[setting.reload] if {"mgr", "proxy"} & set(options) else "–",
        _grouped(options, lambda option: option.setting.about),
    )
    return f"| {' | '.join(cells)} |"


def tables() -> Iterator[str]:
    """The lines of all tables."""
    for group in Group:
        yield from ("", f"### {group.value}", "", *HEAD)
        yield from (_row(name, setting) for name, setting in SETTINGS.items() if setting.group is group)


def written(document: str) -> str:
    """The document with the tables as they are now."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "the document has no place for the tables of settings"
    return before + begin + "\n".join([*tables(), "", end]) + after


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
