"""Settings as data: the metadata of a config class's fields, and the class's docstring.

A declaration gives a setting its type, default, range and reload rule; `Args` in the docstring has its meaning and
price. The constructor's checks, the flags, the environment variables, the TOML keys, the shell's completion and the
table in docs/configuration.md come from both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from inspect import cleandoc
from typing import Any, Final

from taskd_net.base import upstreams
from taskd_net.base.address import Address
from taskd_net.base.codes import ArgumentError, ConfigError, Refusal
from taskd_net.base.position import read_nodes
from taskd_net.base.untrusted import shown

Reading = Callable[[str], str | None]
"""The value in an environment variable's text; None for no value."""

_KEY: Final = "setting"

PREFIX: Final = "TASKD_NET_"
"""Head of the environment variable of a setting: `TASKD_NET_GRACE` for `grace`."""

DAEMONS: Final = ("mgr", "proxy")
JOINING: Final = ("send", "listen")
"""Commands that run a node as a tool."""

ASKING: Final = ("ping", "trace", "tree", "top", "job", "forget", "health")
"""Commands that ask a node."""


class Kind(Enum):
    """The type of a setting's value."""

    ADDRESS = "host:port"
    ADDRESSES = "host:port, or several with commas"
    CHOICE = "one of a few words"
    FILE = "path of a file"
    FOLDER = "path of a folder"
    PERIOD = "seconds, or 0"
    PORT = "port, or host:port"
    POSITION = "position"
    POSITIONS = "position, or several with commas"
    RANK = "rank"
    SECONDS = "seconds"
    SIZE = "nodes x processes"
    SWITCH = "true or false"
    TEXT = "text"
    WHOLE = "whole number"


class Group(Enum):
    """The group of a setting in `--help-all` and in the documents. The order is that of both."""

    NODE = "Node"
    LINKS = "Links"
    TLS = "TLS and identity"
    MANAGER = "Manager of the job"
    FAULTS = "Fault levels"
    BOUNDS = "Bounds"
    SIDE = "Status page, metrics and records"
    LOG = "Log"


