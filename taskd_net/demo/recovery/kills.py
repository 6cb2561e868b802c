"""Kills with -9 at each stage of a flow, of ClusterD or of the Manager.

A flow rests at a stage until the process is killed. A call of the client rests as ClusterD does not answer it, a wait
for a report as the framework's report is held back, and a wait for the platform as its time does not pass. After the
kill both sides go through the whole flow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from taskd_net.demo.job.evidence import Evidence, Summary
from taskd_net.demo.job.scenarios import ALL, WORKERS
from taskd_net.demo.job.stage import Stage
from taskd_net.demo.job.terms import COMMAND
from taskd_net.demo.recovery.manager import REPORTED
from taskd_net.demo.recovery.stage import CLUSTERD, ENTERED, FRAMEWORK, HEALTH, INIT, RecoveryStage

MGR: Final = "Mgr"
NODE: Final = 1
"""The faulty node."""

NEVER_S: Final = 3600
FLUSH_S: Final = 1
STRATEGIES: Final = "RecoverStrategy retry recover downgrade dump exit"


@dataclass(frozen=True, slots=True)
class Stop:
    """A stage at which a flow rests.

    Args:
        at: the state of ClusterD, or the client's call that it does not answer.
        held: the framework's call whose report is held back; empty for none.
        flushes: ClusterD waits for the flush of faults.
        given_up: the report with which the next Manager ends that call.
        leaves: the faulty node has its 203 by then.
    """

    at: str
    held: str = ""
    flushes: bool = False
    given_up: str = ""
    leaves: bool = False


CALLS: Final = ("Init", "Register", "SubscribeProcessManageSignal")
"""The client's calls before it reads signals."""

BEFORE: Final = tuple(map(Stop, (*CALLS, INIT)))
"""The stages before the fault."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow of recovery.

    Args:
        name: of the scenario of the package.
        strategies: of the job.
        fault: type of the fault.
        stops: its stages.
        reports: those of the flow, one for each held call.
    """

    name: str
    strategies: tuple[str, ...]
    fault: int
    stops: tuple[Stop, ...]
    reports: tuple[str, ...]

    @property
    def leaves(self) -> bool:
        """True where the faulty node gets 203."""
        return any(stop.leaves for stop in self.stops)

    @property
    def calls(self) -> list[str]:
        """The framework's calls of the whole flow."""
        return [stop.held for stop in self.stops if stop.held]

    @property
    def groups(self) -> tuple[tuple[Stop, ...], ...]:
        """Stages with one whole flow after them: those before the fault together, each of the others alone."""
        return (BEFORE, *((stop,) for stop in self.stops))


def _flow(name: str, strategies: tuple[str, ...], fault: int, lost: str, *, leaves: bool, last: str) -> Flow:
    """A flow with a stop, a choice and a strategy of its own name.

    Args:
        name, strategies, fault: as in `Flow`.
        lost: the ranks that the framework gets.
        leaves: the faulty node gets 203 with the choice.
        last: the state that waits for the result.
    """
    stops = (
        Stop("wait report stop complete", held="stop", given_up="StopComplete 499"),
        Stop("wait fault flush finished", flushes=True),
        Stop("wait report recover strategy", held=f"ranks {lost}", given_up="RecoverStrategy exit", leaves=leaves),
        Stop(last, held=name, given_up="RecoverStatus 499", leaves=leaves),
    )
    return Flow(name, strategies, fault, stops, ("StopComplete 0", STRATEGIES, "RecoverStatus 0"))


RETRY: Final = _flow(
    "retry", ("retry", "recover", "dump", "exit"), 0, "3", leaves=False, last="wait report step retry status"
)
RECOVER: Final = _flow(
    "recover", ("recover", "dump", "exit"), 1, "2 3", leaves=True, last="wait report process recover status"
)


# ---- the expected course


def expected(flow: Flow, victim: str) -> Summary:
    """The expected course of a flow in which a process is killed at each stage.

    A report that is held back while ClusterD is killed is void. A Manager ends the call of the one before it.
    """
    calls: list[str] = []
    reports: list[str] = []
    exits: dict[str, list[str]] = {CLUSTERD: [], MGR: []}
    replaced = reported = 0
    for group in flow.groups:
        for stop in group:
            calls += flow.calls[: reported + bool(stop.held)]
            reports += flow.reports[:reported]
            reports += [stop.given_up] if stop.held and victim == MGR else []
            exits[victim].append("-9")
            replaced += stop.leaves
            reported += bool(stop.held)
        calls += flow.calls
        reports += flow.reports
        exits[CLUSTERD].append("0")
        replaced += flow.leaves
    lives = {who: " ".join(codes) for who, codes in exits.items() if codes}
    return Summary(
        commands={
            "Agent/0": "210 3",
            f"Agent/{NODE}": "210 3" + ", 203, 210 3" * replaced,
            FRAMEWORK: ", ".join(f"0 {call}" for call in calls),
        },
        starts={who: "3" if who in WORKERS[:2] else " ".join("3" * (replaced + 1)) for who in WORKERS},
        exits={**lives, f"Agent/{NODE}": " ".join("1" * replaced)} if replaced else lives,
        running=ALL,
        replies=", ".join(reports),
    )


