"""The undocumented names of torch that this package uses: each with its reason, and its form in every checked version.

`check` compares the installed torch with this list, before anything is started. A version in which a name has another
form is refused: it would fail in the middle of a recovery. A version whose names all have a form of a checked one is
used with a warning, as torch has a new version every two months and these names seldom change. To check another
version, put it into `TORCH_RANGE` of the Makefile, run `make torch-range`, and add it to `CHECKED`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import get_ident
from typing import Any, Final

import torch

from taskd_net.base import fork
from taskd_net.base.codes import TaskdNetError
from taskd_net.base.logger import late_logger

log: Final = late_logger()

ELASTIC: Final = "torch.distributed.elastic"
AGENT: Final = f"{ELASTIC}.agent.server.api:SimpleElasticAgent"
LOCAL: Final = f"{ELASTIC}.agent.server.local_elastic_agent"
GROUPS: Final = "torch.distributed.distributed_c10d"
PROCESSES: Final = f"{ELASTIC}.multiprocessing.api"
TORCHRUN: Final = "torch.distributed.run"


class UnsupportedTorch(TaskdNetError):
    """A name of the installed torch has no form that was checked; the text says which."""


@dataclass(frozen=True, slots=True)
class Name:
    """A function or a method of torch.

    Args:
        path: `module:name` or `module:Class.method`.
        reason: the use that this package makes of it.
        parameters: its parameters, by checked version.
    """

    path: str
    reason: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of torch's instances, which their `__init__` sets.

    Args:
        path: `module:Class`.
        reason: the use that this package makes of them.
        names: their names.
    """

    path: str
    reason: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """Members of a class of torch's that is not written in Python.

    Args:
        path: `module:Class`.
        reason: the use that this package makes of them.
        names: their names.
    """

    path: str
    reason: str
    names: tuple[str, ...]


CHECKED: Final = ("2.12", "2.13", "2.14", "2.15")
"""Versions of torch on which the tests of `make torch` or `make torch-range` have run."""


def _same(parameters: str, **others: str) -> Mapping[str, str]:
    """The form in all checked versions, but for `v2_12` and the like."""
    return {**dict.fromkeys(CHECKED, parameters), **{name[1:].replace("_", "."): form for name, form in others.items()}}


_OF_GLOO: Final = "self store rank size timeout"

