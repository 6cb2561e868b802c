"""InPlacePlugin: failures of some Workers, those that come together, and those that are too many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from taskd_net.base import limits, vocabulary
from taskd_net.base.limits import IN_PLACE_S
from taskd_net.job.decide.epochs import CALLED, FINISHED, LEFT, NEW, RUNNING
from taskd_net.job.decide.events import RetryTime
from taskd_net.job.decide.outbox import COMMAND_RETRY_S
from taskd_net.job.decide.plugins.actions import end_epoch
from taskd_net.job.decide.records import AGENT_SILENT_S
from taskd_net.job.decide.snapshot import JobConfig
from tests.jobs.scene import CLUSTERD, IN_PLACE, LOCAL, Scene, commands, owner, training

BEGIN, END = ("Worker/All/All", vocabulary.EPOCH_BEGIN), vocabulary.EPOCH_END
PODS = [("Agent/1", 203), ("Agent/0", 208)]


def failed(*ranks: int) -> Scene:
    """A training in which ranks of node 1 have failed, and 209 was sent."""
    scene = training()
    scene.fault(1, *(ranks or (3,)))
    scene.settle()
    return scene


def joining() -> Scene:
    """A recovery whose epoch 2 was begun."""
    scene = failed()
    scene.part(LEFT, 0, 1, 2, epoch=1)
    scene.part(NEW, 3)
    assert commands(scene.tick()) == [BEGIN]
    return scene


def beat(scene: Scene, *ranks: int) -> None:
    for rank in ranks:
        scene.report(f"Agent/{rank}", "KEEP_ALIVE", 0)


def test_the_healthy_ranks_keep_their_processes() -> None:
    scene = training()
    scene.fault(1, 3)
    assert commands(scene.tick()) == [("Worker/All/0,1,2", END), ("Agent/1", 209)]
    scene.part(LEFT, 0, 1, 2, epoch=1)
    scene.part(NEW, 3)
    (begin,) = scene.tick().commands
    assert (begin.message, begin.extension) == ("2", {"Reason": "rank 3 failed"})
    assert scene.job.state.records.restarts == 2, "a recovery takes one of the restarts"
    scene.part(RUNNING, 0, 1, 2, 3, epoch=2)
    scene.tick()
    assert owner(scene) == ""


@pytest.mark.parametrize("config", [LOCAL, CLUSTERD])
def test_without_the_setting_it_wants_nothing(config: JobConfig) -> None:
    scene = Scene(config)
    scene.register(0, 1)
    scene.settle()
    scene.part(NEW, 0, 1, 2, 3)
    assert scene.tick().commands == []


def test_with_clusterd_it_leaves_faults_to_that() -> None:
    scene = Scene(JobConfig(fault_recover="on", clusterd=True, in_place=True))
    scene.register(0, 1)
    scene.settle()
    scene.part(NEW, 0, 1, 2, 3)
    scene.settle()
    scene.fault(1, 3)
    assert scene.tick().commands == []


@pytest.mark.parametrize("in_place", [False, True])
def test_workers_wait_for_epochs_only_where_the_manager_begins_them(in_place: bool) -> None:
    scene = Scene(JobConfig(in_place=in_place))
    scene.report("Agent/0", "REGISTER", 0)
    scene.report("Agent/0", "STATUS", 201, "3")
    (start,) = scene.tick().commands
    assert (vocabulary.IN_PLACE in start.extension) is in_place


def test_a_second_failure_of_the_same_rank_is_left_to_the_pods() -> None:
    scene = failed()
    scene.fault(1, 3)
    assert commands(scene.tick()) == PODS


def test_a_report_that_is_older_than_the_restart_is_no_second_failure() -> None:
    scene = training()
    scene.away.add("Agent/1")
    scene.fault(1, 3)
    scene.settle()
    scene.fault(1, 3)
    assert scene.tick().commands == []
    scene.fault(1, 2, 3)
    (command,) = scene.tick().commands
    assert command.message == '["2", "3"]', "it takes the place of the first"


@pytest.mark.parametrize("seconds", [0.5, 1.5])
def test_failures_within_a_second_are_one(seconds: float) -> None:
    scene = failed()
    scene.part(LEFT, 1, epoch=1)
    scene.tick(seconds)
    scene.fault(0, 1)
    expected = [("Agent/0", 209)] if seconds < 1.0 else [("Agent/0", 203)]
    assert commands(scene.tick()) == expected, "a later one is left to others, and Agent 0 ends the job"


def test_a_rank_that_dies_slowly_belongs_to_the_failure() -> None:
    """Its exception was the first; its process ends 5 s after its peers have left."""
    scene = failed()
    scene.part(LEFT, 0, 2, epoch=1)
    scene.tick(5.0)
    scene.fault(0, 1)
    assert commands(scene.tick()) == [("Agent/0", 209)]
    scene.fault(0, 1)
    assert commands(scene.tick()) == [("Agent/0", 203)], "it was restarted already"


def test_an_agent_says_nothing_of_ranks_of_other_nodes() -> None:
    scene = training()
    scene.fault(1, 0)
    assert scene.job.state.records.workers[0].phase == RUNNING


def test_a_failure_while_the_ranks_join_is_a_second_one() -> None:
    scene = joining()
    scene.fault(1, 2)
    assert commands(scene.tick()) == PODS


def test_after_a_round_new_processes_begin_an_epoch_and_failures_before_are_left_to_the_pods() -> None:
    scene = failed()
    scene.fault(1, 3)
    scene.settle()
    scene.part(LEFT, 0, epoch=1)
    scene.register(1, process="q")
    scene.settle()
    assert scene.job.state.records.epochs.phases == {}, "what ends says nothing any more"
    scene.fault(1, 3)
    assert commands(scene.tick()) == PODS
    scene.register(1, process="r")
    scene.settle()
    scene.part(NEW, 0, 1, 2, 3)
    (begin,) = scene.tick().commands
    assert (begin.message, begin.extension) == ("2", {"Reason": "start"})


def test_new_processes_wait_while_one_has_failed() -> None:
    scene = Scene(IN_PLACE)
    scene.register(0, 1)
    scene.settle()
    scene.part(NEW, 0, 1, 2, 3)
    scene.fault(1)
    scene.fault(0, 9)
    assert commands(scene.tick()) == [("Agent/0", 203)]


@pytest.mark.parametrize("ranks", [(), (0, 1, 2, 3), (9,)])
def test_a_failure_of_unknown_ranks_or_of_all_is_left_to_the_pods(ranks: tuple[int, ...]) -> None:
    scene = training()
    message = "rubbish" if not ranks else None
    if message:
        scene.report("Agent/1", "STATUS", 202, message)
    else:
        scene.fault(1, *ranks)
    assert commands(scene.tick()) == PODS


def test_without_a_restart_or_with_a_finished_rank_the_pods_restart() -> None:
    scene = training("0")
    scene.fault(1, 3)
    assert commands(scene.tick()) == PODS
    scene = training()
    scene.part(FINISHED, 0, epoch=1)
    scene.fault(1, 3)
    assert commands(scene.tick()) == PODS


def test_a_rank_that_finishes_meanwhile_ends_the_recovery() -> None:
    scene = failed()
    scene.part(FINISHED, 0, epoch=1)
    assert commands(scene.tick()) == [("Agent/0", 208), ("Agent/1", 208)]
    assert owner(scene) == ""


def test_a_broken_collective_without_a_dead_process_restarts_nobody() -> None:
    scene = training()
    scene.part(LEFT, 2, epoch=1)
    (end,) = scene.tick().commands
    assert (end.to, end.extension) == ("Worker/All/0,1,3", {"Reason": "a collective failed"})
    scene.part(LEFT, 0, 1, 3, epoch=1)
    assert commands(scene.tick()) == [BEGIN]
    scene.part(LEFT, 0, 1, 2, 3, epoch=2)
    assert commands(scene.tick()) == [("Agent/0", 208), ("Agent/1", 208)], "it broke again at once"


def test_a_rank_that_does_not_come_is_restarted_once() -> None:
    scene = failed()
    scene.part(NEW, 3)
    scene.part(LEFT, 0, 2, epoch=1)
    scene.tick()
    scene.now += IN_PLACE_S - 1.0
    beat(scene, 0, 1)
    assert scene.tick().commands == []
    assert [(each.to, each.message) for each in scene.tick(1.0).commands] == [("Agent/0", '["1"]')]
    scene.now += IN_PLACE_S - 1.0
    beat(scene, 0, 1)
    assert commands(scene.tick(1.0)) == [("Agent/0", 203)], "Agent 0 is the job"


def test_a_rank_of_another_node_that_does_not_come_costs_its_node() -> None:
    scene = failed()
    scene.part(LEFT, 0, 1, 2, epoch=1)
    scene.now += IN_PLACE_S - 1.0
    beat(scene, 0, 1)
    assert commands(scene.tick(1.0)) == PODS


def test_a_silent_node_is_lost() -> None:
    scene = training()
    beat(scene, 0, 1)
    scene.part(LEFT, 0, 1, epoch=1)
    scene.settle()
    beat(scene, 0)
    scene.now += AGENT_SILENT_S - 1.0
    beat(scene, 0)
    assert scene.tick().commands == []
    assert commands(scene.tick(1.0)) == PODS


def test_a_node_with_heartbeats_is_not_lost_and_is_looked_at_again() -> None:
    scene = failed()
    scene.part(LEFT, 0, 1, 2, epoch=1)
    scene.settle()
    scene.now += 9.0
    beat(scene, 1)
    assert scene.tick(1.0).commands == []
    assert scene.job.wake == pytest.approx(scene.now + 9.0)
    assert commands(scene.tick(9.0)) == PODS


def test_a_lost_agent_0_ends_the_job() -> None:
    scene = training()
    scene.part(LEFT, 2, 3, epoch=1)
    scene.settle()
    scene.now += AGENT_SILENT_S
    beat(scene, 1)
    outcome = scene.tick()
    assert (commands(outcome), [call.name for call in outcome.calls]) == ([("Agent/0", 203)], ["destroy"])


def test_a_manager_that_lost_its_state_gives_no_number_twice_and_knows_nodes_by_their_size() -> None:
    scene = Scene(IN_PLACE)
    scene.register(0, 1)
    scene.settle()
    scene.part(RUNNING, 0, 1, 2, epoch=7)
    scene.part(LEFT, 0, epoch=7)
    assert commands(scene.tick()) == [("Worker/All/1,2", END)]
    scene.part(LEFT, 1, 2, epoch=7)
    scene.tick()
    scene.now += AGENT_SILENT_S
    beat(scene, 0)
    assert commands(scene.tick()) == PODS
    assert scene.job.state.records.epochs.number == 7


@pytest.mark.parametrize("noticed", [False, True])
def test_a_node_that_is_back_with_another_agent_was_lost(noticed: bool) -> None:
    """Its Agent waits for the others before it starts ranks, so only they are sent 208."""
    scene = training()
    if noticed:
        scene.part(LEFT, 0, 1, epoch=1)
        assert commands(scene.tick()) == [("Worker/All/2,3", END)]
    scene.register(1, process="q")
    assert commands(scene.tick()) == [("Agent/0", 208), ("Agent/1", 210)]
    assert owner(scene) == "" and scene.job.state.records.restarts == 2
    assert scene.settle()[0].commands == []
    scene.part(NEW, 0, 1, 2, 3)
    assert commands(scene.tick()) == [BEGIN]
    scene.part(RUNNING, 0, 1, 2, 3, epoch=2)
    scene.fault(1, 3)
    assert commands(scene.tick()) == [("Worker/All/0,1,2", END), ("Agent/1", 209)], "it is a node like the others again"


def test_a_node_that_is_back_has_started_already_when_the_others_fail() -> None:
    """It has its 210, and waits; a 208 would have it wait for the others a second time."""
    scene = training()
    scene.register(1, process="q")
    scene.fault(0, 1)
    assert commands(scene.tick()) == [("Agent/0", 203), ("Agent/1", 210)]


def test_agent_0_that_is_back_ends_the_job() -> None:
    scene = training()
    scene.register(0, process="q")
    assert commands(scene.tick())[0] == ("Agent/0", 203)


def test_a_node_that_is_back_and_starts_its_ranks_itself_rejoins() -> None:
    scene = training()
    scene.part(LEFT, 0, 1, epoch=1)
    scene.settle()
    scene.register(1, process="q")
    scene.part(NEW, 2, 3)
    assert BEGIN in commands(scene.tick())


def test_an_agent_that_nobody_knows_is_lost() -> None:
    scene = Scene(IN_PLACE)
    scene.register(0)
    scene.settle()
    scene.part(LEFT, 0, 1, epoch=7)
    scene.settle()
    assert commands(scene.tick(AGENT_SILENT_S)) == PODS


@pytest.mark.parametrize("silent", [False, True])
def test_ranks_that_do_not_join_restart_everybody(silent: bool) -> None:
    scene = joining()
    scene.part(RUNNING, 0, 1, epoch=2)
    scene.part(LEFT, 2, epoch=2)
    scene.tick()
    scene.now += IN_PLACE_S
    beat(scene, *((0,) if silent else (0, 1)))
    assert commands(scene.tick()) == (PODS if silent else [("Agent/0", 208), ("Agent/1", 208)])


def test_a_changed_retry_time_has_the_say() -> None:
    scene = failed()
    scene.take(RetryTime(1))
    scene.settle()
    scene.take(RetryTime(2))
    scene.settle()
    assert owner(scene) == "" and scene.job.state.records.epochs.phases == {}


def test_the_last_beginning_goes_on_until_all_have_it() -> None:
    scene = failed()
    scene.away.update(("Worker/All/All", "Worker/All/0,1,2"))
    scene.part(LEFT, 0, 1, 2, epoch=1)
    scene.part(NEW, 3)
    scene.settle()
    sent = [commands(scene.tick(COMMAND_RETRY_S)) for _ in range(6)]
    assert sent[-1] == [BEGIN]
    scene.job.state.records.epochs.number = 3
    sent = [commands(scene.tick(COMMAND_RETRY_S)) for _ in range(6)]
    assert sent[-1] == []


def test_a_lost_end_of_an_epoch_is_given_up_and_a_209_goes_on() -> None:
    scene = training()
    scene.away.update(("Worker/All/0,1,2", "Agent/1"))
    scene.fault(1, 3)
    scene.settle()
    for _ in range(5):
        scene.tick(COMMAND_RETRY_S)
        beat(scene, 0, 1)
    assert [command.code for command in scene.tick(COMMAND_RETRY_S).commands] == [209]


@pytest.mark.parametrize(("more", "to"), [(0, "Worker/All/0,1,2,"), (1, "Worker/All/All")])
def test_a_long_list_of_ranks_becomes_all(more: int, to: str) -> None:
    inside, sent = SimpleNamespace(phase=RUNNING), list[str]()
    workers = dict.fromkeys(range(limits.RANKS_PER_LIST + more), inside)
    snapshot: Any = SimpleNamespace(records=SimpleNamespace(workers=workers, epochs=SimpleNamespace(number=1)))
    plugin: Any = SimpleNamespace(send=lambda receiver, *_: sent.append(receiver))
    assert end_epoch(plugin, snapshot, (), "a fault")
    assert len(sent) == 1 and sent[0].startswith(to)


def test_a_rank_that_fails_as_the_first_epoch_begins_is_restarted() -> None:
    scene = Scene(IN_PLACE)
    scene.register(0, 1)
    scene.settle()
    scene.part(NEW, 0, 1, 2, 3)
    scene.tick()
    assert scene.job.state.records.epochs.phases == {CALLED: 4}
    scene.fault(1, 3)
    assert commands(scene.tick()) == [("Worker/All/0,1,2", END), ("Agent/1", 209)]


def test_when_all_have_left_nobody_is_told_to_leave() -> None:
    scene = training()
    scene.part(LEFT, 0, 1, 2, epoch=1)
    scene.fault(1, 3)
    assert commands(scene.tick()) == [("Agent/1", 209)]
