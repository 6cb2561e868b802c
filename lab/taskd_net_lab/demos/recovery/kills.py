"""Kills with -9 at each stage of a flow, of ClusterD or of the Manager.

A flow rests at a stage until the process is killed. A call of the client rests as ClusterD does not answer it, a wait
for a report as the framework's or the Workers' report is held back, and a wait for the platform as its time does not
pass. After the kill both sides go through the whole flow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import yaml

from taskd_net_lab.clusterd.reader import SCENARIOS
from taskd_net_lab.demos.job.evidence import Evidence, Summary
from taskd_net_lab.demos.job.scenarios import AGENTS, ALL, WORKERS
from taskd_net_lab.demos.job.stage import Missed, Stage
from taskd_net_lab.demos.job.terms import ASKS, BEGAN, COMMAND, REGISTERED, REPLY
from taskd_net_lab.demos.recovery.flows import KILLED, Course, Flow, Stop
from taskd_net_lab.demos.recovery.manager import AWAY, REPORTED
from taskd_net_lab.demos.recovery.stage import CLUSTERD, ENTERED, FRAMEWORK, HEALTH, INIT, RecoveryStage

MGR: Final = "Mgr"
OPEN: Final = (
    "wait report stop complete",
    "wait fault flush finished",
    "notify global fault",
    "wait report recover strategy",
    "wait report step retry status",
    "wait report process recover status",
)
"""States in which a fault has its round, and no end yet: a round that is broken off here begins again."""

RESTARTS: Final = 20
NEVER_S: Final = 3600
USUAL_S: Final = {"flush": 0.1, "release": 0.5, "in_place": 0.5, "poll": 0.2, "settle": 1, "restart": 2, "new_pod": 3}
"""Seconds that pass at a stage once the client has gone, where the scenario says nothing."""

GIVEN_UP: Final = {
    "stop": "StopComplete 499",
    "pause": "StopComplete 499",
    "ranks": "RecoverStrategy exit",
    "hot": "RecoverStrategy exit",
    **dict.fromkeys(("retry", "recover", "dump", "save", "downgrade", "upgrade", "continue"), "RecoverStatus 499"),
    "migration": "RecoverStatus 406",
}
"""The report with which the next Manager ends a call that was held, by its first word."""


def _whole(flow: Flow, stop: Stop) -> Flow:
    """The flow after a kill."""
    return flow.again if flow.again is not None and stop.at in OPEN else flow


def _then(stop: Stop, victim: str) -> tuple[str, ...]:
    """Calls of the framework after a kill, before the whole flow. Workers that are busy still let a next pause come."""
    return () if victim == MGR and stop.held_by_workers else stop.then


class _Sum:
    """The evidence of one part after the other."""

    def __init__(self) -> None:
        self.left = RESTARTS
        self.calls: list[str] = []
        self.reports: list[str] = []
        self.commands: dict[str, list[str]] = {who: [f"210 {RESTARTS}"] for who in AGENTS}
        self.starts: dict[str, list[str]] = {who: [str(RESTARTS)] for who in WORKERS}
        self.exits: dict[str, list[str]] = defaultdict(list)

    def add(self, flow: Flow, course: Course, calls: int, reports: int) -> None:
        """A part of a flow."""
        self.left -= course.restarts
        self.calls += (f"0 {call}" for call in flow.calls[:calls])
        self.reports += flow.reports[:reports]
        for who, commands in course.commands.items():
            self.commands[who] += (command.replace("{}", str(self.left)) for command in commands)
        for who in WORKERS if course.workers else ():
            self.commands.setdefault(who, []).append(course.workers)
        for who in course.starts:
            self.starts[who].append(str(self.left))
        if course.ends:
            self.exits[f"Agent/{course.node}"].append(course.ends)

    def summary(self) -> Summary:
        """The whole."""
        calls = {FRAMEWORK: self.calls} if self.calls else {}
        return Summary(
            commands={who: ", ".join(each) for who, each in {**self.commands, **calls}.items()},
            starts={who: " ".join(each) for who, each in self.starts.items()},
            exits={who: " ".join(each) for who, each in self.exits.items()},
            running=ALL,
            replies=", ".join(self.reports),
        )


def expected(flow: Flow, victim: str) -> Summary:
    """The expected course of a flow in which a process is killed at each stage.

    A report that is held back while ClusterD is killed is void. A Manager ends the call of the one before it.
    """
    total = _Sum()
    for group in flow.groups:
        for stop in group:
            total.add(flow, stop.course, stop.calls, stop.reports)
            total.calls += (f"0 {call}" for call in _then(stop, victim))
            given_up = GIVEN_UP.get(stop.held.partition(" ")[0])
            total.reports += [given_up] if given_up and victim == MGR else []
            total.exits[victim].append("-9")
            if stop.answer and "code" in stop.answer:
                total.commands.setdefault(CLUSTERD, []).append(f"{stop.answer['code']} {stop.at}")
        whole = _whole(flow, group[-1])
        total.add(whole, whole.course, len(whole.calls), len(whole.reports))
        total.exits[CLUSTERD].append("0")
    return total.summary()


class Since:
    """Evidence from now on."""

    def __init__(self, stage: RecoveryStage) -> None:
        self._from = len(stage.evidence.seen)

    def saw(self, who: str, what: str, text: str | None = None, times: int = 1) -> Callable[[Evidence], bool]:
        """Tell whether an event was seen so many times; with any text where that is None."""

        def holds(seen: Evidence) -> bool:
            new = seen.seen[self._from :]
            return sum((e.who, e.what) == (who, what) and text in (None, e.text) for e in new) >= times

        return holds

    def registered(self, who: str, times: int = 1) -> Callable[[Evidence], bool]:
        """Tell whether so many processes of a training rank have begun, and are registered."""

        def holds(seen: Evidence) -> bool:
            new = [each for each in seen.seen[self._from :] if each.who == who]
            began, known = ({each.pid for each in new if each.what == what} for what in (BEGAN, REGISTERED))
            return len(began & known) >= times

        return holds


def kill_at_each_stage(flow: Flow, victim: str) -> Callable[[Stage], Awaitable[None]]:
    """The steps of a scenario in which ClusterD or the Mgr is killed at each stage, and comes back."""

    async def play(stage: Stage) -> None:
        assert isinstance(stage, RecoveryStage)
        stage.kills = True
        await stage.start_job()
        for group in flow.groups:
            stage.hold(group[0].held)
            since = killed = Since(stage)
            if victim == MGR:
                await stage.start_clusterd(_clusterd_that_stays(flow, group))
            for stop in group:
                if victim == CLUSTERD:
                    await stage.start_clusterd(_clusterd_that_dies(flow, stop))
                await rest(stage, stop, since)
                killed = Since(stage)
                await stage.kill(victim)
                since = Since(stage)
                if victim == MGR:
                    if not stop.held_by_workers:
                        stage.release()
                    await stage.start_mgr()
                elif not stop.is_before:
                    # A result that comes before the Manager has seen the end of the stream is none of an ended stream.
                    await stage.until(
                        killed.saw(CLUSTERD, AWAY), f"the Manager sees the end of ClusterD at {stop.at!r}"
                    )
                    stage.release()
                    if stop.held and not stop.held_by_workers:
                        await stage.until(since.saw(FRAMEWORK, REPORTED), f"the report at {stop.at!r} comes to its end")
                for call in _then(stop, victim):
                    await stage.until(
                        since.saw(FRAMEWORK, COMMAND, call), f"the framework is to {call} after {stop.at!r}"
                    )
            whole = _whole(flow, group[-1])
            if group[-1].course == KILLED:
                await stage.until(killed.saw("Agent/1", COMMAND), "Agent 1 gets its 210")
            if victim == CLUSTERD:
                await stage.start_clusterd(_reported_again(_package(whole), group[-1].at))
            elif group[-1].held_by_workers:
                await stage.until(since.saw(FRAMEWORK, COMMAND, flow.calls[0]), "the next order comes to the framework")
                stage.release()
            await _carry_out(stage, whole.course, since)
            await stage.until_clusterd_ends()
            await stage.all_registered()

    return play


async def rest(stage: RecoveryStage, stop: Stop, since: Since) -> None:
    """Wait until the flow rests at a stage, and the Manager has stored all before it."""
    await stage.until(since.saw(CLUSTERD, ENTERED, stop.at), f"ClusterD is at {stop.at!r}")
    if stop.held:
        who = WORKERS if stop.held_by_workers else (FRAMEWORK,)
        for each in who:
            await stage.until(since.saw(each, ASKS, stop.held), f"{each} is to report at {stop.at!r}")
    if stop.answer and "code" in stop.answer:
        await stage.until(since.saw(CLUSTERD, COMMAND, stop.at), f"ClusterD has answered {stop.at}")
    calls = since.saw(FRAMEWORK, COMMAND, times=stop.calls)
    await stage.until(calls, f"the framework has its calls at {stop.at!r}")
    reports = since.saw(CLUSTERD, REPLY, times=stop.reports)
    await stage.until(reports, f"ClusterD has its reports at {stop.at!r}")
    if stop.course == KILLED:
        await _pause(stage)
    else:
        await _carry_out(stage, stop.course, since)
    if not stop.is_before:
        health = Since(stage).saw(CLUSTERD, HEALTH, times=2)
        await stage.until(health, f"the Manager asks for ClusterD's health at {stop.at!r}")


async def _pause(stage: RecoveryStage) -> None:
    """An Agent that comes while starts are held back gets no 210."""
    starts = stage.evidence.count("Agent/1", COMMAND, 210)
    registered = Since(stage)
    await stage.kill("Agent/1")
    await stage.launch(1)
    await stage.until(registered.saw("Agent/1", BEGAN), "Agent 1 comes")
    health = Since(stage).saw(CLUSTERD, HEALTH, times=4)
    await stage.until(health, "the Manager asks for ClusterD's health while starts are held back")
    if stage.evidence.count("Agent/1", COMMAND, 210) > starts:
        raise Missed("Agent 1 got its 210 while starts were held back")


async def _carry_out(stage: RecoveryStage, course: Course, since: Since) -> None:
    """Do the platform's part: a launcher ends, its node comes back. Then all training processes are registered.

    A Mgr that is killed before has the records of the processes before. The next one would order a stress test of
    those, and report their ranks as failed.
    """
    agent = f"Agent/{course.node}"
    if course.ends == "-9":
        ordered = course.commands[agent][:-1]
        await stage.until(since.saw(agent, COMMAND, times=len(ordered)), f"{agent} gets {', '.join(ordered)}")
        await stage.kill(agent)
    elif course.ends:
        await stage.until_left(course.node)
    if course.ends:
        starts = stage.evidence.count(agent, COMMAND, 210)
        since = Since(stage) if course.node == 1 and course.starts != WORKERS else since
        await stage.launch(course.node)
        await stage.until(lambda seen: seen.count(agent, COMMAND, 210) > starts, f"{agent} gets its 210")
    for who, times in Counter(course.starts).items():
        await stage.until(since.registered(who, times), f"{who} starts again, and is registered")


def _package(flow: Flow) -> dict[str, Any]:

    found = yaml.safe_load((SCENARIOS / f"{flow.file}.yaml").read_text())
    assert isinstance(found, dict)
    return found


def _reported_again(base: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    """A scenario after a kill: the fault of a round that was broken off is the Manager's to report, not ClusterD's."""
    first, *rest = base["steps"]
    if at not in OPEN or "fault" not in first or first["fault"].get("pre_exit"):
        return base
    return {**base, "steps": [{"when": "wait report stop complete", "change": {}}, *rest]}


def _clusterd_that_dies(flow: Flow, stop: Stop) -> Mapping[str, object]:
    """ClusterD rests at a stage for ever."""
    base = _package(flow)
    answers = [{"call": stop.at, **stop.answer}] if stop.answer else []
    outcomes = list(stop.outcomes) or base.get("outcomes", [])
    waits = {**base.get("waits", {}), **dict.fromkeys(stop.waits, NEVER_S)}
    steps = [] if stop.is_before else base["steps"][:1]
    return {**base, "answers": answers, "outcomes": outcomes, "waits": waits, "steps": steps}


def _clusterd_that_stays(flow: Flow, group: tuple[Stop, ...]) -> Mapping[str, object]:
    """ClusterD rests at each stage until the client has gone; then comes the whole flow."""
    base = _package(flow)
    waits = {**USUAL_S, **base.get("waits", {})}
    rests = {name for stop in group for name in stop.waits}
    outcomes = [each for stop in group for each in stop.outcomes] or base.get("outcomes", [])
    first = base["steps"][0]
    gone = {"when": "unsubscribed", "change": {"waits": {name: waits[name] for name in rests}}}
    last = group[-1]
    whole = _whole(flow, last)
    again = base["steps"] if whole is flow else _package(whole)["steps"]
    begin = [] if last.answer else [gone] if last.at == INIT else [first, gone]
    return {
        **base,
        "answers": [{"call": stop.at, "times": 1, **stop.answer} for stop in group if stop.answer],
        "outcomes": outcomes + base.get("outcomes", []),
        "waits": {**waits, **dict.fromkeys(rests, NEVER_S)},
        "steps": [
            *begin,
            *_reported_again({"steps": [{**again[0], "when": "subscribed"}, *again[1:]]}, last.at)["steps"],
        ],
    }
