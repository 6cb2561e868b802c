"""The tree in text, from documents."""

from __future__ import annotations

from taskd_net import Position
from taskd_net.base.states import State
from taskd_net.cli.mesh_lines import FOLD_NODES, draw, names
from taskd_net.cli.top import TopView
from taskd_net.observe.document import Document, document
from taskd_net.observe.rates import Rate
from taskd_net.observe.records import Direction, Mesh, NodeStatus, OwnFigures


def job(nodes: int, processes: int, expected: str = "", **changed: NodeStatus) -> Document:
    """A job in which everybody is there, but for what is changed."""
    known = {Position.mgr(): NodeStatus(None, State.JOINED, 3600.0, "taskd_net", own=OwnFigures(listen="h:1"))}
    for node in range(nodes):
        proxy = Position.proxy(node)
        known[proxy] = NodeStatus(Position.mgr(), State.JOINED, 3600.0, "taskd_net", link="batched")
        for rank in range(node * processes, (node + 1) * processes):
            known[Position.worker(node, rank)] = NodeStatus(proxy, State.JOINED, 3600.0, "taskd_net", link="batched")
    known |= {Position.parse(name.replace("_", "/")): status for name, status in changed.items()}
    return document(Mesh(Position.mgr(), 7200.0, expected, list(known.items())))


def text(mesh: Document, *, everything: bool = False) -> str:
    """The lines, without their styles."""
    return "\n".join(line for line, _ in draw(mesh, everything=everything))


def test_a_small_job_is_shown_whole() -> None:
    assert (
        text(job(2, 2, "2x2"))
        == """\
Mgr/0: 7 nodes, 7 joined
missing of 2x2: none
Mgr/0  joined  for 1 h 0 min  listens on h:1
├─ Proxy/0  joined  for 1 h 0 min  batched
│  ├─ Worker/0/0  joined  for 1 h 0 min  batched
│  └─ Worker/0/1  joined  for 1 h 0 min  batched
└─ Proxy/1  joined  for 1 h 0 min  batched
   ├─ Worker/1/2  joined  for 1 h 0 min  batched
   └─ Worker/1/3  joined  for 1 h 0 min  batched"""
    )


def test_of_a_large_job_only_what_is_in_trouble_is_shown() -> None:
    reason = "no sign of life for 60 s"
    lost = NodeStatus(Position.proxy(7), State.LOST, 7190.0, "taskd_net", end_reason=reason)
    full = NodeStatus(
        Position.proxy(9), State.JOINED, 3600.0, "taskd_net", own=OwnFigures(inbox=8, inbox_room=8, inbox_line=3)
    )
    mesh = job(100, 8, "100x8", Worker_7_57=lost, Worker_9_73=full)
    assert (
        text(mesh)
        == """\
Mgr/0: 901 nodes, 900 joined, 1 lost
trouble: Worker 57 lost for 10 s
missing of 100x8: 1: Worker 57
Mgr/0  joined  for 1 h 0 min  listens on h:1
├─ Proxy/7  joined  for 1 h 0 min  batched
│  ├─ Worker/7/57  LOST  for 10 s  no sign of life for 60 s
│  └─ Worker 56,58-63: joined
├─ Proxy/9  joined  for 1 h 0 min  batched
│  ├─ Worker/9/73  joined  for 1 h 0 min  INBOX FULL, 3 wait
│  └─ Worker 72,74-79: joined
└─ Proxy 0-6,8,10-99: joined, with 784 below them"""
    )
    assert text(mesh, everything=True).count("\n") == 3 + 900


