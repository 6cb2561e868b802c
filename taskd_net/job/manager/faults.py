"""The shell around faults of devices: files with rules, ranks and names, resets, lines for the log, and views."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from taskd_net.job.decide.devices import as_texts
from taskd_net.job.decide.events import DeviceRanks, Event, FaultFiles, ResetEnded, SeparatedNames
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.traffic import Outcome
from taskd_net.job.faults.levels import Action, FaultType, SubHealth
from taskd_net.job.faults.rules import CODES_FILE
from taskd_net.job.keep.place import is_etcd
from taskd_net.job.manager.changed_file import ChangedFile
from taskd_net.job.manager.config import ManagerConfig
from taskd_net.job.manager.device_files import SeparatedList, read_ranks
from taskd_net.job.manager.fault_folder import FaultFolder
from taskd_net.job.manager.resets import OnReset, Resets, program
from taskd_net.job.manager.watching import LOOK_S, follow, watch
from taskd_net.observe.job_view import DEVICES_SHOWN, DeviceView, JobCounters, JobView

FIRST_RULES_S: Final = 5.0
"""Seconds that the first reports wait for the first look at the rules for faults of devices. A look takes milliseconds;
a disk that hangs must not stop a job."""

SEPARATED: Final = "separated-devices"
"""Name of the list of separated devices beside the state file."""

REPORTS: Final = "reports"
"""The mode in which faults are shown alone."""

NO_SWITCH: Final = "only ClusterD can switch over, so the job goes on with the slow device"
"""Answer to `SubHealthFault` by `hotSwitch` without ClusterD."""

Spawn = Callable[[Coroutine[object, object, None], str], None]


class DeviceFaults:
    """The faults of a job's devices, in the event loop of its Manager.

    Args:
        config: the settings.
        job: the decisions.
        take: takes an event in.
        counters: count decisions.
        log: takes the lines.
        on_reset: resets devices; None for the program of the settings.
        look_s: seconds between two looks at a file without a change.
    """

    def __init__(
        self,
        config: ManagerConfig,
        job: Job,
        take: Callable[[Event], object],
        counters: JobCounters,
        log: Any,
        on_reset: OnReset | None,
        look_s: float = LOOK_S,
    ) -> None:
        self._look_s = look_s
        self._config = config
        self._job = job
        self._take = take
        self._counters = counters
        self._log = log
        hook = on_reset or (program(config.fault_on_reset) if config.fault_on_reset else None)
        self._resets = None if hook is None else Resets(hook, self._reset_ended, log)
        path = _list_path(config)
        self._list = None if path is None else SeparatedList(path, self._list_seen, log)
        self._in_list: frozenset[str] | None = None
        self._looked = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def start(self, spawn: Spawn) -> None:
        """Begin to watch the files."""
        config = self._config
        if config.sub_health == SubHealth.HOT_SWITCH.value and config.fault_config and not self._job.config.clusterd:
            self._log.warning("hot_switch_without_clusterd", reason=NO_SWITCH)
        if config.fault_config is not None:
            spawn(self._follow(config.fault_config), "watches the rules for faults of devices")
        if config.fault_devices is not None:
            ranks = ChangedFile(config.fault_devices, read_ranks, self._no_ranks)
            spawn(
                watch(config.fault_devices, ranks.look, self._ranked, every=self._look_s),
                "watches the ranks of devices",
            )
        if self._list is not None and config.fault_config is not None:
            spawn(self._list.watch(self._look_s), "watches the list of separated devices")

    async def ready(self) -> None:
        """Wait for the first look at the rules, for some seconds at most.

        A report that is taken in before them is answered by its severity alone.
        """
        folder, devices = self._config.fault_config, self._job.state.devices
        if folder is None or devices.files:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_RULES_S):
                await self._looked.wait()
        if not devices.files:
            self._log.warning("fault_rules_missing", folder=folder, reason="every code is answered by its severity")

    def carry_out(self, outcome: Outcome) -> None:
        """Begin resets, write the list, and log the decisions of a tick."""
        for fault in outcome.faults:
            place = self._job.place(fault.device)
            about: dict[str, object] = {"device_node": place.node, "rank": place.rank}
            fields = {"device": fault.device, "code": fault.code, "type": fault.fault_type.word, **about}
            if (reporter := self._job.state.devices.reporters.get(fault.device)) is not None:
                fields["reporter"] = reporter
            if fault.cleared:
                self._log.info("device_fault_over", **fields, reason=fault.reason)
            if fault.steps:
                steps, reason = ", ".join(map(str, fault.steps)), fault.reason
                if fault.steps[0].action is Action.HOT_SWITCH and not self._job.config.clusterd:
                    steps, reason = "none", f"{reason}; {NO_SWITCH}"
                self._log.warning("device_fault", **fields, steps=steps, reason=reason)
        for name, number in outcome.fault_counts.items():
            self._counters.device_faults[name] += number
        for reset in outcome.resets:
            assert self._resets is not None, "no reset is decided without a hook"
            self._resets.begin(reset)
        self._write_list()

    async def close(self) -> None:
        """End what is under way."""
        if self._resets is not None:
            await self._resets.close()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._list is not None:
            self._list.close()

    @property
    def mode(self) -> str:
        """The mode of the answers, for people; empty without rules."""
        if not self._job.devices.known:
            return ""
        return REPORTS if self._job.config.clusterd else self._config.fault_mode

    def add_to(self, view: JobView) -> JobView:
        """The state of the job, with its devices."""
        devices = self._views()
        return replace(
            view,
            fault_mode=self.mode,
            devices=tuple(devices[:DEVICES_SHOWN]),
            devices_known=len(devices),
            devices_isolated=sum(each.isolated for each in devices),
        )

    def _views(self) -> list[DeviceView]:
        """The devices that have a task, or take no job, by name; the isolated ones first."""
        tasks, found = self._job.state.devices.tasks, dict[str, DeviceView]()
        for each in self._job.devices.isolated():
            task = tasks.get(each.device)
            kind = each.fault_type
            out = each.action.value == "isolate_and_reschedule"
            found[each.device] = self._view(each.device, kind, each.code, each.reason, each.since, out, task)
        for device, task in tasks.items():
            if device not in found:
                kind = next(kind for kind in FaultType if kind.word == task.fault_type)
                found[device] = self._view(device, kind, task.code, task.reason, task.at, False, task)
        return sorted(found.values(), key=lambda view: (not view.isolated, view.device))

    def _view(
        self, device: str, kind: FaultType, code: str, reason: str, since: float, isolated: bool, task: object
    ) -> DeviceView:
        place = self._job.place(device)
        level = "" if kind.level == "-" else kind.level
        action = str(getattr(task, "action", "")).replace("_", " ")
        reporter = self._job.state.devices.reporters.get(device, "")
        where = place.node, place.rank
        return DeviceView(device, *where, kind.word, level, code, reason, isolated, reporter, action, since)

    async def _follow(self, path: str) -> None:
        """Read the folder with rules at once, and when it has changed."""
        config, faults = self._config, self._config.decisions().faults
        folder = FaultFolder(path, self._log, faults.edition, faults.linkdown_timeout, watch=config.fault_watch)

        def look(told: bool) -> Mapping[str, str] | None:
            if folder.look(told) is not None:
                return as_texts(folder.files)
            return None if self._looked.is_set() else {}  # the first look has found no good files

        await follow(str(Path(path) / CODES_FILE), look, self._change, tells=config.fault_watch, every=self._look_s)

    def _change(self, files: Mapping[str, str]) -> None:
        if files and files != self._job.state.devices.files:  # else those of the Manager before
            self._take(FaultFiles(files))
        self._looked.set()

    def _no_ranks(self, file: str, reason: str) -> None:
        self._log.warning("device_ranks_unreadable", file=file, reason=reason)

    def _ranked(self, ranks: dict[str, int]) -> None:
        if ranks != self._job.state.devices.ranks:
            self._take(DeviceRanks(ranks))

    def _reset_ended(self, uuid: str, done: bool, reason: str) -> None:
        self._take(ResetEnded(uuid, done, reason))

    def _list_seen(self, names: Collection[str] | None) -> None:
        """Take in the names in the list, which are those of people and of ours; None where it is to be written."""
        self._in_list = None if names is None else frozenset(names)
        if self._in_list is not None:
            self._take(SeparatedNames(self._in_list))
        self._write_list()

    def _write_list(self) -> None:
        """Bring the list up to date, one write at a time. It is not made before there is a name for it."""
        wanted = self._job.devices.separated
        if self._list is None or self._writing is not None or wanted == (self._in_list or frozenset()):
            return
        work = self._list.write(wanted, self._job.state.devices.listed & wanted)
        self._writing = asyncio.create_task(work, name="writes the list of separated devices")
        self._writing.add_done_callback(self._written)

    def _written(self, _: asyncio.Task[None]) -> None:
        self._writing = None


def _list_path(config: ManagerConfig) -> str | None:
    if config.fault_separated is not None:
        return config.fault_separated
    return None if config.state is None or is_etcd(config.state) else str(Path(config.state).with_name(SEPARATED))
