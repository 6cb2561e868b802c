"""The TOML file with settings.

Keys at the top are for all commands. A table named after a command is for that command, and counts before them:

    ack_timeout = 5.0

    [proxy]
    upstream = "node-0:9601"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from taskd_net import ConfigError
from taskd_net.base import limits
from taskd_net.base.bounded_file import read_file
from taskd_net.base.untrusted import parsed, shown


def load(path: Path, command: str, names: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """Read the settings of one command.

    Args:
        path: the file.
        command: reads its settings.
        names: the settings of every command; the whole file is checked for unknown names.

    Returns:
        Values by name.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or has a key that no command knows; names it.
    """
    try:
        content = read_file(path, limits.CONFIG_BYTES, limits.CONFIG_READ_S)
        data = parsed(tomllib.loads, content.data.decode())
    except OSError as error:
        raise ConfigError(f"config is '{path}'; expected a file that can be read: {error.strerror}") from None
    except ValueError as error:  # not TOML, not UTF-8, or not a file as it should be
        raise ConfigError(f"config is '{path}'; expected a TOML file: {error}") from None
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    shared = {key: value for key, value in data.items() if key not in tables}
    for key in tables:
        _check(path, f"[{key}]", key, f"a table of one of the commands {', '.join(names)}", names)
    known = {name for of_command in names.values() for name in of_command}
    for key, value in shared.items():
        _check(path, f"{key} = {shown(value)}", key, "a setting", known)
    for table, settings in tables.items():
        for key, value in settings.items():
            _check(path, f"[{table}] {key} = {shown(value)}", key, f"a setting of {table}", names[table])
    of_command = {key: value for key, value in shared.items() if key in names[command]}
    return {**of_command, **tables.get(command, {})}


def _check(path: Path, found: str, key: str, expected: str, known: Iterable[str]) -> None:
    if key not in known:
        close = get_close_matches(key.replace("-", "_"), list(known), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(f"config '{path}' has {found}; expected {expected}{hint}")
