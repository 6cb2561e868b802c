"""The document of a mesh: states, who is missing, and that docs/status.md has every field."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from taskd_net import Position
from taskd_net.base.expect import Expected
from taskd_net.base.states import State
from taskd_net.observe.document import by_position, children, document, healthy, in_trouble
from taskd_net.observe.job_view import JobView, fields_of_mesh
from taskd_net.observe.records import Direction, Mesh, NodeStatus, OwnFigures

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "status.md"


def status(parent: str | None, state: State = State.JOINED, **fields: object) -> NodeStatus:
    """A node below that one."""
    above = None if parent is None else Position.parse(parent)
    return NodeStatus(above, state, 100.0, "taskd_net", **fields)  # type: ignore[arg-type]


def mesh(several: Mapping[str, NodeStatus] | None = None, *, expected: str = "", **nodes: NodeStatus) -> Mesh:
    """A mesh of these nodes; `Worker_0_1` is Worker/0/1."""
    known = [(Position.parse(name.replace("_", "/")), node) for name, node in {**(several or {}), **nodes}.items()]
    return Mesh(Position.mgr(), 200.0, expected, known)


def states(of: Mesh) -> dict[str, str]:
    """The state of each node."""
    return {node["position"]: node["state"] for node in document(of)["nodes"]}


TWO_NODES = {
    "Worker_1_10": status("Proxy/1"),
    "Worker_1_2": status("Proxy/1"),
    "Mgr_0": status(None),
    "Proxy_1": status("Mgr/0"),
    "Worker_0_0": status("Proxy/0"),
    "Proxy_0": status("Mgr/0"),
}


def test_nodes_are_in_the_order_of_roles_and_ranks() -> None:
    order = ["Mgr/0", "Proxy/0", "Proxy/1", "Worker/0/0", "Worker/1/2", "Worker/1/10"]
    made = document(mesh(TWO_NODES))
    assert [node["position"] for node in made["nodes"]] == list(by_position(made)) == order
    assert {p: [node["position"] for node in nodes] for p, nodes in children(made).items()} == {
        None: ["Mgr/0"],
        "Mgr/0": ["Proxy/0", "Proxy/1"],
        "Proxy/0": ["Worker/0/0"],
        "Proxy/1": ["Worker/1/2", "Worker/1/10"],
    }


@pytest.mark.parametrize("lost", [State.LOST, State.GONE, State.NOT_ANSWERING])
def test_who_is_behind_a_lost_one_is_cut_off(lost: State) -> None:
    nodes = TWO_NODES | {
        "Proxy_1": status("Mgr/0", lost),
        "Proxy_2": status("Proxy/1"),
        "Worker_2_20": status("Proxy/2"),
        "Worker_1_2": status("Proxy/1", State.LOST),
    }
    assert states(mesh(nodes)) == {
        "Mgr/0": "joined",
        "Proxy/0": "joined",
        "Proxy/1": lost,
        "Proxy/2": "cut_off",
        "Worker/0/0": "joined",
        "Worker/1/2": "lost",
        "Worker/1/10": "cut_off",
        "Worker/2/20": "cut_off",
    }


def test_parents_that_are_not_known_or_go_in_a_ring_end_well() -> None:
    ring = mesh(Mgr_0=status(None), Proxy_1=status("Proxy/2"), Proxy_2=status("Proxy/1"), Worker_0_0=status("Proxy/0"))
    assert set(states(ring).values()) == {"joined"}


def test_missing_are_those_that_never_came_and_those_that_are_away() -> None:
    nodes = {
        "Mgr_0": status(None),
        "Proxy_0": status("Mgr/0"),
        "Worker_0_0": status("Proxy/0"),
        "Worker_0_1": status("Proxy/0", State.GONE),
        "Proxy_1": status("Mgr/0", State.LOST),
        "Worker_1_2": status("Proxy/1"),
    }
    made = document(mesh(nodes, expected="2x2"))
    assert made["missing"] == [
        {"position": "Worker/0/1", "why": "gone", "since": 100.0},
        {"position": "Proxy/1", "why": "lost", "since": 100.0},
        {"position": "Worker/1/2", "why": "cut_off", "since": 100.0},
        {"position": "Worker/1/3", "why": "never_seen", "since": None},
    ]
    assert made["summary"] == {
        "nodes": 6, "joined": 3, "not_answering": 0, "lost": 1, "gone": 1, "cut_off": 1, "finished": 0, "stopped": 0,
        "missing": 4, "causes": 2, "in_flight": 0,
    }  # fmt: skip
    assert not healthy(made)


def test_causes_come_first_with_those_that_they_cut_off() -> None:
    nodes = TWO_NODES | {
        "Proxy_1": NodeStatus(Position.mgr(), State.NOT_ANSWERING, 120.0, "taskd_net"),
        "Proxy_2": status("Proxy/1"),
        "Worker_2_20": status("Proxy/2"),
        "Worker_1_2": status("Proxy/1", State.LOST),
        "Proxy_3": NodeStatus(Position.mgr(), State.STOPPED, 90.0, "taskd_net"),
        "Worker_3_30": status("Proxy/3"),
        "Proxy_4": status("Mgr/0", State.STOPPED),
    }
    nodes |= {f"Worker_0_{100 + rank}": status("Proxy/0", State.GONE) for rank in range(20)}
    made = document(mesh(nodes))
    gone = [f"Worker/0/{100 + rank}" for rank in range(16)]
    assert made["causes"] == [
        {"positions": ["Proxy/3"], "count": 1, "state": "stopped", "since": 90.0, "cuts_off": 1},
        {"positions": gone, "count": 20, "state": "gone", "since": 100.0, "cuts_off": 0},
        {"positions": ["Worker/1/2"], "count": 1, "state": "lost", "since": 100.0, "cuts_off": 0},
        {"positions": ["Proxy/1"], "count": 1, "state": "not_answering", "since": 120.0, "cuts_off": 3},
    ]
    assert made["summary"]["causes"] == 4


def test_a_document_names_the_first_causes_and_counts_all() -> None:
    lost = {f"Proxy_{node}": status("Mgr/0", State.LOST) for node in range(20)}
    made = document(mesh({"Mgr_0": status(None), **lost}))
    assert (len(made["causes"]), made["summary"]["causes"]) == (12, 20)


def test_parents_in_a_ring_are_the_cause_of_nothing() -> None:
    ring = {"Proxy_1": status("Proxy/2"), "Proxy_2": status("Proxy/1"), "Worker_0_0": status("Proxy/0", State.CUT_OFF)}
    assert document(mesh({"Mgr_0": status(None), **ring}))["causes"] == []


def test_node_that_does_not_answer_is_trouble_and_not_missing() -> None:
    nodes = {
        "Mgr_0": status(None),
        "Proxy_0": status("Mgr/0"),
        "Worker_0_0": status("Proxy/0", State.NOT_ANSWERING),
    }
    made = document(mesh(nodes, expected="1x1"))
    assert (made["missing"], made["summary"]["not_answering"], healthy(made)) == ([], 1, False)


def test_a_job_that_has_come_to_its_end_does_not_look_like_one_that_never_began() -> None:
    ended = {
        "Mgr_0": status(None),
        "Proxy_0": status("Mgr/0", State.STOPPED),
        "Worker_0_0": status("Proxy/0", State.FINISHED),
        "Worker_0_1": status("Proxy/0", State.FINISHED),
    }
    made = document(mesh(ended, expected="1x2"))
    assert (made["missing"], healthy(made), in_trouble(made)) == ([], True, 0)
    assert [made["summary"][state] for state in ("joined", "finished", "stopped")] == [1, 2, 1]
    began = document(mesh(expected="1x2", Mgr_0=status(None)))
    assert [entry["why"] for entry in began["missing"]] == ["never_seen"] * 3 and not healthy(began)


def test_who_is_left_below_a_stopped_proxy_is_cut_off_since_it_stopped() -> None:
    stopped = NodeStatus(Position.mgr(), State.STOPPED, 150.0, "taskd_net")
    nodes = {
        "Mgr_0": status(None),
        "Proxy_0": stopped,
        "Worker_0_0": status("Proxy/0", State.FINISHED),
        "Proxy_1": status("Proxy/0"),
        "Worker_1_1": status("Proxy/1"),
    }
    made = document(mesh(nodes, expected="2x1"))
    since = {position: (node["state"], node["since"]) for position, node in by_position(made).items()}
    assert since == {
        "Mgr/0": ("joined", 100.0),
        "Proxy/0": ("stopped", 150.0),
        "Proxy/1": ("cut_off", 150.0),
        "Worker/0/0": ("finished", 100.0),
        "Worker/1/1": ("cut_off", 150.0),
    }
    assert [(entry["position"], entry["since"]) for entry in made["missing"]] == [
        ("Proxy/1", 150.0),
        ("Worker/1/1", 150.0),
    ]
    assert in_trouble(made) == 2 and not healthy(made)


def test_since_when_a_node_is_known_may_not_be_known() -> None:
    behind = NodeStatus(Position.proxy(0), State.JOINED, 0.0, "")
    made = by_position(document(mesh(Mgr_0=status(None), Proxy_0=status("Mgr/0"), Worker_0_0=behind)))
    assert made["Worker/0/0"]["since"] is None


def test_tools_and_services_do_not_count() -> None:
    service = status("Mgr/0", service=True)
    nodes = {"Mgr_0": status(None), "Proxy_0": status("Mgr/0"), "Agent_0": service, "Worker_7_1": service}
    made = document(mesh(nodes, expected="1x2"))
    # An Agent that is a service makes no node miss one; a Worker that is one is not the rank that it has.
    assert [entry["position"] for entry in made["missing"]] == ["Worker/0/0", "Worker/0/1"]
    assert [node["position"] for node in made["nodes"] if node["service"]] == ["Agent/0", "Worker/7/1"]
    # A service in an expected place counts as that rank.
    assert healthy(document(mesh(nodes | {"Worker_0_0": service, "Worker_0_1": service}, expected="1x2")))


def test_who_asks_may_expect_something_else_than_the_node_does() -> None:
    whole = mesh(expected="2x0", Mgr_0=status(None), Proxy_0=status("Mgr/0"))
    assert document(whole)["expected"] == {"nodes": 2, "processes": 0}
    assert not healthy(document(whole))
    assert healthy(document(whole, Expected(1, 0)))
    nobody = document(mesh(Mgr_0=status(None)))
    assert (nobody["expected"], nobody["missing"], healthy(nobody)) == (None, [], True)


def test_what_the_parent_counts_and_what_the_node_says_come_together() -> None:
    own = OwnFigures("h:1", 3, 8, 1, 40, 2, 4, Direction(0, 0, 1, 5, 6, 0.1, 0.2))
    node = status("Mgr/0", down=Direction(10, 1000, 2, 3, 4, 0.01, 0.02), up=Direction(20, 2000), own=own, reopened=1)
    made = by_position(document(mesh(Mgr_0=status(None), Proxy_0=node)))["Proxy/0"]
    assert made["down"] == {
        "messages": 10, "bytes": 1000, "failed": 2, "in_flight": 3, "queued": 4, "ack_p50": 0.01, "ack_p99": 0.02,
    }  # fmt: skip
    assert made["up"] == {
        "messages": 20, "bytes": 2000, "failed": 1, "in_flight": 5, "queued": 6, "ack_p50": 0.1, "ack_p99": 0.2,
    }  # fmt: skip
    assert (made["inbox"], made["delivered"], made["lost"]) == (
        {"held": 3, "room": 8, "line": 1, "closed": False},
        40,
        2,
    )
    assert (made["reconnects"], made["listen"]) == (4, "h:1")
    assert document(mesh(Mgr_0=status(None), Proxy_0=node))["summary"]["in_flight"] == 8


def test_who_has_closed_its_inbox_is_not_well() -> None:
    nodes = {"Mgr_0": status(None, own=OwnFigures(inbox_room=8)), "Proxy_0": status("Mgr/0", own=OwnFigures())}
    assert healthy(document(mesh(nodes)))
    deaf = document(mesh({**nodes, "Worker_0_0": status("Proxy/0", own=OwnFigures(inbox_room=8, inbox_closed=True))}))
    assert by_position(deaf)["Worker/0/0"]["inbox"]["closed"] is True
    assert not healthy(deaf)


def test_a_node_that_says_nothing_has_nulls() -> None:
    made = document(mesh(Mgr_0=status(None), Worker_0_0=status("Mgr/0", reopened=2)))
    worker = by_position(made)["Worker/0/0"]
    assert (worker["inbox"], worker["delivered"], worker["lost"], worker["listen"]) == (None, None, None, None)
    assert (worker["reconnects"], worker["process_rank"], worker["version"]) == (2, 0, None)
    assert by_position(made)["Mgr/0"]["process_rank"] is None


@pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")
def test_every_field_is_documented_and_nothing_else() -> None:
    lost = status("Mgr/0", State.LOST)
    made = document(mesh(expected="1x1", Mgr_0=status(None, own=OwnFigures()), Worker_0_5=lost))
    described = {
        field
        for row in re.findall(r"^\| (`[^|]*) \|", DOCUMENT.read_text(), re.MULTILINE)
        for field in re.findall(r"`(\w+)`", row)
    }
    parts = (made, made["summary"], made["causes"][0], made["missing"][0], made["nodes"][0], made["nodes"][0]["up"])
    fields = {name for part in parts for name in part}
    fields |= set(fields_of_mesh(JobView()))  # of a Mgr with a Manager
    assert described == fields | {state.value for state in State}
    assert json.loads(json.dumps(made)) == made


def test_the_reason_for_a_kind_of_link_is_the_childs_own_or_that_of_foreign_nodes() -> None:
    said = status("Mgr/0", link="batched", own=OwnFigures(link_reason="the parent offers no direct link"))
    foreign = NodeStatus(Position.mgr(), State.JOINED, 100.0, "original", link="tasknet")
    silent = status("Mgr/0", link="batched")
    made = by_position(document(mesh(Mgr_0=status(None), Proxy_0=said, Proxy_1=foreign, Proxy_2=silent)))
    assert [made[node]["link_reason"] or "" for node in ("Mgr/0", "Proxy/0", "Proxy/1", "Proxy/2")] == [
        "",
        "the parent offers no direct link",
        "a node of the original: it knows the four calls alone",
        "",
    ]
