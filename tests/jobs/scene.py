"""A Job on a stage: events go in, every decision is written down, and the state goes through JSON at each tick."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from taskd_net.base import vocabulary
from taskd_net.base.position import Position
from taskd_net.job.decide import epochs
from taskd_net.job.decide.events import Acknowledged, DeviceEvent, Event, FaultFiles, Reported, Signal, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins import AnyPlugin, built_in
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Command, Outcome
from taskd_net.job.faults.decisions import Decision

LOCAL = JobConfig()
CLUSTERD = JobConfig(fault_recover="on", clusterd=True)
IN_PLACE = JobConfig(in_place=True)


class Scene:
    """One job. Nodes acknowledge what they get, unless they are `away`.

    Args:
        config: of the job.
        plugins: makes the plugins.
    """

    def __init__(self, config: JobConfig = LOCAL, plugins: Callable[[], Sequence[AnyPlugin]] = built_in) -> None:
        self.config = config
        self.plugins = plugins
        self.job = Job(config, "u", plugins())
        self.now = 1000.0
        self.away: set[str] = set()
        self.lines: list[str] = []
        self.parts: dict[str, str] = {}
        self.restarts: dict[str, str] = {}
        self._messages = 0

    def say(self, text: str) -> None:
        """A heading for what follows."""
        self.lines += ["", f"# {text}"] if self.lines else [f"# {text}"]

    def take(self, event: Event) -> bool:
        """An event happens."""
        self.lines.append(f"{self.now:g}: {words(event)}")
        return self.job.step(self.now, event).taken

    def report(self, src: str, msg_type: str, code: int, message: str = "", **extension: str) -> bool:
        """An Agent or a Worker sends a report."""
        self._messages += 1
        position = Position.parse(src)
        return self.take(Reported(position, msg_type, code, message, extension, f"m{self._messages}"))

    def register(self, *ranks: int, process: str = "", restarts: str = "3") -> None:
        """Agents register and ask for the go; with `process` they are of this package."""
        for rank in ranks:
            extension = {vocabulary.INCARNATION: f"{process}{rank}"} if process else {}
            self.report(f"Agent/{rank}", vocabulary.REGISTER, 0, **extension)
            self.report(f"Agent/{rank}", vocabulary.STATUS, vocabulary.MAY_I_START, restarts)

    def workers(self, *ranks: int) -> None:
        """Workers register, two on a node."""
        for rank in ranks:
            self.report(f"Worker/{rank // 2}/{rank}", vocabulary.REGISTER, 101)

    def part(self, phase: str, *ranks: int, epoch: int = 0, world: int = 4) -> None:
        """Workers report their part in the training, two on a node; new ones have registered."""
        for rank in ranks:
            if phase == epochs.NEW:
                self.workers(rank)
            body = epochs.Part(phase, epoch, world, 2).report()
            self.report(f"Worker/{rank // 2}/{rank}", body.msg_type, body.code, body.message, **body.extension)

    def fault(self, rank: int, *ranks: int, at: str = "", after: str | None = None) -> None:
        """An Agent reports failed ranks; none with `ranks` empty.

        Args:
            rank: of the node.
            ranks: those that have failed.
            at: the Agent's time.
            after: the restart that it names; None for the last one that it has taken, where it is of this package.
        """
        extension = {vocabulary.FAULT_TIME: at} if at else {}
        agent = self.job.state.records.agents.get(rank)
        if after is None and agent is not None:
            after = self.restarts.get(agent.incarnation)
        extension |= {vocabulary.AFTER: after} if after else {}
        message = json.dumps({"fault_ranks": list(ranks), "restart_times": -1})
        self.report(f"Agent/{rank}", vocabulary.STATUS, vocabulary.FAULT, message, **extension)

    def signal(
        self,
        signal_type: str,
        *actions: str,
        uuid: str = "",
        strategy: str = "",
        nodes: tuple[int, ...] = (),
        params: str = "",
        timeout: int = 0,
    ) -> None:
        """ClusterD sends a signal about a fault of rank 3."""
        self._messages += 1
        ranks = {3: 1} if nodes or actions else {}
        uuid = uuid or f"s{self._messages}"
        self.take(Signal(uuid, signal_type, actions, ranks, strategy, timeout, nodes, params))

    def tick(self, seconds: float = 0.0) -> Outcome:
        """Time passes, and the job decides. What arrives is acknowledged, with a second tick if one is due then."""
        self.now += seconds
        self._resume()
        outcome = self.job.step(self.now, Tick())
        self.lines += [f"  {line}" for line in describe(outcome)]
        self._resume()
        for command in outcome.commands:
            if command.to not in self.away:
                self.job.step(self.now, Acknowledged(command.uuid))
                if command.code in (vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS):
                    for rank, agent in self.job.state.records.agents.items():
                        if agent.incarnation and command.destination.matches(Position.agent(rank)):
                            self.restarts[agent.incarnation] = command.uuid
        for reply in outcome.replies:
            self.job.step(self.now, Acknowledged(reply.uuid))
        return outcome

    def settle(self) -> list[Outcome]:
        """Tick until nothing is due at once."""
        outcomes = [self.tick()]
        while self.job.wake <= self.now + 1.0:
            self.now = max(self.now, self.job.wake)
            outcomes.append(self.tick())
        return outcomes

    def transcript(self) -> str:
        """Everything so far, as text."""
        return "\n".join(self.lines) + "\n"

    def _resume(self) -> None:
        """The Manager is killed, and another one goes on from the stored state."""
        stored = self.job.to_json()
        for name, part in self.job.unsaved().items():
            if part is None:
                self.parts.pop(name, None)
            else:
                self.parts[name] = part
        self.job = Job.from_parts(self.parts, self.config, self.plugins())
        assert _lasting(self.job.to_json()) == _lasting(stored)
        self.job = Job.from_json(stored, self.config, self.plugins())
        assert self.job.to_json() == stored


def started(*ranks: int, config: JobConfig = LOCAL, process: str = "") -> Scene:
    """A scene whose Agents run, without what led to it."""
    scene = Scene(config)
    scene.register(*ranks, process=process)
    scene.settle()
    scene.lines.clear()
    return scene


def training(restarts: str = "3") -> Scene:
    """A scene of two nodes whose four Workers train in epoch 1, without what led to it."""
    scene = Scene(IN_PLACE)
    scene.register(0, 1, process="p", restarts=restarts)
    scene.settle()
    scene.part(epochs.NEW, 0, 1, 2, 3)
    scene.settle()
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=1)
    scene.settle()
    scene.lines.clear()
    return scene


def commands(outcome: Outcome) -> list[tuple[str, int]]:
    """Destination and code of each command."""
    return [(command.to, command.code) for command in outcome.commands]


def owner(scene: Scene) -> str:
    """The owner of the recovery stream."""
    return scene.job.state.streams["ResumeTrainingAfterFaultStream"].owner


def describe(outcome: Outcome) -> list[str]:
    """The decisions of a tick, a line each."""
    notices = [f"{notice.event} {' '.join(map(str, notice.fields.values()))}" for notice in outcome.notices]
    calls = [
        _joined(f"controller {call.name}", call.text, json.dumps(call.ranks) if call.ranks else "", call.params)
        for call in outcome.calls
    ]
    replies = [f"clusterd {reply.rpc} {reply.result}" for reply in outcome.replies]
    resets = [
        f"reset {each.device} ranks {list(each.ranks)}, {each.limit:g} s ({each.uuid})" for each in outcome.resets
    ]
    faults = map(_fault, outcome.faults)
    return [*faults, *notices, *map(_command, outcome.commands), *calls, *replies, *resets]


def _fault(decision: Decision) -> str:
    steps = "over" if decision.cleared else "; ".join(map(str, decision.steps))
    return f"device {decision.device} {decision.code} {decision.fault_type.word}: {steps}, as {decision.reason}"


def _lasting(stored: str) -> Any:
    """A stored state without what is not stored at each tick: heartbeats, books, the last sight of a stopped rank."""
    value = json.loads(stored)
    del value["state"]["books"]
    value["state"]["hangs"].pop("held", None)
    for record in (*value["state"]["records"]["agents"].values(), *value["state"]["records"]["workers"].values()):
        del record["heartbeat"]
    return value


def _command(command: Command) -> str:
    hidden = (vocabulary.INCARNATION, vocabulary.MEANT_FOR)
    extension = {key: value for key, value in command.extension.items() if key not in hidden}
    details = json.dumps(extension) if extension else ""
    return _joined(f"→ {command.to} {command.code}", command.message, details, f"({command.uuid})")


def _joined(*words: str) -> str:
    return " ".join(filter(None, words))


def words(event: Event) -> str:
    """An event in a line of a transcript."""
    match event:
        case Reported():
            extension = json.dumps(event.extension) if event.extension else ""
            return _joined(f"{event.src} {event.msg_type} {event.code}", event.message, extension)
        case Signal():
            nodes = f"nodes {list(event.node_rank_ids)}" if event.node_rank_ids else ""
            parts = (event.change_strategy, ", ".join(event.actions), nodes, event.extra_params)
            return _joined(f"clusterd {event.uuid} {event.signal_type}", *parts)
        case DeviceEvent():
            return f"watcher: {event.event.device} {event.event.code} {event.event.kind.value}"
        case FaultFiles():
            return f"files: {', '.join(event.files)}"
        case _:
            return repr(event)
