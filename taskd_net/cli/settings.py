"""The settings of each command, as options of click.

A declaration names its commands, and `COMMANDS` has the options of each: from `NodeConfig`, `Limits`, `Tls` and
`ManagerConfig`, and those of the commands alone.
`CONFIG` is the option that names the TOML file; `config_file` has the rules of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click

from taskd_net import ConfigError, NodeConfig, Position
from taskd_net.base import limits, logs
from taskd_net.base.peer_limits import Limits
from taskd_net.base.schema import (
    ASKING,
    DAEMONS,
    JOINING,
    PREFIX,
    Group,
    Kind,
    Reload,
    Setting,
    described,
    setting,
    settings_of,
)
from taskd_net.cli import config_file, context_file
from taskd_net.cli.options import Defaults, SettingOption, SettingOrigin, place
from taskd_net.job.manager.config import STATE_FILE, ManagerConfig, size
from taskd_net.net.tls.files import NAMES, Tls, chosen

_log: Final = partial(setting, reload=Reload.SIGHUP, group=Group.LOG)
_logged: Final = partial(_log, prefixed=False)
_side: Final = partial(setting, group=Group.SIDE)
_EACH_ANSWER: Final = {"about": "Seconds for each answer.", "default": limits.ACK_TIMEOUT_S}
# A Proxy has two pairs of TLS, and eight options matter.
_UNIMPORTANT: Final = {"proxy": {"matters": False}}


@dataclass(frozen=True)
class CommandSettings:
    """The settings of the commands beside those of a node.

    Args:
        at: Address of the node that is asked: a Mgr or a Proxy. A Proxy knows its own part of the tree. Of several,
            with commas, the first that answers is asked.
        as_: Position to take; one that a node has needs `--take-over`.
        mtype: Kind of the message, a word between sender and receiver.
        timeout: Seconds for the answer.
        server_rank: Rank of the node. Of two Proxies with one rank the newcomer takes the place.
        enable_tls: Use of TLS. Off means plain text, whatever files are named; on without files is refused
            ([security](security.md)).
        http_port: Port of the status page, on 127.0.0.1, or HOST:PORT. Everybody who reaches the address sees the whole
            tree, unencrypted. 0 takes any free port, which the log names. Needs the extra `page` ([status
            page](status-page.md)).
        metrics_port: Port for Prometheus, on 127.0.0.1, or HOST:PORT. Everybody who reaches the address can read. 0
            takes any free port, which the log names. Costs the scrapes ([operations](operations.md#metrics)).
        allowed_host: Names, with commas between, by which the status page and the metrics are reached. IP addresses and
            `localhost` always pass; any other name in `Host` is refused with 421, because a page of another site could
            read the answers by a name of its own.
        docs_url: Address of the site that `make docs` builds, where somebody serves it. The status page links to it;
            without an address it names the documents.
        drain: Seconds for messages under way after SIGTERM. Shorter than `ack_timeout` can cost senders a 6001 for a
            delivered message. Keep it 3 s below the time after which the service manager kills.
        log_path: Folder of the log file, made if it is missing. At most 50 MiB for each node. A daemon that cannot
            write there warns, and logs to stderr alone.
        log_file: Name of the log file in `log_path`, or `none` for no file.
        log_file_level: Least level in the log file. INFO has a line per change of state, none per message.
        log_std_level: Least level on stderr.
        log_stdout: Log lines on the console, which is stderr. The name is TaskD's.
    """

    at: str = setting(Kind.ADDRESSES, "127.0.0.1:9601", of=ASKING)
    as_: str | None = setting(
        Kind.POSITION,
        None,
        of=JOINING,
        by={"send": {"unset": "an Agent of a random free rank"}, "listen": {"unset": "none, required"}},
    )
    mtype: str = setting(Kind.TEXT, "default", of=("send",))
    timeout: float | None = setting(
        Kind.PERIOD,
        5.0,
        most=limits.TIMEOUT_MAX_S,
        of=(*JOINING, *ASKING),
        by={
            "send": {"about": "Seconds for joining and delivery together."},
            "listen": {"about": "Seconds until the end at the latest.", "default": None, "unset": "never"},
            "ping": _EACH_ANSWER,
            "trace": _EACH_ANSWER,
        },
    )
    server_rank: int = setting(Kind.RANK, 0, variables={"RANK": str, "MS_NODE_RANK": str}, matters=True, of=("proxy",))
    enable_tls: bool | None = setting(
        Kind.SWITCH, None, unset="on with --ca or a key", group=Group.TLS, of=(*DAEMONS, *JOINING, *ASKING)
    )
    http_port: str | None = _side(Kind.PORT, None, unset="off", matters=True, by=_UNIMPORTANT)
    metrics_port: str | None = _side(Kind.PORT, None, unset="off")
    allowed_host: str | None = _side(Kind.TEXT, None, unset="none")
    docs_url: str | None = _side(Kind.TEXT, None, unset="none")
    drain: float = setting(Kind.PERIOD, 10.0, most=limits.TIMEOUT_MAX_S, reload=Reload.SIGHUP)
    log_path: str = _logged(Kind.FOLDER, logs.DEFAULT_PATH, variables={logs.PATH: str}, matters=True, by=_UNIMPORTANT)
    log_file: str | None = _log(Kind.TEXT, None, unset="manager.log, taskd-proxy-N.log")
    log_file_level: str = _logged(Kind.CHOICE, "INFO", choices=logs.LEVELS, variables={logs.FILE_LEVEL: str})
    log_std_level: str = _logged(
        Kind.CHOICE,
        "INFO",
        choices=logs.LEVELS,
        variables={logs.STD_LEVEL: str},
        of=(*DAEMONS, *JOINING),
        by={"send": {"default": "ERROR"}, "listen": {"default": "WARNING"}},
    )
    log_stdout: bool = _logged(Kind.SWITCH, True, variables={logs.STDOUT: str})


SETTINGS: Final[Mapping[str, Setting]] = {
    **described(NodeConfig),
    **described(Tls),
    **described(Limits),
    **described(ManagerConfig),
    **{name.rstrip("_"): each for name, each in described(CommandSettings).items()},  # `as` is a keyword
}
"""Every setting, by name."""

COMMANDS: Final[Mapping[str, Sequence[SettingOption]]] = {
    command: [
        SettingOption(name, each.of_command(command))
        for group in Group
        for name, each in SETTINGS.items()
        if each.group is group and command in each.of
    ]
    for command in (*DAEMONS, *JOINING, *ASKING)
}
"""The options of each command, in the order of groups."""


def refused(ctx: click.Context, error: ConfigError) -> click.UsageError:
    """The usage error for a refused value, with the source of the value."""
    field = str(error).partition(" ")[0]
    for param in ctx.command.params:
        if isinstance(param, SettingOption) and param.name == field and ctx.get_parameter_source(field) is not None:
            return click.UsageError(f"{error} (from {place(param.origin(ctx))})")
    return click.UsageError(str(error))


def node_config(ctx: click.Context, position: Position, *, service: bool = False) -> NodeConfig:
    """The configuration of the node that a command runs.

    Args:
        ctx: of the command.
        position: of the node.
        service: whether it is a tool, and no rank of the job.

    Raises:
        ConfigError: a value is out of its range.
    """
    of_node, of_peers = (
        {name: ctx.params[name] for name in settings_of(config) if name in ctx.params}
        for config in (NodeConfig, Limits)
    )
    return NodeConfig(position=position, service=service, tls=tls_of(ctx), limits=Limits(**of_peers), **of_node)


def manager_config(ctx: click.Context) -> ManagerConfig | None:
    """The configuration of the Manager that a command runs; None without a job.

    Raises:
        ConfigError: a value is out of its range.
    """
    given = {name: ctx.params[name] for name in settings_of(ManagerConfig)}
    job_id = ctx.params["job_id"]
    if not job_id:
        return None
    given["state"] = given["state"] or str(Path(ctx.params["log_path"]) / STATE_FILE)
    expected = size(ctx.params["expect"])
    return ManagerConfig(**given, job_id=job_id, nodes=expected.nodes, processes_per_node=expected.processes)


def tls_of(ctx: click.Context) -> Tls | None:
    """The files of TLS for the links that a command has settings for.

    Raises:
        ConfigError: names the file that is missing beside the others.
    """
    said = {name: ctx.params.get(name) for name in NAMES}
    listens, connects = "server_key" in ctx.params, "client_key" in ctx.params
    return chosen(ctx.params["enable_tls"], said, listens=listens, connects=connects)


def _load(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    if value is not None:
        try:
            names = {command: [option.name for option in settings] for command, settings in COMMANDS.items()}
            values = config_file.load(value, str(ctx.command.name), names)
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        ctx.meta["config"] = value
        Defaults.add(ctx, _OF_FILE, SettingOrigin("file", str(value)), values)
    return value


# A context that is named counts before a file, and one that was chosen some other day after it.
_OF_CURRENT, _OF_FILE, _OF_NAMED = range(3)


def _load_context(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    try:
        kept = context_file.load()
        name = kept.current if value is None else value
        if name is None or name == context_file.NONE:
            return value
        settings = dict(kept.named(name))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    ctx.meta["context"] = name
    names = {each.name for each in ctx.command.params}
    if "upstream" in names and "at" in settings:
        settings["upstream"] = settings.pop("at")
    values = {key: said for key, said in settings.items() if key in names}
    Defaults.add(ctx, _OF_CURRENT if value is None else _OF_NAMED, SettingOrigin("context", name), values)
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


CONTEXT: Final = click.Option(
    ["--context"],
    metavar="NAME",
    envvar=context_file.VARIABLE,
    show_envvar=True,
    is_eager=True,
    expose_value=False,
    callback=_load_context,
    help="Address and TLS files kept by `context add`; `none` for none.",
)
"""The option that names a context."""


def params_of(command: str) -> list[click.Parameter]:
    """All parameters of a command that come from settings."""
    contextual = [] if command in DAEMONS else [CONTEXT]
    return [CONFIG, *contextual, *COMMANDS[command]]
