"""The last hour of a mesh: which events a look finds, which samples it takes, and their bounds."""

from __future__ import annotations

from math import isnan

import pytest

from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.observe import history
from taskd_net.observe.document import Document
from taskd_net.observe.history import VERSION, History
from taskd_net.observe.records import Direction, NodeStatus, OwnFigures, RefusedRegistration
from taskd_net.observe.series import FIELDS

MGR, PROXY, WORKER = Position.mgr(), Position.proxy(1), Position.worker(1, 9)


class Past:
    """A mesh of three nodes and its history."""

    def __init__(self) -> None:
        self.history = History(MGR, "one")
        self.now, self.stepped = 1000.0, 0.0
        own = OwnFigures(inbox_room=8)
        self.nodes = {
            MGR: NodeStatus(None, State.JOINED, 10.0, "taskd_net", "0.2.0"),
            PROXY: NodeStatus(MGR, State.JOINED, 20.0, "taskd_net", "0.2.0", "direct", "10.0.0.2:41", own=own),
            WORKER: NodeStatus(PROXY, State.JOINED, 30.0, "taskd_net", link="direct", own=own),
        }

    def change(self, position: Position, **fields: object) -> None:
        """Change the status of a node."""
        self.nodes[position] = self.nodes[position]._replace(**fields)  # type: ignore[arg-type]

    def look(self, seconds: float = 1.0, *refused: RefusedRegistration) -> None:
        """Let time pass, and take a look."""
        self.now += seconds
        for _ in self.history.look(self.now, self.nodes, refused):
            pass

    def step(self, seconds: float) -> None:
        """Let the host's clock step."""
        self.now += seconds
        self.stepped += seconds
        self.history.follow(self.stepped)

    def told(self, position: Position | None = None) -> Document:
        """The document of a node."""
        return self.history.document(self.now, position)

    def events(self, position: Position) -> list[tuple[float, str, str | None]]:
        """The events of a node."""
        return [(each["time"], each["event"], each["text"]) for each in self.told(position)["events"]]

    def column(self, field: str, position: Position | None = None) -> list[float | None]:
        """One column of the samples."""
        column: list[float | None] = self.told(position)["series"][field]
        return column


@pytest.fixture
def past() -> Past:
    """A mesh that was looked at once, one second after 1000."""
    past = Past()
    past.look()
    return past


def test_the_first_look_finds_who_is_there(past: Past) -> None:
    assert past.events(MGR) == [(10.0, "started", "version 0.2.0")]
    assert past.events(PROXY) == [(20.0, "joined", "below Mgr/0, direct link, from 10.0.0.2:41, version 0.2.0")]
    assert past.events(WORKER) == [(30.0, "joined", "below Proxy/1, direct link")]
    past.look()
    assert len(past.events(WORKER)) == 1


def test_a_node_that_was_never_seen_in_its_place_begins_with_its_state() -> None:
    past = Past()
    past.change(WORKER, state=State.LOST, since=0.0, end_reason="closed by the child")
    past.look()
    assert past.events(WORKER) == [(1001.0, "lost", "closed by the child")]


def test_a_node_is_silent_and_lost_and_gone(past: Past) -> None:
    past.change(WORKER, state=State.NOT_ANSWERING, since=1001.5)
    past.look()
    past.change(WORKER, state=State.LOST, since=1060.0, end_reason="no sign of life for 60 s", link="")
    past.look(60.0)
    past.change(WORKER, state=State.GONE)
    past.look(30.0)
    assert past.events(WORKER)[1:] == [
        (1001.5, "not_answering", None),
        (1060.0, "lost", "no sign of life for 60 s"),
        (1092.0, "gone", "no sign of life for 60 s"),
    ]
    del past.nodes[WORKER]
    past.look()
    assert past.events(WORKER)[-1] == (1093.0, "forgotten", None)


