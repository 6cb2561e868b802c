"""A Manager's decisions and the stand-in's machine in one memory, with one clock; either can be killed at any point.

Points are what both do one after another: an order arrives, the Manager decides, a command arrives, a report arrives.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from taskd_net.base.position import Position
from taskd_net.job.decide import events
from taskd_net.job.decide.events import Acknowledged, CallEnded, Continued, MachineReset, Reported, Resumed, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.orders import CONTINUE
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Call, Command, Outcome, Reply
from taskd_net_lab.clusterd.machine import Machine
from taskd_net_lab.clusterd.messages import (
    Ended,
    Order,
    Queue,
    Ready,
    Report,
    RestartAll,
    Sent,
    Signal,
    Stream,
    SwitchOrder,
)
from taskd_net_lab.clusterd.scenario import Orders, Scenario
from taskd_net_lab.clusterd.script import begin
from tests.lab.clusterd.client import OFFERED

CONFIG = JobConfig(nodes=2, processes_per_node=2, fault_recover="on", clusterd=True)
CLUSTERD, MANAGER = "ClusterD", "Manager"
POINTS = 500
END_S = 7200.0


@dataclass
class Seen:
    """Calls of the framework, commands of the nodes, and reports to ClusterD."""

    calls: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)


class Pair:
    """The Manager of a job with two nodes, and ClusterD.

    Args:
        given: a scenario of the package, of which the first step is played.

    Attributes:
        seen: since it was set.
        machine: ClusterD's.
        job: the Manager's.
    """

    def __init__(self, given: Scenario) -> None:
        self.seen = Seen()
        self.now = 1000.0
        self._given = given
        self._uuids = map(str, itertools.count())
        self._messages = itertools.count()
        self._processes = itertools.count()
        self._starts = itertools.count(1)
        self._parts: dict[str, str] = {}
        # Steps of the Manager and of the nodes; a killed Manager loses its own.
        self._manager: deque[Callable[[], None]] = deque()
        self._nodes: deque[Callable[[], None]] = deque()
        # The stream that stands, and that of the last signal.
        self._stream = self._signalled = 0
        self._ordered: dict[str, int] = {}
        self._obeyed: set[str] = set()
        # Reports that nodes send again to the next Manager: no Ack before they are stored.
        self._unsaved: list[Reported] = []
        self.job = Job(CONFIG, "u0")
        self._tick()
        for node in range(2):
            self._register(node)
        for rank in range(4):
            self._say(Position.worker(rank // 2, rank), "REGISTER", 101)
        self.machine = self._new_machine()
        self._subscribe()
        self.settle()
        self.seen = Seen()

    def fault(self) -> None:
        """The scenario's first step."""
        action = self._given.steps[0].action
        self.machine._outcomes = {state: deque(each) for state, each in self._given.outcomes.items()}
        if isinstance(action, Orders):
            self.machine.order(action.signal)
        else:
            for node in range(2):
                self.machine.devices(node, {}, self.now)  # ClusterD gives a fault once
            begin(self.machine, action, self.now)

    def points(self, most: int = POINTS) -> int:
        """Let both go on, by one point after another, until nothing is left to do, or for so many points."""
        for number in range(most):
            if not self._point():
                return number
        if most == POINTS:
            raise AssertionError(f"no rest: {self.machine.state}, {self.seen}")
        return most

    def settle(self) -> None:
        """Let both go on to their rest."""
        self.points()

    def kill(self, who: str) -> None:
        """Kill one of both, with all that it has only in memory; it comes back, and the Manager subscribes again."""
        self._stream += 1
        if who == CLUSTERD:
            self.machine = self._new_machine()
        else:
            for stream in Stream:
                self.machine.end(stream, self.now)
            self.machine.decisions.clear()  # orders that nobody reads any more
            self._manager.clear()
            self._ordered.clear()
            self.job = Job.from_parts(self._parts, CONFIG)
            self.job.step(self.now, Resumed(f"u{next(self._starts)}"))
            for call in list(self.job.state.calls.values()):
                self.job.step(self.now, CallEnded((call.name,)))
            for report in self._unsaved:
                self.job.step(self.now, report)
        self.job.step(self.now, MachineReset())
        self._subscribe()

    def _new_machine(self) -> Machine:
        return Machine(self._given.jobs[0], lambda: next(self._uuids), self._given.waits, self._given.outcomes)

    def _subscribe(self) -> None:
        for stream in Stream:
            self.machine.begin(stream, self.now)

    def _point(self) -> bool:
        machine = self.machine
        if machine.decisions:
            decision = machine.decisions.pop(0)
            if isinstance(decision, Sent):
                self._order(decision.order)
            elif isinstance(decision, RestartAll):
                self.job.step(self.now, events.RetryTime(1))
            elif decision == Ended(Stream.SIGNALS):
                self._stream += 1
                self.job.step(self.now, MachineReset())
                self._subscribe()
            elif isinstance(decision, Ready):
                self.job.step(self.now, events.Subscribed())
        elif self._manager:
            self._manager.popleft()()
        elif self._nodes:
            self._nodes.popleft()()
        elif self.job.wake <= self.now:
            self._tick()
        else:
            return self._pass()
        return True

    def _pass(self) -> bool:
        """Let time pass until the job or ClusterD has something to do; keep-alives are none."""
        due = machine_due(self.machine)
        at = min(self.job.wake, due)
        if at > self.now + 30.0 and self.machine.state == "init":
            return False
        if at == float("inf"):
            return False
        self.now = max(self.now, at)
        if due <= self.now:
            self.machine.tick(self.now)
        return True

    def _tick(self) -> None:
        outcome = self.job.step(self.now, Tick())
        for name, part in self.job.unsaved().items():
            if part is None:
                self._parts.pop(name, None)
            else:
                self._parts[name] = part
        self._unsaved.clear()
        self._manager.append(lambda: self._carry_out(outcome))

    def _carry_out(self, outcome: Outcome) -> None:
        for command in outcome.commands:
            self._nodes.append(lambda command=command: self._obey(command))  # type: ignore[misc]
        for call in outcome.calls:
            self._ordered[call.name] = self._ordered.get("stop_train", 0) if call.text == CONTINUE else self._signalled
            self._manager.append(lambda call=call: self._call(call))  # type: ignore[misc]
        for reply in outcome.replies:
            stream = self._ordered.get(reply.rpc)
            self._manager.append(lambda reply=reply, stream=stream: self._reply(reply, stream))  # type: ignore[misc]

    def _order(self, order: Order) -> None:
        if isinstance(order, Signal):
            self._signalled = self._stream
            self.job.step(self.now, events.Signal(**asdict(order)))
        elif isinstance(order, SwitchOrder):
            self._ordered[Queue.SWITCHED] = self._stream
            self.job.step(self.now, SwitchNic(order.ranks, order.ops))
        else:
            self._ordered[Queue.STRESSED] = self._stream
            self.job.step(self.now, StressTest(dict(order.ops)))

    def _call(self, call: Call) -> None:
        """The framework has a call, and its report is a point of its own."""
        self.seen.calls.append(" ".join(filter(None, (call.name, call.text))))
        found: list[Report] = []
        match call.name, call.text:
            case "stop_train", _:
                found = [Report(Queue.STOPPED)]
            case ("on_global_rank", _):
                found = [Report(Queue.STRATEGIES, strategies=OFFERED)]
            case "prepare_action", "hot switch":
                found = [Report(Queue.STRATEGIES, strategies=("migration",))]
            case "change_strategy", "downgrade":
                found = [Report(Queue.STATUS, 201, isolate=(2, 3)), Report(Queue.STATUS)]
            case (("change_strategy" | "dump"), text) if text != "exit":
                found = [Report(Queue.STATUS)]
        for report in found:
            self._manager.append(lambda report=report: self._report(report, call))  # type: ignore[misc]
        if not found:
            self.job.step(self.now, CallEnded((call.name,)))

    def _report(self, report: Report, call: Call) -> None:
        if call.text == CONTINUE:
            self.job.step(self.now, Continued(True))
        if self._ordered[call.name] == self._stream:
            self.seen.reports.append(f"{report.queue} {report.code}")
            self.machine.report(next(self._messages), report, self.now)
        self.job.step(self.now, CallEnded((call.name,)))

    def _reply(self, reply: Reply, stream: int | None) -> None:
        if stream == self._stream:
            self.seen.reports.append(reply.rpc)
            self.machine.report(next(self._messages), Report(Queue(reply.rpc)), self.now)
        self.job.step(self.now, Acknowledged(reply.uuid))

    def _obey(self, command: Command) -> None:
        if command.uuid in self._obeyed:
            self.job.step(self.now, Acknowledged(command.uuid))
            return  # a node takes each uuid once
        self._obeyed.add(command.uuid)
        position = command.destination.position
        self.seen.commands.append(f"{command.code} {command.to}")
        self.job.step(self.now, Acknowledged(command.uuid))
        match command.code:
            case 203:
                self._nodes.append(lambda: self._register(int(position.server_rank)))
            case 204:
                for rank in range(4):
                    extension = {"switchNicUUID": command.extension["switchNicUUID"]}
                    self._answer(rank, 204, "switchOK", **extension)
            case 205:
                result = json.dumps({"rankResult": {"0": {"code": "0", "result": "OK"}}})
                rank = int(position.process_rank)
                self._answer(rank, 205, result, stressTestUUID=command.extension["stressTestUUID"])
            case 213:
                self._nodes.append(lambda: self.machine.fault({3: 1}, self.now))

    def _answer(self, rank: int, code: int, message: str, **extension: str) -> None:
        worker = Position.worker(rank // 2, rank)
        self._nodes.append(lambda: self._say(worker, "ACTION", code, message, **extension))

    def _register(self, node: int) -> None:
        self._say(Position.agent(node), "REGISTER", 0, Incarnation=f"p{next(self._processes)}")
        self._say(Position.agent(node), "STATUS", 201, "50")

    def _say(self, src: Position, msg_type: str, code: int, message: str = "", **extension: str) -> None:
        report = Reported(src, msg_type, code, message, extension, f"m{next(self._messages)}")
        self._unsaved.append(report)
        self.job.step(self.now, report)


def machine_due(machine: Machine) -> float:
    """The time at which ClusterD's machine goes on by itself; infinity for never."""
    wake, beat = machine.wake, machine._keep_alive
    if beat is not None and wake == beat:
        machine._keep_alive = None
        wake, machine._keep_alive = machine.wake, beat
    return wake if wake is not None else float("inf")
