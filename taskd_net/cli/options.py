"""Settings as options of click: flags, environment variables and keys of a file, in this order of precedence.

The declaration of a setting (`schema.Setting`) says all that an option needs; click decides between the sources.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from taskd_net import ConfigError
from taskd_net.base import limits, logs
from taskd_net.base.address import Address
from taskd_net.base.schema import Kind, Setting
from taskd_net.base.untrusted import natural, shown


class SettingOrigin(NamedTuple):
    """The source of a value: `flag`, `environment`, `context`, `file` or `default`; and the name of the first four."""

    source: str
    name: str | None


class Defaults(dict[str, object]):
    """Values from a file and from a context, for `Context.default_map`.

    Attributes:
        origins: the source of each value.
    """

    def __init__(self) -> None:
        super().__init__()
        self.origins: dict[str, SettingOrigin] = {}
        self._ranks: dict[str, int] = {}

    @classmethod
    def add(cls, ctx: click.Context, rank: int, origin: SettingOrigin, values: Mapping[str, object]) -> None:
        """Add values to the defaults of a command; of two values for a setting the one of the higher rank counts."""
        found = ctx.default_map
        defaults = found if isinstance(found, Defaults) else cls()
        for name, value in values.items():
            if defaults._ranks.get(name, -1) < rank:
                defaults[name], defaults.origins[name], defaults._ranks[name] = value, origin, rank
        ctx.default_map = defaults


class _Period(click.FloatRange):
    """Seconds to wait, without infinity, and without NaN, which every range lets pass."""

    def __init__(self) -> None:
        super().__init__(0.0, limits.TIMEOUT_MAX_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail("not a number", param, ctx)
        return seconds


class _Port(click.types.StringParamType):
    """An address to serve at; a port alone is on the loopback interface."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            return str(Address.parse(text if natural(text, 65535) is None else f"127.0.0.1:{text}"))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class _Path(click.types.StringParamType):
    """A path that shells complete. Nothing checks it here, as a node checks its files when it reads them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type=self.name)]


class _Form(NamedTuple):
    """The form of a kind of value on the command line and in the file."""

    param: click.ParamType[Any]
    toml: tuple[type, ...]
    metavar: str
    expected: str


def _form(setting: Setting) -> _Form:
    if setting.kind is Kind.CHOICE:
        words = tuple(setting.choices)
        if words == logs.LEVELS:
            return _Form(click.Choice(words, case_sensitive=False), (str,), "LEVEL", f"one of {', '.join(words)}")
        return _Form(click.Choice(words), (str,), "|".join(words), " or ".join(words))
    return FORMS[setting.kind]


FORMS: Final = {
    Kind.ADDRESS: _Form(click.STRING, (str,), "HOST:PORT", "host:port, e.g. 127.0.0.1:9602 or [::1]:9602"),
    Kind.ADDRESSES: _Form(
        click.STRING, (str,), "HOST:PORT[,…]", "host:port, e.g. 127.0.0.1:9602 or [::1]:9602, several with commas"
    ),
    Kind.FILE: _Form(_Path("file"), (str,), "FILE", "a file"),
    Kind.FOLDER: _Form(_Path("dir"), (str,), "FOLDER", "a folder"),
    Kind.PERIOD: _Form(_Period(), (int, float), "SECONDS", f"a number of seconds from 0 to {limits.TIMEOUT_MAX_S:.0f}"),
    Kind.PORT: _Form(_Port(), (int, str), "PORT", "a port, or host:port, e.g. 9090 or 0.0.0.0:9090"),
    Kind.POSITION: _Form(
        click.STRING, (str,), "POSITION", "the position of an Agent or a Worker, e.g. Agent/0 or Worker/0/3"
    ),
    Kind.POSITIONS: _Form(
        click.STRING, (str,), "POSITION[,…]", "positions with commas between, e.g. Agent/7 or Agent/7,Worker/0/3"
    ),
    Kind.RANK: _Form(click.IntRange(0), (int,), "N", "a natural number"),
    Kind.SECONDS: _Form(click.FLOAT, (int, float), "SECONDS", "a number of seconds"),
    Kind.SIZE: _Form(click.STRING, (str,), "NxM", "nodes x processes per node, e.g. 4x8"),
    Kind.SWITCH: _Form(click.BOOL, (bool,), "", "true or false"),
    Kind.TEXT: _Form(click.STRING, (str,), "TEXT", "a text"),
    Kind.WHOLE: _Form(click.INT, (int,), "N", "a whole number"),
}


class SettingOption(click.Option):
    """An option with a place in the environment and in the file.

    Args:
        name: of the setting; `--ack-timeout` for `ack_timeout`, and `--no-…` beside it for a switch.
        setting: its declaration.
    """

    name: str

    def __init__(self, name: str, setting: Setting) -> None:
        flag = f"--{name.replace('_', '-')}"
        self.setting = setting
        self.form = _form(setting)
        self.variables = setting.variables_of(name)
        super().__init__(
            [f"{flag}/--no-{flag[2:]}" if setting.kind is Kind.SWITCH else flag, *setting.also],
            type=self.form.param,
            default=setting.default,
            help=setting.about.partition(". ")[0].rstrip(".") + ".",
            metavar=self.form.metavar or None,
            show_default=(setting.default in (None, "") and setting.unset) or True,
            envvar=list(self.variables),
            show_envvar=True,
        )

    def variable(self) -> tuple[str, str] | None:
        """The environment variable that counts, and its value; None for none."""
        return self.setting.variable(self.name, os.environ)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """The value in the environment, for click."""
        found = self.variable()
        return found[1] if found else None

    def type_cast_value(self, ctx: click.Context, value: object) -> object:
        """Convert and check a value, as click does; a refusal is one line with the source of the value."""
        origin = self.origin(ctx)
        try:
            if origin.source in ("file", "context") and type(value) not in self.form.toml:
                raise click.BadParameter("of another type")
            _require_usual(value)
            cast = super().type_cast_value(ctx, value)
            _require_usual(cast)
            return cast
        except click.BadParameter:
            text = f"{self.name} is {shown(value)}; expected {self.form.expected}"
            raise click.UsageError(f"{text} (from {place(origin)})") from None

    def origin(self, ctx: click.Context) -> SettingOrigin:
        """The source of its value."""
        match ctx.get_parameter_source(self.name):
            case ParameterSource.COMMANDLINE:
                return SettingOrigin("flag", self.opts[0])
            case ParameterSource.ENVIRONMENT:
                found = self.variable()
                return SettingOrigin("environment", found[0] if found else None)
            case ParameterSource.DEFAULT_MAP:
                assert isinstance(ctx.default_map, Defaults)
                return ctx.default_map.origins[self.name]
            case _:
                return SettingOrigin("default", None)


def _require_usual(value: object) -> None:
    """Refuse a number beyond every setting, which may have too many digits to print."""
    if isinstance(value, int) and value.bit_length() > 63:
        raise click.BadParameter("too large")


def place(origin: SettingOrigin) -> str:
    """An origin in words: `--grace`, `the environment variable TASKD_NET_GRACE`, `the file x`, `the context prod`."""
    match origin.source:
        case "flag":
            return str(origin.name)
        case "environment":
            return f"the environment variable {origin.name}"
        case "file" | "context":
            return f"the {origin.source} {origin.name}"
        case _:
            return "the default"
