"""Settings of the fault levels."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.faults.editions import LINKDOWN_TIMEOUT, Edition
from taskd_net.faults.levels import JobKind, Mode, SubHealth
from taskd_net.schema import Kind, require_all, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultConfig:
    """The settings of the fault levels.

    Args:
        fault_config: Folder with the files of the ConfigMap `mindx-dl-fault-config` ([fault levels](faults.md)).
            Without it the severity of a fault alone decides.
        fault_edition: Edition by which the files are read. The documented one is TaskD's; files that ship with newer
            device plugins follow the current one. A line of the log says which one the files look like.
        fault_mode: Answer to faults: rescheduling isolates the device of every fault from level 2 on; grace restarts
            and resets first.
        fault_job: Work on the devices. The grace mode answers level 2 of an inference by a repeated request.
        sub_health: Answer to `SubHealthFault`, which the current edition has. The exit and the switch cost the time of
            a checkpoint; a job that goes on is slow.
        linkdown_timeout: Seconds for which a link of the network may be down, where the files do not say it. Shorter
            takes links out that come back.
        fault_watch: Files count as soon as the file system tells of a change. Off: at the end of each period, as the
            device plugin does.

    Raises:
        ConfigError: names the field, its value and the range.
    """

    fault_config: str | None = setting(Kind.FOLDER, None, unset="none")
    fault_edition: str = setting(Kind.CHOICE, Edition.DOCUMENTED.value, choices=tuple(each.value for each in Edition))
    fault_mode: str = setting(Kind.CHOICE, Mode.RESCHEDULING.value, choices=tuple(each.value for each in Mode))
    fault_job: str = setting(Kind.CHOICE, JobKind.TRAINING.value, choices=tuple(each.value for each in JobKind))
    sub_health: str = setting(Kind.CHOICE, SubHealth.IGNORE.value, choices=tuple(each.value for each in SubHealth))
    linkdown_timeout: int = setting(
        Kind.WHOLE, LINKDOWN_TIMEOUT.default, least=LINKDOWN_TIMEOUT.least, most=LINKDOWN_TIMEOUT.most
    )
    fault_watch: bool = setting(Kind.SWITCH, True)

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
