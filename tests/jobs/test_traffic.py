"""Commands: their forms, and the ones that nobody sends."""

from __future__ import annotations

import json

import pytest

from taskd_net.base.codes import ArgumentError
from taskd_net.base.position import Position
from taskd_net.base.vocabulary import AGENT_COMMANDS
from taskd_net.job.decide.traffic import Command, fault_ranks, rank_texts


@pytest.mark.parametrize(
    "command",
    [
        *(Command("Agent/0", code) for code in (0, 201, 204, 206, 700)),
        Command("Agent/All", 203, msg_type="GRACE_EXIT"),
        Command("Mgr/0", 203),
        Command("Proxy/0", 203),
        Command("Agent/x", 203),
        Command("nobody", 203),
        *(Command("Agent/0", code, message) for code in (208, 210) for message in ("", "many", '["3"]', "1.0")),
        *(Command("Worker/All/All", 302, message) for message in ("", "x", "-1")),
        *(Command("Agent/0", code, message) for code in (209, 213) for message in ("", "3", "[3]", "{")),
    ],
)
def test_a_command_that_its_receiver_might_not_survive_is_refused(command: Command) -> None:
    with pytest.raises(ArgumentError):
        command.require()


def test_the_others_are_not() -> None:
    messages = {203: "", 208: "-1", 209: '["3"]', 210: "3", 213: "[]"}
    assert messages.keys() == AGENT_COMMANDS
    for code, message in messages.items():
        Command("Agent/3", code, message).require()
    Command("Worker/All/All", 7, msg_type="X").require()
    assert Command("Worker/0/3", 205).destination.position == Position.worker(0, 3)


def test_ranks_of_a_command() -> None:
    assert Command("Agent/0", 213, '["4", "3", "x"]').ranks == [4, 3]
    assert Command("Worker/0/3", 209, "none").ranks == []


def test_209_has_both_forms() -> None:
    assert rank_texts({4: 1, 3: 0}) == '["3", "4"]'
    assert json.loads(fault_ranks({4: 1, 3: 0})["FaultRanks"]) == {"3": 0, "4": 1}
