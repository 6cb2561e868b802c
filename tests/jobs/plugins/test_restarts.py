"""RestartPlugin: rounds of all nodes, the budget, and the ends of a run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from taskd_net.base import vocabulary
from taskd_net.base.cause import AS_TERMINATED, NEVER_AGAIN, Cause, Place, Reason, read_cause, write_cause
from taskd_net.job.decide.epochs import LEFT, NEW, RUNNING
from taskd_net.job.decide.events import RetryTime
from taskd_net.job.decide.failures import FAILURES, FAILURES_S, PAUSE_S, TOGETHER_S, told
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins.actions import UNLIMITED
from taskd_net.job.decide.plugins.restarts import LOST_S, TELL_S, JobRestarts
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Command, Outcome
from tests.jobs.scene import Scene, commands, owner

JOB = JobConfig(nodes=2, processes_per_node=2, in_place=True, supervises=True, node_s=100.0)
RECOVERY = "ResumeTrainingAfterFaultStream"


BUG = Reason("ValueError", "ValueError: boom", "Traceback\nValueError: boom", Place("train.py", 3, "step"))
GLOO = Reason("RuntimeError", "closed", "RuntimeError: [/gloo/pair.cc] Connection closed by peer")


class Nodes:
    """Two nodes of a scene, whose Agents meet by way of the Manager.

    Args:
        restarts: that the Agents offer.
        features: of the Agents.
        config: of the job.
    """

    def __init__(self, restarts: int = 3, features: str = "meets", config: JobConfig = JOB) -> None:
        self.scene = Scene(config)
        self.restarts = restarts
        self.features = features
        self.processes = 0

    def come(self, *ranks: int, features: str | None = None, most: str = "", **more: str) -> None:
        """Agents of new processes register and ask; `most`: the restarts that their users allow."""
        self.processes += 1
        extension = {vocabulary.INCARNATION: f"i{self.processes}", vocabulary.FEATURES: features or self.features}
        for rank in ranks:
            self.scene.report(f"Agent/{rank}", "REGISTER", 0, **extension | more)
            allowed = {vocabulary.MAX_RESTARTS: most} if most else {}
            self.scene.report(f"Agent/{rank}", "STATUS", 201, str(self.restarts), **allowed)

    def ready(self, number: int, *ranks: int) -> None:
        """Agents are ready for a round."""
        for rank in ranks:
            store = {vocabulary.STORE: f"127.0.0.1:{7000 + number}"} if rank == 0 else {}
            self.scene.report(f"Agent/{rank}", "STATUS", vocabulary.READY, str(number), LocalWorld="2", **store)

    def fail(
        self,
        rank: int,
        at: int,
        reason: Reason | None = None,
        code: int = 1,
        *,
        node: int | None = None,
        slow: bool = False,
    ) -> Cause:
        """A rank fails, and its Agent says why; of a slow one before it takes the last restart. Returns the cause."""
        cause = Cause(rank, rank // 2 if node is None else node, "h", 7, code, "", at, reason=reason)
        agent = self.scene.job.state.records.agents[rank // 2]
        after = "" if slow else self.scene.restarts.get(agent.incarnation, "")
        more = {vocabulary.CAUSE: write_cause(cause)} | ({vocabulary.AFTER: after} if after else {})
        self.scene.report(f"Agent/{rank // 2}", "STATUS", 202, json.dumps({"fault_ranks": [rank]}), **more)
        return cause

    def beat(self, *ranks: int) -> None:
        """Agents say that they are there."""
        for rank in ranks:
            self.scene.report(f"Agent/{rank}", "KEEP_ALIVE", 0)

    def settle(self) -> list[Command]:
        """Commands that leave until nothing is due at once."""
        return [command for outcome in self.scene.settle() for command in outcome.commands]

    def tick(self, seconds: float = 0.0) -> list[Command]:
        """Commands that leave after some time."""
        return self.scene.tick(seconds).commands

    @property
    def number(self) -> int:
        """The number of the last round."""
        return self.scene.job.state.records.rounds.number


def at_work(restarts: int = 3, config: JobConfig = JOB) -> Nodes:
    """Nodes in round 1, whose Agents beat."""
    nodes, ranks = Nodes(restarts, config=config), range(config.nodes)
    nodes.come(*ranks)
    nodes.settle()
    nodes.ready(1, *ranks)
    nodes.settle()
    nodes.beat(*ranks)
    nodes.scene.lines.clear()
    return nodes


def first_told(nodes: Nodes) -> str:
    """The only failure, as the log tells it."""
    (failure,) = nodes.scene.job.state.failures.shown
    return told(failure)


def left(nodes: Nodes) -> int | None:
    """Restarts that people see."""
    return nodes.scene.job.restarts_left(nodes.scene.now)


def test_restarts_left_go_down_with_each_failure_of_a_node() -> None:
    nodes = Nodes()
    assert left(nodes) is None, "no Agent has said a number"
    nodes = at_work(2)
    assert left(nodes) == 2
    nodes.fail(3, 5)
    nodes.settle()
    assert left(nodes) == 1, "the node that has failed"
    nodes.ready(2, 0, 1)
    nodes.settle()
    assert left(nodes) == 1
    nodes.fail(0, 6)
    nodes.settle()
    assert left(nodes) == 1, "the other node has as many"


def test_restarts_left_without_a_number_are_those_of_ten_minutes() -> None:
    nodes = at_work(UNLIMITED)
    assert left(nodes) == FAILURES
    nodes.fail(3, 5)
    nodes.settle()
    assert left(nodes) == FAILURES - 1


def test_restarts_left_under_a_platform_are_the_count_of_the_agents() -> None:
    nodes = Nodes(config=replace(JOB, supervises=False, in_place=False))
    nodes.come(0, 1)
    nodes.settle()
    assert left(nodes) == 3


def codes(sent: list[Command]) -> list[tuple[str, int]]:
    return commands(Outcome(commands=sent))


def test_nodes_that_meet_by_way_of_the_manager_have_no_line_about_it() -> None:
    nodes = Nodes()
    nodes.come(0, 1)
    nodes.settle()
    assert nodes.number == 1 and not any("meets_by_framework" in line for line in nodes.scene.lines)


def test_the_first_go_waits_for_the_last_node() -> None:
    nodes = Nodes()
    nodes.come(1)
    (told,) = nodes.settle()
    assert (told.to, told.code, told.extension["Missing"], told.extension["Seconds"]) == ("Agent/1", 305, "0", "99")
    nodes.come(0)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 210), ("Agent/1", 210)]
    assert [command.extension["Round"] for command in sent] == ["1", "1"]
    assert all(command.extension["Seconds"] == "100" for command in sent)
    nodes.ready(1, 0)
    assert nodes.tick() == []
    nodes.ready(1, 1)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 305), ("Agent/1", 305)]
    said = {"Store": "127.0.0.1:7001", "LocalWorlds": "2,2", "Starts": "0", "MeantFor": ""}
    assert sent[1].extension | {"MeantFor": ""} == said
    assert owner(nodes.scene) == ""


@pytest.mark.parametrize("failed", [0, 1])
def test_a_failure_restarts_all_and_no_node_leaves(failed: int) -> None:
    nodes = at_work()
    nodes.scene.fault(failed, 2 * failed)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 208), ("Agent/1", 208)]
    assert {command.extension["Round"] for command in sent} == {"2"}
    nodes.ready(2, 0, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]
    # It dies slowly: its report is older than the restart.
    nodes.scene.fault(1 - failed, 2 - 2 * failed, after="")
    assert nodes.settle() == []


def test_each_node_may_fail_as_often_as_its_agent_has_offered() -> None:
    nodes = at_work(restarts=1)
    for number, failed in ((2, 0), (3, 1)):
        nodes.scene.fault(failed, failed)
        nodes.settle()
        nodes.ready(number, 0, 1)
        nodes.settle()
    nodes.scene.fault(0, 0)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 203), ("Agent/1", 203)]
    assert {command.extension["Reason"] for command in sent} == {"failure 2 of node 0, which has 1 restarts"}
    assert not nodes.scene.job.state.records.rounds.open


def test_no_restart_is_none() -> None:
    nodes = at_work(restarts=0)
    nodes.scene.fault(1, 2)
    assert codes(nodes.settle()) == [("Agent/0", 203), ("Agent/1", 203)]


def test_without_a_number_five_failures_in_ten_minutes_are_too_many_and_pauses_grow() -> None:
    nodes = at_work(restarts=UNLIMITED)
    for failure in range(1, FAILURES + 1):
        nodes.scene.fault(0, 0)
        assert codes(nodes.tick()) == [("Agent/0", 208), ("Agent/1", 208)]
        nodes.ready(failure + 1, 0, 1)
        pause = PAUSE_S * 2 ** (failure - 2) if failure > 1 else 0.0
        if pause:
            assert codes(nodes.tick(pause - 0.5)) == []
        assert nodes.scene.job.wake <= nodes.scene.now + 0.5
        assert codes(nodes.tick(0.5)) == [("Agent/0", 305), ("Agent/1", 305)]
        nodes.beat(0, 1)
    nodes.scene.fault(0, 0)
    sent = nodes.settle()
    assert {command.extension["Reason"] for command in sent} == {f"{FAILURES + 1} failures within {FAILURES_S:g} s"}


def test_failures_are_forgotten() -> None:
    nodes = at_work(restarts=UNLIMITED)
    for failure in range(1, FAILURES + 3):
        nodes.scene.fault(0, 0)
        assert codes(nodes.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
        nodes.ready(failure + 1, 0, 1)
        nodes.settle()
        for _ in range(30):
            nodes.beat(0, 1)
            nodes.tick(FAILURES_S / 29)


def test_a_node_that_comes_back_costs_no_restart() -> None:
    nodes = at_work(restarts=0)
    nodes.come(1)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 208), ("Agent/1", 210)]
    assert {command.extension["Round"] for command in sent} == {"2"}
    nodes.ready(2, 0, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]


def test_a_silent_node_is_lost_and_waited_for() -> None:
    nodes = at_work()
    for _ in range(6):
        nodes.beat(0)
        assert nodes.tick(LOST_S / 6 - 0.1) == []
    nodes.beat(0)
    assert codes(nodes.tick(1.0)) == [("Agent/0", 208), ("Agent/1", 208)]
    assert first_told(nodes) == "node 1 was lost"
    assert nodes.scene.job.state.failures.shown[-1].answer == "all ranks restarted: round 2"
    nodes.scene.away.add("Agent/1")
    nodes.ready(2, 0)
    nodes.tick(1.0)
    told = [command for command in nodes.tick(TELL_S) if command.code == 305]
    assert [(command.to, command.extension["Missing"]) for command in told] == [("Agent/0", "1")]
    nodes.beat(0)
    sent = nodes.tick(100.0)
    assert ("Agent/0", 203) in codes(sent)
    ends = {(each.extension["Reason"], each.extension["ExitStatus"]) for each in sent if each.code == 203}
    assert ends == {("node 1 has not come within 100 s", str(AS_TERMINATED))}
    assert not nodes.scene.job.state.records.rounds.open


def test_a_node_that_does_not_answer_a_failure_is_its_cause() -> None:
    """Its victims are heard of first. A rank that has failed by itself stays the cause."""
    for reason, cause in ((GLOO, "node 1 was lost; after it ranks 0"), (BUG, "rank 0 of node 0: exit code 1")):
        nodes = at_work()
        nodes.fail(0, 5, reason)
        nodes.settle()
        nodes.scene.away.add("Agent/1")
        nodes.ready(2, 0)
        assert first_told(nodes).startswith("rank 0 of node 0")
        for _ in range(4):
            nodes.beat(0)
            nodes.tick(LOST_S / 3)
        assert first_told(nodes).startswith(cause)


def test_launchers_hear_of_no_rank_where_none_has_failed() -> None:
    nodes = Nodes(features="meets,tells")
    nodes.come(0, 1)
    nodes.settle()
    nodes.ready(1, 0, 1)
    nodes.settle()
    sent = []
    for _ in range(30):
        nodes.beat(0)
        nodes.ready(nodes.number, 0)
        sent += nodes.tick(5.0)
    assert {each.code for each in sent} >= {203, 208}
    assert [each for each in sent if vocabulary.CAUSE in each.extension] == []


def test_a_node_that_never_comes_ends_the_others() -> None:
    nodes = Nodes()
    nodes.come(0)
    nodes.settle()
    assert codes(nodes.tick(100.0)) == [("Agent/0", 203)]


def test_a_wait_for_a_node_ends_in_time_between_two_words_about_it() -> None:
    nodes = Nodes(config=replace(JOB, node_s=15.0))
    nodes.come(0)
    nodes.settle()
    began, sent = nodes.scene.now, list[Command]()
    while not any(each.code == 203 for each in sent):
        nodes.scene.now = nodes.scene.job.wake
        sent = nodes.tick()
    assert nodes.scene.now <= began + 15.0


def test_all_leave_when_all_have_finished() -> None:
    nodes = at_work()
    nodes.scene.report("Agent/0", "STATUS", vocabulary.FINISHED, "1")
    assert nodes.settle() == []
    nodes.scene.report("Agent/1", "STATUS", vocabulary.FINISHED, "1")
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 307), ("Agent/1", 307)]
    assert not nodes.scene.job.state.records.rounds.open


def test_a_failure_elsewhere_calls_a_node_back_that_has_finished() -> None:
    nodes = at_work()
    nodes.scene.report("Agent/0", "STATUS", vocabulary.FINISHED, "1")
    nodes.scene.fault(1, 2)
    assert codes(nodes.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
    nodes.ready(2, 0, 1)
    nodes.settle()
    nodes.scene.report("Agent/1", "STATUS", vocabulary.FINISHED, "2")
    assert nodes.settle() == [], "node 0 has finished in an earlier round"


def test_the_next_run_begins_clean() -> None:
    nodes = at_work(restarts=0)
    nodes.scene.fault(1, 2)
    nodes.settle()
    nodes.come(1)
    assert codes(nodes.settle()) == [("Agent/1", 305)], "it waits for the other"
    nodes.come(0)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 210), ("Agent/1", 210)]
    assert {command.extension["Round"] for command in sent} == {"2"}


def test_a_failure_in_a_meeting_begins_another() -> None:
    nodes = at_work()
    nodes.scene.fault(0, 0)
    nodes.settle()
    nodes.ready(2, 0)
    nodes.scene.fault(1, 2)
    sent = nodes.settle()
    assert {(command.code, command.extension["Round"]) for command in sent} == {(208, "3")}
    nodes.ready(3, 0, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]


def test_an_agent_that_is_ready_for_an_earlier_round_hears_of_the_present_one() -> None:
    """Its 210 was on its way when the next round began."""
    nodes = at_work()
    nodes.scene.away.add("Agent/1")
    nodes.come(1)
    nodes.settle()
    nodes.scene.fault(0, 0)
    sent = nodes.settle()
    assert ("Agent/1", 208) not in codes(sent)
    nodes.scene.away.clear()
    nodes.ready(3, 0)
    nodes.scene.now += 0.5
    nodes.ready(2, 1)
    late = [command for command in nodes.settle() if command.code == 208]
    assert [(command.to, command.extension["Round"]) for command in late] == [("Agent/1", "3")]
    nodes.ready(3, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]


def test_an_agent_that_cannot_meet_so_makes_all_meet_as_their_framework_does() -> None:
    nodes = Nodes()
    nodes.come(0)
    nodes.come(1, features="other")
    sent = nodes.settle()
    assert len([line for line in nodes.scene.lines if "meets_by_framework 1" in line]) == 1
    assert codes(sent) == [("Agent/0", 210), ("Agent/1", 210)]
    assert not any("Round" in command.extension for command in sent)
    nodes.beat(0, 1)
    nodes.scene.fault(1, 2)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 208), ("Agent/1", 208)]
    assert not any("Round" in command.extension for command in sent)
    for _ in range(8):
        nodes.beat(0)
        nodes.tick(5.0)
    assert owner(nodes.scene) == "RestartPlugin", "it waits for the silent node"
    nodes.beat(1)
    nodes.settle()
    assert owner(nodes.scene) == ""


def test_an_agent_of_an_earlier_release_comes_back() -> None:
    nodes = at_work()
    nodes.come(1, features="other")
    sent = nodes.settle()
    assert len([line for line in nodes.scene.lines if "meets_by_framework 1" in line]) == 1
    assert ("Agent/0", 208) in codes(sent) and ("Agent/1", 210) in codes(sent)
    assert not any("Round" in command.extension for command in sent if command.code == 208)


def test_a_manager_without_its_state_finds_the_nodes_at_work() -> None:
    nodes = Nodes()
    for rank in (0, 1):
        extension = {vocabulary.INCARNATION: f"a{rank}", "Features": "meets", "Round": "7"}
        nodes.scene.report(f"Agent/{rank}", "REGISTER", 0, **extension)
    assert nodes.settle() == []
    nodes.scene.fault(1, 2)
    sent = nodes.settle()
    assert {(command.to, command.code, command.extension["Round"]) for command in sent} == {
        ("Agent/0", 208, "8"),
        ("Agent/1", 208, "8"),
    }


def test_a_retry_of_the_platform_and_a_master_that_fails_are_left_to_this_plugin() -> None:
    nodes = at_work()
    nodes.scene.fault(0, 0)
    assert not any(command.code == 203 for command in nodes.settle())


def test_an_epoch_that_all_have_left_becomes_a_round() -> None:
    """The recovery in place gives up on an epoch that all ranks have left, though no rank has failed."""
    nodes = at_work()
    scene = nodes.scene
    scene.part("new", 0, 1, 2, 3)
    scene.settle()
    scene.part("running", 0, 1, 2, 3, epoch=1)
    scene.settle()
    scene.part("left", 0, 1, 2, 3, epoch=1)
    nodes.settle()
    scene.part("left", 0, 1, 2, 3, epoch=2)
    nodes.beat(0, 1)
    sent = nodes.settle()
    assert {(each.code, each.extension.get("Round")) for each in sent if each.code == 208} == {(208, "2")}
    nodes.ready(2, 0, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]


def test_a_node_whose_device_is_isolated_leaves_and_the_others_wait_for_the_next() -> None:
    nodes = at_work()
    nodes.scene.job.state.records.replace(1)
    nodes.scene.job.state.dirty = True
    sent = nodes.settle()
    assert codes(sent) == [("Agent/1", 203), ("Agent/0", 208)]
    nodes.come(1)
    nodes.settle()
    nodes.ready(2, 0, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]


@pytest.mark.parametrize("failed", [0, 1])
@pytest.mark.parametrize("in_place", [True, False])
def test_a_users_number_counts_before_the_offered_one(in_place: bool, failed: int) -> None:
    nodes = Nodes(UNLIMITED)
    nodes.come(0, most="1")
    nodes.come(1, most="0")
    nodes.settle()
    nodes.ready(1, 0, 1)
    nodes.settle()
    if in_place:
        nodes.scene.part("new", 0, 1, 2, 3)
        nodes.settle()
        nodes.scene.part("running", 0, 1, 2, 3, epoch=1)
        nodes.settle()
    nodes.scene.fault(failed, 2 * failed)
    sent = nodes.settle()
    if failed == 0:
        assert {command.code for command in sent} == ({209, 303} if in_place else {208})
    else:
        assert codes(sent) == [("Agent/0", 203), ("Agent/1", 203)]
        assert sent[0].extension[vocabulary.REASON] == "failure 1 of node 1, which has 0 restarts"


def test_a_go_says_who_restarts() -> None:
    for config, said in ((JOB, "job"), (JobConfig(nodes=2), None)):
        nodes = Nodes(config=config)
        nodes.come(0, 1)
        assert [each.extension.get("Restarts") for each in nodes.settle() if each.code == 210] == [said, said]


def test_a_stored_run_that_began_under_a_platform_stays_there() -> None:
    """Its Agents know of no round, so the Manager could not bring them together."""
    nodes = at_work(config=JobConfig(nodes=2))
    stored = nodes.scene.job.to_json()
    assert not Job.from_json(stored, JOB).config.supervises
    nodes.scene.job.state.records.exit(0)
    nodes.scene.job.state.records.exit(1)
    assert Job.from_json(nodes.scene.job.to_json(), JOB).config.supervises
    assert Job.from_json(at_work().scene.job.to_json(), JOB).config.supervises


def test_a_run_that_goes_on_under_a_platform_waits_for_no_meeting() -> None:
    nodes = at_work()
    nodes.scene.config = replace(JOB, supervises=False)
    nodes.scene.job.config = nodes.scene.config
    nodes.scene.fault(1, 2)
    assert [each.extension.get("Round") for each in nodes.settle() if each.code == 208] == [None]


@pytest.mark.parametrize("platform", [True, False])
def test_it_decides_only_where_no_platform_does(platform: bool) -> None:
    nodes = at_work(config=JobConfig(nodes=2, supervises=not platform))
    nodes.scene.fault(1, 2)
    assert any(command.code == 203 for command in nodes.settle()) is platform


def test_a_manager_without_its_state_that_an_agent_asks_first_learns_of_the_round() -> None:
    """Node 0 has come back with its Manager; node 1 has lost its peers meanwhile."""
    nodes = Nodes()
    nodes.come(0)
    nodes.settle()
    nodes.scene.report("Agent/1", "REGISTER", 0, Incarnation="a", Features="meets", Round="7")
    nodes.scene.fault(1, 2)
    sent = nodes.settle()
    assert [(each.to, each.code, each.extension["Round"]) for each in sent if each.code in (208, 210)] == [
        ("Agent/1", 208, "8"),
        ("Agent/0", 210, "8"),
    ]
    nodes.ready(8, 0, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]


def test_a_node_comes_back_with_a_manager_without_its_state() -> None:
    """The ranks of node 1 have not noticed."""
    nodes = Nodes()
    nodes.scene.report("Agent/1", "REGISTER", 0, Incarnation="a", Features="meets", Round="7")
    nodes.come(0)
    sent = nodes.settle()
    assert [(each.to, each.code, each.extension["Round"]) for each in sent if each.code in (208, 210)] == [
        ("Agent/1", 208, "8"),
        ("Agent/0", 210, "8"),
    ]


def test_an_agent_that_does_not_know_the_message_is_not_told_whom_it_waits_for() -> None:
    nodes = Nodes(features="other")
    nodes.come(1)
    assert nodes.settle() == [] and nodes.tick(TELL_S) == []


def telling(restarts: int = UNLIMITED) -> Nodes:
    """Nodes at work whose Agents say why ranks have failed."""
    nodes = Nodes(restarts, "meets,tells")
    nodes.come(0, 1)
    nodes.settle()
    nodes.ready(1, 0, 1)
    nodes.settle()
    nodes.beat(0, 1)
    nodes.scene.lines.clear()
    return nodes


def test_all_nodes_hear_of_the_first_failure_of_the_job() -> None:
    nodes = telling(restarts=0)
    nodes.fail(0, 9, GLOO)
    assert {command.code for command in nodes.settle()} == {208}, "its peer has not been heard of"
    guilty = nodes.fail(3, 5, BUG, slow=True)
    assert nodes.settle() == [], "the restart answers it, too"
    nodes.ready(2, 0, 1)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 203), ("Agent/1", 203)]
    for command in sent:
        assert read_cause(command.extension["Cause"]) == guilty and command.extension["Others"] == "0"
        assert command.extension["Reason"] == "failure 1 of node 1, which has 0 restarts"
    failures = nodes.scene.job.state.failures
    assert failures.ended == "failure 1 of node 1, which has 0 restarts"
    assert failures.open is not None and failures.open.answer == f"the job has ended: {failures.ended}"
    last = [line for line in nodes.scene.lines if "failure_answered" in line][-1]
    assert "failure_answered 1 rank 3 of node 1: exit code 1: ValueError: boom at train.py, line 3; after it" in last


def test_rank_that_was_ended_while_it_died_is_found_at_the_meeting() -> None:
    """Its Agent has not reported it; it was the first all the same, and its node has no restart left."""
    nodes = telling(restarts=0)
    nodes.fail(0, 9, GLOO)
    nodes.settle()
    nodes.ready(2, 0)
    guilty = Cause(3, 1, "h", 8, 1, "", 5, reason=BUG)
    told = {"LocalWorld": "2", "Cause": write_cause(guilty)}
    nodes.scene.report("Agent/1", "STATUS", vocabulary.READY, "2", **told)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 203), ("Agent/1", 203)]
    assert {command.extension["Reason"] for command in sent} == {"failure 1 of node 1, which has 0 restarts"}


def test_meeting_says_because_of_what_the_round_has_begun() -> None:
    nodes = telling()
    cause = nodes.fail(3, 5, BUG)
    nodes.settle()
    nodes.ready(2, 0, 1)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 305), ("Agent/1", 305)]
    assert {command.extension["Cause"] for command in sent} == {write_cause(cause.brief)}
    nodes.come(1)
    nodes.settle()
    nodes.ready(3, 0, 1)
    assert not any("Cause" in command.extension for command in nodes.settle()), "a node came back"


def test_agents_that_do_not_know_causes_get_none() -> None:
    nodes = at_work(restarts=0)
    nodes.fail(3, 5, BUG)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 203), ("Agent/1", 203)]
    assert not any("Cause" in command.extension for command in sent)


def test_an_agent_speaks_for_its_own_node() -> None:
    nodes = telling(restarts=1)
    nodes.fail(3, 5, BUG, node=0)
    nodes.settle()
    assert nodes.scene.job.state.failures.shown[0].first.node == 1


def test_a_report_that_is_repeated_is_no_further_failure() -> None:
    nodes = telling()
    nodes.fail(3, 5, BUG)
    nodes.fail(3, 5, BUG)
    nodes.settle()
    assert nodes.scene.job.state.failures.count == 1


def test_text_that_is_no_cause_leaves_the_failure_as_it_is() -> None:
    nodes = telling()
    nodes.scene.report("Agent/1", "STATUS", 202, '{"fault_ranks": [3]}', Cause="none")
    assert codes(nodes.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
    (failure,) = nodes.scene.job.state.failures.shown
    assert (failure.first.rank, failure.first.host) == (3, "")


@pytest.mark.parametrize("code", [1, 65])
def test_a_failure_that_comes_again_in_place_ends_the_job(code: int) -> None:
    """The other ranks have left their epoch; exit code 65 needs no second time."""
    nodes = telling()
    scene = nodes.scene
    scene.part("new", 0, 1, 2, 3)
    scene.settle()
    scene.part("running", 0, 1, 2, 3, epoch=1)
    scene.settle()
    if code == 1:
        nodes.fail(3, 5, BUG)
        assert [each.code for each in nodes.settle() if each.code != 303] == [209]
        scene.part("left", 0, 1, 2, epoch=1)
        scene.part("new", 3)
        nodes.settle()
        scene.part("running", 0, 1, 2, 3, epoch=2)
        nodes.settle()
        scene.part("left", 0, epoch=2)
        nodes.settle()
        assert owner(scene) == "RestartPlugin"
    nodes.fail(1, 9, BUG, code=code)
    sent = nodes.settle()
    assert codes(sent) == [("Agent/0", 203), ("Agent/1", 203)]
    assert {each.extension["ExitStatus"] for each in sent} == {str(NEVER_AGAIN)}
    assert owner(scene) == ""


def test_recoveries_in_place_count_as_rounds_do() -> None:
    nodes = telling(restarts=1)
    scene = nodes.scene
    scene.part("new", 0, 1, 2, 3)
    scene.settle()
    for epoch, rank in ((1, 3), (2, 0)):
        scene.part("running", 0, 1, 2, 3, epoch=epoch)
        nodes.settle()
        nodes.fail(rank, epoch, Reason("KeyError", place=Place("a", epoch, "")))
        assert 209 in [each.code for each in nodes.settle()]
        scene.part("left", *({0, 1, 2, 3} - {rank}), epoch=epoch)
        scene.part("new", rank)
        nodes.settle()
    scene.part("running", 0, 1, 2, 3, epoch=3)
    nodes.settle()
    nodes.fail(1, 9, BUG)
    sent = nodes.settle()
    assert {each.extension.get("Reason") for each in sent} == {"failure 2 of node 0, which has 1 restarts"}
    assert not any("ExitStatus" in each.extension for each in sent), "a scheduler may start it again"


@pytest.mark.parametrize("first", [True, False], ids=["ranks-first", "agent-first"])
def test_a_new_manager_brings_a_node_to_ranks_that_have_left_their_epoch(first: bool) -> None:
    """It is lost with node 0. The ranks of node 1 wait in their processes, and so does the launcher of node 0."""
    nodes = Nodes()
    nodes.scene.report("Agent/1", "REGISTER", 0, Incarnation="i1", Features="meets", Round="1")
    if not first:
        nodes.come(0)
    nodes.scene.part(LEFT, 2, 3, epoch=1)
    sent = nodes.settle()
    if first:
        nodes.come(0)
    sent += nodes.settle()
    assert set(codes(sent)) >= {("Agent/0", 210), ("Agent/1", 208)}
    assert owner(nodes.scene) == "RestartPlugin"


def test_ranks_that_lose_their_peers_again_and_again_in_place_come_to_an_end() -> None:
    """Nobody says why, so the begin of the next epoch decides."""
    nodes = telling(restarts=1)
    scene = nodes.scene
    scene.part("new", 0, 1, 2, 3)
    scene.settle()
    sent: list[Command] = []
    for epoch in (1, 2):
        scene.part("running", 0, 1, 2, 3, epoch=epoch)
        nodes.settle()
        nodes.fail(3, epoch, GLOO)
        assert [each.code for each in nodes.settle() if each.code != 303] == [209]
        scene.part("left", 0, 1, 2, epoch=epoch)
        scene.part("new", 3)
        sent = nodes.settle()
        assert {each.code for each in sent} == ({302} if epoch == 1 else {203})
    assert {each.extension.get("Reason") for each in sent} == {"failure 2 of node 1, which has 1 restarts"}


def test_ranks_that_lose_their_peers_where_no_meeting_tells_more_come_to_an_end() -> None:
    nodes = Nodes(1, "tells")
    nodes.come(0, 1)
    nodes.settle()
    nodes.beat(0, 1)
    nodes.fail(3, 1, GLOO)
    assert codes(nodes.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
    nodes.fail(3, 2, GLOO)
    sent = nodes.settle()
    assert {each.extension.get("Reason") for each in sent} == {"failure 2 of node 1, which has 1 restarts"}


def test_few_of_many_ranks_are_told() -> None:
    nodes = telling(restarts=0)
    nodes.scene.report("Agent/0", "STATUS", 202, json.dumps({"fault_ranks": list(range(100))}))
    (told,) = {each.extension["Others"] for each in nodes.settle()}
    assert told == ",".join(map(str, range(1, 65)))


def test_a_wait_for_nodes_can_be_seen_until_they_are_there() -> None:
    nodes = at_work()
    nodes.come(1)
    nodes.settle()
    nodes.ready(2, 0)
    nodes.tick(1.0)
    rounds = nodes.scene.job.state.records.rounds
    assert rounds.missing == {1} and rounds.until == pytest.approx(nodes.scene.now + 99.0, abs=2.0)
    nodes.ready(2, 1)
    nodes.settle()
    rounds = nodes.scene.job.state.records.rounds
    assert (rounds.missing, rounds.until) == (set(), 0.0)


def test_an_old_failure_is_no_reason_to_send_a_node_away() -> None:
    """A platform restarts lost nodes, so no round says when a failure is over."""
    nodes = Nodes(3, "tells", JobConfig(nodes=2, processes_per_node=2))
    nodes.come(0, 1)
    nodes.settle()
    cause = nodes.fail(3, 5, BUG)
    (sent,) = [each for each in nodes.settle() if each.code == 203]
    assert sent.to == "Agent/1" and sent.extension["Cause"] == write_cause(cause.told)
    nodes.come(1)
    nodes.settle()
    nodes.tick(TOGETHER_S)
    nodes.scene.job.state.records.replace(1)
    nodes.scene.job.state.dirty = True
    (sent,) = [each for each in nodes.settle() if each.code == 203]
    assert "Cause" not in sent.extension
    assert nodes.scene.job.state.failures.open is None


def test_a_signal_ends_the_job_while_ranks_gather_in_place() -> None:
    nodes = at_work()
    nodes.scene.part(NEW, 0, 1, 2, 3)
    nodes.settle()
    nodes.scene.part(RUNNING, 0, 1, 2, 3, epoch=1)
    nodes.settle()
    nodes.scene.fault(1, 3)
    assert ("Agent/1", 209) in codes(nodes.settle())
    nodes.scene.report("Agent/0", "STATUS", vocabulary.LEAVES, vocabulary.JOB, Reason="SIGINT")
    assert ("Agent/1", 203) in codes(nodes.settle())


def training(config: JobConfig = JOB) -> Nodes:
    """Nodes whose ranks train together in epoch 1."""
    nodes, world = at_work(config=config), 2 * config.nodes
    nodes.scene.part(NEW, *range(world), world=world)
    nodes.settle()
    nodes.scene.part(RUNNING, *range(world), epoch=1, world=world)
    nodes.settle()
    nodes.beat(*range(config.nodes))
    return nodes


def steps(sent: list[Command]) -> list[tuple[str, int]]:
    """Commands to Agents, without words about a wait."""
    return codes([each for each in sent if each.to.startswith("Agent") and vocabulary.MISSING not in each.extension])


def starts_of(sent: list[Command]) -> set[str]:
    """The starts of all processes before this one, as 305s name them."""
    return {each.extension["Starts"] for each in sent if vocabulary.LOCAL_WORLDS in each.extension}


def test_nodes_that_are_called_twice_start_once() -> None:
    """A rank fails again before they have come together."""
    nodes = at_work()
    nodes.fail(3, 5)
    nodes.settle()
    assert nodes.number == 2
    nodes.ready(2, 0)
    nodes.fail(2, 6)
    nodes.settle()
    assert nodes.number == 3
    nodes.ready(3, 0, 1)
    assert starts_of(nodes.settle() + nodes.tick(60.0)) == {"1"}
    number = nodes.number
    nodes.beat(0, 1)
    nodes.fail(3, 7)
    nodes.settle()
    assert nodes.number == number + 1
    nodes.ready(nodes.number, 0, 1)
    assert starts_of(nodes.settle() + nodes.tick(60.0)) == {"2"}


def test_manager_without_its_state_counts_the_rounds_of_the_nodes_at_work() -> None:
    nodes = Nodes()
    nodes.come(0, Round="4")
    assert nodes.scene.job.state.records.rounds.starts == 3
    nodes.come(1)
    nodes.settle()
    nodes.ready(nodes.number, 0, 1)
    assert starts_of(nodes.settle()) == {"4"}


def store_of(sent: list[Command]) -> set[str]:
    """The stores that commands name."""
    return {each.extension.get(vocabulary.STORE, "") for each in sent}


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("noticed", ["before", "after", "never"])
def test_ranks_of_other_nodes_keep_their_processes_while_a_node_comes_back(back: int, noticed: str) -> None:
    """`noticed`: when the others lose their peers. The store of a new node 0 is told to all."""
    nodes = training()
    scene, others = nodes.scene, (2, 3) if back == 0 else (0, 1)
    if noticed == "before":
        scene.part(LEFT, *others, epoch=1)
        assert steps(nodes.settle()) == []
    nodes.come(back)
    sent = nodes.settle()
    assert steps(sent) == [(f"Agent/{back}", 210)]
    assert {each.extension["Round"] for each in sent if each.code == 210} == {"1"}
    if noticed == "after":
        scene.part(LEFT, *others, epoch=1)
    scene.report(f"Agent/{back}", "STATUS", vocabulary.READY, "1", LocalWorld="2", Store="127.0.0.1:7777")
    sent = nodes.settle()
    meetings = [each for each in sent if each.code == vocabulary.MEETING]
    assert codes(meetings) == [("Agent/0", 305), ("Agent/1", 305)]
    assert store_of(meetings) == {"127.0.0.1:7777" if back == 0 else "127.0.0.1:7001"}
    assert {each.extension["LocalWorlds"] for each in meetings} == {"2,2"}
    assert starts_of(meetings) == {"0"}, "the other ranks have this number, too"
    ended = [each.to for each in sent if each.code == vocabulary.EPOCH_END]
    assert ended == ([f"Worker/All/{others[0]},{others[1]}"] if noticed == "never" else [])
    if noticed == "never":
        scene.part(LEFT, *others, epoch=1)
    scene.part(NEW, *({0, 1, 2, 3} - set(others)))
    (begin,) = nodes.settle()
    assert (begin.code, begin.message) == (vocabulary.EPOCH_BEGIN, "2")
    assert store_of([begin]) == store_of(meetings)
    scene.part(RUNNING, 0, 1, 2, 3, epoch=2)
    assert nodes.settle() == [] and owner(scene) == ""
    assert nodes.number == 1 and scene.job.state.failures.charged == {}
    (loss,) = scene.job.state.failures.shown
    assert told(loss) == f"node {back} was lost"
    assert loss.answer == "the nodes are back; the others have kept their processes"


def test_a_silent_node_is_waited_for_by_ranks_that_keep_their_processes() -> None:
    """It was stopped, and goes on: nothing was restarted. Without its return all end."""
    nodes = training()
    nodes.tick(LOST_S - 1.0)
    nodes.beat(0)
    nodes.tick(2.0)
    nodes.settle()
    assert nodes.scene.job.state.records.rounds.missing == {1}
    assert first_told(nodes) == "node 1 was lost"
    nodes.beat(0, 1)
    assert codes(nodes.tick(TELL_S)) == [("Agent/0", 305), ("Agent/1", 305)]
    assert owner(nodes.scene) == "" and nodes.number == 1
    sent = []
    for _ in range(14):
        nodes.beat(0)
        sent += nodes.tick(10.0)
    assert ("Agent/0", 203) in codes(sent) and 208 not in [each.code for each in sent]


def test_a_lost_node_is_waited_for_from_its_last_word_on() -> None:
    """Ranks that have left their epoch tell that it is lost, so that few seconds of silence do."""
    nodes = training()
    nodes.scene.part(LEFT, 0, 1, epoch=1)
    nodes.settle()
    began = nodes.scene.now
    sent: list[Command] = []
    while ("Agent/0", 203) not in codes(sent):
        nodes.beat(0)
        sent = nodes.tick(1.0)
        assert nodes.scene.now < began + 110.0
        if nodes.scene.now > began + 13.0:
            assert nodes.scene.job.state.records.rounds.missing in ({1}, set())
    assert nodes.scene.now == pytest.approx(began + 100.0, abs=3.0)


def test_a_node_that_a_signal_has_ended_comes_back() -> None:
    nodes = training()
    nodes.scene.report("Agent/1", "STATUS", vocabulary.LEAVES, "", Reason="SIGTERM")
    nodes.scene.part(LEFT, 0, 1, epoch=1)
    nodes.settle()
    nodes.come(1)
    assert steps(nodes.settle()) == [("Agent/1", 210)]
    assert nodes.number == 1


@pytest.mark.parametrize("local", ["1", "3", "x", ""])
def test_a_node_that_comes_back_with_other_ranks_restarts_all(local: str) -> None:
    nodes = training()
    nodes.come(1)
    nodes.settle()
    nodes.scene.report("Agent/1", "STATUS", vocabulary.READY, "1", LocalWorld=local)
    assert codes(nodes.settle()) == [("Agent/0", 208), ("Agent/1", 208)]


def test_ranks_that_would_change_their_nodes_are_restarted() -> None:
    """Of three nodes the first and the last come back with each other's number of ranks."""
    nodes = training(replace(JOB, nodes=3))
    nodes.come(0, 2)
    assert steps(nodes.settle()) == [("Agent/0", 210), ("Agent/2", 210)]
    for rank, local in ((0, "1"), (2, "3")):
        nodes.scene.report(f"Agent/{rank}", "STATUS", vocabulary.READY, "1", LocalWorld=local, Store="h:1")
    assert ("Agent/1", 208) in codes(nodes.settle())


