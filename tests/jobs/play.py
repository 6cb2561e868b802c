"""A random play of a job: its nodes, ClusterD, and the rules that hold whatever happens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from taskd_net.base import vocabulary
from taskd_net.base.limits import SWITCH_NIC_S
from taskd_net.base.position import Position
from taskd_net.base.progress import NodeProgress, Spent, write_progress
from taskd_net.job.decide import epochs
from taskd_net.job.decide.events import Acknowledged, Event, MachineReset, Reported, RetryTime, Signal, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Command, Outcome, Restarts
from tests.jobs.test_records import check

AGENTS = 3
RESTARTS = 3

SIGNALS = st.tuples(
    st.sampled_from(
        [
            *("stopTrain", "preExitProcess", "globalFault", "changeStrategy", "saveAndExit", "killMaster"),
            *("faultNodesExit", "hot-switch", "pauseStartAgent", "continueStartAgent", "keep-alive"),
        ]
    ),
    st.sampled_from(["retry", "recover", "dump", "continue", "exit", "downgrade", "upgrade", "migration", "other"]),
    st.lists(
        st.sampled_from(["stop_train", "fault_nodes_exit", "fault_nodes_restart", "pre exit process"]), max_size=2
    ),
    st.lists(st.integers(0, AGENTS - 1), max_size=2, unique=True),
    st.integers(0, 5),
)
ORDER = st.builds(
    lambda order, actions, nodes, number: ("signal", (*order, actions, nodes, number), None),
    st.sampled_from(
        [
            *((kind, "") for kind in ("stopTrain", "preExitProcess", "globalFault", "faultNodesExit", "killMaster")),
            *(
                ("changeStrategy", strategy)
                for strategy in ("retry", "recover", "dump", "exit", "downgrade", "upgrade")
            ),
        ]
    ),
    st.lists(st.sampled_from(["fault_nodes_exit", "fault_nodes_restart"]), max_size=1),
    st.lists(st.integers(0, AGENTS - 1), max_size=1),
    st.integers(0, 5),
)
"""An order of ClusterD in a round."""
PHASES = (epochs.NEW, epochs.LEFT, epochs.RUNNING)
STEP = st.one_of(
    st.tuples(st.just("fault"), st.integers(0, AGENTS - 1), st.booleans()),
    st.tuples(st.just("register"), st.integers(0, AGENTS - 1), st.booleans()),
    st.tuples(st.just("work"), st.integers(0, 1), st.sampled_from(("register", "beat", "nic", "stress"))),
    st.tuples(st.just("part"), st.integers(0, AGENTS - 1), st.sampled_from((*PHASES, epochs.FINISHED))),
    st.tuples(st.just("together"), st.sampled_from(PHASES), st.none()),
    st.tuples(st.just("signal"), SIGNALS, st.none()),
    st.tuples(st.just("retry"), st.integers(0, 3), st.none()),
    st.tuples(st.just("ask"), st.booleans(), st.none()),
    st.tuples(st.just("cut"), st.integers(0, AGENTS - 1), st.booleans()),
    st.tuples(st.just("mute"), st.integers(0, AGENTS - 1), st.booleans()),
    st.tuples(st.just("crossing"), st.integers(1, AGENTS - 1), st.sampled_from((0.01, 1.0, 3.5))),
    st.tuples(st.just("wait"), st.sampled_from((0.01, 1.0, 3.0, 20.0, 2000.0)), st.none()),
    st.tuples(st.just("kill"), st.none(), st.none()),
    st.tuples(st.just("reset"), st.none(), st.none()),
)

TELL = st.tuples(st.just("tell"), st.integers(0, AGENTS - 1), st.integers(0, 5))
"""An Agent tells how far its ranks are."""


class Play:
    """A job, its nodes, and what they have got.

    Args:
        config: of the job.
        ours: the Agents are of this package; else the original's, which tell a fault once, and nothing of themselves.
    """

    def __init__(self, config: JobConfig, *, ours: bool = True) -> None:
        self.config = config
        self.ours = ours
        self.job = Job(config, "u")
        self.now = 1000.0
        self.away: set[str] = set()
        self.mute: set[str] = set()
        """Acknowledgements of these are lost."""
        self.unclear: set[str] = set()
        """Uuids of commands whose acknowledgement was lost."""
        self.restarted: dict[int, tuple[str, float]] = {}
        self.processes = dict.fromkeys(range(AGENTS), 0)
        self.sent: dict[str, tuple[Command, int]] = {}
        self.taken: Counter[str] = Counter()
        self.asked: set[int] = set()
        self.failed: set[int] = set()
        self.ended: set[int] = set()
        self.rounds = 0
        self.epoch = 0
        self.numbered = 0
        self.told = [0] * AGENTS
        self.processes_of_a_node = 1 if config.in_place else config.processes_per_node or 8
        for rank in range(AGENTS):
            self.register(rank)
        self.take(RetryTime(0))
        self.tick()

    def take(self, event: Event) -> None:
        self.job.step(self.now, event)

    def say(self, src: Position, msg_type: str, code: int, message: str = "", **extension: str) -> None:
        self.numbered += 1
        self.take(Reported(src, msg_type, code, message, extension, f"m{self.numbered}"))

    def register(self, rank: int) -> None:
        """Another process of an Agent begins."""
        self.processes[rank] += 1
        self.ended.discard(rank)
        self.failed.discard(rank)
        self.asked.add(rank)
        self.restarted.pop(rank, None)
        extension = {"Incarnation": f"{rank}.{self.processes[rank]}"} if self.ours else {}
        self.say(Position.agent(rank), "REGISTER", 0, **extension)
        self.say(Position.agent(rank), "STATUS", 201, str(RESTARTS))

    def has_just_restarted(self, rank: int) -> bool:
        """True in the second of a restart: workers that have just begun fail in another one."""
        return int(self.restarted.get(rank, ("", 0.0))[1]) == int(self.now)

    def report(self, rank: int, failed: list[int]) -> None:
        """202 of an Agent; one of this package names the restart that it has carried out."""
        restart = self.restarted.get(rank, ("", 0.0))[0]
        after = {"AfterRestart": restart} if self.ours and restart else {}
        message = json.dumps({"fault_ranks": failed, "restart_times": -1})
        self.say(Position.agent(rank), "STATUS", 202, message, REPORT_FAULT_TIME=str(int(self.now)), **after)

    def tick(self) -> None:
        stored = self.job.to_json()
        outcome = self.decide()
        again = Job.from_json(stored, self.config)
        # Lines for the log are not stored.
        told = replace(outcome, faults=[], fault_counts=Counter())
        decided = replace(again.step(self.now, Tick()), faults=[], fault_counts=Counter())
        assert decided == told, "a Manager that was killed decides as this one"
        assert again.to_json() == self.job.to_json()
        self.look(outcome)
        check(self.job.state.records)
        if self.job.wake > self.now + self.config.interval + 1e-6:  # nothing is due at once
            self.assert_held_for_a_reason()

    def check_books(self) -> None:
        """Assert that the books add up."""
        books = self.job.state.books
        seconds = books.seconds(self.now)
        assert abs(sum(seconds.values()) - books.wall / 1e6) < 1e-6 and min(seconds.values(), default=0.0) >= 0.0
        assert books.redone <= books.done

    def assert_held_for_a_reason(self) -> None:
        """Assert that each owner of a stream waits for something that ends its hold, and not for its patience alone."""
        job, state = self.job, self.job.state
        plugins = {plugin.name: plugin for plugin in job.plugins}
        signal, snapshot, known = state.signal, job._snapshot(), state.records.epochs
        reasons = {
            "StopTrainPlugin": signal.signal_type in ("stopTrain", "preExitProcess", "globalFault"),
            "recoverPlugin": any(map(snapshot.exiting, plugins["recoverPlugin"].state.signal.node_rank_ids)),
            "ElasticTrainingPlugin": signal.strategy in ("downgrade", "upgrade")
            or signal.signal_type == "faultNodesExit",
            "PodReschedulingPlugin": snapshot.any_faulty,
            # Workers that run have been told to leave, or not all of them have begun.
            "InPlacePlugin": not plugins["InPlacePlugin"].state.joining or not known.all_in(epochs.RUNNING),
            "FaultLevelPlugin": bool(state.devices.tasks),
            "OMStressTestPlugin": bool(plugins["OMStressTestPlugin"].state.waiting),
            "OMSwitchNicPlugin": bool(plugins["OMSwitchNicPlugin"].state.waiting),
        }
        held = {stream.owner for stream in state.streams.values() if stream.owner}
        assert all(reasons[owner] for owner in held), f"{held} without anything that ends it"

    def decide(self) -> Outcome:
        """Tick."""
        outcome = self.job.step(self.now, Tick())
        self.rounds += sum(isinstance(item, Restarts) for _, item in outcome.decided)
        return outcome

    def look(self, outcome: Outcome) -> None:
        """Assert the rules for what leaves, and deliver it."""
        now = Counter(command.uuid for command in outcome.commands)
        assert all(count == 1 for count in now.values())
        for command in outcome.commands:
            command.require()
            position = command.destination.position
            process = self.processes[int(position.server_rank)] if position.role == "Agent" else 0
            known, first = self.sent.setdefault(command.uuid, (command, process))
            assert known == command, "one uuid, one command"
            # A REGISTER of an original's Agent may be the repeated one of a process that has asked already.
            owed = command.code == vocabulary.START and not self.ours
            assert process == first or owed, "one uuid, one process"
            if command.code == vocabulary.RESTART_RANKS:
                ranks = json.loads(command.extension["FaultRanks"])
                assert json.loads(command.message) == sorted(ranks), "both forms"
            if command.code == vocabulary.EPOCH_BEGIN:
                assert int(command.message) >= self.epoch, "an epoch's number comes once"
                self.epoch = int(command.message)
            if command.code in (vocabulary.RESTART_ALL, vocabulary.START) and command.message != str(RESTARTS):
                assert int(command.message) >= RESTARTS - self.rounds
            # A later decision of this tick may have withdrawn it: the shell does not send it then.
            if command.to not in self.away and command.uuid in self.job.state.outbox.sending:
                self.deliver(command)
        for reply in outcome.replies:
            self.take(Acknowledged(reply.uuid))

    def deliver(self, command: Command) -> None:
        """A command arrives, and is acknowledged."""
        uuid = command.uuid
        self.taken[uuid] += 1
        assert self.taken[uuid] == 1 or self.may_come_again(uuid), "no command after its acknowledgement"
        if self.taken[uuid] == 1:
            self.obey(command)
        if command.to in self.mute:
            self.unclear.add(uuid)
            return
        # An earlier Manager may have had the acknowledgement, so the fault of an original's Agent counts as newer.
        surely = self.ours or not self.job.state.outbox.sending[uuid].resumed
        self.take(Acknowledged(uuid, late=uuid in self.unclear))
        if command.code == vocabulary.RESTART_ALL and self.taken[uuid] == 1 and surely:
            settled = int(command.destination.position.server_rank)
            assert settled not in self.job.state.records.faulty, "its report is older than the restart"

    def may_come_again(self, uuid: str) -> bool:
        """True for a command whose acknowledgement was lost."""
        return uuid in self.unclear

    def obey(self, command: Command) -> None:
        """A process carries out a command that it has got for the first time."""
        position = command.destination.position
        if position.role != "Agent":
            return
        rank = int(position.server_rank)
        if command.code == vocabulary.START:
            self.asked.discard(rank)
        elif command.code == vocabulary.EXIT:
            self.ended.add(rank)
        elif command.code in (vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS):
            self.failed.discard(rank)
            self.restarted[rank] = command.uuid, self.now

    def settle(self, seconds: float = 60.0) -> None:
        """Let the job do all that is due within some time."""
        end = self.now + seconds
        for _ in range(500):
            if self.job.wake > end:
                break
            self.now = max(self.now, self.job.wake)
            self.tick()
        else:
            raise AssertionError("the job does not come to rest")
        self.now = end

    def step(self, kind: str, first: object, second: object) -> None:
        """Something happens."""
        if kind == "kill":
            self.job = Job.from_json(self.job.to_json(), self.config)
        elif kind == "reset":
            self.take(MachineReset())
        elif kind == "wait":
            assert isinstance(first, float)
            self.now += first
        elif kind == "crossing":
            assert isinstance(first, int)
            assert isinstance(second, float)
            self.cross(first, second)
        elif kind == "retry":
            assert isinstance(first, int)
            self.take(RetryTime(first))
        elif kind == "ask":
            self.take(SwitchNic((0,), (True,)) if first else StressTest({0: (0,), 1: (0, 1)}))
        elif kind == "together":
            for rank in range(AGENTS):
                self.node_step("part", rank, first)
        elif kind == "signal":
            assert isinstance(first, tuple)
            signal_type, strategy, actions, nodes, number = first
            uuid = f"{number}{signal_type}{strategy}"
            self.take(Signal(uuid, signal_type, tuple(actions), {3: 1}, strategy, 0, tuple(nodes)))
        else:
            assert isinstance(first, int)
            self.node_step(kind, first, second)

    def cross(self, rank: int, seconds: float) -> None:
        """An Agent takes its 208 in a round for another one, the acknowledgement is lost, and it fails again."""
        self.mute.add(str(Position.agent(rank)))
        self.node_step("fault", AGENTS - rank, True)
        self.settle(0.05)
        self.now += seconds
        self.node_step("fault", rank, True)

    def node_step(self, kind: str, rank: int, how: object) -> None:
        """A node does something."""
        agent, worker = Position.agent(rank), Position.worker(rank, rank)
        if kind == "fault":
            if rank in self.asked:
                return  # no process runs before the go
            if self.has_just_restarted(rank):
                return
            (self.failed.add if how else self.failed.discard)(rank)
            self.report(rank, [self.processes_of_a_node * rank] if how else [])
        elif kind == "register":
            self.register(rank)
        elif kind == "tell":
            assert isinstance(how, int)
            self.tell(rank, how)
        elif kind == "part":
            assert isinstance(how, str)
            if how == epochs.NEW:
                self.say(worker, "REGISTER", 101)
            body = epochs.Part(how, self.epoch, AGENTS, 1).report()
            self.say(worker, body.msg_type, body.code, body.message, **body.extension)
        elif kind == "cut":
            (self.away.add if how else self.away.discard)(str(agent))
        elif kind == "mute":
            (self.mute.add if how else self.mute.discard)(str(agent))
        elif how == "register":
            self.say(worker, "REGISTER", 101)
        elif how == "beat":
            self.say(worker, "KEEP_ALIVE", 0)
        elif how == "nic":
            self.say(worker, "ACTION", 204, "switchOK", switchNicUUID=self.job.requests["SwitchNic"].uuid)
        else:
            self.say(worker, "ACTION", 205, '{"rankResult": {}}', stressTestUUID=self.job.requests["StressTest"].uuid)

    def tell(self, rank: int, step: int) -> None:
        """An Agent tells of its ranks: with an odd step they have just begun."""
        self.told[rank] += 1
        spent = {Spent.START if step % 2 else Spent.AGAIN: float(self.told[rank]), Spent.DATA: self.told[rank] / 4}
        done = self.told[rank]
        progress = NodeProgress(
            ranks=1, watched=1, marking=1, lowest=step, highest=step, steps=done, again=done // 2, spent=spent
        )
        self.say(Position.agent(rank), "KEEP_ALIVE", 0, WorkerState="HEALTHY", Progress=write_progress(progress))

    def run(self, steps: Sequence[tuple[str, object, object]]) -> None:
        """Take steps. Then the faults end: everybody is reachable, and an Agent that was ended comes back."""
        for kind, first, second in steps:
            self.step(kind, first, second)
            if self.job.wake <= self.now:
                self.tick()
        self.end_faults()
        self.take(Signal("last", "changeStrategy", (), {}, "continue"))
        self.take(Signal("go", "continueStartAgent"))
        for _ in range(3):
            self.settle()
            self.assert_answered()
            records = self.job.state.records
            for rank in sorted(records.exited | records.faulty):
                self.register(rank)
        self.settle(2 * SWITCH_NIC_S + 1000.0)  # of a second request behind the first

    def end_faults(self) -> None:
        """Everybody is reachable from now on."""
        self.away.clear()
        self.mute.clear()

    @property
    def held(self) -> set[int]:
        """Ranks of Agents whose go waits for a node that is out."""
        return set()

    def assert_answered(self) -> None:
        """Assert that every process of an Agent has its go, and every fault its command.

        Without ClusterD the others wait while Agent 0 is out, which ends the job.
        """
        assert self.asked <= self.ended | self.held, "each 201 has its 210"
        if not self.config.recovers and 0 not in self.ended:
            assert self.failed <= self.ended, "each fault has its 203, 208 or 209"

    def assert_rest(self) -> None:
        """Assert that nothing is held, on its way, or owed."""
        state = self.job.state
        assert {name: stream.owner for name, stream in state.streams.items() if stream.owner} == {}
        assert not state.outbox.sending
        assert not state.records.asking


class BooksPlay(Play):
    """A play whose Agents tell of their ranks. The books add up after each tick."""

    def tick(self) -> None:
        """Decide, deliver, and check the books."""
        self.look(self.decide())
        self.check_books()
