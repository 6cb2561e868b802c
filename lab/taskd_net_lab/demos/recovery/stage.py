"""The processes of a recovery: those of a job, and ClusterD's stand-in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from taskd_net_lab.clusterd.reader import SCENARIOS
from taskd_net_lab.demos.job import stage
from taskd_net_lab.demos.job.evidence import Seen
from taskd_net_lab.demos.job.terms import ASKS, BEGAN, COMMAND, ENDED, REPLY

CLUSTERD: Final = "ClusterD"
FRAMEWORK: Final = "Framework"
SPEED: Final = 20
"""The times of the real ClusterD are divided by this."""

PATIENCE_TIMES: Final = 3.0
"""More patience than without ClusterD: a Manager that is told that recovery is off asks again after 30 s."""

ENTERED: Final = "entered"
"""ClusterD has come to a state, to a call with a scripted answer, or to a signal outside of its states."""

OUTSIDE: Final = ("pauseStartAgent", "continueStartAgent", "preExitProcess")
"""Signals that no state of ClusterD sends."""

HEALTH: Final = "health"
"""The Manager has asked for ClusterD's health, as its loop does each second."""

TELLS: Final = "tells"
"""The Manager reports faulty ranks. Around a kill this has no order among the reports that answer orders."""

INIT: Final = "init"
"""The state of a job without a fault, in which its client subscribes."""


class RecoveryStage(stage.Stage):
    """The processes of one scenario of recovery. None is left after `async with`.

    Attributes:
        kills: ClusterD or the Manager is killed, so that faults are reported again.
    """

    def __init__(self, restarts: int = 3, patience: float = stage.PATIENCE_S, **variables: str) -> None:
        super().__init__(restarts, patience * PATIENCE_TIMES, **variables)
        self.kills = False
        self._restarts_written = 0
        self._called = 0
        self._scenarios = 0
        self._held = ""
        self._holding: list[asyncio.StreamWriter] = []

    async def start_mgr(self) -> None:
        """Start the Mgr, with the state of the one before."""
        before = self.evidence.count("Mgr", BEGAN)
        arguments = ["--listen", f"{self.host}:9601", "--clusterd", f"{self.host}:8899"]
        files = ["--state", "state", "--reset-file", "reset.json"]
        files += ["--faults", json.dumps(self.faults)] if self.faults else []
        await self.start("Mgr", "taskd_net_lab.demos.recovery.manager", *arguments, *files)
        await self.until(lambda seen: seen.count("Mgr", BEGAN) > before, "the Mgr listens")

    async def start_clusterd(self, scenario: str | Mapping[str, object]) -> None:
        """Start ClusterD's stand-in, until it listens.

        Args:
            scenario: the name of one of the package, or its content.
        """
        before = self.evidence.count(CLUSTERD, BEGAN)
        if isinstance(scenario, str):
            path = SCENARIOS / f"{scenario}.yaml"
        else:
            self._scenarios += 1
            path = self.folder / f"scenario-{self._scenarios}.yaml"
            path.write_text(json.dumps(scenario))
        arguments = ["--scenario", str(path), "--listen", f"{self.host}:8899", "--speed", str(SPEED), "--json"]
        await self.start(CLUSTERD, "taskd_net.cli", "clusterd-sim", *arguments)
        await self.until(lambda seen: seen.count(CLUSTERD, BEGAN) > before, "ClusterD listens")

    async def until_clusterd_ends(self) -> None:
        """Wait for the end of ClusterD's scenario."""
        began = self.evidence.count(CLUSTERD, BEGAN)
        await self.until(lambda seen: seen.count(CLUSTERD, ENDED) == began, "ClusterD's scenario ends")

    async def until_left(self, node: int) -> None:
        """Wait until the launcher of a node has left."""
        who = f"Agent/{node}"
        began = self.evidence.count(who, BEGAN)
        await self.until(lambda seen: seen.count(who, ENDED) == began, f"Agent {node} leaves")

    def hold(self, call: str) -> None:
        """Hold back what is reported of this from now on; nothing with an empty text."""
        self._held = call

    def release(self) -> None:
        """Let processes give the reports that were held back."""
        self.hold("")
        holding, self._holding = self._holding, []
        for writer in holding:
            if not writer.is_closing():
                writer.write(b"\n")

    def answer(self, event: Seen, writer: asyncio.StreamWriter) -> None:
        """Let a process go on, unless its report is held back."""
        if event.what == ASKS and event.text == self._held:
            self._holding.append(writer)
        else:
            super().answer(event, writer)

    def read(self, line: bytes, pid: int) -> Seen | None:
        """The event in a line of a process: of ClusterD its start, its states, and the calls that it gets."""
        event = json.loads(line)
        match event:
            case {"who": _}:
                return super().read(line, pid)
            case {"event": "listening"}:
                return Seen(CLUSTERD, BEGAN, pid)
            case {"event": "restart_all"}:
                self._restarts_written += 1
                self.set_retry_time(self._restarts_written)
            case {"event": "sent", "signal_type": str(signal)} if signal in OUTSIDE:
                return Seen(CLUSTERD, ENTERED, pid, text=signal)
            case {"event": "moved", "to": str(place)} | {"event": "scripted", "call": str(place)}:
                return Seen(CLUSTERD, ENTERED, pid, text=place)
            case {"event": "stream_began", "call": "SubscribeProcessManageSignal"}:
                return Seen(CLUSTERD, ENTERED, pid, text=INIT)
            case {"event": "answered", "call": "Init" as call, "code": int(code)}:
                return Seen(CLUSTERD, COMMAND, pid, code, call)
            case {"event": "called", "call": "HealthCheck"}:
                return Seen(CLUSTERD, HEALTH, pid)
            case {"event": "called", "call": str(call), "request": request} if call.startswith(("Report", "Reply")):
                if self.kills and call == "ReportProcessFault":
                    return Seen(CLUSTERD, TELLS, pid)
                self._called += 1
                return Seen(CLUSTERD, REPLY, pid, text=_report(call, request), uuid=str(self._called))
        return None


def _report(call: str, request: dict[str, object]) -> str:
    """A report in words: the call, and what decides in it."""
    match request:
        case {"strategies": list(strategies)}:
            said = " ".join(map(str, strategies))
        case {"result": True}:
            said = "true"
        case {"stressResult": dict(results)}:
            said = json.dumps(results, sort_keys=True)
        case {"status": {"code": int(code)}}:
            said = str(code)
        case {"faultRanks": list(ranks)}:
            said = " ".join(each["rankId"] for each in ranks) if call == "ReportProcessFault" else "0"
        case _:
            said = "false" if call == "ReplySwitchNicResult" else "0"
    return f"{call.removeprefix('Report').removeprefix('Reply')} {said}"
