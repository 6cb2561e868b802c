"""Contexts: named addresses with the files of TLS for them, kept for the user of the command line.

The file is `taskd-net/contexts.toml` in the folder of the XDG variable, by default `~/.config`:

    current = "prod"

    [contexts.prod]
    at = "10.0.0.7:9601"
    ca = "/etc/taskd-net/ca.pem"
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taskd_net import ConfigError
from taskd_net.base import limits
from taskd_net.base.bounded_file import read_file
from taskd_net.base.untrusted import json_line, parsed, shown

KEPT: Final = ("at", "enable_tls", "ca", "client_key", "client_crt", "server_name")
"""The settings that a context may have."""

NONE: Final = "none"
"""The name that stands for no context, also where one is current."""

VARIABLE: Final = "TASKD_NET_CONTEXT"


@dataclass(slots=True)
class Contexts:
    """The file's content.

    Attributes:
        current: the context that counts where none is named; None for none.
        settings: of each context, by its name.
    """

    current: str | None = None
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)

    def named(self, name: str) -> Mapping[str, Any]:
        """The settings of a context.

        Raises:
            ConfigError: there is none of this name.
        """
        if name not in self.settings:
            known = ", ".join(sorted(self.settings)) or "there is none yet, `taskd-net context add` makes one"
            raise ConfigError(f"context is {shown(name)}; expected one that was added: {known}")
        return self.settings[name]


def path() -> Path:
    """The file."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification has relative paths ignored.
    if not Path(folder).is_absolute():
        try:
            folder = str(Path.home() / ".config")
        except RuntimeError:  # a user without a home
            folder = "/.config"
    return Path(folder) / "taskd-net" / "contexts.toml"


def load() -> Contexts:
    """Read the file; without one there are no contexts.

    Raises:
        ConfigError: it cannot be read, or has something else in it.
    """
    file = path()
    try:
        data = parsed(tomllib.loads, read_file(file, limits.CONFIG_BYTES, limits.CONFIG_READ_S).data.decode())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return Contexts()  # of another user's home, nothing is this user's
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"contexts is '{file}'; expected a TOML file that can be read: {reason}") from None
    current, tables = data.pop("current", None), data.pop("contexts", {})
    if data or not isinstance(current, str | None) or not isinstance(tables, dict):
        raise ConfigError(f"contexts is '{file}'; expected `current` and tables [contexts.NAME] alone")
    for name, table in tables.items():
        if not isinstance(table, dict) or not set(table) <= set(KEPT):
            raise ConfigError(f"contexts '{file}' has [contexts.{name}]; expected a table of {', '.join(KEPT)}")
    return Contexts(current, tables)


def save(contexts: Contexts) -> None:
    """Write the file, whole or not at all; only the user may open it.

    Raises:
        ConfigError: it cannot be written.
    """
    # A JSON string is a TOML string, and so is a quoted key.
    lines = [] if contexts.current is None else [f"current = {json_line(contexts.current)}"]
    for name, settings in sorted(contexts.settings.items()):
        lines += [
            "",
            f"[contexts.{json_line(name)}]",
            *(f"{key} = {json_line(value)}" for key, value in settings.items()),
        ]
    file = path()
    part = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write("\n".join([*lines, ""]))
        part.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):  # the folder may be missing too
            part.unlink()
        raise ConfigError(f"contexts is '{file}'; expected a file that can be written: {error.strerror}") from None