def test_a_large_job_without_trouble_takes_four_lines() -> None:
    assert len(draw(job(1000, 8, "1000x8"))) == 4
    assert len(draw(job(FOLD_NODES // 4, 3))) == 3


def test_who_has_left_in_good_order_is_no_trouble_and_is_folded() -> None:
    left = {
        f"Worker_{rank // 8}_{rank}": NodeStatus(Position.proxy(rank // 8), State.FINISHED, 7140.0, "taskd_net")
        for rank in range(12)
    }
    left["Proxy_0"] = NodeStatus(Position.mgr(), State.STOPPED, 7190.0, "taskd_net")
    mesh = job(6, 8, "6x8", **left)
    assert (
        text(mesh)
        == """\
Mgr/0: 55 nodes, 42 joined, 12 finished, 1 stopped
missing of 6x8: none
Mgr/0  joined  for 1 h 0 min  listens on h:1
├─ Proxy 1-5: joined, with 40 below them
└─ Proxy 0: stopped, with 8 below them"""
    )
    lines = text(mesh, everything=True).splitlines()
    assert lines[3:5] == ["├─ Proxy/0  stopped  for 10 s", "│  ├─ Worker/0/0  finished  for 1 min"]


def test_workers_that_have_finished_are_told_apart_from_those_that_have_not() -> None:
    left = {f"Worker_0_{rank}": NodeStatus(Position.proxy(0), State.FINISHED, 7140.0, "taskd_net") for rank in range(4)}
    lost = NodeStatus(Position.proxy(0), State.LOST, 7190.0, "taskd_net")
    assert text(job(6, 8, "", **left, Worker_0_7=lost)).splitlines()[3:6] == [
        "├─ Proxy/0  joined  for 1 h 0 min  batched",
        "│  ├─ Worker/0/7  LOST  for 10 s",
        "│  ├─ Worker 4-6: joined",
    ]


def test_node_that_does_not_answer_is_shown_and_its_siblings_are_folded() -> None:
    silent = NodeStatus(Position.proxy(7), State.NOT_ANSWERING, 7190.0, "taskd_net", link="direct")
    lines = text(job(100, 8, "100x8", Worker_7_57=silent)).splitlines()
    assert lines[0] == "Mgr/0: 901 nodes, 900 joined, 1 not answering"
    assert lines[1:3] == ["trouble: Worker 57 not answering for 10 s", "missing of 100x8: none"]
    assert lines[5:7] == ["│  ├─ Worker/7/57  NOT ANSWERING  for 10 s  direct", "│  └─ Worker 56,58-63: joined"]


def test_trouble_names_what_came_first_and_counts_the_rest() -> None:
    away = {f"Proxy_{node}": NodeStatus(Position.mgr(), State.LOST, 7190.0, "taskd_net") for node in range(20)}
    away |= {f"Worker_0_{rank}": NodeStatus(Position.mgr(), State.GONE, 7000.0, "taskd_net") for rank in range(30)}
    line = text(job(0, 0, "", **away)).splitlines()[1]
    assert line.startswith("trouble: Worker 0-15 and 14 more gone for 3 min; Proxy 0 lost for 10 s; Proxy 1 lost for")
    assert line.endswith("; and 9 more")


def test_link_of_no_better_kind_has_its_reason() -> None:
    own = OwnFigures(link_reason="port h:7 does not answer, tried again every minute")
    shut = NodeStatus(Position.mgr(), State.JOINED, 7190.0, "taskd_net", link="batched", own=own)
    foreign = NodeStatus(Position.proxy(0), State.JOINED, 7190.0, "original", link="tasknet")
    lines = text(job(0, 0, Proxy_0=shut, Worker_0_1=foreign)).splitlines()
    assert lines[2].endswith("  batched: port h:7 does not answer, tried again every minute")
    assert lines[3].endswith("  tasknet: a node of the original: it knows the four calls alone  original")


def test_a_service_is_called_one_and_an_unknown_time_is_left_out() -> None:
    service = NodeStatus(Position.mgr(), State.JOINED, 0.0, "taskd_net", service=True)
    assert text(job(0, 0, Agent_1000=service)).splitlines()[-1] == "└─ Agent/1000  tool or service  joined"


def test_ranks_that_never_came_are_shown_where_they_would_be() -> None:
    shown = text(job(1, 1, "3x2"))
    assert shown.splitlines()[1] == "missing of 3x2: 7: Proxy 1-2; Worker 1-5"
    assert shown.splitlines()[5:] == [
        "│  └─ Worker/0/1  NEVER SEEN",
        "├─ Proxy/1  NEVER SEEN",
        "│  ├─ Worker/1/2  NEVER SEEN",
        "│  └─ Worker/1/3  NEVER SEEN",
        "└─ Proxy/2  NEVER SEEN",
        "   ├─ Worker/2/4  NEVER SEEN",
        "   └─ Worker/2/5  NEVER SEEN",
    ]


def test_a_node_whose_parent_is_not_known_yet_is_shown() -> None:
    orphan = NodeStatus(Position.proxy(8), State.JOINED, 3600.0, "contract")
    assert text(job(1, 0, Worker_8_80=orphan)).splitlines()[-1] == "Worker/8/80  joined  for 1 h 0 min  contract"


def test_colours_say_who_is_in_trouble() -> None:
    away = {state: NodeStatus(Position.mgr(), state, 0.0, "") for state in (State.LOST, State.GONE)}
    behind = NodeStatus(Position.proxy(1), State.JOINED, 3600.0, "")
    lines = draw(job(1, 0, "4x0", Proxy_1=away[State.LOST], Proxy_2=away[State.GONE], Worker_1_1=behind))
    styles = {line.strip("│├└─ ").split("  ")[0]: style for line, style in lines}
    assert styles == {
        "Mgr/0: 5 nodes, 2 joined, 1 lost, 1 gone, 1 cut off": "bold",
        "trouble: Proxy 1 lost, cuts off 1; Proxy 2 gone": "bold red",
        "missing of 4x0: 3: Proxy 1-3": "bold red",
        "Mgr/0": "green",
        "Proxy/0": "green",
        "Proxy/1": "bold red",
        "Worker/1/1": "yellow",
        "Proxy/2": "bold red",
        "Proxy/3": "bold red",
    }


def test_what_is_going_on_is_said() -> None:
    busy = NodeStatus(
        Position.mgr(),
        State.JOINED,
        3600.0,
        "original",
        address="h:9",
        down=Direction(in_flight=3, ack_p50=0.001, ack_p99=0.25),
        own=OwnFigures(
            reconnects=2, up=Direction(in_flight=4, ack_p50=0.0001, ack_p99=1.5), upstream="b:1; not a:1: refused"
        ),
    )
    assert text(job(0, 0, Proxy_3=busy)).splitlines()[-1] == (
        "└─ Proxy/3  joined  for 1 h 0 min  h:9  original  7 in flight  answers in 1/250 ms  "
        "gets answers in 0.1/1.5e+03 ms  reconnected 2 times  upstream b:1; not a:1: refused"
    )


def test_positions_are_named_by_ranges() -> None:
    assert names(["Proxy/2", "Proxy/3", "Worker/0/9", "Worker/1/16", "Worker/1/17"]) == ["Proxy 2-3", "Worker 9,16-17"]


def test_top_is_sorted_by_what_was_asked_for() -> None:
    slow = NodeStatus(
        Position.mgr(), State.JOINED, 3600.0, "", down=Direction(in_flight=9, ack_p99=2.0), own=OwnFigures(inbox=1)
    )
    full = NodeStatus(Position.mgr(), State.JOINED, 3600.0, "", own=OwnFigures(inbox=8, inbox_room=8))
    mesh = job(1, 0, Proxy_1=slow, Proxy_2=full)
    rates = {"Proxy/0": Rate(up_messages=5.0), "Proxy/2": Rate(down_bytes=1e6)}

    def first(by: str) -> str:
        return TopView(by, "Proxy").table(mesh, rates)[2][0].split()[0]

    by = {order: first(order) for order in ("rate", "bytes", "latency", "flight", "inbox", "node")}
    assert by == {
        "rate": "Proxy/0",
        "bytes": "Proxy/2",
        "latency": "Proxy/1",
        "flight": "Proxy/1",
        "inbox": "Proxy/2",
        "node": "Proxy/0",
    }
    assert [len(TopView("rate", role).table(mesh, rates)) for role in (None, "Proxy", "Worker")] == [6, 5, 2]


def test_who_takes_no_messages_is_shown_also_in_a_large_job() -> None:
    own = OwnFigures(inbox=8, inbox_room=8, inbox_closed=True)
    deaf = NodeStatus(Position.proxy(9), State.JOINED, 3600.0, "taskd_net", own=own)
    shown = text(job(100, 8, Worker_9_73=deaf))
    assert "Worker/9/73  joined  for 1 h 0 min  INBOX CLOSED, nobody reads it" in shown
    assert "FULL" not in shown