def test_all_start_where_nobody_has_kept_its_processes() -> None:
    nodes = training()
    nodes.come(0, 1)
    sent = nodes.settle()
    assert {(each.code, each.extension["Round"]) for each in sent} == {(210, "2")}


def test_a_second_node_that_is_lost_is_waited_for_too() -> None:
    """Of three nodes two come back, one after the other; with the last survivor lost, all start again."""
    nodes = training(replace(JOB, nodes=3))
    nodes.come(1)
    nodes.settle()
    nodes.come(2)
    assert steps(nodes.settle()) == [("Agent/2", 210)]
    nodes.ready(1, 1)
    assert steps(nodes.settle()) == []
    nodes.ready(1, 2)
    assert steps(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305), ("Agent/2", 305)]
    nodes.come(2)
    nodes.settle()
    nodes.come(0)
    nodes.settle()
    nodes.come(1)
    sent = nodes.settle()
    assert ("Agent/1", 210) in codes(sent) and nodes.number == 2


def test_a_failure_while_a_node_comes_back_restarts_all() -> None:
    nodes = training()
    nodes.come(1)
    nodes.settle()
    nodes.fail(0, 5, BUG)
    assert ("Agent/0", 208) in codes(nodes.settle())


def test_in_place_pauses_grow_as_those_of_rounds_do() -> None:
    """Without a number five failures in ten minutes are the most; the pause comes before the next epoch."""
    nodes = at_work(UNLIMITED)
    scene = nodes.scene
    scene.part(NEW, 0, 1, 2, 3)
    nodes.settle()
    pauses = []
    for epoch in range(1, FAILURES + 1):
        scene.part(RUNNING, 0, 1, 2, 3, epoch=epoch)
        nodes.settle()
        nodes.fail(3, epoch, Reason("KeyError", place=Place("a", epoch, "")))
        nodes.settle()
        scene.part(LEFT, 0, 1, 2, epoch=epoch)
        scene.part(NEW, 3)
        began = scene.now
        while vocabulary.EPOCH_BEGIN not in [each.code for each in nodes.settle()]:
            nodes.beat(0, 1)
            scene.now += 0.5
        pauses.append(round(scene.now - began))
    assert pauses[0] == 0 and pauses == sorted(pauses) and pauses[-1] > pauses[2] > 0


