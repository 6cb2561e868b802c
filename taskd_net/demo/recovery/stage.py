"""The processes of a recovery: those of a job, and ClusterD's stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import taskd_net
from taskd_net.demo.job import stage
from taskd_net.demo.job.evidence import Seen
from taskd_net.demo.job.terms import BEGAN, ENDED, REPLY

CLUSTERD: Final = "ClusterD"
SCENARIOS: Final = Path(taskd_net.__file__).parent / "sim" / "clusterd" / "scenarios"
PATIENCE_TIMES: Final = 3.0
"""More patience than without ClusterD: a Manager that is told that recovery is off asks again after 30 s."""

SENT: Final = "sent"


class RecoveryStage(stage.Stage):
    """The processes of one scenario of recovery. None is left after `async with`."""

    def __init__(self, restarts: int = 3, patience: float = stage.PATIENCE_S, **variables: str) -> None:
        super().__init__(restarts, patience * PATIENCE_TIMES, **variables)
        self._restarts_written = 0
        self._called = 0

    async def start_mgr(self) -> None:
        """Start the Mgr, with the state of the one before."""
        before = self.evidence.count("Mgr", BEGAN)
        arguments = ["--listen", f"{self.host}:9601", "--clusterd", f"{self.host}:8899"]
        files = ["--state", "state", "--reset-file", "reset.json"]
        await self.start("Mgr", "taskd_net.demo.recovery.manager", *arguments, *files)
        await self.until(lambda seen: seen.count("Mgr", BEGAN) > before, "the Mgr listens")

    async def start_clusterd(self, scenario: str) -> None:
        """Start ClusterD's stand-in with a scenario of the package, until it listens."""
        before = self.evidence.count(CLUSTERD, BEGAN)
        arguments = ["--scenario", str(SCENARIOS / f"{scenario}.yaml"), "--listen", f"{self.host}:8899", "--json"]
        await self.start(CLUSTERD, "taskd_net.cli", "clusterd-sim", *arguments)
        await self.until(lambda seen: seen.count(CLUSTERD, BEGAN) > before, "ClusterD listens")

    async def until_clusterd_ends(self) -> None:
        """Wait for the end of ClusterD's scenario."""
        await self.until(lambda seen: seen.count(CLUSTERD, ENDED) > 0, "ClusterD's scenario ends")

    def read(self, line: bytes, pid: int) -> Seen | None:
        """The event in a line of a process: of ClusterD its start and the reports that it gets."""
        event = json.loads(line)
        match event:
            case {"who": _}:
                return super().read(line, pid)
            case {"event": "listening"}:
                return Seen(CLUSTERD, BEGAN, pid)
            case {"event": "restart_all"}:
                self._restarts_written += 1
                self.set_retry_time(self._restarts_written)
            case {"event": "sent", "signal_type": "pauseStartAgent" | "continueStartAgent" as signal}:
                return Seen(CLUSTERD, SENT, pid, text=signal)
            case {"event": "called", "call": str(call), "request": request} if call.startswith(("Report", "Reply")):
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
