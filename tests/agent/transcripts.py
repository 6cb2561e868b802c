"""Transcripts of an Agent's decisions: a line is a time, an event, and what follows from it."""

from __future__ import annotations

import json

from taskd_net.base.cause import CANNOT_REJOIN, Cause, Reason
from taskd_net.job.agent import messages
from taskd_net.job.agent.messages import Command
from taskd_net.job.agent.plans import Leave, Plans, Return
from taskd_net.job.agent.supervision import (
    Action,
    AgentJoined,
    AgentTimes,
    CallRaised,
    CallReturned,
    Commanded,
    CommandIgnored,
    Ends,
    Event,
    Offered,
    SendReport,
    Supervisor,
    Tick,
    Waits,
    WaitsForMgr,
    WaitsForRelease,
    Woken,
    WorkerEnded,
    WorkerStatus,
)
from taskd_net.job.frameworks.mindspore.plans import MindSporePlans

TIMES = AgentTimes(join=180.0, go=900.0, repeat=30.0, grace=600.0, fault=300.0)
MINDSPORE = MindSporePlans(restart_pause=60.0, restart_ranks_pause=15.0, finish_pause=10.0)
EPOCH = 1_000_000
"""The time 0 of a transcript, in seconds since the epoch."""

BEGIN = """
    0    joined         | REGISTER, 201 2
    0    210 2          | StartAll
    0    done           |
"""
"""An Agent starts its workers; as for MindSpore, whose StartAll gets no count."""


def played(transcript: str, plans: Plans = MINDSPORE, times: AgentTimes = TIMES, *, is_of_job: bool = False) -> None:
    """Check a transcript."""
    supervisor = Supervisor(plans, times, "incarnation", "2", 0.0, is_of_job=is_of_job)
    for line in filter(str.strip, transcript.splitlines()):
        said, _, expected = (part.strip() for part in line.partition("|"))
        at, _, event = said.partition(" ")
        now = float(at)
        actions = supervisor.handle(read_event(event.strip()), now, EPOCH + int(now))
        assert ", ".join(map(shown, actions)) == expected, line


def read_event(text: str) -> Event:
    """An event as it is written in a transcript."""
    name, *words = text.split()
    match name:
        case "joined":
            return AgentJoined()
        case "tick":
            return Tick("away" not in words, "nobody listens" if "refused" in words else "")
        case "woken":
            return Woken()
        case "SIGINT" | "SIGTERM":
            return Ends(name, name == "SIGINT")
        case "ended":
            return WorkerEnded()
        case "done":
            return CallReturned()
        case "offered":
            return Offered(words[0] if words else "", 2)
        case "failed":
            return CallRaised()
        case "seen":
            failed = [word for word in words if word.isdigit()]
            cause = Cause(reason=Reason(kind=CANNOT_REJOIN)) if "alone" in words else None
            return WorkerStatus(ranks(failed), "ended" not in words, "finished" in words, "result", cause=cause)
        case _:
            said = dict(word.split("=") for word in words if "=" in word)
            command = read_command(name, [word for word in words if "=" not in word])
            return Commanded(command, said.get("uuid", ""), said.get("for", ""))


def read_command(name: str, words: list[str]) -> Command:
    """A command as it is written in a transcript."""
    count = int(words[0]) if words and name in ("208", "210") else None
    match name:
        case "210":
            patience = 100.0 if number(words) else 0.0
            return messages.Go(count, "ours" in words, False, number(words), patience, "job" in words)
        case "203":
            return messages.Exit()
        case "208":
            return messages.RestartAll(count, number(words), 100.0 if number(words) else 0.0)
        case "305" if "waits" in words:
            return messages.Waiting(words[0], float(words[2]))
        case "305":
            store = [word for word in words if ":" in word] or ["10.0.0.7:7001"]
            return messages.Meeting(int(words[0]), store[0], (2, 2))
        case "307":
            return messages.Released(int(words[0]))
        case "209":
            return messages.RestartRanks(ranks(words))
        case "213":
            return messages.StopRanks(ranks(words))
        case _:
            assert name == "GRACE_EXIT"
            return messages.ExitGracefully()


def number(words: list[str]) -> int:
    """The round of `round 3`; 0 without one."""
    return int(words[words.index("round") + 1]) if "round" in words else 0


def ranks(words: list[str]) -> frozenset[int]:
    """Ranks as they are written in a transcript."""
    return frozenset(map(int, words))


def shown(action: Action) -> str:
    """An action as it is written in a transcript."""
    match action:
        case SendReport(body):
            if body.code in (304, 306, 309):
                return " ".join([str(body.code), body.message, *body.extension.values()])
            if body.msg_type != "STATUS":
                return " ".join([body.msg_type, *(f"round {each}" for each in [body.extension.get("Round")] if each)])
            said = json.loads(body.message)
            if isinstance(said, int):
                return f"201 {said}"
            seconds = int(body.extension["REPORT_FAULT_TIME"]) - EPOCH
            after = [f"after {uuid}"] if (uuid := body.extension.get("AfterRestart")) else []
            return " ".join(["202", *map(str, said["fault_ranks"]), f"at {seconds}", *after])
        case CommandIgnored(_, reason):
            return f"ignored: {reason}"
        case Leave(status, reason):
            return f"leave {status}: {reason}"
        case Waits(missing, left):
            return f"waits for {missing}, {left:g} s"
        case WaitsForMgr(left):
            return f"waits for the Mgr, {left:g} s"
        case WaitsForRelease():
            return "waits for release"
        case Return(result):
            return f"return {result}"
        case _:
            values = [getattr(action, name) for name in action.__match_args__]
            said = [sorted(value) if isinstance(value, frozenset) else value for value in values if value is not None]
            return " ".join([type(action).__name__, *map(str, said)])
