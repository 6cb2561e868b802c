"""A launcher's machine between files, workers and a clock that a test moves; the transcript of it all."""

from __future__ import annotations

import json
from collections.abc import Collection

from taskd_net.job.agent.plans import AskToEnd, KillAll, KillRanks, Leave, StartAll, StartRanks
from taskd_net.job.agent.supervision import WorkerStatus
from taskd_net.mindspore.machine import Action, Machine, Note, Observation, PlatformFiles, StartController, Times

TIMES = Times(look=1.0, gate_look=5.0, gate=900.0, restart=60.0, replace=120.0, failed=10.0, finish=10.0, grace=600.0)
RANKS = frozenset({2, 3})


class Scene:
    """A node with ranks 2 and 3.

    Args:
        replaces: ranks may be restarted alone.
        controls: the node is the first one.
    """

    def __init__(self, *, replaces: bool = False, controls: bool = False) -> None:
        self.now = 0.0
        self.machine = Machine(TIMES, RANKS, replaces=replaces, controls=controls, now=0.0)
        self.reset: dict[str, object] | bytes | None = {"RankList": [], "RetryTime": 0}
        self.restart_type: bytes | None = None
        self.version: bytes | None = None
        self.running: set[int] = set()
        self.failed: set[int] = set()
        self.finished = False
        self.malformed = False
        self.killed = False
        self.start_fails = False
        self.over: Leave | None = None
        self._lines: list[str] = []

    def say(self, text: str) -> None:
        """A line for people."""
        self._lines.append(("\n" if self._lines else "") + f"# {text}")

    def file(self, *listed: tuple[int, str], **fields: object) -> None:
        """Write the reset file: these ranks, and these fields beside those from before."""
        before = self.reset if isinstance(self.reset, dict) else {}
        entries = [{"RankId": rank, "Status": status} for rank, status in listed]
        self.reset = {**before, "RankList": entries, **fields}
        self._lines.append(f"{self.now:g}: reset.json {json.dumps(self.reset)}")

    def raw(self, data: bytes | None) -> None:
        """Have the reset file hold these bytes, or be missing."""
        self.reset = data
        self._lines.append(f"{self.now:g}: reset.json {data!r}")

    def note(self, text: str) -> None:
        """A line about what happens to workers or other files."""
        self._lines.append(f"{self.now:g}: {text}")

    def fail(self, *ranks: int) -> None:
        """Workers fail."""
        self.note(f"workers {', '.join(map(str, ranks))} fail")
        self.running -= set(ranks)
        self.failed |= set(ranks)

    def end(self, *, finish: bool = True) -> None:
        """All workers end."""
        self.note("all workers finish" if finish else "all workers end with 7")
        self.failed = set() if finish else set(self.running)
        self.running, self.finished = set(), finish

    def look(self) -> list[Action]:
        """A look, after which its actions are carried out."""
        workers = WorkerStatus(frozenset(self.failed), bool(self.running), self.finished, ranks=RANKS)
        contents = json.dumps(self.reset).encode() if isinstance(self.reset, dict) else self.reset
        files = PlatformFiles(contents, self.restart_type, self.version)
        actions = self.machine.look(Observation(files, None if self.malformed else workers, self.killed), self.now)
        self._carry_out(actions)
        return actions

    def until(self, seconds: float) -> None:
        """Look as often as the machine wants, for some seconds."""
        end = self.now + seconds
        while self.now + self.machine.pause <= end and self.over is None:
            self.now += self.machine.pause
            self.look()
        self.now = max(self.now, end) if self.over is None else self.now

    def transcript(self) -> str:
        """All of it."""
        return "\n".join(self._lines) + "\n"

    def _carry_out(self, actions: Collection[Action]) -> None:
        for action in actions:
            assert self.over is None, "an action after the last one"
            self._lines.append(f"  {self.now:g} → {shown(action)}")
            match action:
                case StartAll():
                    if self.start_fails:
                        self._carry_out(self.machine.start_failed())
                        return
                    assert not self.running, "a second process for a rank"
                    self.running, self.failed, self.finished = set(RANKS), set(), False
                case KillAll():
                    self.failed |= self.running
                    self.running = set()
                case KillRanks(ranks):
                    self.failed |= ranks
                    self.running -= ranks
                case StartRanks(ranks):
                    assert not ranks & self.running, "a second process for a rank"
                    self.running |= ranks
                    self.failed -= ranks
                case Leave():
                    self.over = action
                case AskToEnd() | Note() | StartController():
                    pass


def shown(action: Action) -> str:
    """An action as it is written in a transcript."""
    match action:
        case Note(event, reason, warns):
            return f"{event}: {reason}" + (" (warns)" if warns else "")
        case Leave(status, reason):
            return f"leave {status}: {reason}"
        case KillRanks(ranks) | StartRanks(ranks):
            return f"{type(action).__name__} {sorted(ranks)}"
        case _:
            return type(action).__name__
