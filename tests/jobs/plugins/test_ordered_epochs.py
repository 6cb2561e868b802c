"""EpochPlugin: epochs that end and begin at ClusterD's orders."""

from __future__ import annotations

import pytest

from taskd_net.base import vocabulary
from taskd_net.base.limits import IN_PLACE_S
from taskd_net.job.decide import epochs
from taskd_net.job.decide.epochs import FINISHED, LEFT, NEW, RUNNING
from taskd_net.job.decide.outbox import COMMAND_ATTEMPTS
from taskd_net.job.decide.plugins.ordered_epochs import OrderedEpochs
from taskd_net.job.decide.plugins.stop_train import STOP_TRAIN_S
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Outcome
from tests.jobs.scene import CLUSTERD, Scene, commands

BOTH = JobConfig(fault_recover="on", clusterd=True, in_place=True)
BEGIN, END = ("Worker/All/All", vocabulary.EPOCH_BEGIN), vocabulary.EPOCH_END
IN_PLACE = "recover-in-place"


def waiting(config: JobConfig = BOTH) -> Scene:
    """Two nodes whose Agents run."""
    scene = Scene(config)
    scene.register(0, 1, process="p")
    scene.settle()
    return scene


def training() -> Scene:
    """Four Workers train in epoch 1."""
    scene = waiting()
    scene.part(NEW, 0, 1, 2, 3)
    assert commands(scene.tick()) == [BEGIN]
    scene.part(RUNNING, 0, 1, 2, 3, epoch=1)
    scene.settle()
    return scene


def stopped() -> Scene:
    """ClusterD has stopped that training, and has had rank 3 restarted."""
    scene = training()
    scene.signal("stopTrain", "stop_train", uuid="u1")
    scene.tick()
    scene.part(LEFT, 0, 1, 2, 3, epoch=1)
    scene.signal("globalFault", "on_global_rank", "fault_nodes_restart", uuid="u1", nodes=(1,))
    assert ("Agent/1", 209) in commands(scene.tick())
    return scene


def decide(scene: Scene, strategy: str = "recover", params: str = IN_PLACE, uuid: str = "u1") -> Outcome:
    scene.signal("changeStrategy", "change_strategy", uuid=uuid, strategy=strategy, nodes=(1,), params=params)
    return scene.tick()


@pytest.mark.parametrize("config", [CLUSTERD, JobConfig(fault_recover="on", clusterd=True)])
def test_without_the_setting_it_wants_nothing(config: JobConfig) -> None:
    scene = waiting(config)
    scene.part(NEW, 0, 1, 2, 3)
    scene.signal("stopTrain", "stop_train")
    assert commands(scene.tick()) == []


def test_a_start_of_all_begins_the_first_epoch() -> None:
    scene = waiting()
    scene.part(NEW, 0, 1, 2)
    assert commands(scene.tick()) == []
    scene.part(NEW, 3)
    (begin,) = scene.tick().commands
    assert (begin.message, begin.extension) == ("1", {"Reason": "start"})


def test_a_stop_ends_the_epoch_of_those_that_live_and_once() -> None:
    scene = training()
    scene.fault(1, 3)
    assert commands(scene.tick()) == [], "ClusterD decides"
    scene.signal("stopTrain", "stop_train", uuid="u1")
    (end,) = scene.tick().commands
    assert (end.to, end.code, end.message) == ("Worker/All/0,1,2", END, "1")
    assert scene.settle()[0].commands == []


def test_a_fault_without_ranks_ends_the_epoch_of_all() -> None:
    scene = training()
    scene.report("Agent/1", "STATUS", 202, "unreadable")
    scene.signal("stopTrain", "stop_train")
    assert commands(scene.tick()) == [("Worker/All/0,1,2,3", END)]


def test_a_worker_that_does_not_leave_in_time_is_restarted_once() -> None:
    """A collective of gloo may wait on; rank 3 is faulty, and ClusterD's."""
    scene = training()
    scene.signal("stopTrain", "stop_train", uuid="u1")
    scene.tick()
    scene.part(LEFT, 0, 2, epoch=1)
    scene.settle()
    assert scene.job.wake == scene.now + IN_PLACE_S
    (restart,) = scene.tick(IN_PLACE_S).commands
    assert (restart.to, restart.code, restart.ranks) == ("Agent/0", 209, [1])
    assert scene.tick(IN_PLACE_S).commands == []


def test_the_next_epoch_waits_for_the_decision_and_for_the_new_process() -> None:
    scene = stopped()
    scene.part(NEW, 3)
    assert commands(scene.tick()) == [], "nothing is decided"
    (begin,) = decide(scene).commands
    assert (begin.code, begin.message, begin.extension) == (302, "2", {"Reason": "ClusterD orders recover"})


