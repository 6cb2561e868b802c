"""The processes of one scenario, and the platform around them: files of rules, a device watcher, resets."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Final

from taskd_net.job.faults.rules import CODES_FILE, CUSTOMIZATION_FILE, POLL_FILE
from taskd_net_lab.demos.job import stage
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.job.terms import BEGAN
from taskd_net_lab.demos.recovery.stage import RecoveryStage

CHANGED: Final = "handling 'mindx-dl-fault-config' configmap change"
"""The line of the Manager's log for a change of the files; TaskD's users look for it."""

LOOK_S: Final = 0.05
REPORT_S: Final = 15.0

CODES: Final[Mapping[str, tuple[str, ...]]] = {
    "NotHandleFaultCodes": ("8C0A4E00", "80E20207", "80E21007", "80CB8006"),
    "RestartRequestCodes": ("80C98008", "80C98002"),
    "RestartBusinessCodes": ("8C084E00", "8C204E00", "8C124E00", "A8028802"),
    "FreeRestartNPUCodes": ("8C0E4E00", "8C104E0A"),
    "RestartNPUCodes": ("8C03A000", "8C1FA006", "40F84E00", "80E24E00"),
    "SeparateNPUCodes": ("80E3A201", "80E18402"),
}
"""A faultCode.json of the demo: the codes of the two worked examples in TaskD's documents, among others."""

SLOW: Final = "8C2FA001"
"""A code of SubHealthFault, which the current edition alone knows."""

OFTEN: Final = "80CB8006"
PORT_DOWN: Final = "81078603"
CUSTOMIZATION: Final[Mapping[str, object]] = {
    "GraceTolerance": {"WaitFlushingCMTime": 90, "WaitDeviceResetTime": 60},
    "FaultFrequency": [
        {"EventId": [OFTEN], "TimeWindow": 600, "Times": 2, "FaultHandling": "ManuallySeparateNPU"},
    ],
    "FaultDuration": [
        {"EventId": [PORT_DOWN], "FaultTimeout": 1, "RecoverTimeout": 1, "FaultHandling": "PreSeparateNPU"},
    ],
}

RELEASE_S: Final = 60
"""The shortest ReleaseTimeWindow."""

RELEASED: Final[Mapping[str, object]] = {
    "FaultFrequency": [
        {
            "EventId": [OFTEN],
            "TimeWindow": 60,
            "Times": 2,
            "FaultHandling": "SeparateNPU",
            "ReleaseTimeWindow": RELEASE_S,
        },
    ],
}
"""A faultCustomization.json of the current edition."""

LASTING: Final = "80E20207"
COUNTED: Final[Mapping[str, object]] = {
    "FaultFrequency": [{"EventId": [LASTING], "TimeWindow": 600, "Times": 2, "FaultHandling": "ManuallySeparateNPU"}],
    "FaultDuration": [
        {"EventId": [LASTING], "FaultTimeout": 1, "RecoverTimeout": 0, "FaultHandling": "PreSeparateNPU"},
    ],
}
"""Both rules for one code of L1, in the current edition."""

NO_FAULT: Final = {
    "jobs": [{"id": "demo", "nodes": 2, "processes": 2}],
    "steps": [{"when": "subscribed", "wait": 600, "end": True}],
}
"""A scenario of ClusterD's stand-in: it never sends anything."""


