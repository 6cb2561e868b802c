"""Jobs: the 210s, acknowledgements, losses, wake-ups, and how much a tick looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from taskd_net.base.position import Position
from taskd_net.job.decide.events import Acknowledged, Reported, RetryTime, Signal, Tick
from taskd_net.job.decide.job import TICK_PAUSE_S, Job
from taskd_net.job.decide.outbox import COMMAND_ATTEMPTS, COMMAND_RETRY_S, Outbox
from taskd_net.job.decide.plugins import Plugin, Progress, built_in
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.records import AgentRecord, WorkerRecord
from taskd_net.job.decide.snapshot import JobConfig, Snapshot
from taskd_net.job.decide.traffic import Command
from tests.jobs.scene import CLUSTERD, LOCAL, Scene, commands, started


def test_an_idle_job_has_nothing_to_do() -> None:
    job = Job(LOCAL, "u")
    assert job.wake == float("inf")
    assert commands(job.step(5.0, Tick())) == []


def test_reports_that_come_together_are_looked_at_together() -> None:
    scene = started(0)
    scene.register(1)
    assert scene.job.wake == scene.job.state.ticked + TICK_PAUSE_S


def test_time_never_goes_back() -> None:
    job = Job(LOCAL, "u")
    job.step(10.0, RetryTime(1))
    job.step(5.0, Tick())
    assert (job.state.now, job.state.ticked) == (10.0, 10.0)


def test_heartbeats_and_unknown_uuids_are_no_reason_for_a_tick() -> None:
    scene = started(0)
    idle = scene.job.wake
    scene.report("Agent/0", "KEEP_ALIVE", 0)
    scene.job.step(scene.now, Acknowledged("nobody's"))
    scene.signal("keep-alive")
    assert scene.job.wake == idle == float("inf")
    assert not scene.job.state.signals


def test_a_stranger_is_refused() -> None:
    assert Scene().report("Proxy/0", "STATUS", 201) is False


@pytest.mark.parametrize(
    ("count", "own", "told"), [("3", "5", "3"), ("0", "5", "5"), ("-1", "5", "-1"), ("x", "5", "5")]
)
def test_a_210_has_the_jobs_count_unless_that_is_0(count: str, own: str, told: str) -> None:
    scene = Scene()
    scene.register(0, restarts=count)
    scene.settle()
    scene.register(1, restarts=own)
    if count == "x":
        scene.register(1, restarts=own)
    (command,) = scene.settle()[0].commands
    assert (command.message, command.mtype) == (told, "default")


def test_a_pause_takes_back_the_210s_that_nobody_has() -> None:
    scene = started(0)
    scene.away |= {"Agent/1", "Agent/2"}
    scene.register(1, 2, restarts="7")
    scene.settle()
    scene.fault(2, 5)
    scene.settle()
    scene.signal("pauseStartAgent")
    assert [commands(scene.tick(3.0)) for _ in range(2)] == [[("Agent/2", 203)]] * 2
    scene.away.clear()
    scene.signal("continueStartAgent")
    assert ("Agent/1", 210) in commands(scene.tick())


def sent_to(to: str) -> Job:
    """A job that has sent something, with two registered Workers, and a third one and an Agent that are not."""
    job = Job(LOCAL, "u", [Broken(to, fails=False)])
    for position in (Position.worker(0, 0), Position.worker(1, 8)):
        job.step(1.0, Reported(position, "REGISTER", 101))
    for position in (Position.worker(1, 9), Position.agent(0)):
        job.step(1.0, Reported(position, "OTHER", 7))
    job.step(1.0, Tick())
    return job


@pytest.mark.parametrize(
    ("to", "few", "enough"),
    [
        ("Worker/All/All", 1, 2),
        ("Worker/0,1/All", 1, 2),
        ("Worker/1/All", 0, 1),
        ("Worker/All/All", 1, None),
        ("Worker/0/0", None, 0),
        ("Agent/All", None, 0),
    ],
)
def test_a_broadcast_is_taken_when_all_registered_receivers_have_it(
    to: str, few: int | None, enough: int | None
) -> None:
    job = sent_to(to)
    (uuid,) = job.state.outbox.sending
    if few is not None:
        assert job.step(2.0, Acknowledged(uuid, few)).taken is False
        assert job.wake == 1.0 + COMMAND_RETRY_S, "it goes again"
    assert job.step(2.0, Acknowledged(uuid, enough)).taken is True
    assert not job.state.outbox.sending
    assert job.step(2.0, Acknowledged(uuid, enough)).taken is False


def test_a_210_has_the_mtype_of_its_question() -> None:
    job = Job(LOCAL, "u")
    job.step(1.0, Reported(Position.agent(0), "STATUS", 201, "3", mtype="DEFAULT"))
    (command,) = job.step(1.0, Tick()).commands
    assert (command.mtype, command.extension) == ("DEFAULT", {"Incarnation": "u"})


def test_a_command_to_a_process_that_was_replaced_is_void() -> None:
    scene = started(0, 1)
    scene.away |= {"Agent/1", "Worker/0/7"}
    scene.fault(1, 3)
    scene.settle()
    assert scene.job.state.outbox.by_target
    scene.report("Agent/01", "REGISTER", 0)
    assert not scene.job.state.outbox.by_target


@pytest.mark.parametrize("before", ["nothing", "started", "left", "killed"])
@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "lost"])
@pytest.mark.parametrize("ticks", [0, 1], ids=["together", "apart"])
@pytest.mark.parametrize("order", [(0, 201), (201, 0), (0, 201, 0), (201, 0, 0)], ids=str)
def test_an_agent_of_the_original_gets_its_210_in_any_order_of_its_reports(
    before: str, acknowledged: bool, ticks: int, order: tuple[int, ...]
) -> None:
    """Its REGISTER, which it repeats when it has failed, and its 201 come in one millisecond."""
    scene = started(0) if before == "nothing" else started(0, 1)
    if before in ("left", "killed"):
        scene.away |= {"Agent/1"} if before == "killed" else set()
        scene.fault(1, 3)
        assert ("Agent/1", 203) in commands(scene.settle()[0])
    scene.away = set() if acknowledged else {"Agent/1"}
    sent = []
    for code in order:
        scene.report("Agent/1", "STATUS" if code else "REGISTER", code, "3" if code else "")
        if ticks:
            sent.append(scene.tick(0.002))
    scene.away.clear()
    scene.now += COMMAND_RETRY_S
    sent += scene.settle()
    found = [command for outcome in sent for command in commands(outcome) if command[0] == "Agent/1"]
    assert ("Agent/1", 210) in found and ("Agent/1", 203) not in found, found
    assert not scene.job.state.outbox.by_target and not scene.job.state.records.asking


@pytest.mark.parametrize("src", ["Agent/1", "Agent/01", "Agent/1/0"])
def test_a_201_while_the_203_is_on_its_way_takes_nothing_back(src: str) -> None:
    scene = started(0, 1)
    scene.away.add("Agent/1")
    scene.fault(1, 3)
    scene.settle()
    scene.report(src, "STATUS", 201, "3")
    assert scene.job.state.outbox.codes_to("Agent/1") == [203]
    assert scene.job.state.records.exited == {1} and not scene.job.state.records.asking


def test_a_201_that_is_sent_again_is_not_that_of_the_next_process() -> None:
    scene = started(0, 1)
    asked = Reported(Position.agent(1), "STATUS", 201, "3", {}, "m4")
    assert scene.job.state.records.agents[1].reports["STATUS/201"].uuid == asked.uuid
    scene.fault(1, 3)
    scene.settle()
    scene.take(asked)
    assert scene.job.state.records.exited == {1} and not scene.job.state.records.asking


def test_a_command_names_the_process_of_this_package_that_it_is_for() -> None:
    scene = started(0, 1, process="p")
    scene.register(2)
    scene.settle()
    scene.fault(1, 3)
    sent = {command.to: command.extension.get("MeantFor") for command in scene.tick().commands}
    assert sent == {"Agent/0": "p0", "Agent/1": "p1", "Agent/2": None}, "an original's Agent has no name"


def test_a_command_to_several_or_to_strangers_names_no_process() -> None:
    scene = started(0, 1, process="p", config=CLUSTERD)
    scene.signal("preExitProcess", "pre exit process", nodes=(7,))
    (command,) = scene.tick().commands
    assert (command.to, command.extension) == ("Agent/7", {})
    everybody = Command("Agent/All", 203, uuid="x")
    scene.job.state.outbox.add(scene.now, everybody)
    assert scene.job._receiver(everybody, scene.job._agents(everybody)) == {}


def test_an_outcome_names_answered_faults_and_withdrawn_commands() -> None:
    job = Job(LOCAL, "u")
    zero, one = Position.agent(0), Position.agent(1)
    for agent in (zero, one):
        job.step(1.0, Reported(agent, "REGISTER", 0))
    job.step(1.0, Tick())
    job.step(2.0, Reported(one, "STATUS", 202, '{"fault_ranks": [8]}'))
    outcome = job.step(3.0, Tick())
    assert commands(outcome) == [("Agent/1", 203), ("Agent/0", 208)]
    assert (outcome.answered, outcome.withdrawn) == ([2.0], [])
    job.step(4.0, Reported(zero, "STATUS", 202, '{"fault_ranks": [0]}'))
    outcome = job.step(4.0, Tick())
    assert (commands(outcome), outcome.answered) == ([], []), "its 208 is on its way"
    restart = list(job.state.outbox.by_target["Agent/0"])
    job.step(5.0, Reported(zero, "REGISTER", 0))
    assert job.step(5.0, Tick()).withdrawn == restart
    assert job.step(6.0, Tick()).withdrawn == []


def test_a_fault_is_answered_once() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.away.add("Agent/1")
    scene.fault(1, 3)
    fault_at = scene.now
    scene.signal("globalFault", "fault_nodes_restart", nodes=(1,))
    assert scene.tick(1.0).answered == [fault_at]
    scene.signal("changeStrategy", strategy="exit", nodes=(1,))
    outcome = scene.tick(1.0)
    assert ("Agent/1", 203) in commands(outcome) and outcome.answered == []


def test_a_fault_that_was_told_again_and_that_a_restart_has_overtaken_is_answered() -> None:
    """An Agent tells its fault again when it rejoins. The 208 may come while that report is on its way."""
    scene = started(0, 1, 2, process="p")
    scene.fault(1, 3)
    restart = next(command.uuid for command in scene.tick().commands if command.to == "Agent/2")
    scene.fault(2, 5, after="")  # it was seen before the 208 that has been taken
    assert [commands(outcome) for outcome in scene.settle()] == [[]]
    scene.fault(2, 5, after=restart)
    assert commands(scene.tick()) == [("Agent/2", 203)]


def test_a_fault_of_an_originals_agent_that_comes_after_its_restart_is_a_new_one() -> None:
    """It names no restart."""
    scene = started(0, 1, 2)
    scene.fault(1, 3)
    scene.settle()
    scene.fault(2, 5)
    assert commands(scene.tick()) == [("Agent/2", 203)]


def test_a_node_that_two_signals_name_gets_one_203() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.signal("globalFault", "fault_nodes_exit", nodes=(1,))
    assert commands(scene.tick()) == [("Agent/1", 203)]
    scene.signal("saveAndExit", nodes=(1,))
    assert commands(scene.tick()) == []


def test_a_resumed_manager_repeats_nothing_and_gives_the_same_uuids() -> None:
    scene = started(0, 1, 2)
    scene.fault(1, 3)
    stored = scene.job.to_json()
    first = scene.job.step(scene.now, Tick())
    again = Job.from_json(stored, LOCAL)
    assert again.step(scene.now, Tick()) == first
    after = Job.from_json(scene.job.to_json(), LOCAL)
    assert after.step(scene.now, Tick()).commands == []
    later = after.step(scene.now + COMMAND_RETRY_S, Tick())
    assert later.commands == first.commands, "resends"


class Broken(Plugin[None]):
    """A plugin that sends, and fails or says nothing when its command is lost."""

    name = "Broken"
    streams: ClassVar = {"s": 1}

    def __init__(self, to: str, fails: bool) -> None:
        super().__init__(None)
        self.to = to
        self.fails = fails
        self.sent = False

    def wants(self, snapshot: Snapshot) -> tuple[str, ...]:
        return () if self.sent else ("s",)

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        self.sent = True
        self.send(self.to, 203)
        return Progress.FINAL

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        if self.fails:
            raise ValueError("no idea")
        return super().lost(command, snapshot)


def lose(job: Job) -> list[str]:
    """Nobody acknowledges anything. The notices of what follows."""
    events: list[str] = []
    for step in range(COMMAND_ATTEMPTS + 1):
        outcome = job.step(10.0 + step * COMMAND_RETRY_S, Tick())
        events += [notice.event for notice in outcome.notices if "stream" not in notice.event]
    assert job.state.outbox.wake == float("inf")
    return events


@pytest.mark.parametrize(("fails", "events"), [(False, ["message_lost"]), (True, ["plugin_failed", "message_lost"])])
def test_a_lost_command_is_its_plugins_decision(fails: bool, events: list[str]) -> None:
    job = Job(LOCAL, "u", [Broken("Agent/1", fails)])
    job.step(10.0, RetryTime(1))
    assert lose(job) == events


def test_an_answer_that_clusterd_does_not_take_is_given_up() -> None:
    job = Job(LOCAL, "u")
    job.step(10.0, SwitchNic())
    assert lose(job) == ["message_lost"]
    assert job.state.outbox == Outbox() and job.state.outbox.withdrawn == []


def test_a_lost_command_of_a_plugin_that_is_gone_is_given_up() -> None:
    job = Job(LOCAL, "u", [Broken("Agent/1", fails=False)])
    job.step(10.0, RetryTime(1))
    job.step(10.0, Tick())
    assert lose(Job.from_json(job.to_json(), LOCAL)) == ["message_lost"]


def test_a_workers_203_is_nothing_to_agents() -> None:
    job = Job(LOCAL, "u", [Broken("Worker/0/1", fails=False)])
    job.step(10.0, RetryTime(1))
    assert commands(job.step(10.0, Tick())) == [("Worker/0/1", 203)]
    assert not job.state.records.exited


def test_203_to_all_agents_ends_all_that_are_known() -> None:
    job = Job(LOCAL, "u", [Broken("Agent/All", fails=False)])
    for rank in (0, 1):
        job.step(10.0, Reported(Position.agent(rank), "REGISTER", 0))
    job.step(10.0, Tick())
    assert job.state.records.exited == {0, 1}


@pytest.mark.parametrize(
    ("config", "recovers"),
    [
        (JobConfig(fault_recover="on", clusterd=True), True),
        (JobConfig(clusterd=True), False),
        (JobConfig(fault_recover="on"), False),
        (JobConfig(fault_recover="on", clusterd=True, taskd_enable=False), False),
    ],
)
def test_the_fault_recover_value_counts_only_with_clusterd(config: JobConfig, recovers: bool) -> None:
    assert config.recovers is recovers


@pytest.mark.parametrize(("interval", "silence"), [(0.1, 3.0), (1.0, 30.0)])
def test_snapshots_are_time_and_never_less_than_three_seconds(interval: float, silence: float) -> None:
    assert JobConfig(interval=interval).silence_s == silence


class Counted(dict[int, object]):
    """Records that count how often one is looked at."""

    looks = 0

    def __getitem__(self, key: int) -> object:
        self.looks += 1
        return super().__getitem__(key)

    def get(self, key: int, default: object = None) -> object:
        self.looks += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[int]:
        self.looks += len(self)
        return super().__iter__()

    def values(self) -> object:  # type: ignore[override]
        self.looks += len(self)
        return super().values()

    def items(self) -> object:  # type: ignore[override]
        self.looks += len(self)
        return super().items()

    def keys(self) -> object:  # type: ignore[override]
        self.looks += len(self)
        return super().keys()


def large() -> tuple[Job, Counted, Counted]:
    """A running job of 1,000 Agents and 8,000 Workers."""
    job = Job(JobConfig(nodes=1000, processes_per_node=8), "u")
    for node in range(1000):
        job.step(1.0, Reported(Position.agent(node), "REGISTER", 0))
        job.step(1.0, Reported(Position.agent(node), "STATUS", 201, "3"))
        for rank in range(8 * node, 8 * node + 8):
            job.step(1.0, Reported(Position.worker(node, rank), "REGISTER", 101))
            job.step(1.0, Reported(Position.worker(node, rank), "STATUS", 1400))
    outcome = job.step(1.0, Tick())
    assert len(outcome.commands) == 1000
    for command in outcome.commands:
        job.step(1.0, Acknowledged(command.uuid))
    job.step(1.1, Tick())
    agents, workers = Counted(job.state.records.agents), Counted(job.state.records.workers)
    job.state.records.agents = agents  # type: ignore[assignment]
    job.state.records.workers = workers  # type: ignore[assignment]
    return job, agents, workers


def test_a_tick_looks_only_at_what_has_changed() -> None:
    job, agents, workers = large()
    job.step(2.0, Reported(Position.worker(7, 60), "STATUS", 1410))
    job.step(2.0, Reported(Position.agent(5), "STATUS", 202, '{"fault_ranks": []}'))
    job.step(2.0, Signal("s", "continueStartAgent"))
    job.step(2.0, Tick())
    assert (agents.looks, workers.looks) == (1, 1), "taken in, and not looked at again"
    job.step(3.0, Reported(Position.agent(5), "STATUS", 202, '{"fault_ranks": [40]}'))
    outcome = job.step(3.0, Tick())
    assert len(outcome.commands) == 1000
    in_a_round = agents.looks
    assert 1000 < in_a_round < 5000 and workers.looks == 1, "a round is for all Agents"
    job.step(4.0, Acknowledged(outcome.commands[0].uuid))
    job.step(4.0, Reported(Position.agent(6), "KEEP_ALIVE", 0))
    assert len(job.step(4.0, Tick()).commands) == 0
    assert agents.looks - in_a_round < 5 and workers.looks == 1, "resends wait for their time"


def test_records_are_of_their_roles() -> None:
    job, _, _ = large()
    assert isinstance(job.state.records.agents[5], AgentRecord)
    assert isinstance(job.state.records.workers[5], WorkerRecord)
    assert len({plugin.name for plugin in built_in()}) == 13