def test_a_node_that_answers_again_is_back(past: Past) -> None:
    past.change(WORKER, state=State.NOT_ANSWERING, since=1001.5)
    past.look()
    past.change(WORKER, state=State.JOINED, since=30.0)
    past.look()
    assert past.events(WORKER)[-1] == (1003.0, "back", "it answers again")


def test_nodes_below_a_lost_one_are_cut_off_and_reached_again(past: Past) -> None:
    past.change(PROXY, state=State.LOST, since=1001.5, end_reason="the connection broke")
    past.look()
    assert past.events(WORKER)[-1] == (1001.5, "cut_off", "Proxy/1 is lost")
    past.change(PROXY, state=State.JOINED, since=1002.5)
    past.look()
    assert past.events(PROXY)[-1] == (
        1002.5,
        "joined_again",
        "below Mgr/0, direct link, from 10.0.0.2:41, version 0.2.0",
    )
    assert past.events(WORKER)[-1] == (1003.0, "back", "it is reached again")


def test_the_nearest_node_that_is_away_is_named(past: Past) -> None:
    below = Position.worker(2, 17)
    past.nodes[Position.proxy(2)] = past.nodes[PROXY]._replace(parent=PROXY)
    past.nodes[below] = past.nodes[WORKER]._replace(parent=Position.proxy(2))
    past.look()
    past.change(PROXY, state=State.GONE, since=1001.5)
    past.look()
    assert past.events(below)[-1] == (1001.5, "cut_off", "Proxy/1 is gone")


def test_a_loss_between_two_looks_is_seen_by_the_new_beginning(past: Past) -> None:
    past.change(WORKER, since=1001.5, reopened=1, link="batched")
    past.look()
    # The kind of link is said with it, and has no event of its own.
    assert past.events(WORKER)[1:] == [(1001.5, "joined_again", "below Proxy/1, batched link")]


def test_a_node_that_leaves_in_good_order(past: Past) -> None:
    past.change(WORKER, state=State.FINISHED, since=1001.5)
    past.look()
    assert past.events(WORKER)[-1] == (1001.5, "finished", None)


def test_another_kind_of_link_is_said_with_its_reason(past: Past) -> None:
    past.change(WORKER, link="batched", own=OwnFigures(link_reason="port 10.0.0.2:4711 does not answer"))
    past.look()
    assert past.events(WORKER)[-1] == (1002.0, "link", "direct → batched: port 10.0.0.2:4711 does not answer")
    past.change(WORKER, link="tasknet", own=None)
    past.look()
    assert past.events(WORKER)[-1] == (1003.0, "link", "batched → tasknet")


@pytest.mark.parametrize("before", [OwnFigures(delivered=5), OwnFigures(reconnects=2)])
def test_own_counters_that_begin_anew_are_those_of_another_process(past: Past, before: OwnFigures) -> None:
    past.change(WORKER, own=before)
    past.look()
    past.change(WORKER, own=OwnFigures(), version="0.3.0")
    past.look()
    assert past.events(WORKER)[-1] == (
        1003.0,
        "restarted",
        "another process: its counters begin at 0, version 0.3.0",
    )


@pytest.mark.parametrize(
    ("own", "down", "reason"),
    [
        (OwnFigures(inbox=8, inbox_room=8, inbox_line=3), Direction(), "its inbox is full: 8 of 8, 3 in line"),
        (OwnFigures(inbox_room=8, up=Direction(queued=2)), Direction(queued=3), "5 messages wait to be written"),
        (None, Direction(queued=3), "3 messages wait to be written"),
    ],
)
def test_a_node_is_strained_once_each_look_of_ten_seconds_has_found_messages_waiting(
    past: Past, own: OwnFigures | None, down: Direction, reason: str
) -> None:
    past.change(WORKER, own=own, down=down)
    past.look()
    past.look(9.0)
    calm = past.nodes[WORKER]._replace(own=OwnFigures(inbox_room=8), down=Direction())
    strained = past.nodes[WORKER]
    past.nodes[WORKER] = calm
    past.look()
    past.nodes[WORKER] = strained
    past.look()
    assert len(past.events(WORKER)) == 1
    past.look(10.0)
    assert past.events(WORKER)[1:] == [(1023.0, "strained", reason)]
    assert past.history.strained == {"Worker/1/9": 1013.0}
    past.look(10.0)
    past.nodes[WORKER] = calm
    past.look()
    assert past.events(WORKER)[2:] == [(1034.0, "relieved", None)]
    assert past.history.strained == {}


