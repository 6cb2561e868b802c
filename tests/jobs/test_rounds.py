"""Rounds of a job whose nodes stay: the Manager's decisions and the Agents' own, with faults in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.position import Position
from taskd_net.job.agent.messages import Meeting, read_command
from taskd_net.job.agent.plans import KillAll, Leave, Look, Offer, Return, StartAll
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
    """

    rank: int
    life: int
    restarts: int
    now: float
    running: int = 0
    """The round that the workers are in; 0 without any."""
    failed: bool = False
    finished: bool = False
    stopped: bool = False
    outcome: str = ""
    meeting: Meeting | None = None
    unread: list[Command] = field(default_factory=list)
    unsent: list[Body] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = f"{self.rank}.{self.life}"
        features = (vocabulary.MEETS,)
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
                    case Leave():
                        self.outcome, self.running = "left", 0
                    case Return():
                        self.outcome, self.running = "returned", 0
                    case KillAll():
                        self.running, self.failed, self.finished = 0, False, False
                        todo.append(CallReturned())
                    case Offer():
                        assert not self.running, "a round begins when the processes have ended"
                        store = f"127.0.0.1:{1000 * self.life + self.supervisor._round}" if self.rank == 0 else ""
                        todo.append(Offered(store, 1))
                    case StartAll(_, meeting):
                        assert meeting is not None and not self.running
                        self.meeting, self.running, self.failed = meeting, meeting.round, False
                        todo.append(CallReturned())
                    case Look():
                        ranks = frozenset((self.rank,))
                        failed = ranks if self.failed else frozenset[int]()
                        todo.append(WorkerStatus(failed, not self.failed, self.finished, "done", "", ranks))
                    case _:
                        pass

    def read(self) -> None:
        """Carry out what has come."""
        while self.unread and not self.outcome:
            command = self.unread.pop(0)
            body = Body(command.msg_type, command.code, command.message, command.extension)
            self.feed(Commanded(read_command(body), command.uuid, command.extension.get(vocabulary.MEANT_FOR, "")))


class Play:
    """A job without a platform.

    Args:
        nodes: of the job.
        restarts: that each Agent offers.
        notices: ranks fail at once where a peer is gone, as with gloo; else they hang.
    """

    def __init__(self, nodes: int, restarts: int, notices: bool) -> None:
        self.config = JobConfig(nodes=nodes, processes_per_node=1, supervises=True, in_place=True, node_s=NODE_S)
        self.job = Job(self.config, "u")
        self.restarts = restarts
        self.notices = notices
        self.now = 1000.0
        self.lives = 0
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
            self.launchers[rank] = Launcher(rank, self.lives, self.restarts, self.now)

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
        elif kind == "fail" and launcher.running:
            launcher.failed = True
            launcher.feed(WorkerEnded())
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
                    self.peers_of(launcher)
            self.exchange()

    def peers_of(self, launcher: Launcher) -> None:
        """Ranks wait until all are there; one that has trained with the others, and loses one, fails or hangs."""
        peers = [self.launchers.get(rank) for rank in range(self.config.nodes)]
        gone = any(peer is None or peer.running != launcher.running or peer.failed for peer in peers)
        if not gone and launcher.running:
            self.trained = launcher.running
        trained = launcher.running == self.trained
        if self.notices and launcher.running and trained and gone and not launcher.finished and not launcher.failed:
            launcher.failed = True
            launcher.feed(WorkerEnded())

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
            if launcher.outcome == "left":
                del self.launchers[launcher.rank]
        if self.job.wake > self.now:
            return
        for command in self.job.step(self.now, events.Tick()).commands:
            receiver = self.launchers.get(int(command.destination.position.server_rank))
            if receiver is None or receiver.stopped or receiver.outcome:
                continue
            receiver.unread.append(command)
            self.job.step(self.now, events.Acknowledged(command.uuid))

    def assert_together(self) -> None:
        """Assert that all train in one round, at the store of the present node 0."""
        assert sorted(self.launchers) == list(range(self.config.nodes)), "every node is there"
        assert {each.running for each in self.launchers.values()} == {self.job.state.records.rounds.number}
        meetings = {each.meeting for each in self.launchers.values()}
        (meeting,) = meetings
        assert meeting is not None and len(meeting.local_worlds) == self.config.nodes
        assert meeting.store == f"127.0.0.1:{1000 * self.launchers[0].life + meeting.round}"


STEP = st.tuples(
    st.sampled_from(("fail", "fail", "kill", "come", "stop", "go on", "wait", "wait", "kill manager")),
    st.integers(0, 3),
)


@settings(max_examples=150)
@given(st.lists(STEP, max_size=25), st.integers(1, 4), st.booleans())
def test_every_course_goes_on_together_or_ends(steps: Sequence[tuple[str, int]], nodes: int, notices: bool) -> None:
    """With restarts enough all nodes train again, whatever has happened, and leave together in the end."""
    play = Play(nodes, 1000, notices)
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
