"""Rounds and epochs of a job whose nodes stay: the Manager's decisions, the Agents' own, faults in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.cause import NEVER_AGAIN, Cause, Place, Reason
from taskd_net.base.position import Position, Role
from taskd_net.job.agent.messages import Exit, Meeting, WantStacks, read_command
from taskd_net.job.agent.plans import KillAll, Leave, Look, Offer, Return, StartAll, StartRanks, TakeMeeting
from taskd_net.job.agent.supervision import (
    AgentJoined,
    AgentTimes,
    CallReturned,
    Commanded,
    Event,
    Offered,
    SendReport,
    Supervisor,
    Tick,
    WorkerEnded,
    WorkerStatus,
)
from taskd_net.job.decide import events
from taskd_net.job.decide.epochs import FINISHED, LEFT, NEW, RUNNING, Part
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Command
from taskd_net.job.frameworks.pytorch.plans import PyTorchPlans

TIMES = AgentTimes(join=180.0, go=900.0, repeat=30.0, grace=600.0)
NODE_S = 200.0


@dataclass
class Launcher:
    """The launcher of a node: an Agent, and its workers.

    Args:
        rank: of the node.
        life: number of the process.
        restarts: that it offers.
        now: the time.
        rejoins: its worker takes part in epochs.
    """

    rank: int
    life: int
    restarts: int
    now: float
    rejoins: bool = False
    running: int = 0
    """The round that the workers are in; 0 without any."""
    failed: bool = False
    finished: bool = False
    stopped: bool = False
    outcome: str = ""
    cause: Cause | None = None
    """Of the failure of the workers; of one that dies slowly from its exception on."""
    epoch_seen: int = 0
    """The last epoch in which the worker has seen all peers."""
    dies_at: float = 0.0
    """The time at which a worker that dies slowly is gone; 0 without one."""
    meeting: Meeting | None = None
    ended: Exit | None = None
    unread: list[Command] = field(default_factory=list)
    unsent: list[Body] = field(default_factory=list)
    processes: int = 0
    """Worker processes so far."""
    part: Part | None = None
    """Of the worker; None before it has said it."""
    store: str = ""
    """The store of the worker's epoch."""
    said: list[Body] = field(default_factory=list)
    """Reports of the worker."""
    own_store: str = ""
    """The store that this node serves."""

    def __post_init__(self) -> None:
        name = f"{self.rank}.{self.life}"
        features = (vocabulary.MEETS, vocabulary.TELLS)
        self.supervisor = Supervisor(PyTorchPlans(), TIMES, name, str(self.restarts), self.now, (), features)
        self.feed(AgentJoined())

    def feed(self, event: Event) -> None:
        """Something happens to the Agent; calls return at once."""
        todo = [event]
        while todo:
            for action in self.supervisor.handle(todo.pop(0), self.now, int(self.now)):
                match action:
                    case SendReport(body):
                        self.unsent.append(body)
                    case Leave(_, _, ended):
                        self.outcome, self.running, self.ended = "left", 0, ended
                    case Return():
                        self.outcome, self.running = "returned", 0
                    case KillAll():
                        self.running, self.failed, self.finished, self.dies_at = 0, False, False, 0.0
                        self.part = None
                        todo.append(CallReturned())
                    case Offer():
                        assert not self.running, "a round begins when the processes have ended"
                        store = f"127.0.0.1:{1000 * self.life + self.supervisor._round}" if self.rank == 0 else ""
                        self.own_store = store
                        todo.append(Offered(store, 1, self.cause))
                    case StartAll(_, meeting):
                        assert meeting is not None and not self.running
                        self.meeting, self.running, self.failed, self.cause = meeting, meeting.round, False, None
                        self.start()
                        todo.append(CallReturned())
                    case StartRanks():
                        self.failed, self.cause, self.dies_at = False, None, 0.0
                        self.start()
                        todo.append(CallReturned())
                    case TakeMeeting(meeting):
                        self.meeting = meeting
                        todo.append(CallReturned())
                    case Look():
                        ranks = frozenset((self.rank,))
                        failed = ranks if self.failed else frozenset[int]()
                        cause = self.cause if self.failed else None
                        todo.append(WorkerStatus(failed, not self.failed, self.finished, "done", "", ranks, cause))
                    case _:
                        pass

    def fail(self, reason: Reason, slow: float = 0.0, code: int = 1) -> None:
        """A worker raises, and is gone after some seconds."""
        at, pid = int(self.now * 1e9), 100 * self.life + self.running
        self.cause = Cause(self.rank, self.rank, "h", pid, code, "", at, reason=reason)
        self.dies_at = self.now + slow
        self.die()

    def start(self) -> None:
        """A process of the worker begins."""
        self.processes += 1
        if self.rejoins:
            incarnation = {vocabulary.INCARNATION: f"w{self.rank}.{self.life}.{self.processes}"}
            self.said.append(Body(vocabulary.REGISTER, vocabulary.AGENT_REGISTERS, "", incarnation))
            self.enter(NEW, 0)

    def enter(self, phase: str, epoch: int) -> None:
        """The worker reports its part."""
        assert self.meeting is not None
        self.part = Part(phase, epoch, len(self.meeting.local_worlds), 1)
        self.said.append(self.part.report())

    def hear(self, command: Command) -> None:
        """The worker hears the Manager."""
        if self.part is None or self.cause is not None:
            return
        number = int(command.message)
        if command.code == vocabulary.EPOCH_BEGIN and number > self.part.epoch:
            self.store = command.extension[vocabulary.STORE]
            self.enter(RUNNING, number)
        elif command.code == vocabulary.EPOCH_END and (self.part.phase, self.part.epoch) == (RUNNING, number):
            self.enter(LEFT, number)

    def die(self) -> None:
        """A worker that has raised may be gone now."""
        if self.dies_at and self.now >= self.dies_at:
            self.dies_at, self.failed, self.part = 0.0, True, None
            self.feed(WorkerEnded())

    def read(self) -> None:
        """Carry out what has come."""
        while self.unread and not self.outcome:
            command = self.unread.pop(0)
            body = Body(command.msg_type, command.code, command.message, command.extension)
            read = read_command(body)
            assert not isinstance(read, WantStacks)
            self.feed(Commanded(read, command.uuid, command.extension.get(vocabulary.MEANT_FOR, "")))