def test_an_inbox_that_nobody_reads_is_a_strain_at_once_until_the_node_is_lost(past: Past) -> None:
    past.change(WORKER, own=OwnFigures(inbox_room=8, inbox_closed=True))
    past.look()
    past.change(WORKER, state=State.LOST, since=1003.0)
    past.look()
    assert [event for _, event, _ in past.events(WORKER)] == ["joined", "strained", "lost"]
    assert past.history.strained == {}


def test_forgotten_node_is_strained_no_more(past: Past) -> None:
    past.change(WORKER, own=OwnFigures(inbox_room=8, inbox_closed=True))
    past.look()
    assert past.history.strained == {"Worker/1/9": 1002.0}
    del past.nodes[WORKER]
    past.look()
    assert past.history.strained == {}


def test_a_refused_registration_is_noted_for_a_known_node_alone(past: Past) -> None:
    stranger = Position.worker(7, 99)
    for _ in range(3):
        past.look(
            1.0,
            RefusedRegistration(past.now, WORKER, "the certificate is for Worker/1/8"),
            RefusedRegistration(past.now, stranger, "no"),
        )
    told = past.told(WORKER)["events"][-1]
    assert told == {"time": 1003.0, "event": "refused", "text": "the certificate is for Worker/1/8", "times": 3}
    assert past.told(stranger)["events"] == []


def test_a_ring_of_parents_ends() -> None:
    past = Past()
    past.change(PROXY, parent=WORKER)
    past.look()
    assert past.told(WORKER)["events"]


