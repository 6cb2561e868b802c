"""`taskd-net mgr` and `taskd-net proxy`: the daemons, from their ports to their end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import click
import uvloop

from taskd_net import ConfigError, Node, NodeConfig, NodeError, Position
from taskd_net.base import logs, threads
from taskd_net.base.address import Address
from taskd_net.base.expect import Expected
from taskd_net.base.logger import get_logger
from taskd_net.base.position import Role
from taskd_net.base.schema import Group, Reload
from taskd_net.cli import systemd, telemetry
from taskd_net.cli.command import Command, command
from taskd_net.cli.lines import say
from taskd_net.cli.memory import keep_freed_memory, leave_start_uncollected
from taskd_net.cli.options import SettingOption
from taskd_net.cli.output import Output, as_json
from taskd_net.cli.rendering import STRUCTLOG
from taskd_net.cli.settings import SETTINGS, manager_config, node_config, refused
from taskd_net.cli.signals import end_of_input, pipe_alone, stop_signal
from taskd_net.cli.tool import PRINT_REST_S
from taskd_net.faces.metrics import MetricsServer
from taskd_net.faces.page import StatusPage
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.own_manager import routine
from taskd_net.net.joining.serve import CannotListen
from taskd_net.node.reading import Reading

RELOAD_S: Final = 10.0
"""Seconds for each step of a reload, reading the settings and opening the log: twice `CONFIG_READ_S`, for file systems
that hang where no time limit of ours reaches."""

HOLDER_S: Final = 2.0
"""Seconds for each answer of another process, which has the address that this one was to listen on."""

T = TypeVar("T")

NO_FILE: Final = "none"
"""The value of `--log-file` for no log file."""

RELOADED: Final = frozenset(name for name, setting in SETTINGS.items() if setting.reload is Reload.SIGHUP)
"""The settings that SIGHUP changes in a running daemon."""

_ALL_HELP: Final = "taskd_net.cli.daemon.all_help"
"""Key in `Context.meta`: the help is to show every option."""

EPILOG: Final = """\b
Signals:
  SIGTERM, SIGINT  take on nothing new, let what is under way end (--drain), leave
                   with 0; the second one leaves at once, with 128 + its number
  SIGHUP           read the file again; logging and --drain change at once, a log
                   line names what else has changed and needs a restart

\b
Exit codes:
  0    ended by a signal, in good order
  1    cannot start: an address is in use, a file of TLS is not usable
  2    a flag, a variable or the file is wrong
"""


class DaemonCommand(Command):
    """A command that keeps its arguments, to read its settings again while it runs.

    Its help has the settings that matter; `--help-all` has all of them, in groups.
    """

    arguments: Sequence[str] = ()

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_all_help,
                help="Show every option, in groups, and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into the help."""
        params = self.get_params(ctx)
        settings = [param for param in params if isinstance(param, SettingOption)]
        others = [param for param in params if not isinstance(param, SettingOption)]
        everything = ctx.meta.get(_ALL_HELP, False)
        shown = {"Options": [*(() if everything else (each for each in settings if each.setting.matters)), *others]}
        if everything:
            shown |= {group.value: [each for each in settings if each.setting.group is group] for group in Group}
        for heading, options in shown.items():
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, as click does."""
        self.arguments = tuple(args)
        return super().parse_args(ctx, args)

    def read_again(self, ctx: click.Context) -> dict[str, Any]:
        """The present values of all settings; only the file may have changed.

        Raises:
            click.ClickException: a value is not usable.
        """
        return self.make_context(ctx.info_name, list(self.arguments), parent=ctx.parent).params


def _print_all_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL_HELP] = True
        for line in ctx.get_help().splitlines():
            say(line)
        ctx.exit()


@command(
    "mgr",
    cls=DaemonCommand,
    short_help="Run the root of a job's tree.",
    epilog=f"""\b
Examples:
  taskd-net mgr --listen 0.0.0.0:9601
  taskd-net mgr --job-id J --expect 2x2 --state /var/lib/taskd/j.sqlite3
  POD_IP=10.0.0.7 taskd-net mgr
  taskd-net mgr --config /etc/taskd-net.toml