LOST = Reason("RuntimeError", traceback="RuntimeError: [/gloo/transport] Connection closed by peer")
"""The reason of a worker whose peer is gone."""


def raised(line: int) -> Reason:
    """The reason of a worker that has raised at this line."""
    return Reason("ValueError", "ValueError: boom", "ValueError: boom", Place("train.py", line, "step"))


class Play:
    """A job without a platform.

    Args:
        nodes: of the job.
        restarts: that each Agent offers.
        notices: ranks fail at once where a peer is gone, as with gloo; else they hang.
        rejoins: ranks keep their processes, and leave the epoch in place of a failure.
    """

    def __init__(self, nodes: int, restarts: int, notices: bool, rejoins: bool = False) -> None:
        self.config = JobConfig(nodes=nodes, processes_per_node=1, supervises=True, in_place=True, node_s=NODE_S)
        self.job = Job(self.config, "u")
        self.restarts = restarts
        self.notices = notices
        self.rejoins = rejoins
        self.now = 1000.0
        self.lives = 0
        self.failures = 0
        self.trained = 0
        """The last round in which all trained."""
        self.messages = 0
        self.launchers: dict[int, Launcher] = {}
        for rank in range(nodes):
            self.come(rank)

    def come(self, rank: int) -> None:
        """A launcher starts, unless the node has one."""
        if rank not in self.launchers:
            self.lives += 1
            self.launchers[rank] = Launcher(rank, self.lives, self.restarts, self.now, self.rejoins)

    def step(self, kind: str, rank: int) -> None:
        """Something happens to a node."""
        rank %= self.config.nodes
        launcher = self.launchers.get(rank)
        if kind == "come":
            self.come(rank)
        elif kind == "kill manager":
            self.job = Job.from_json(self.job.to_json(), self.config)
        elif kind == "wait":
            self.run(3.0 + 10 * rank)
        elif launcher is None or launcher.outcome:
            return
        elif kind in ("fail", "slow") and launcher.running and launcher.cause is None:
            self.failures += 1  # each at another line
            launcher.fail(raised(self.failures), 7.0 if kind == "slow" else 0.0)
        elif kind == "bug" and launcher.running and launcher.cause is None:
            launcher.fail(raised(0))
        elif kind == "kill":
            del self.launchers[rank]
        elif kind in ("stop", "go on"):
            launcher.stopped = kind == "stop"

    def run(self, seconds: float) -> None:
        """Time passes, in seconds of one second."""
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0
            for launcher in self.launchers.values():
                launcher.now = self.now
                if not launcher.stopped and not launcher.outcome:
                    launcher.read()
                    launcher.feed(Tick())
                    launcher.die()
                    self.peers_of(launcher)
            self.exchange()

    def peers_of(self, launcher: Launcher) -> None:
        """Ranks wait until all are there; one that has trained with the others, and loses one, fails or hangs."""
        peers = [self.launchers.get(rank) for rank in range(self.config.nodes)]
        if self.rejoins:
            part = launcher.part
            if self.notices and part is not None and part.phase == RUNNING and not launcher.cause:
                together = all(
                    peer is not None and peer.part is not None and not peer.cause and peer.part.epoch == part.epoch
                    for peer in peers
                )
                if not together and launcher.epoch_seen == part.epoch:
                    launcher.enter(LEFT, part.epoch)
                elif together:
                    launcher.epoch_seen = part.epoch
            return
        gone = any(peer is None or peer.running != launcher.running or peer.cause for peer in peers)
        if not gone and launcher.running:
            self.trained = launcher.running
        trained = launcher.running == self.trained
        if self.notices and launcher.running and trained and gone and not launcher.finished and not launcher.cause:
            launcher.fail(LOST)

    def exchange(self) -> None:
        """Reports go up, the Manager decides, commands go down."""
        for launcher in list(self.launchers.values()):
            if launcher.stopped:
                continue
            bodies, launcher.unsent = launcher.unsent, []
            for body in bodies:
                self.messages += 1
                src = Position.agent(launcher.rank)
                report = events.Reported(
                    src, body.msg_type, body.code, body.message, dict(body.extension), f"m{self.messages}"
                )
                self.job.step(self.now, report)
            said, launcher.said = launcher.said, []
            for body in said:
                self.messages += 1
                src = Position.worker(launcher.rank, launcher.rank)
                report = events.Reported(
                    src, body.msg_type, body.code, body.message, dict(body.extension), f"m{self.messages}"
                )
                self.job.step(self.now, report)
            if launcher.outcome == "left":
                del self.launchers[launcher.rank]
        if self.job.wake > self.now:
            return
        for command in self.job.step(self.now, events.Tick()).commands:
            if command.destination.position.role == Role.WORKER:
                there = [each for each in self.launchers.values() if not each.stopped and not each.outcome]
                for each in there:
                    if command.destination.matches(Position.worker(each.rank, each.rank)):
                        each.hear(command)
                if len(there) == self.config.nodes or command.code == vocabulary.EPOCH_END:
                    self.job.step(self.now, events.Acknowledged(command.uuid))
                continue
            receiver = self.launchers.get(int(command.destination.position.server_rank))
            if receiver is None or receiver.stopped or receiver.outcome:
                continue
            receiver.unread.append(command)
            self.job.step(self.now, events.Acknowledged(command.uuid))

    def assert_together(self) -> None:
        """Assert that all train in one round, at the store of the present node 0."""
        assert sorted(self.launchers) == list(range(self.config.nodes)), "every node is there"
        assert {each.running for each in self.launchers.values()} == {self.job.state.records.rounds.number}
        meetings = {each.meeting and replace(each.meeting, cause=None) for each in self.launchers.values()}
        (meeting,) = meetings
        assert meeting is not None and len(meeting.local_worlds) == self.config.nodes
        assert meeting.store == self.launchers[0].own_store
        if self.rejoins:
            parts = {each.part for each in self.launchers.values()}
            (part,) = parts
            assert part is not None and part.phase == RUNNING
            assert {each.store for each in self.launchers.values()} == {meeting.store}