def test_events_of_all_nodes_are_bounded(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        past.change(WORKER, since=1001.0 + number, reopened=number)
        past.look()
    assert len(past.told(WORKER)["events"]) == history.EVENTS_EACH
    del past.nodes[WORKER]
    past.look()
    past.look(history.HISTORY_S + 60.0)
    assert past.told(WORKER)["events"] == []
    assert past.told(PROXY)["events"] != []


def test_the_document_has_a_version_and_a_column_for_each_field(past: Past) -> None:
    told = past.told(WORKER)
    assert list(told) == ["version", "node", "position", "life", "time", "step", "series", "events"]
    assert (told["version"], told["node"], told["position"], told["life"]) == (VERSION, "Mgr/0", "Worker/1/9", "one")
    assert (told["time"], told["step"], list(told["series"])) == (1001.0, 20.0, ["times", *FIELDS])
    assert past.told()["position"] is None


def test_a_sample_is_taken_each_step_however_often_somebody_looks(past: Past) -> None:
    for _ in range(41):
        past.look()
    assert past.told()["series"]["times"] == [1001.0, 1021.0, 1041.0]


def test_rates_are_those_between_two_samples_and_times_the_most_since_the_last_one(past: Past) -> None:
    figures = Direction(messages=100, in_flight=9, ack_p50=0.001, ack_p99=0.5)
    past.change(WORKER, at=1010.0, down=figures, own=OwnFigures(up=Direction(in_flight=1, ack_p99=0.25)))
    past.look(9.0)
    calm = Direction(messages=300, in_flight=1, ack_p50=0.002, ack_p99=0.003)
    past.change(WORKER, at=1021.0, down=calm, up=Direction(messages=40), own=OwnFigures(up=Direction(ack_p99=0.004)))
    past.look(11.0)
    told = past.told(WORKER)["series"]
    assert [told[field] for field in FIELDS] == [
        [None, 15.0],
        [None, 2.0],
        [None, 0.002],
        [None, 0.5],
        [0.0, 10.0],
        [None, 0.25],
    ]
    # The peaks belong to one sample. Unchanged figures are a rate of 0.
    past.look(20.0)
    assert (past.column("down", WORKER)[-1], past.column("down_p99", WORKER)[-1]) == (0.0, 0.003)
    assert (past.column("down")[1:], past.column("down_p99")[1:]) == ([15.0, 0.0], [0.5, 0.003])
    assert past.column("in_flight")[1:] == [10.0, 1.0]


def test_counters_that_begin_anew_make_no_rate(past: Past) -> None:
    past.change(WORKER, at=1021.0, down=Direction(messages=100))
    past.look(20.0)
    past.change(WORKER, at=1041.0, down=Direction(messages=5))
    past.look(20.0)
    assert past.column("down", WORKER) == [None, 5.0, None]


def test_a_lost_node_has_no_values_and_its_plot_a_gap(past: Past) -> None:
    past.change(WORKER, at=1021.0, down=Direction(messages=20))
    past.look(20.0)
    past.change(WORKER, state=State.LOST, since=1030.0)
    past.look(20.0)
    past.change(WORKER, state=State.JOINED, since=1050.0, at=1050.0)
    past.look(20.0)
    past.change(WORKER, at=1081.0, down=Direction(messages=82))
    past.look(20.0)
    assert past.column("down", WORKER) == [None, 1.0, None, None, 2.0]
    assert past.column("in_flight", WORKER) == [0.0, 0.0, None, 0.0, 0.0]


def test_a_time_in_which_nobody_looked_is_a_gap(past: Past) -> None:
    past.look(20.0)
    past.look(600.0)
    assert past.told()["series"]["times"] == [1001.0, 1021.0, 1321.0, 1621.0]
    assert past.column("in_flight") == [0.0, 0.0, None, 0.0]


def test_the_last_hour_is_told_and_no_more(past: Past) -> None:
    for _ in range(400):
        past.look(20.0)
    times = past.told()["series"]["times"]
    assert len(times) == history.HISTORY_S / history.SAMPLE_S
    assert past.now - times[0] < history.HISTORY_S and times[-1] == past.now


def test_a_look_is_taken_by_slices() -> None:
    past = Past()
    for rank in range(1000):
        past.nodes[Position.worker(1, rank)] = past.nodes[WORKER]
    assert sum(1 for _ in past.history.look(past.now, past.nodes)) > 1000 / history.SLICE
    assert not isnan(past.history.series.last)


@pytest.mark.parametrize("step", [-500.0, 7200.0])
def test_after_a_step_of_the_clock_samples_go_on(past: Past, step: float) -> None:
    """Events keep their distance to the present, and a link whose begin has moved has not joined again."""
    past.look()
    before = past.told(WORKER)
    ages = [past.now - each["time"] for each in before["events"]]
    past.step(step)
    past.change(WORKER, since=30.0 + step)
    past.look()
    after = past.told(WORKER)
    assert [each["event"] for each in after["events"]] == [each["event"] for each in before["events"]]
    assert [past.now - each["time"] for each in after["events"]] == [age + 1.0 for age in ages]
    past.look(past.history.series.step)
    times = past.told(WORKER)["series"]["times"]
    assert times == sorted(times) and times[-1] == past.now and len(times) > len(before["series"]["times"])


@pytest.mark.parametrize("step", [-500.0, 7200.0])
def test_a_strain_keeps_its_age_over_a_step(past: Past, step: float) -> None:
    past.change(WORKER, own=OwnFigures(inbox=8, inbox_room=8, inbox_line=2))
    past.look()
    past.step(step)
    past.look()
    assert past.history.strained == {}, "the step is no wait"
    past.look(history.STRAINED_S + 1.0)
    age = past.now - past.history.strained["Worker/1/9"]
    past.step(step)
    past.look()
    assert past.now - past.history.strained["Worker/1/9"] == age + 1.0


def test_a_clock_that_has_not_stepped_moves_nothing() -> None:
    past = Past()
    past.look()
    before = past.told()
    past.step(0.0)
    assert past.told() == before