{EPILOG}""",
)
@click.option(
    "--until-eof",
    is_flag=True,
    hidden=True,
    callback=pipe_alone,
    help="End when the standard input ends, and not by SIGTERM or SIGINT, as a part of another program.",
)
@click.pass_context
def mgr(ctx: click.Context, /, **_: object) -> None:
    """Run the root of a job's tree, until a signal ends it.

    With --job-id it is the Manager of that job: it reads the reports of Agents and Workers, decides, and keeps its
    state in a file. Without, it decides nothing, and prints messages to it, one JSON object a line.

    It prints "taskd-net mgr Mgr/0 ready, listening on HOST:PORT" when it listens, and notifies systemd. It logs to
    stderr and to manager.log.
    """
    manager = manager_config(ctx)
    decides, standby = manager is not None, manager is not None and manager.in_etcd
    config = replace(node_config(ctx, Position.mgr()), confirms=decides, standby=standby)
    serve(ctx, config, "manager.log", manager)


@command(
    "proxy",
    cls=DaemonCommand,
    short_help="Run the Proxy of a node.",
    epilog=f"""\b
Examples:
  taskd-net proxy --upstream 10.0.0.7:9601 --server-rank 3
  taskd-net proxy --listen [::]:9602 --upstream node-0:9601
  RANK=3 TASKD_NET_UPSTREAM=10.0.0.7:9601 taskd-net proxy

