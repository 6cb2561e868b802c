"""The calls of a Worker: one training process of the job (TaskD API reference, "TaskD Worker")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskd_net.base import limits
from taskd_net.base.body import Body
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job import arguments
from taskd_net.job.frameworks.registry import of_worker
from taskd_net.job.member import Singleton, documented
from taskd_net.job.worker.worker import Handler, Handlers, Worker, WorkerTimes, node_config

# Handlers belong to the application, so they outlive a Worker.
_handlers: Final = Handlers()

slot: Final[Singleton[Worker]] = Singleton("worker")


def initialise(
    rank_id: int, upper_limit_of_disk_in_mb: int = 5000, framework: str = "pt", times: WorkerTimes = WorkerTimes()
) -> bool:
    """Carry out `init_taskd_worker`, whose arguments are TaskD's, for a Worker with other times.

    Raises:
        ConfigError, Refused: as that call says in the log.
    """
    rank = arguments.whole(rank_id, "rank_id")
    limit_mb = arguments.whole(upper_limit_of_disk_in_mb, "upper_limit_of_disk_in_mb")
    chosen = of_worker(framework)
    config = node_config(rank, chosen)
    slot.fill(lambda: Worker(config, rank, chosen, limit_mb, _handlers, times), f"taskd-worker-{rank}.log")
    return True


@documented
def init_taskd_worker(rank_id: int, upper_limit_of_disk_in_mb: int = 5000, framework: str = "pt") -> bool:
    """Make this training process a Worker of the mesh. It joins in the background, whenever its Proxy is there.

    Args:
        rank_id: the global rank of this process.
        upper_limit_of_disk_in_mb: MB that the profiling files of all ranks of the node may take, more or less; at least
            0. See `taskd_net.job.worker.disk`.
        framework: `pt` (PyTorch) or `ms` (MindSpore).

    Returns:
        True, or False with one line in the log: an argument or a variable is missing or not usable, there is a Worker,
            or this process is a forked child.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    return initialise(rank_id, upper_limit_of_disk_in_mb, framework)


@documented
def start_taskd_worker() -> bool:
    """Register the Worker with the Mgr, in the background, and begin to serve commands with the registered handlers.

    Returns:
        True, or False with one line in the log: no Worker was initialised, or it has been started.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    slot.member.start()
    return True


@documented
def destroy_taskd_worker() -> bool:
    """Leave the mesh. Afterwards `init_taskd_worker` can be called again; registered handlers stay.

    Returns:
        True, or False with one line in the log: no Worker was initialised, or one of its handlers does not return (the
        Worker is gone all the same).

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    slot.clear()
    return True


@documented
def register_handler(command: int | str, handler: Handler | None) -> bool:
    """Register a function for messages to this Worker, from the Mgr or any other node.

    It runs in a thread of its own, one command after another, for as long as it needs; its errors are logged. A resend
    with the same uuid is suppressed.

    Args:
        command: the `code` (such as 700) or the `msg_type` (such as `"ACTION"`) of a command; a code goes before a
            msg_type.
        handler: called with a `Command`; replaces the one before. None: no handler any more.

    Returns:
        True, or False with one line in the log: `command` or `handler` is not usable, or this is a forked child.
    """
    if isinstance(command, bool) or not isinstance(command, int | str):
        raise ConfigError(f"command is {shown(command)}; expected a code (int) or a msg_type (str)")
    if handler is not None and not callable(handler):
        raise ConfigError(f"handler is {shown(handler)}; expected a function, or None")
    _handlers.register(command, handler)
    return True


@documented
def send_to_manager(
    code: int,
    msg_type: str,
    message: str = "",
    extension: Mapping[str, str] | None = None,
    *,
    timeout: float = limits.ACK_TIMEOUT_S,
    wait: bool = True,
) -> bool:
    """Report to the Mgr from this process's Worker, and wait for the Ack.

    It is resent with one uuid until the Ack or the end of `timeout`, so it arrives once. After a call without an Ack,
    calls fail at once until the Mgr can be reached, which is tried in the background. So a training step waits for
    `timeout` once per outage of the Mgr.

    Args:
        code: the number of the report, such as 1410.
        msg_type: its type, such as `STATUS`.
        message: details.
        extension: more of it, by key.
        timeout: seconds for all of it, above 0.
        wait: False: hand the report over and return at once. It is sent in the background, in the order of these calls,
            and given up after `timeout` seconds. `destroy_taskd_worker` gives what still waits a second.

    Returns:
        True when the Mgr has acknowledged it; without `wait`, when it was handed over. Else False with one line in the
        log that says why not.
    """
    seconds = arguments.seconds(timeout, "timeout")
    reports, body = slot.member.reports, Body(msg_type, code, message, extension or {})
    if wait:
        reports.send(body, seconds)
    else:
        reports.post(body, seconds)
    return True
