"""Actions of signals."""

from __future__ import annotations

from taskd_net.job.decide.events import Signal
from taskd_net.job.decide.traffic import Call
from tests.jobs.scene import CLUSTERD, Scene, started

IN_PLACE = "recover-in-place"
FAULT = ("on_global_rank", "fault_nodes_restart")
CHANGE = ("change_strategy", "fault_nodes_restart")


def restart(scene: Scene, uuid: str, *ranks: int, change: bool = False) -> list[str]:
    """ClusterD says that ranks are to be restarted in place. Returns the messages of the 209s."""
    kind, actions = ("changeStrategy", CHANGE) if change else ("globalFault", FAULT)
    strategy, params = ("recover", IN_PLACE) if change else ("", "")
    scene.take(Signal(uuid, kind, actions, dict.fromkeys(ranks, 1), strategy, 0, (1,), params))
    return [command.message for outcome in scene.settle() for command in outcome.commands if command.code == 209]


def test_a_round_restarts_each_rank_once() -> None:
    """Its globalFault and its changeStrategy both say it; a slow framework would restart the process twice."""
    scene = started(0, 1, config=CLUSTERD)
    assert restart(scene, "a", 3) == ['["3"]']
    assert restart(scene, "a", 3, change=True) == []
    assert restart(scene, "b", 3) == ['["3"]'], "the next fault"
    assert restart(scene, "b", 2, 3, change=True) == ['["2"]'], "a further rank of it"
    assert restart(scene, "", 3, change=True) == restart(scene, "", 3, change=True) == ['["3"]'], "no uuid, no round"
    assert restart(scene, "", 3) == [], "a globalFault of a round that was given up"


def test_a_round_restarts_a_rank_again_that_has_failed_again() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.fault(1, 3)
    assert restart(scene, "a", 3) == ['["3"]']
    scene.fault(1, 3)
    assert restart(scene, "a", 3, change=True) == ['["3"]']


def test_a_fault_older_than_the_restart_on_its_way_asks_for_no_other() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.away.add("Agent/1")
    assert restart(scene, "a", 3) == ['["3"]']
    scene.fault(1, 3)
    assert restart(scene, "a", 3, change=True) == []


def exits(scene: Scene, uuid: str, kind: str, nodes: tuple[int, ...] = (1,)) -> list[str]:
    """ClusterD says that nodes are to end. Returns the Agents that get 203."""
    strategy = "recover" if kind == "changeStrategy" else ""
    scene.take(Signal(uuid, kind, ("fault_nodes_exit",), {3: 1}, strategy, 0, nodes))
    return [command.to for outcome in scene.settle() for command in outcome.commands if command.code == 203]


def test_a_round_ends_no_node_that_has_come_back() -> None:
    """Its globalFault and its changeStrategy both say it; a slow framework leaves the pod time to come back."""
    scene = started(0, 1, config=CLUSTERD)
    assert exits(scene, "a", "globalFault") == ["Agent/1"]
    assert exits(scene, "a", "changeStrategy") == [], "it has its 203"
    scene.register(1)
    assert exits(scene, "b", "globalFault") == ["Agent/1"], "the next fault"
    scene.register(1)
    assert exits(scene, "b", "changeStrategy") == [], "it has come back"


def test_a_round_ends_a_further_node_beside_one_that_has_come_back() -> None:
    scene = started(0, 1, 2, config=CLUSTERD)
    assert exits(scene, "a", "globalFault") == ["Agent/1"]
    scene.register(1)
    scene.settle()
    assert exits(scene, "a", "changeStrategy", (1, 2)) == ["Agent/2"]


def test_a_round_ends_a_node_again_that_has_failed_again() -> None:
    scene = started(0, 1, config=CLUSTERD)
    assert exits(scene, "a", "globalFault") == ["Agent/1"]
    scene.register(1)
    scene.settle()
    scene.fault(1, 3)
    assert exits(scene, "a", "changeStrategy") == ["Agent/1"]


def test_actions_are_carried_out_in_their_order_and_unknown_ones_left_alone() -> None:
    scene = started(0, config=CLUSTERD)
    scene.signal("globalFault", "no such", "save_and_exit", "pause_train", timeout=900)
    assert scene.tick().calls == [Call("dump"), Call("stop_train", {3: 1}, "pause", timeout=900)]