{EPILOG}""",
)
@click.pass_context
def proxy(ctx: click.Context, /, server_rank: int, **_: object) -> None:
    """Run the Proxy of a node, until a signal ends it. Its upstream is the Mgr or another Proxy.

    It prints "taskd-net proxy Proxy/N ready, listening on HOST:PORT, upstream HOST:PORT" when it listens, and notifies
    systemd. The log says "joined" when its upstream has accepted it. Messages to it are printed, one JSON object a
    line. It logs to stderr and to taskd-proxy-N.log.
    """
    serve(ctx, node_config(ctx, Position.proxy(server_rank)), f"taskd-proxy-{server_rank}.log")


def serve(ctx: click.Context, config: NodeConfig, log_file: str, manager: ManagerConfig | None = None) -> None:
    """Run a node until a signal ends it.

    Args:
        ctx: of the command, with the settings in force.
        config: of the node.
        log_file: name of the log file, unless a setting names another.
        manager: of the job's Manager; None for a node that decides nothing.

    Raises:
        click.ClickException: an address cannot be bound.
    """
    try:
        try:
            _start_logging(log_file, ctx.params)
        except ConfigError as error:
            if "\0" in ctx.params["log_path"]:  # a name that no folder has
                raise
            # A full disk or a wrong mount must not keep a node from the mesh; its lines then need the console.
            _start_logging(log_file, {**ctx.params, "log_file": NO_FILE, "log_stdout": True})
            get_logger().warning("no_log_file", reason=refused(ctx, error).message)
        if config.tracing:
            telemetry.start()
        keep_freed_memory()
        uvloop.run(Daemon(ctx, config, log_file, manager).run())
    except ConfigError as error:
        raise click.ClickException(refused(ctx, error).message) from None
    finally:
        logs.stop()


class Daemon:
    """One node as a service.

    Args:
        ctx: of the command, with the settings in force.
        config: of the node.
        log_file: name of the log file.
        manager: of the job's Manager; None for a node that decides nothing.
    """

    def __init__(self, ctx: click.Context, config: NodeConfig, log_file: str, manager: ManagerConfig | None) -> None:
        self._manager = manager
        self._ctx = ctx
        self._settings = dict(ctx.params)
        self._log_file = log_file
        self._node = Node(config)
        self._log = self._node.driver.log
        self._output_closed = False
        self._reloading: asyncio.Task[None] | None = None
        self._reload_wanted = False

    async def run(self) -> None:
        """Run the node, from start to end.

        Raises:
            ConfigError: an address cannot be bound.
        """
        stop = end_of_input() if self._settings.get("until_eof") else stop_signal()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload, stop)
        node = self._node
        metrics_at, page_at = self._settings["metrics_port"], self._settings["http_port"]
        hosts = [name.strip() for name in (self._settings["allowed_host"] or "").split(",")]
        metrics = None if metrics_at is None else MetricsServer(node, metrics_at, hosts)
        page = None if page_at is None else StatusPage(node, page_at, hosts)
        async with contextlib.AsyncExitStack() as open_now:
            # A node that has said "listening" serves: an address in use shows before.
            for port in (metrics, page):
                if port is not None:
                    open_now.push_async_exit(port)
                    port.bind()
            if metrics is not None and page is not None:
                page.lead_to_metrics(metrics.address)
            if page is not None and self._settings["docs_url"] is not None:
                page.lead_to_documents(self._settings["docs_url"])
            try:
                await node.start()
            except CannotListen as error:
                raise await _with_holder(error) from None
            open_now.push_async_callback(node.close)
            self._warn_of_loopback()
            if self._manager is not None:
                from taskd_net.job.manager import (
                    Succession,  # the largest of all imports, which a plain Mgr does without
                )

                starting = asyncio.create_task(open_now.enter_async_context(Succession(node, self._manager)))
                either: list[asyncio.Future[Any]] = [starting, stop]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not starting.done():  # a plugin that hangs, or a state on a disk that does
                    starting.cancel()
                    await asyncio.wait([starting])
                    return
                await starting
            elif node.position.role == Role.MGR:
                self._log.info("decides_nothing", reason="no --job-id: messages to this Mgr are printed")
            if metrics is not None:
                await open_now.enter_async_context(metrics)
                self._log.info("metrics_listening", address=str(metrics.address))
            if page is not None:
                await open_now.enter_async_context(page)
                self._log.info("page_listening", url=page.url)
            await self._serve(stop)

    def _warn_of_loopback(self) -> None:
        """Warn of a Mgr of several nodes that only its own machine reaches. A launcher has checked that."""
        expect, address = self._settings.get("expect"), self._node.address
        if not expect or address is None or self._settings.get("until_eof"):
            return
        if Expected.parse(expect).nodes > 1 and Address.parse(address).is_loopback:
            reason = (
                f"{expect} are expected, and only nodes on this machine reach it; --listen 0.0.0.0:9601 serves others"
            )
            self._log.warning("listens_on_loopback", address=address, reason=reason)

    async def _serve(self, stop: asyncio.Future[signal.Signals] | asyncio.Future[None]) -> None:
        node = self._node
        printing = asyncio.create_task(self._print(Output(self._unread, self._no_room)))
        watchdog = asyncio.create_task(self._feed_watchdog())
        leave_start_uncollected()
        self._notify("READY=1", f"STATUS={self._ready_line}")

        number = await stop
        seconds = self._settings["drain"]
        cause = "end of the input" if number is None else number.name
        self._log.info("draining", signal=cause, seconds=seconds)
        self._notify("STOPPING=1")
        if not await node.drain(seconds):
            self._log.warning("drain_incomplete", seconds=seconds)
        _, unprinted = await asyncio.wait([printing], timeout=PRINT_REST_S)
        if unprinted:
            self._log.warning("output_incomplete")
        tasks = [printing, watchdog, *([] if self._reloading is None else [self._reloading])]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    @property
    def _ready_line(self) -> str:
        config = self._node.config
        upstream = f", upstream {config.upstream}" if config.upstream is not None else ""
        name = self._ctx.info_name
        return f"taskd-net {name} {config.position} ready, listening on {self._node.address}{upstream}"

    async def _print(self, output: Output) -> None:
        """Print the ready line, then the messages to this node; those to a Manager are the Manager's."""
        if self._manager is not None:
            standby = f", {self._node.standby}" if self._node.standby else ""
            await output.line(iter((self._ready_line + standby,)))
            return
        # `Reading` has logged the error that ended it.
        with contextlib.suppress(Exception), Reading(self._node) as reading:
            written = await output.line(iter((self._ready_line,)))
            async for message in self._node.messages():
                with reading.survive(message):
                    written = written and await output.line(as_json(message))
                if not written:
                    self._unread()
                    break

    def _unread(self) -> None:
        """Close the inbox, as nobody reads the standard output: a lost message must not be acknowledged."""
        if self._manager is not None:
            return
        self._node.close_inbox()
        if not self._output_closed:
            self._output_closed = True
            self._log.warning("output_closed")

    def _no_room(self) -> None:
        self._log.warning("output_full")

    def _reload(self, stop: asyncio.Future[signal.Signals] | asyncio.Future[None]) -> None:
        """Read the settings again, after a reload under way."""
        if stop.done():
            return
        self._reload_wanted = True
        if self._reloading is None:
            self._reloading = asyncio.create_task(self._reload_while_wanted(), name="reads the settings again")

    async def _reload_while_wanted(self) -> None:
        while self._reload_wanted:
            self._reload_wanted = False
            self._notify(*systemd.reloading())
            try:
                await self._read_again()
            except (click.ClickException, ConfigError) as error:
                text = error.format_message() if isinstance(error, click.ClickException) else str(error)
                self._log.error("reload_failed", reason=text)
            except Exception as error:  # noqa: BLE001 - logged
                # A fault of ours; the daemon keeps its settings.
                self._log.exception("reload_failed", reason=repr(error))
            # systemd waits for READY in every case.
            self._notify("READY=1")
        self._reloading = None

    async def _read_again(self) -> None:
        """Read the settings, and apply the reloadable ones.

        Raises:
            click.ClickException, ConfigError: a value, or the file, is not usable.
        """
        command = self._ctx.command
        assert isinstance(command, DaemonCommand)
        settings = await in_thread(lambda: command.read_again(self._ctx), RELOAD_S, "reads the settings")
        changed = sorted(name for name, value in settings.items() if value != self._settings[name])
        await in_thread(lambda: _start_logging(self._log_file, settings), RELOAD_S, "opens the log")
        self._settings |= {name: settings[name] for name in RELOADED}
        self._log.info("reloaded", changed=",".join(name for name in changed if name in RELOADED))
        if fixed := [name for name in changed if name not in RELOADED]:
            self._log.warning("restart_needed", settings=",".join(fixed))

    async def _feed_watchdog(self) -> None:
        """Notify the service manager while the event loop turns."""
        period = systemd.watchdog_period()
        while period is not None:
            self._notify("WATCHDOG=1")
            await asyncio.sleep(period)

    def _notify(self, *lines: str) -> None:
        trouble = systemd.notify(*lines)
        if trouble is not None:
            self._log.warning("notify_failed", reason=trouble)