STEP = st.tuples(
    st.sampled_from(("fail", "slow", "kill", "come", "stop", "go on", "wait", "wait", "kill manager")),
    st.integers(0, 3),
)


@settings(max_examples=150)
@given(st.lists(STEP, max_size=25), st.integers(1, 4), st.booleans(), st.booleans())
def test_every_course_goes_on_together_or_ends(
    steps: Sequence[tuple[str, int]], nodes: int, notices: bool, rejoins: bool
) -> None:
    """With restarts enough all nodes train again, whatever has happened, and leave together in the end."""
    play = Play(nodes, 1000, notices, rejoins)
    play.run(5.0)
    for kind, rank in steps:
        play.step(kind, rank)
    for rank in range(nodes):
        if (launcher := play.launchers.get(rank)) is not None:
            launcher.stopped = False
    play.run(NODE_S + 100.0)  # lost nodes have ended the others by then, and nobody is left alone
    present = set(play.launchers)
    assert present in (set(), set(range(nodes)))
    for rank in range(nodes):
        play.come(rank)
    play.run(100.0)
    play.assert_together()
    for launcher in play.launchers.values():
        launcher.finished = True
        if launcher.part is not None:
            launcher.enter(FINISHED, launcher.part.epoch)
        launcher.feed(WorkerEnded())
    play.run(10.0)
    assert {each.outcome for each in play.launchers.values()} == {"returned"}