class FaultStage(stage.Stage):
    """The processes of one scenario of faults. None is left after `async with`.

    Attributes:
        codes: content of faultCode.json.
        mode: of the Manager.
        in_place: the Workers rejoin.
        settings: further ones of the Manager.
        customization: content of faultCustomization.json.
        done: the end of the log's line for a good change.
    """

    mode = "rescheduling"
    in_place = False
    settings: Mapping[str, object] = {}
    customization = CUSTOMIZATION
    done = "succeed"

    def __init__(self, restarts: int = 3, patience: float = stage.PATIENCE_S, **variables: str) -> None:
        super().__init__(restarts, patience, **variables)
        self.codes = {key: list(codes) for key, codes in CODES.items()}
        self._versions = 0

    async def start_mgr(self) -> None:
        """Start the Mgr, which watches the files and has the program that resets devices."""
        if not self._versions:
            self.mount()
        hook = self.folder / "reset"
        hook.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m taskd_net_lab.demos.faults.reset "$@"\n')
        hook.chmod(0o755)
        self.faults = {
            "fault_config": "config",
            "fault_mode": self.mode,
            "fault_on_reset": str(hook),
            "fault_separated": "separated",
            "in_place": self.in_place,
            **self.settings,
        }
        done = self.changes(self.done)
        await super().start_mgr()
        await self.seen_in_log(self.done, done)

    def mount(self, **files: str) -> None:
        """Change all files at once, as Kubernetes does with a ConfigMap: by the link `..data`."""
        self._versions += 1
        config = self.folder / "config"
        version = config / f"..{self._versions}"
        version.mkdir(parents=True)
        texts = {
            CODES_FILE: json.dumps(self.codes),
            CUSTOMIZATION_FILE: json.dumps(self.customization),
            POLL_FILE: "300",
        }
        for name, text in (texts | files).items():
            (version / name).write_text(text)
        for name in texts:
            if not (config / name).is_symlink():
                (config / name).symlink_to(f"..data/{name}")
        new = config / "..data_tmp"
        new.symlink_to(version.name)
        new.rename(config / "..data")

    async def move(self, code: str, key: str) -> None:
        """Edit faultCode.json: a code gets another level. Returns when the Manager's log says that it is in force."""
        for codes in self.codes.values():
            if code in codes:
                codes.remove(code)
        self.codes[key].append(code)
        done = self.changes(self.done)
        self.mount()
        await self.seen_in_log(self.done, done)

    async def break_files(self) -> None:
        """Make a faultCode.json that is none. Returns when the Manager's log says that it is refused."""
        done = self.changes("failed")
        self.mount(**{CODES_FILE: '{"NotHandleFaultCodes": ['})
        await self.seen_in_log("failed", done)

    def changes(self, word: str) -> int:
        """Lines of the Manager's log about changes with this end."""
        return self.log.count(f"{CHANGED} {word}")

    @property
    def log(self) -> str:
        """The Manager's log."""
        file = self.folder / "manager.log"
        return file.read_text() if file.exists() else ""

    async def seen_in_log(self, word: str, before: int) -> None:
        """Wait for another such line."""
        await self.look_for(lambda: self.changes(word) > before, f"the log says: {CHANGED} {word}")

    async def report(self, code: str, node: int = 1, device: str = "Ascend910-1", **flags: str) -> None:
        """Report a fault of a device, as a watcher on its node does, by the command."""
        more = [word for name, value in flags.items() for word in (f"--{name}", value)]
        await self.command("report", code, device, "--node", str(node), *more)

    async def command(self, *arguments: str) -> None:
        """Run `taskd-net faults`.

        Raises:
            Missed: it has failed.
        """
        command = [sys.executable, "-m", "taskd_net.cli", "faults", *arguments]
        process = await asyncio.create_subprocess_exec(
            *(*command, "--upstream", f"{self.host}:9601", "--timeout", f"{REPORT_S:g}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
        )
        said, _ = await process.communicate()
        if process.returncode:
            raise Missed(f"taskd-net faults {' '.join(arguments)}: {said.decode(errors='replace').strip()}")

    @property
    def separated(self) -> set[str]:
        """The names in the list of separated devices."""
        file = self.folder / "separated"
        return set(filter(None, file.read_text().strip().split(","))) if file.exists() else set()

    def remove_from_list(self, device: str) -> None:
        """A person removes a name from the list."""
        (self.folder / "separated").write_text(",".join(self.separated - {device}))

    async def look_for(self, holds: Callable[[], bool], what: str, after: float = 0.0) -> None:
        """Wait for something in a file.

        Args:
            holds: it is there.
            what: in words.
            after: seconds that it takes in any case.

        Raises:
            Missed: it has not come in time.
        """
        try:
            async with asyncio.timeout(after + self._patience):
                while not holds():  # noqa: ASYNC110 - a file tells nobody
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise Missed(f"not within {self._patience:g} s: {what}{self._last_words()}") from None

    async def starts(self, times: int, *ranks: int) -> None:
        """Wait until processes of these ranks have begun so many times."""
        names = [f"Worker/{rank}" for rank in ranks]
        what = f"processes of the ranks {ranks} begin for the {times}. time"
        await self.until(lambda seen: all(seen.count(name, BEGAN) == times for name in names), what)


class GraceStage(FaultStage):
    """The same with the mode `grace`."""

    mode = "grace"


class InPlaceStage(GraceStage):
    """The same with Workers that rejoin."""

    in_place = True


class InferenceStage(GraceStage):
    """The mode `grace` with a job that answers requests."""

    settings: Mapping[str, object] = {"fault_job": "inference"}


class CurrentStage(FaultStage):
    """The current edition, in which slow devices are ignored, and a rule has a ReleaseTimeWindow."""

    settings: Mapping[str, object] = {"fault_edition": "current"}
    customization = RELEASED
    done = "complete"

    def __init__(self, restarts: int = 3, patience: float = stage.PATIENCE_S, **variables: str) -> None:
        super().__init__(restarts, patience, **variables)
        self.codes["SubHealthFaultCodes"] = [SLOW]


class CountedStage(CurrentStage):
    """The current edition with both rules for one code."""

    customization = COUNTED


class GraceExitStage(CurrentStage):
    """The same with nodes that are replaced for a slow device."""

    settings: Mapping[str, object] = {"fault_edition": "current", "sub_health": "graceExit"}


class HotSwitchStage(CurrentStage):
    """The same with a switch over, that only ClusterD can do."""

    settings: Mapping[str, object] = {"fault_edition": "current", "sub_health": "hotSwitch"}


class ClusterdStage(HotSwitchStage, RecoveryStage):
    """A Manager that has subscribed to ClusterD."""

    async def start_mgr(self) -> None:
        """Start ClusterD's stand-in, if it does not run, and the Mgr."""
        if "ClusterD" not in self._processes:
            await self.start_clusterd(NO_FAULT)
        await super().start_mgr()
