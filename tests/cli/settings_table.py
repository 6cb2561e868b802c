"""The table of settings in docs/configuration.md, made from their declarations.

`python -m tests.cli.settings_table` writes it; a test compares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from taskd_net.cli.options import SettingOption
from taskd_net.cli.settings import COMMANDS, SETTINGS
from taskd_net.schema import Reload

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
HEAD: Final = (
    "| Flag | Environment | Key | Of | Default | Range | Changes with | Meaning, and the price of a change |",
    "|---|---|---|---|---|---|---|---|",
)
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


def rows() -> Iterator[str]:
    """The lines of the table below its head."""
    for name, setting in SETTINGS.items():
        options = {
            command: option for command, settings in COMMANDS.items() for option in settings if option.name == name
        }
        flags = next(iter(options.values()))
        yield (
            "| "
            + " | ".join(
                (
                    ", ".join(f"`{flag}`" for flag in (*flags.opts, *flags.secondary_opts)),
                    _grouped(options, lambda option: ", then ".join(f"`{variable}`" for variable in option.variables)),
                    f"`{name}`",
                    ", ".join(options),
                    _grouped(options, _default),
                    setting.range,
                    _CHANGES[setting.reload] if {"mgr", "proxy"} & set(options) else "–",
                    _grouped(options, lambda option: option.setting.about),
                )
            )
            + " |"
        )


def written(document: str) -> str:
    """The document with the table as it is now."""
    before, head, rest = document.partition(HEAD[0] + "\n")
    assert head, "the document has no table of settings"
    lines = rest.splitlines(keepends=True)
    after = next(number for number, line in enumerate(lines) if not line.startswith("|"))
    return before + "\n".join([*HEAD, *rows(), ""]) + "".join(lines[after:])


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