@settings(max_examples=100)
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_no_failure_counts_twice(failing: Sequence[int], nodes: int, restarts: int, notices: bool) -> None:
    """Each node may fail `restarts` times; ranks that fail because of another one cost nothing."""
    play = Play(nodes, restarts, notices)
    play.run(5.0)
    failures = dict.fromkeys(range(nodes), 0)
    for rank in failing:
        node = rank % nodes
        play.step("fail", node)
        failures[node] += 1
        play.run(60.0)
        if failures[node] > restarts:
            assert not play.launchers
            return
        play.assert_together()
        assert sum(play.job.state.failures.charged.values()) == sum(failures.values())


@settings(max_examples=100)
@given(st.integers(0, 3), st.integers(1, 4), st.floats(0.0, 20.0), st.booleans())
def test_a_worker_that_dies_slowly_is_the_first_failure(guilty: int, nodes: int, slow: float, notices: bool) -> None:
    """Its peers may be reported first, and its process may be ended before it is gone by itself."""
    play = Play(nodes, 1, notices)
    play.run(5.0)
    play.launchers[guilty % nodes].fail(raised(1), slow)
    play.run(60.0)
    play.assert_together()
    failures = play.job.state.failures
    (failure,) = failures.past
    assert (failure.first.rank, failure.first.reason) == (guilty % nodes, raised(1))
    assert failures.charged == {guilty % nodes: 1} and failures.open is None
    assert failure.others == ([rank for rank in range(nodes) if rank != guilty % nodes] if notices else [])


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from((5.0, 20.0, 120.0, 700.0))), min_size=2, max_size=6))
def test_the_same_bug_twice_without_progress_ends_all_nodes_with_it(course: Sequence[tuple[int, float]]) -> None:
    """It may be another rank's. An attempt that lives a minute longer than the one before, or ten, makes progress."""
    play = Play(2, 32_767, notices=True)
    before = 0.0
    for number, (rank, lives) in enumerate(course):
        play.run(lives)
        launchers = dict(play.launchers)
        play.step("bug", rank % 2)
        play.run(10.0)
        if number and lives < before + 60.0 and lives < 600.0:
            assert not play.launchers
            for launcher in launchers.values():
                assert launcher.ended is not None and launcher.ended.cause is not None
                assert launcher.ended.cause.rank == rank % 2
                assert launcher.ended.reason == "the same failure twice in a row: ValueError at train.py, line 0"
                assert launcher.ended.status == NEVER_AGAIN
            return
        play.assert_together()
        before = lives


@settings(max_examples=50)
@given(st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_exit_code_65_ends_all_nodes_at_once(nodes: int, rank: int, notices: bool) -> None:
    play = Play(nodes, 1000, notices)
    play.run(5.0)
    launchers = list(play.launchers.values())
    launchers[rank % nodes].fail(Reason("SystemExit"), code=65)
    play.run(30.0)
    assert not play.launchers
    reason = f"rank {rank % nodes} has ended with 65, so it is not to be started again"
    assert {each.ended and (each.ended.reason, each.ended.status) for each in launchers} == {(reason, NEVER_AGAIN)}


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(2, 4), st.booleans())
def test_a_node_that_is_lost_costs_no_restart(lost: Sequence[int], nodes: int, rejoins: bool) -> None:
    """The ranks of the other nodes fail because of it, or keep their processes."""
    play = Play(nodes, 0, notices=True, rejoins=rejoins)
    play.run(5.0)
    for rank in lost:
        others = {each: launcher.processes for each, launcher in play.launchers.items() if each != rank % nodes}
        play.step("kill", rank % nodes)
        play.run(3.0)
        play.come(rank % nodes)
        play.run(60.0)
        play.assert_together()
        kept = {each: launcher.processes for each, launcher in play.launchers.items() if each != rank % nodes}
        assert (kept == others) is rejoins
    assert play.job.state.failures.charged == {}