def test_a_faulty_rank_that_has_left_is_waited_for_in_its_new_process() -> None:
    scene = stopped()
    assert commands(decide(scene)) == []
    scene.part(NEW, 3)
    assert commands(scene.tick()) == [BEGIN]


def test_an_order_begins_one_epoch() -> None:
    scene = stopped()
    scene.part(NEW, 3)
    decide(scene)
    scene.part(RUNNING, 0, 1, 2, 3, epoch=2)
    scene.settle()
    scene.part(LEFT, 0, 1, 2, 3, epoch=2)
    assert commands(scene.tick()) == [], "ClusterD hears of them, and orders again"
    assert commands(decide(scene, "continue", "", "u2")) == [], "rank 3 is named as faulty, and is an old process"
    scene.part(NEW, 3)
    assert commands(scene.tick()) == [BEGIN]


def test_other_strategies_begin_no_epoch_with_old_processes() -> None:
    scene = stopped()
    scene.part(NEW, 3)
    scene.away |= {"Agent/0", "Agent/1"}
    assert BEGIN not in commands(decide(scene, "exit", ""))


def test_processes_that_start_while_clusterd_stops_wait_for_half_an_hour_at_most() -> None:
    scene = waiting()
    scene.signal("stopTrain", "stop_train")
    scene.settle()
    scene.part(NEW, 0, 1, 2, 3)
    assert commands(scene.tick()) == []
    assert commands(scene.tick(STOP_TRAIN_S)) == [BEGIN]


def test_a_finished_training_begins_no_epoch() -> None:
    scene = training()
    scene.part(FINISHED, 0, 1, 2, 3, epoch=1)
    assert commands(scene.tick()) == []


def test_the_last_beginning_goes_on_until_all_have_it() -> None:
    scene = waiting()
    scene.away.add("Worker/All/All")
    scene.part(NEW, 0, 1, 2, 3)
    sent = [command for outcome in [scene.tick(), *(scene.tick(3.0) for _ in range(7))] for command in outcome.commands]
    assert [command.code for command in sent] == [302] * 8 and len({command.uuid for command in sent}) == 1


def test_a_lost_end_of_an_epoch_is_given_up() -> None:
    scene = training()
    scene.away.add("Worker/All/0,1,2,3")
    scene.signal("stopTrain", "stop_train")
    sent = [command for outcome in [scene.tick(), *(scene.tick(3.0) for _ in range(7))] for command in outcome.commands]
    assert [command.code for command in sent] == [END] * COMMAND_ATTEMPTS
    assert epochs.RUNNING in scene.job.state.records.epochs.phases


def restarts(outcomes: list[Outcome]) -> list[tuple[str, list[int]]]:
    """The 209s of some ticks."""
    return [(each.to, sorted(each.ranks)) for outcome in outcomes for each in outcome.commands if each.code == 209]


def failed(scene: Scene) -> bool:
    (plugin,) = (each for each in scene.job.plugins if isinstance(each, OrderedEpochs))
    return plugin.state.failed == scene.job.state.signal.order


@pytest.mark.parametrize("strategy", ["recover", "continue"])
def test_a_rank_that_dies_after_the_global_fault_is_restarted_by_the_manager(strategy: str) -> None:
    """ClusterD names the ranks of a round with globalFault, and the others waited for two minutes."""
    scene = stopped()
    scene.settle()
    scene.fault(0, 1, at="1000")
    scene.settle()
    assert restarts([decide(scene, strategy)]) == []
    assert restarts(scene.settle()) == [("Agent/0", [1])]
    scene.part(NEW, 1, 3)
    assert BEGIN in commands(scene.tick())
    assert not failed(scene)


def test_a_rank_that_dies_again_after_its_209_gets_one_more_and_no_third() -> None:
    scene = stopped()
    decide(scene)
    scene.settle()
    scene.fault(1, 3)
    assert restarts(scene.settle()) == [("Agent/1", [3])]
    assert not failed(scene)
    scene.fault(1, 3)
    assert restarts(scene.settle()) == []
    assert failed(scene)


@pytest.mark.parametrize("how", ["dies", "leaves"])
def test_a_strategy_fails_at_once_where_a_rank_is_lost_after_the_epoch_has_begun(how: str) -> None:
    scene = stopped()
    decide(scene)
    scene.part(NEW, 3)
    assert BEGIN in commands(scene.tick())
    if how == "dies":
        scene.fault(1, 3)
    else:
        scene.part(LEFT, 0, epoch=2)
    assert restarts(scene.settle()) == []
    assert failed(scene)


def test_a_rank_that_dies_in_training_after_a_round_is_no_part_of_it() -> None:
    scene = stopped()
    decide(scene)
    scene.part(NEW, 3)
    scene.tick()
    scene.part(RUNNING, 0, 1, 2, 3, epoch=2)
    scene.settle()
    scene.fault(1, 3)
    assert restarts(scene.settle()) == []