async def _with_holder(error: CannotListen) -> ConfigError:
    """The same error with the node that listens there, if it is one and says so without TLS."""
    from taskd_net.cli.doctor.listening import reached
    from taskd_net.observe.identify import identify

    found = await identify(reached(error.address), HOLDER_S)
    return error if found.about is None else ConfigError(f"{error}. Found there: {found.about}")


_UNDER_WAY: Final[set[str]] = set()
"""The names of work without an outcome. A thread outlives that by a moment, in which the next reload may begin."""


async def in_thread(work: Callable[[], T], seconds: float, name: str) -> T:
    """Run blocking work, such as reading files, in a thread that the end of the process does not wait for.

    Raises:
        ConfigError: it has not ended in time, or the one before it still hangs.
    """
    if name in _UNDER_WAY:
        raise ConfigError(f"the thread that {name} hangs since an earlier reload")
    _UNDER_WAY.add(name)
    done: concurrent.futures.Future[T] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()  # so that a timeout below does not cancel it, and its result finds it

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - raised at the await
            _UNDER_WAY.discard(name)
            done.set_exception(error)
        else:
            _UNDER_WAY.discard(name)
            done.set_result(result)

    try:
        threads.start(run, name)
    except NodeError:
        _UNDER_WAY.discard(name)
        raise
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(done)
    except TimeoutError:
        raise ConfigError(f"the thread that {name} has not come to its end within {seconds:g} s") from None


def _start_logging(log_file: str, settings: dict[str, Any]) -> None:
    """Log into the file, `log_file` unless a setting names another, and on stderr.

    The standard output is for the ready line and for messages.

    Raises:
        ConfigError: the file cannot be written; the handlers are as before.
    """
    arguments = {name.removeprefix("log_"): value for name, value in settings.items() if name.startswith("log_")}
    name = arguments.pop("file") or log_file
    try:
        with contextlib.redirect_stdout(sys.stderr):
            left_out = routine() if settings.get("until_eof") else ()
            logs.start(None if name == NO_FILE else name, rendering=STRUCTLOG, routine=left_out, **arguments)
    except ConfigError as error:
        raise ConfigError(f"log_{error}") from None
