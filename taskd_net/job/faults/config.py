"""Settings of the fault levels, of a Manager and of the commands that decide without one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from taskd_net.base.schema import Group, Kind, require_all, setting
from taskd_net.job.faults.editions import LINKDOWN_TIMEOUT, Edition
from taskd_net.job.faults.levels import JobKind, Mode, SubHealth

_fault: Final = partial(setting, group=Group.FAULTS, of=("mgr",))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSettings:
    """The settings of the fault levels.

    Args:
        fault_config: Folder with the files that give fault codes their levels, as the platform mounts
            `mindx-dl-fault-config`. With it a Manager answers faults of devices ([fault levels](faults.md)).
        fault_edition: Edition by which these files are read. `documented` is that of TaskD's documents, `current` that
            of the files that the platform ships today.
        fault_mode: Answer to levels 2 to 6. `rescheduling` isolates the device and reschedules the job; `grace` runs
            the training again where that may help, after a reset of the device if need be.
        fault_job: What the job is. It decides on level 2 in the mode `grace`.
        sub_health: Answer to a device that is only slower than it should be. `graceExit` replaces its node; `hotSwitch`
            needs ClusterD, and without it the job goes on slowly.
        linkdown_timeout: Seconds that a network port may be down, where no file says it. Shorter isolates devices
            for flapping ports.
        fault_watch: Files count as soon as the file system tells of a change. Off: at the end of each `PollInterval`
            alone, as with the platform.

    Raises:
        ConfigError: names the field, its value and the range.
    """

    fault_config: str | None = _fault(Kind.FOLDER, None, unset="off")
    fault_edition: str = _fault(Kind.CHOICE, Edition.DOCUMENTED.value, choices=tuple(each.value for each in Edition))
    fault_mode: str = _fault(Kind.CHOICE, Mode.RESCHEDULING.value, choices=tuple(each.value for each in Mode))
    fault_job: str = _fault(Kind.CHOICE, JobKind.TRAINING.value, choices=tuple(each.value for each in JobKind))
    sub_health: str = _fault(Kind.CHOICE, SubHealth.IGNORE.value, choices=tuple(each.value for each in SubHealth))
    linkdown_timeout: int = _fault(
        Kind.WHOLE, LINKDOWN_TIMEOUT.default, least=LINKDOWN_TIMEOUT.least, most=LINKDOWN_TIMEOUT.most
    )
    fault_watch: bool = _fault(Kind.SWITCH, True)

    def __post_init__(self) -> None:
        require_all(self)

    @property
    def edition(self) -> Edition:
        """The edition."""
        return Edition(self.fault_edition)

    @property
    def mode(self) -> Mode:
        """The mode."""
        return Mode(self.fault_mode)

    @property
    def job_kind(self) -> JobKind:
        """The kind of job."""
        return JobKind(self.fault_job)

    @property
    def answer_to_sub_health(self) -> SubHealth:
        """The answer to `SubHealthFault`."""
        return SubHealth(self.sub_health)
