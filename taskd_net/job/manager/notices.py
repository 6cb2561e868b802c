"""Notices of a job's decisions as lines of the log."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from taskd_net.base.vocabulary import ON_HANG_REPORT
from taskd_net.job.decide.traffic import Notice
from taskd_net.job.manager.config import INTERVAL, ManagerConfig, ignored_interval


def log_without_effect(log: Any, config: ManagerConfig) -> None:
    """Log the settings that change nothing."""
    if (text := ignored_interval()) is not None:
        log.warning("interval_ignored", variable=INTERVAL, value=text, milliseconds=config.process_interval)
    decisions = config.decisions()
    if decisions.fault_recover and not decisions.clusterd:
        log.warning("fault_recover_without_clusterd", reason="the Manager decides on reports of Agents")
    if decisions.on_hang != ON_HANG_REPORT and not decisions.supervises:
        log.warning("hangs_only_reported", reason="a platform restarts processes; restarts is not job")


def log_failure(log: Any, plugin: str, reason: str, trace: BaseException | str, *, off: bool) -> None:
    """Log the failure of a user's plugin. `off`: the plugin takes no part any more."""
    how: dict[str, Any] = {"stack": trace} if isinstance(trace, str) else {"exc_info": trace}
    log.error("plugin_failed", plugin=plugin, reason=reason, **how)
    if off:
        log.error("plugin_off", plugin=plugin)


def log_notice(log: Any, notice: Notice, guarded: Collection[str]) -> str | None:
    """Log a notice.

    Args:
        log: takes the line.
        notice: it.
        guarded: names of users' plugins, whose failures are logged where they happen.

    Returns:
        The name of a plugin that has failed; None for any other notice.
    """
    match notice.event:
        case "stream_taken":
            log.info("stream_taken", **notice.fields)
        case "stream_released":
            log.info("stream_released", **notice.fields)
        case "pause_overdue":
            log.warning("pause_overdue", **notice.fields)
        case "stop_forgotten":
            log.warning("stop_forgotten", **notice.fields)
        case "meets_by_framework":
            log.warning("meets_by_framework", **notice.fields)
        case "failure_answered":
            log.warning("failure_answered", **notice.fields)
        case "hang_suspected":
            log.warning("hang_suspected", **notice.fields)
        case "hang_found":
            log.error("hang_found", **notice.fields)
        case "hang_over":
            log.info("hang_over", **notice.fields)
        case "message_lost":
            log.warning("command_not_taken", **notice.fields)
        case _ if notice.fields["plugin"] not in guarded:
            log.error("plugin_failed", **notice.fields)
            return str(notice.fields["plugin"])
    return None
