"""What can be set on the commands: as a flag, in the environment, in a file, in this order of precedence.

A `Setting` is an option of click with the two other places; click decides between them. `CONFIG` is the option that
names the file, `COMMANDS` what each command has. The file's rules are in `config_file`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import click
from click.core import ParameterSource

from taskd_net import ConfigError, NodeConfig, Position, limits, logs
from taskd_net.address import Address
from taskd_net.cli import config_file
from taskd_net.peer_limits import DEFAULT, Limits
from taskd_net.tls import files as tls_files
from taskd_net.untrusted import natural, shown

FILE: Final = "taskd_net.cli.settings.file"
"""Key in `Context.meta`: the file that the settings were read from."""

PREFIX: Final = "TASKD_NET_"

Reading: TypeAlias = Callable[[str], str | None]
"""What an environment variable's text says about a setting; None for nothing."""


class Origin(NamedTuple):
    """Where a value came from: `flag`, `environment`, `file` or `default`, and the name of the flag, variable, file."""

    source: str
    name: str | None


class _Duration(click.FloatRange):
    """Seconds that are really waited, so neither infinite nor NaN, which is in every range."""

    def __init__(self) -> None:
        super().__init__(0.0, limits.TIMEOUT_MAX_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail("not a number", param, ctx)
        return seconds


class _Port(click.types.StringParamType):
    """Where something is to be served that has no place of its own: a port alone is on the loopback interface."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            return str(Address.parse(text if natural(text, 65535) is None else f"127.0.0.1:{text}"))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True)
class Kind:
    """What kind of value a setting has: how click reads it, its types in TOML, and both for people."""

    param: click.ParamType[Any]
    toml: tuple[type, ...]
    metavar: str
    expected: str


_WHOLE = Kind(click.INT, (int,), "N", "a whole number")
_RANK = Kind(click.IntRange(0), (int,), "N", "a natural number")
_SECONDS = Kind(click.FLOAT, (int, float), "SECONDS", "a number of seconds")
_DURATION = Kind(_Duration(), (int, float), "SECONDS", f"a number of seconds from 0 to {limits.TIMEOUT_MAX_S:.0f}")
_ADDRESS = Kind(click.STRING, (str,), "HOST:PORT", "host:port, e.g. 127.0.0.1:9602 or [::1]:9602")
_LINKS = Kind(click.Choice(["batched", "tasknet"]), (str,), "batched|tasknet", "batched or tasknet")
_IDENTITY = Kind(click.Choice(["position", "certificate"]), (str,), "position|certificate", "position or certificate")
_LEVEL = Kind(click.Choice(logs.LEVELS, case_sensitive=False), (str,), "LEVEL", f"one of {', '.join(logs.LEVELS)}")
_FILE = Kind(click.STRING, (str,), "FILE", "a file")
_FOLDER = Kind(click.STRING, (str,), "FOLDER", "a folder")
_SWITCH = Kind(click.BOOL, (bool,), "", "true or false")
_PORT = Kind(_Port(), (int, str), "PORT", "a port, or host:port, e.g. 9090 or 0.0.0.0:9090")
_SIZE = Kind(click.STRING, (str,), "NxM", "nodes x processes per node, e.g. 4x8")
_TEXT = Kind(click.STRING, (str,), "TEXT", "a text")
POSITION = Kind(click.STRING, (str,), "POSITION", "the position of an Agent or a Worker, e.g. Agent/0 or Worker/0/3")


class Setting(click.Option):
    """An option that can also stand in the environment and in the file.

    Args:
        flag: `--ack-timeout`, or `--this/--no-this` for a switch. The name in the file is `ack_timeout`.
        kind: of its value.
        default: None where there is none.
        help: one sentence.
        variables: TaskD's own variables that say it, in order; they count after `TASKD_NET_<NAME>`.
        prefixed: whether there is a `TASKD_NET_<NAME>`; False where TaskD's own variable means exactly the same.
        shown: the default in words.
    """

    name: str

    def __init__(
        self,
        flag: str,
        kind: Kind,
        default: object,
        help: str,
        variables: Mapping[str, Reading] | None = None,
        *,
        prefixed: bool = True,
        shown: str | bool = True,
    ) -> None:
        name = flag.partition("/")[0].removeprefix("--").replace("-", "_")
        own: Mapping[str, Reading] = {PREFIX + name.upper(): str} if prefixed else {}
        self.kind = kind
        self.variables = {**own, **(variables or {})}
        super().__init__(
            [flag],
            type=kind.param,
            default=default,
            help=help,
            metavar=kind.metavar or None,
            show_default=shown,
            envvar=list(self.variables),
            show_envvar=True,
        )

    def variable(self) -> tuple[str, str] | None:
        """The environment variable that counts, and what it says here; None when none does."""
        for name, reading in self.variables.items():
            text = os.environ.get(name)
            said = reading(text) if text else None
            if said is not None:
                return name, said
        return None

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """What click asks for the value in the environment."""
        found = self.variable()
        return found[1] if found else None

    def type_cast_value(self, ctx: click.Context, value: object) -> object:
        """Convert and check a value, as click does; what is wrong is said in one line, with the place it came from."""
        origin = self.origin(ctx)
        try:
            if origin.source == "file" and type(value) not in self.kind.toml:
                raise click.BadParameter("of another type")
            _require_usual(value)
            cast = super().type_cast_value(ctx, value)
            _require_usual(cast)
            return cast
        except click.BadParameter:
            text = f"{self.name} is {shown(value)}; expected {self.kind.expected}"
            raise click.UsageError(f"{text} (from {place(origin)})") from None

    def origin(self, ctx: click.Context) -> Origin:
        """Where its value comes from."""
        match ctx.get_parameter_source(self.name):
            case ParameterSource.COMMANDLINE:
                return Origin("flag", self.opts[0])
            case ParameterSource.ENVIRONMENT:
                found = self.variable()
                return Origin("environment", found[0] if found else None)
            case ParameterSource.DEFAULT_MAP:
                return Origin("file", str(ctx.meta[FILE]))
            case _:
                return Origin("default", None)


def _require_usual(value: object) -> None:
    """Refuse a number that no setting means, and that cannot even be written in digits."""
    if isinstance(value, int) and value.bit_length() > 63:
        raise click.BadParameter("too large")


def place(origin: Origin) -> str:
    """An origin in words: `--grace`, `the environment variable TASKD_NET_GRACE`, `the file x.toml`, `the default`."""
    match origin.source:
        case "flag":
            return str(origin.name)
        case "environment":
            return f"the environment variable {origin.name}"
        case "file":
            return f"the file {origin.name}"
        case _:
            return "the default"


def wrong(ctx: click.Context, error: ConfigError) -> click.UsageError:
    """The usage error for a value that was refused, with the place it came from."""
    field = str(error).partition(" ")[0]
    for param in ctx.command.params:
        if isinstance(param, Setting) and param.name == field and ctx.get_parameter_source(field) is not None:
            return click.UsageError(f"{error} (from {place(param.origin(ctx))})")
    return click.UsageError(str(error))


def node_config(ctx: click.Context, position: Position, *, service: bool = False) -> NodeConfig:
    """The configuration of the node that a command runs.

    Args:
        ctx: of the command.
        position: of the node.
        service: whether it is a tool, and no rank of the job.

    Raises:
        click.UsageError: a value is out of its range; names it and where it came from.
    """
    names = {field.name for field in fields(NodeConfig)}
    settings = {name: value for name, value in ctx.params.items() if name in names}
    secured = tls_of(ctx)
    try:
        guard = {field.name: ctx.params[field.name] for field in fields(Limits) if field.name in ctx.params}
        return NodeConfig(position=position, service=service, tls=secured, limits=Limits(**guard), **settings)
    except ConfigError as error:
        raise wrong(ctx, error) from None


def tls_of(ctx: click.Context) -> tls_files.Tls | None:
    """The files of TLS that a command is to use, for those of its links that it has settings for.

    Raises:
        click.UsageError: files that belong together are not together; names what is missing.
    """
    said = {name: ctx.params.get(name) for name in tls_files.NAMES}
    listens, connects = "server_key" in ctx.params, "client_key" in ctx.params
    try:
        return tls_files.chosen(ctx.params["enable_tls"], said, listens=listens, connects=connects)
    except ConfigError as error:
        raise wrong(ctx, error) from None


def _load(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    if value is not None:
        try:
            names = {command: [setting.name for setting in settings] for command, settings in COMMANDS.items()}
            ctx.default_map = config_file.load(value, str(ctx.command.name), names)
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        ctx.meta[FILE] = value
    return value


CONFIG: Final = click.Option(
    ["--config"],
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar=PREFIX + "CONFIG",
    show_envvar=True,
    is_eager=True,
    expose_value=False,
    callback=_load,
    help="TOML file with settings.",
)


def _listen(default: str, variables: Mapping[str, Reading] | None = None) -> Setting:
    return Setting("--listen", _ADDRESS, default, "Where children connect; port 0 takes any free one.", variables)


def _upstream(default: str, variables: Mapping[str, Reading] | None = None) -> Setting:
    return Setting("--upstream", _ADDRESS, default, "Where the parent listens.", variables)


def _inbox(role: str) -> Setting:
    return Setting("--inbox", _WHOLE, limits.INBOX[role], "Messages for this node itself that wait; 0 refuses them.")


def _pod_ip(text: str) -> str:
    return f"[{text}]:9601" if ":" in text else f"{text}:9601"


def _std_level(default: str) -> Setting:
    text = "Least level of lines on stderr."
    return Setting("--log-std-level", _LEVEL, default, text, {logs.STD_LEVEL: str}, prefixed=False)


AT: Final = Setting("--at", _ADDRESS, "127.0.0.1:9601", "The node that is asked: a Mgr or a Proxy.")
EXPECT: Final = Setting("--expect", _SIZE, None, "Size of the job, to know which ranks are missing.", shown="not known")
PATIENCE: Final = Setting("--timeout", _DURATION, 5.0, "How long an answer may take.")
LINKS: Final = Setting("--links", _LINKS, "batched", "Offer and use the fast link, or only the four calls.")
TRACING: Final = Setting("--tracing/--no-tracing", _SWITCH, False, "Trace messages with OpenTelemetry.")
BACKOFF: Final = (
    Setting("--backoff-initial", _SECONDS, limits.BACKOFF_INITIAL_S, "First pause between attempts to join."),
    Setting("--backoff-max", _SECONDS, limits.BACKOFF_MAX_S, "Longest pause between attempts to join."),
)
NODE: Final = (
    Setting("--dedup-window", _WHOLE, limits.DEDUP_WINDOW, "Uuids remembered of each sender of another make."),
    Setting("--ack-timeout", _SECONDS, limits.ACK_TIMEOUT_S, "How long the Mgr waits for an answer; less below."),
    Setting("--link-messages", _WHOLE, limits.LINK_MESSAGES, "Messages that may wait on one link."),
    Setting("--link-bytes", _WHOLE, limits.LINK_BYTES, "Bytes that may wait on one link."),
    Setting("--max-children", _WHOLE, limits.MAX_CHILDREN, "Children of this node at most."),
    Setting("--grace", _SECONDS, limits.GRACE_S, "How long a child whose stream is gone keeps its place."),
    Setting("--registration-hold", _SECONDS, limits.REGISTRATION_HOLD_S, "How long a place is held without a stream."),
    LINKS,
    TRACING,
)
TLS: Final = (
    Setting(
        "--enable-tls/--no-enable-tls",
        _SWITCH,
        None,
        "Whether to use TLS.",
        shown="where --ca or a key is given",
    ),
    Setting("--ca", _FILE, None, "Certificates of who signs those of the mesh, in PEM.", shown="none"),
)
TLS_LISTEN: Final = (
    Setting("--server-key", _FILE, None, "Key for the children, in PEM.", shown="none"),
    Setting("--server-crt", _FILE, None, "Certificate for the children, in PEM.", shown="none"),
    Setting(
        "--plain-listen",
        _ADDRESS,
        None,
        "Where processes of this machine connect without TLS as well, e.g. 127.0.0.1:9602.",
        shown="nowhere",
    ),
)
TLS_UPSTREAM: Final = (
    Setting("--client-key", _FILE, None, "Key for the parent, in PEM.", shown="none"),
    Setting("--client-crt", _FILE, None, "Certificate for the parent, in PEM.", shown="none"),
    Setting("--server-name", _TEXT, None, "Name in the parent's certificate.", shown="the host of --upstream"),
)
GUARD: Final = (
    Setting("--identity", _IDENTITY, "position", "What a child's claims are held against."),
    Setting("--job", _TEXT, None, "The job's name in certificates.", shown="none"),
    *(
        Setting(f"--{name.replace('_', '-')}", _WHOLE, getattr(DEFAULT, name), text)
        for name, text in (
            ("routes_per_child", "Nodes that one child may lead to."),
            ("announcements_per_second", "Announcements of one child in a second."),
            ("path_length", "Positions in one announcement."),
            ("list_ranks", "Ranks in one comma list."),
            ("uuid_length", "Characters of a uuid."),
            ("message_bytes", "Bytes of a serialized message."),
            ("metadata_bytes", "Bytes of the metadata of one call."),
            ("streams_per_connection", "Calls under way over one connection."),
            ("connections_per_address", "Connections of children from one address."),
            ("child_messages", "Messages of one child that wait for answers."),
            ("child_bytes", "Bytes of the messages of one child that wait."),
            ("total_messages", "Messages of all children that wait for answers."),
            ("total_bytes", "Bytes of the messages of all children that wait."),
        )
    ),
    Setting(
        "--registration-time",
        _SECONDS,
        DEFAULT.registration_time,
        "How long a connection may be without a call.",
    ),
)
DAEMON: Final = (
    Setting("--http-port", _PORT, None, "Where browsers find the status page, on 127.0.0.1 or HOST:PORT.", shown="off"),
    Setting("--metrics-port", _PORT, None, "Where Prometheus finds figures, on 127.0.0.1 or HOST:PORT.", shown="off"),
    Setting("--drain", _DURATION, 10.0, "How long what is under way may take to end after SIGTERM."),
    Setting("--log-path", _FOLDER, logs.DEFAULT_PATH, "Folder of the log file.", {logs.PATH: str}, prefixed=False),
    Setting("--log-file-level", _LEVEL, "INFO", "Least level in the log file.", {logs.FILE_LEVEL: str}, prefixed=False),
    _std_level("INFO"),
    Setting(
        "--log-stdout/--no-log-stdout",
        _SWITCH,
        True,
        "Whether to log on the console as well, which is stderr.",
        {logs.STDOUT: str},
        prefixed=False,
    ),
)

COMMANDS: Final[Mapping[str, Sequence[Setting]]] = {
    "mgr": (
        _listen("127.0.0.1:9601", {"POD_IP": _pod_ip}),
        _inbox("Mgr"),
        EXPECT,
        *NODE,
        *TLS,
        *TLS_LISTEN,
        *GUARD,
        *DAEMON,
    ),
    "proxy": (
        _listen("127.0.0.1:9602"),
        _upstream("127.0.0.1:9601", {"LOCAL_PROXY_ENABLE": lambda text: "127.0.0.1:9601" if text == "on" else None}),
        Setting("--server-rank", _RANK, 0, "The rank of the node.", {"RANK": str, "MS_NODE_RANK": str}),
        _inbox("Proxy"),
        *NODE,
        *BACKOFF,
        *TLS,
        *TLS_LISTEN,
        *TLS_UPSTREAM,
        *GUARD,
        *DAEMON,
    ),
    "send": (
        _upstream("127.0.0.1:9602"),
        Setting("--as", POSITION, None, "Who sends.", shown="an Agent of a random free rank"),
        Setting("--mtype", _TEXT, "default", "The kind of message, a word between sender and receiver."),
        Setting("--timeout", _DURATION, 5.0, "How long joining and delivery may take, together."),
        LINKS,
        TRACING,
        *TLS,
        *TLS_UPSTREAM,
        _std_level("ERROR"),
    ),
    "listen": (
        _upstream("127.0.0.1:9602"),
        Setting("--as", POSITION, None, "Whose messages to take.", shown="none, required"),
        Setting("--timeout", _DURATION, None, "When to end at the latest.", shown="never"),
        _inbox("Worker"),
        LINKS,
        TRACING,
        *BACKOFF,
        *TLS,
        *TLS_UPSTREAM,
        _std_level("WARNING"),
    ),
    "ping": (
        AT,
        Setting("--timeout", _DURATION, limits.ACK_TIMEOUT_S, "How long an answer may take."),
        *TLS,
        *TLS_UPSTREAM,
    ),
    "trace": (
        AT,
        Setting("--timeout", _DURATION, limits.ACK_TIMEOUT_S, "How long the answer of a hop may take."),
        *TLS,
        *TLS_UPSTREAM,
    ),
    "tree": (AT, EXPECT, PATIENCE, *TLS, *TLS_UPSTREAM),
    "top": (AT, EXPECT, PATIENCE, *TLS, *TLS_UPSTREAM),
    "forget": (AT, PATIENCE, *TLS, *TLS_UPSTREAM),
    "health": (PATIENCE, *TLS, *TLS_UPSTREAM),
}