NAMES: Final = (
    Name(
        f"{LOCAL}:start_processes",
        "replaced while an Agent of this package starts workers, so that the context handles single ranks",
        _same(
            "name entrypoint args envs logs_specs log_line_prefixes start_method numa_options "
            "duplicate_stdout_filters duplicate_stderr_filters"
        ),
    ),
    Name(
        f"{LOCAL}:create_healthcheck_server",
        "replaced likewise, because torch's server does nothing",
        _same("alive_callback port timeout"),
    ),
    Name(
        f"{ELASTIC}.timer:FileTimerServer.__init__",
        "replaced likewise, by a subclass",
        _same("self file_path run_id max_interval daemon log_event"),
    ),
    Name(
        f"{ELASTIC}.timer:FileTimerServer._reap_worker",
        "extended: a timer that expires ends its worker, and not the Agent",
        _same("self worker_pid signal"),
    ),
    Name(
        f"{ELASTIC}.timer:FileTimerServer.get_last_progress_time",
        "called: the health check shows it",
        _same("self"),
    ),
    Name(
        f"{LOCAL}:LocalElasticAgent._setup_healthcheck",
        "extended: the server lives as long as the Agent",
        _same("self"),
    ),
    Name(
        f"{ELASTIC}.agent.server.health_check_server:HealthCheckServer.__init__",
        "the base class of the server",
        _same("self alive_callback port timeout"),
    ),
    Name(
        f"{PROCESSES}:SubprocessContext.__init__",
        "the base class of that context",
        _same(
            "self name entrypoint args envs logs_specs log_line_prefixes numa_options "
            "duplicate_stdout_filters duplicate_stderr_filters"
        ),
    ),
    Name(f"{PROCESSES}:SubprocessContext._start", "extended: the guardian learns the processes", _same("self")),
    Name(f"{PROCESSES}:SubprocessContext._poll", "extended: a failed rank leaves the others alone", _same("self")),
    Name(
        f"{PROCESSES}:SubprocessContext._close",
        "extended: no process of a rank's session outlives it",
        _same("self death_sig timeout"),
    ),
    Name(
        f"{PROCESSES}:SubprocessContext._capture_process_failures",
        "called: it takes the exit codes",
        _same("self done_local_ranks"),
    ),
    Name(
        f"{PROCESSES}:get_subprocess_handler",
        "called: it starts one rank with torch's own environment, files and NUMA binding",
        _same("entrypoint args env stdout stderr local_rank_id numa_options"),
    ),
    Name(
        f"{ELASTIC}.multiprocessing.tail_log:TailLog.__init__",
        "called: each rank has a tail of its own, which ends with it",
        _same("self name log_files dst log_line_prefixes interval_sec log_line_filter"),
    ),
    Name(f"{PROCESSES}:DefaultLogsSpecs.reify", "called after older files have been renamed", _same("self envs")),
    Name(f"{AGENT}._invoke_run", "replaced by the loop of TaskD's Agent", _same("self role")),
    Name(f"{AGENT}._rendezvous", "extended: a restart gets a new store", _same("self worker_group")),
    Name(
        f"{AGENT}._assign_worker_ranks",
        "replaced where the Manager has brought the nodes together: no store is asked",
        _same("self store group_rank group_world_size spec"),
    ),
    Name(
        f"{ELASTIC}.agent.server.api:Worker.__init__",
        "called there",
        _same("self local_rank global_rank role_rank world_size role_world_size"),
    ),
    Name(
        f"{ELASTIC}.rendezvous.api:RendezvousInfo.__init__",
        "called by the handler of such a meeting",
        _same("self store rank world_size bootstrap_store_info"),
    ),
    Name(
        f"{ELASTIC}.rendezvous.api:RendezvousStoreInfo.__init__",
        "likewise",
        _same("self master_addr master_port"),
    ),
    Name(f"{AGENT}._initialize_workers", "registered as START_ALL_WORKER", _same("self worker_group")),
    Name(f"{AGENT}._restart_workers", "replaced, and registered as RESTART", _same("self worker_group")),
    Name(f"{AGENT}._exit_barrier", "called when all workers of the node have succeeded", _same("self")),
    Name(f"{LOCAL}:LocalElasticAgent._start_workers", "extended, as above", _same("self worker_group")),
    Name(
        f"{LOCAL}:LocalElasticAgent._stop_workers",
        "extended for single ranks, and registered as KILL_WORKER",
        _same("self worker_group"),
    ),
    Name(f"{LOCAL}:LocalElasticAgent._monitor_workers", "registered as MONITOR", _same("self worker_group")),
    Name(
        f"{LOCAL}:LocalElasticAgent._shutdown",
        "extended: it ends the context and the watchdog, and not the health check",
        _same("self death_sig timeout"),
    ),
    Name(
        "torch.distributed.launcher.api:launch_agent",
        "replaced by `patch`: torchrun starts an Agent of this package, with as many restarts as TaskD's",
        _same("config entrypoint args health_check_server", v2_12="config entrypoint args"),
    ),
    Name(f"{TORCHRUN}:get_args_parser", "called: `taskd-net run` has torchrun's arguments", _same("")),
    Name(f"{TORCHRUN}:run", "called by `taskd-net run`", _same("args")),
    Name(
        f"{GROUPS}:ProcessGroupGloo.__init__",
        "replaced while an epoch lasts, so that its connections can be found",
        _same(f"{_OF_GLOO} enable_reconfigure", v2_12=_OF_GLOO, v2_13=_OF_GLOO),
    ),
    Name(f"{GROUPS}:_abort_process_group", "called: it breaks groups of NCCL", _same("group")),
)

MEMBERS: Final = (
    Members(
        f"{GROUPS}:ProcessGroupGloo",
        "its devices are made here, so that its connections can be found",
        ("_Options", "create_default_device", "create_device"),
    ),
    Members(f"{GROUPS}:ProcessGroupGloo._Options", "likewise", ("_devices", "_threads", "_timeout")),
)

ATTRIBUTES: Final = (
    Attributes(
        AGENT, "the group of workers, and the restarts that remain", ("_worker_group", "_remaining_restarts", "_store")
    ),
    Attributes(f"{AGENT}", "seconds that workers have to end", ("_shutdown_timeout",)),
    Attributes(
        f"{LOCAL}:LocalElasticAgent",
        "the context of the workers, the watchdog and the health check",
        ("_pcontext", "_logs_specs", "_worker_watchdog", "_health_check_server"),
    ),
    Attributes(
        f"{ELASTIC}.agent.server.health_check_server:HealthCheckServer",
        "what the server answers by",
        ("_alive_callback", "_port", "_timeout"),
    ),
    Attributes(
        f"{PROCESSES}:SubprocessContext",
        "the processes, those that run, and those that have failed",
        ("subprocess_handlers", "_running_local_ranks", "_failures", "_numa_options"),
    ),
    Attributes(
        f"{PROCESSES}:PContext",
        "files and tails of each rank",
        ("_tail_logs", "stdouts", "stderrs", "error_files", "filtered_stdout", "filtered_stderr", "args", "envs"),
    ),
    Attributes(
        f"{ELASTIC}.multiprocessing.subprocess_handler.subprocess_handler:SubprocessHandler",
        "the log files of a process, which torch leaves open when it ends by itself",
        ("_stdout", "_stderr", "proc"),
    ),
    Attributes(f"{PROCESSES}:DefaultLogsSpecs", "the folder of a run, where older attempts stay", ("_run_log_dir",)),
)


