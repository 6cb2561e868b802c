"""The summary of what outside observers saw."""

from taskd_net_lab.demos.job.evidence import Evidence, Seen, Summary

SEEN = [
    Seen("Mgr", "began", 1),
    Seen("Agent/0", "began", 2),
    Seen("Mgr", "registered", 1, 3),
    Seen("Agent/0", "command", 2, 210, "3"),
    Seen("Worker/0", "began", 3, text="3"),
    Seen("Worker/0", "ended", 3),
    Seen("Agent/0", "command", 2, 208, "2"),
    Seen("Worker/0", "began", 4, text="2"),
    Seen("Agent/1", "began", 5),
    Seen("Agent/1", "command", 5, 203),
    Seen("Agent/1", "ended", 5, 1),
    Seen("Mgr", "ended", 1, -9),
    Seen("Mgr", "began", 6),
    Seen("Mgr", "registered", 6, 2),
    Seen("ClusterD", "reply", 6, text="Reply false", uuid="a"),
    Seen("Plugin", "hung", 6),
]
SUMMARY = Summary(
    commands={"Agent/0": "210 3, 208 2", "Agent/1": "203"},
    starts={"Worker/0": "3 2"},
    exits={"Agent/1": "1", "Mgr": "-9"},
    running="Agent/0, Mgr, Worker/0",
    replies="Reply false",
    hung="Plugin",
)


def test_summary_has_commands_processes_exit_codes_and_replies() -> None:
    assert Summary.of(SEEN) == SUMMARY
    assert list(SUMMARY.differences(SUMMARY)) == []


def test_differences_name_the_point_and_the_process() -> None:
    assert list(Summary(commands={"Agent/0": "210 3", "Agent/2": "203"}).differences(SUMMARY)) == [
        "commands of Agent/0: 210 3; expected 210 3, 208 2",
        "commands of Agent/1: none; expected 203",
        "commands of Agent/2: 203; expected none",
        "starts of Worker/0: none; expected 3 2",
        "exits of Agent/1: none; expected 1",
        "exits of Mgr: none; expected -9",
        "running: none; expected Agent/0, Mgr, Worker/0",
        "replies: none; expected Reply false",
        "hung: none; expected Plugin",
    ]


def test_reply_with_a_known_uuid_is_the_same_one() -> None:
    again = [*SEEN, Seen("ClusterD", "reply", 6, text="Reply false", uuid="a")]
    assert Summary.of(again) == SUMMARY
    another = [*SEEN, Seen("ClusterD", "reply", 6, text="Reply false", uuid="b")]
    assert Summary.of(another).replies == "Reply false, Reply false"


def test_evidence_answers_for_the_last_process() -> None:
    seen = Evidence(SEEN)
    assert (seen.pid("Mgr"), seen.pid("Worker/0")) == (6, 4)
    assert (seen.count("Agent/0", "command"), seen.count("Agent/0", "command", 208)) == (2, 1)
    assert seen.registered == 2
    assert Evidence(SEEN[:-3]).registered == 0, "another Mgr has begun"
    assert Evidence().registered == 0