class Reload(Enum):
    """The event after which a running node uses a new value."""

    RESTART = "restart"
    SIGHUP = "SIGHUP"
    WATCHED = "watched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table of settings.

    Args:
        kind: type of the value.
        default: value without any other source; None for none.
        about: meaning and unit in the first sentence, which `--help` prints; then the price of a change. Settings of
            config classes have it in the docstring of the class; see `described`.
        least: smallest value.
        most: greatest value; None for no bound.
        choices: allowed words; for an address, in its place.
        variables: TaskD's own environment variables, in order; `TASKD_NET_<NAME>` counts before them.
        prefixed: whether `TASKD_NET_<NAME>` exists; False where TaskD's variable means exactly the same.
        unset: the absence of a value, in words.
        also: further flags, such as `--at`.
        reload: see `Reload`.
        group: see `Group`.
        matters: whether the short help of a daemon has it.
        of: commands that have the setting.
        by: attributes that differ for a command, by its name.
    """

    kind: Kind
    default: Any
    about: str = ""
    least: int = 0
    most: float | None = None
    choices: Collection[str] = ()
    variables: Mapping[str, Reading] = field(default_factory=dict)
    prefixed: bool = True
    unset: str = ""
    also: Collection[str] = ()
    reload: Reload = Reload.RESTART
    group: Group = Group.NODE
    matters: bool = False
    of: Collection[str] = DAEMONS
    by: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of_command(self, command: str) -> Setting:
        """The setting as a command has it."""
        return replace(self, **self.by.get(command, {}))

    def variables_of(self, name: str) -> Mapping[str, Reading]:
        """The environment variables of the setting with this name, in the order in which they count."""
        own: Mapping[str, Reading] = {PREFIX + name.upper(): str} if self.prefixed else {}
        return {**own, **self.variables}

    def variable(self, name: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
        """The environment variable that counts, and its value; None for none.

        Args:
            name: of the setting.
            environment: as `os.environ`.
        """
        for variable, reading in self.variables_of(name).items():
            text = environment.get(variable)
            said = reading(text) if text else None
            if said is not None:
                return variable, said
        return None

    @property
    def range(self) -> str:
        """The allowed values, in words."""
        match self.kind:
            case Kind.WHOLE | Kind.RANK:
                return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"
            case Kind.SECONDS:
                return "above 0" if self.most is None else f"above 0, to {self.most:.0f}"
            case Kind.PERIOD:
                return f"0 to {self.most:.0f}"
            case Kind.CHOICE:
                return ", ".join(f"`{word}`" for word in self.choices)
            case Kind.ADDRESS if self.choices:
                return ", ".join((str(self.kind.value), *(f"`{word}`" for word in self.choices)))
            case _:
                return str(self.kind.value)

    def require(self, name: str, value: object) -> None:
        """Check a value.

        Raises:
            ConfigError: names the setting, the value and the range.
        """
        if value is None and self.default is None:
            return
        expected = None
        match self.kind:
            case Kind.WHOLE:
                right = isinstance(value, int) and not isinstance(value, bool) and value >= self.least
                bounds = f", at least {self.least}" if self.most is None else f" from {self.least} to {self.most}"
                if not right or (self.most is not None and value > self.most):  # type: ignore[operator]
                    expected = f"a whole number{bounds}"
            case Kind.SECONDS:
                if not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
                    expected = "a number of seconds above 0"
                elif self.most is not None and value > self.most:
                    expected = f"at most {self.most}"
            case Kind.PERIOD:
                most = sys.float_info.max if self.most is None else self.most
                if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
                    expected = f"a number of seconds from 0 to {most:.0f}"
            case Kind.CHOICE if value not in self.choices:
                expected = " or ".join(map(repr, self.choices))
            case Kind.SWITCH if not isinstance(value, bool):
                expected = "True or False"
            case Kind.ADDRESS if value not in self.choices:
                Address.parse(value, name)  # type: ignore[arg-type]
            case Kind.ADDRESSES:
                upstreams.parse(value, name)  # type: ignore[arg-type]
            case Kind.POSITIONS:
                try:
                    read_nodes(value)  # type: ignore[arg-type]
                except (AttributeError, ArgumentError, Refusal):
                    expected = "positions with commas between, e.g. Agent/7 or Agent/7,Worker/0/3"
        if expected is not None:
            raise ConfigError(f"{name} is {shown(value)}; expected {expected}")


def setting(kind: Kind, default: Any, **more: Any) -> Any:
    """A dataclass field that is a setting; the arguments are those of `Setting`. `MISSING` makes it required."""
    declared = Setting(kind=kind, default=None if default is MISSING else default, **more)
    return field(default=default, metadata={_KEY: declared})


def settings_of(config: object) -> dict[str, Setting]:
    """The settings of a config class, or of an instance of one, by name; those of its bases after its own."""
    own = (config if isinstance(config, type) else type(config)).__annotations__
    found = [each for each in fields(config) if _KEY in each.metadata]  # type: ignore[arg-type]
    return {each.name: each.metadata[_KEY] for each in sorted(found, key=lambda each: each.name not in own)}


def described(config: type) -> dict[str, Setting]:
    """The settings of a config class with their texts, which stand under `Args` in docstrings, also of its bases."""
    texts: dict[str, str] = {}
    for each in reversed(config.__mro__):
        entries = re.finditer(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", cleandoc(each.__doc__ or ""), re.MULTILINE)
        texts |= {entry[1]: " ".join(entry[2].split()) for entry in entries}
    return {name: replace(each, about=texts.get(name, "")) for name, each in settings_of(config).items()}


def require_all(config: object) -> None:
    """Check every setting of a config.

    Raises:
        ConfigError: names the setting, the value and the range.
    """
    for name, each in settings_of(config).items():
        each.require(name, getattr(config, name))