def check(version: str = torch.__version__, *, torchrun: bool = False) -> None:
    """Compare the installed torch with the checked versions. One that was not checked is logged, once.

    Args:
        version: of torch.
        torchrun: compare the names of torchrun's own module too. It is half imported where a line in it imports this
            package.

    Raises:
        UnsupportedTorch: a name has another form.
    """
    release = ".".join(version.split(".")[:2])
    for name in NAMES:
        if name.path.startswith(TORCHRUN) and not torchrun:
            continue
        forms = {name.parameters[release]} if release in CHECKED else set(name.parameters.values())
        if (came := _parameters(name.path)) not in forms:
            expected = " or ".join(f"({form or 'none'})" for form in sorted(forms))
            text = f"{name.path} of torch {version} has the parameters ({came or 'none'}); expected {expected}"
            raise UnsupportedTorch(f"{text}. taskd_net.torch has been checked with {', '.join(CHECKED)}")
    for each in ATTRIBUTES:
        assigned = _resolve(f"{each.path}.__init__")
        missing = [] if assigned is None else [one for one in each.names if one not in assigned.__code__.co_names]
        if assigned is None or missing:
            text = f"{each.path} of torch {version} has no {', '.join(missing or each.names)}"
            raise UnsupportedTorch(f"{text}. taskd_net.torch has been checked with {', '.join(CHECKED)}")
    for members in MEMBERS:
        found = _resolve(members.path)
        if missing := [one for one in members.names if not hasattr(found, one)]:
            text = f"{members.path} of torch {version} has no {', '.join(missing)}"
            raise UnsupportedTorch(f"{text}. taskd_net.torch has been checked with {', '.join(CHECKED)}")
    if release not in CHECKED:
        _warn(version)


def refuse_import(error: ImportError) -> None:
    """Say in words which name of torch is missing, where a module of this package could not be imported for that.

    Args:
        error: of that import. One that is not about torch is nothing to say.

    Raises:
        UnsupportedTorch: the installed torch lacks a name.
    """
    if not (error.name or "").startswith("torch."):
        return
    try:
        check()
    except UnsupportedTorch as refused:
        raise refused from error
    text = f"torch {torch.__version__} lacks a name: {error}"
    raise UnsupportedTorch(f"{text}. taskd_net.torch has been checked with {', '.join(CHECKED)}") from error


@cache
def _warn(version: str) -> None:
    log.warning("torch_unchecked", version=version, checked=", ".join(CHECKED))


def _parameters(path: str) -> str:
    function = _resolve(path)
    if function is None:
        return "no such name"
    if declared := _DECLARED.findall(function.__doc__ or "") if inspect.ismethoddescriptor(function) else ():
        # pybind11 writes a signature of each overload into the text; torch's is the last one.
        return " ".join(_PARAMETER.findall(declared[-1]))
    return " ".join(inspect.signature(function).parameters)


_DECLARED: Final = re.compile(r"^\d+\. \w+\((.*)\) -> ", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(\w+): ")


def _resolve(path: str) -> Any:
    """The function at a path, without decorators; None where there is none."""
    module, _, names = path.partition(":")
    try:
        found: object = import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return None
    return inspect.unwrap(found) if callable(found) else None


_replacing: Final = fork.Lock()


@contextmanager
def replaced(
    *,
    start_processes: Callable[..., object],
    create_healthcheck_server: Callable[..., object],
    watchdog: Callable[..., object],
) -> Iterator[None]:
    """Have LocalElasticAgent use functions of this package, in this thread and this block alone.

    Args:
        start_processes: called with the keyword arguments of torch's; returns the context.
        create_healthcheck_server: called with the keyword arguments of torch's; returns the server.
        watchdog: called as torch's class `FileTimerServer`.
    """
    ours = get_ident()
    local_elastic_agent = import_module(LOCAL)
    names = (
        (local_elastic_agent, "start_processes", start_processes),
        (local_elastic_agent, "create_healthcheck_server", create_healthcheck_server),
        (local_elastic_agent.timer, "FileTimerServer", watchdog),
    )
    with _replacing, ExitStack() as stack:
        for module, name, function in names:
            original = getattr(module, name)

            def choose(*args: object, _function: Any = function, _original: Any = original, **kwargs: object) -> object:
                return (_function if get_ident() == ours else _original)(*args, **kwargs)

            stack.callback(setattr, module, name, original)
            setattr(module, name, choose)
        yield