# ---- the steps


class Since:
    """Evidence from now on."""

    def __init__(self, stage: RecoveryStage) -> None:
        self._from = len(stage.evidence.seen)

    def saw(self, who: str, what: str, text: str = "", times: int = 1) -> Callable[[Evidence], bool]:
        """Tell whether an event was seen so many times."""
        wanted = (who, what, text)
        return lambda seen: [(e.who, e.what, e.text) for e in seen.seen[self._from :]].count(wanted) >= times


def kill_at_each_stage(flow: Flow, victim: str) -> Callable[[Stage], Awaitable[None]]:
    """The steps of a scenario in which ClusterD or the Mgr is killed at each stage, and comes back."""

    async def play(stage: Stage) -> None:
        assert isinstance(stage, RecoveryStage)
        await stage.start_job()
        for group in flow.groups:
            stage.hold(group[0].held)
            since = Since(stage)
            if victim == MGR:
                await stage.start_clusterd(_clusterd_that_stays(flow, group))
            for stop in group:
                if victim == CLUSTERD:
                    await stage.start_clusterd(_clusterd_that_dies(flow, stop))
                await _rest(stage, stop, since)
                await stage.kill(victim)
                since = Since(stage)
                if victim == MGR:
                    stage.hold("")
                    await stage.start_mgr()
                elif stop.held:
                    stage.release()
                    await stage.until(since.saw(FRAMEWORK, REPORTED), f"the report at {stop.at!r} comes to its end")
            if victim == CLUSTERD:
                await stage.start_clusterd(flow.name)
            if flow.leaves:
                await _replace(stage)
            await stage.until_clusterd_ends()
            await stage.all_registered()

    return play


async def _rest(stage: RecoveryStage, stop: Stop, since: Since) -> None:
    """Wait until the flow rests at a stage, and the Manager has stored all before it."""
    await stage.until(since.saw(CLUSTERD, ENTERED, stop.at), f"ClusterD is at {stop.at!r}")
    if stop.held:
        await stage.until(since.saw(FRAMEWORK, COMMAND, stop.held), f"the framework has its call at {stop.at!r}")
    if stop.leaves:
        await _replace(stage)
    if stop not in BEFORE:
        health = Since(stage).saw(CLUSTERD, HEALTH, times=2)
        await stage.until(health, f"the Manager asks for ClusterD's health at {stop.at!r}")


async def _replace(stage: RecoveryStage) -> None:
    """The launcher of the faulty node leaves, and the platform starts it again."""
    agent = f"Agent/{NODE}"
    await stage.until_left(NODE)
    starts = stage.evidence.count(agent, COMMAND, 210)
    await stage.launch(NODE)
    await stage.until(lambda seen: seen.count(agent, COMMAND, 210) > starts, f"Agent {NODE} gets its 210")


# ---- ClusterD's scenarios


def _clusterd_that_dies(flow: Flow, stop: Stop) -> Mapping[str, object]:
    """ClusterD rests at a stage for ever."""
    if stop.at in CALLS:
        return _scenario(flow, answers=[{"call": stop.at, "silent": True}])
    if stop.at == INIT:
        return _scenario(flow)
    return _scenario(flow, steps=[_fault(flow)], waits={"flush": NEVER_S} if stop.flushes else {})


def _clusterd_that_stays(flow: Flow, group: tuple[Stop, ...]) -> Mapping[str, object]:
    """ClusterD rests at each stage until the client has gone; then comes the whole flow."""
    answers = [{"call": stop.at, "silent": True, "times": 1} for stop in group if stop.at in CALLS]
    first = [] if group is BEFORE else [_fault(flow)]
    gone = {"when": "unsubscribed", "change": {"waits": {"flush": FLUSH_S}}}
    end = {"when": INIT, "wait": 0.2, "end": True}
    waits = {"flush": NEVER_S} if any(stop.flushes for stop in group) else {}
    return _scenario(flow, answers=answers, steps=[*first, gone, _fault(flow), end], waits=waits)


def _scenario(flow: Flow, **more: object) -> Mapping[str, object]:
    job = {"id": "demo", "nodes": 2, "processes": 2, "strategies": list(flow.strategies)}
    return {"jobs": [job], **more}


def _fault(flow: Flow) -> Mapping[str, object]:
    return {"when": "subscribed", "fault": {"ranks": [3], "type": flow.fault}}