def test_a_retry_time_that_changes_in_a_recovery_in_place_restarts_all() -> None:
    nodes = training()
    nodes.scene.fault(1, 3)
    assert ("Agent/1", 209) in codes(nodes.settle())
    nodes.scene.take(RetryTime(7))
    assert codes(nodes.settle()) == [("Agent/0", 208), ("Agent/1", 208)]


@pytest.mark.parametrize("joining", [False, True])
def test_a_rank_that_does_not_come_restarts_all_in_the_end(joining: bool) -> None:
    """It is restarted once more first, unless the epoch has begun."""
    nodes = training()
    nodes.scene.fault(1, 3)
    nodes.settle()
    nodes.scene.part(LEFT, *((0, 1, 2) if joining else (1, 2)), epoch=1)
    nodes.scene.part(NEW, 3)
    nodes.settle()
    sent = []
    for _ in range(28):
        nodes.beat(0, 1)
        sent += [each for each in codes(nodes.tick(5.0)) if each[0].startswith("Agent")]
    again = [] if joining else [("Agent/0", 209)]
    assert sent == [*again, ("Agent/0", 208), ("Agent/1", 208)]


def test_a_stream_that_an_earlier_release_has_stored_is_given_up() -> None:
    """InPlacePlugin had it with --restarts job."""
    nodes = training()
    streams = nodes.scene.job.state.streams
    streams[RECOVERY].owner = "InPlacePlugin"
    nodes.scene.fault(1, 3)
    assert ("Agent/1", 209) in codes(nodes.settle())
    assert owner(nodes.scene) == "RestartPlugin"


def test_a_wait_has_its_end_as_a_deadline_where_no_word_is_due() -> None:
    """The words about it are late: another plugin has held the stream meanwhile."""
    nodes = Nodes()
    nodes.come(0)
    nodes.settle()
    (plugin,) = (each for each in nodes.scene.job.plugins if isinstance(each, JobRestarts))
    plugin.state.tell = nodes.scene.now
    assert plugin.deadline(nodes.scene.job._snapshot()) == plugin.state.until
