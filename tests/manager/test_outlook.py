"""A leader's view of its lease and of its children."""

from __future__ import annotations

from taskd_net.job.manager.outlook import ALONE_S, UNSURE_S, LeaderStep, Outlook


def looks(outlook: Outlook, times: list[float], **seen: bool) -> list[LeaderStep]:
    """The steps of looks at some times."""
    return [outlook.look(now, **({"children": True, "decides": True, "lost": False} | seen))[0] for now in times]


def test_leader_with_its_lease_and_children_goes_on() -> None:
    assert set(looks(Outlook(), [0.0, 1.0, 100.0])) == {LeaderStep.GO_ON}


def test_leader_without_children_resigns_if_it_has_had_some() -> None:
    outlook = Outlook()
    assert set(looks(outlook, [0.0, 10 * ALONE_S], children=False)) == {LeaderStep.GO_ON}, "nobody has come yet"
    looks(outlook, [100.0])
    last = 100.0 + ALONE_S
    assert looks(outlook, [last - 0.1], children=False) == [LeaderStep.GO_ON]
    assert outlook.look(last, children=False, decides=True, lost=False) == (LeaderStep.RESIGN, ALONE_S)


def test_leader_without_children_keeps_a_lease_that_is_unclear() -> None:
    """Nobody else can take it, where all of etcd is away."""
    outlook = Outlook()
    looks(outlook, [0.0])
    assert looks(outlook, [1.0, ALONE_S + 1.0], children=False, decides=False) == [LeaderStep.GO_ON] * 2
    assert looks(outlook, [ALONE_S + 2.0], children=False) == [LeaderStep.RESIGN]


def test_children_look_elsewhere_less_and_less_often_while_the_lease_is_unclear() -> None:
    outlook = Outlook()
    sent = [
        now
        for now in range(200)
        if outlook.look(float(now), children=True, decides=False, lost=False)[0] is LeaderStep.SEND_ELSEWHERE
    ]
    assert sent == [UNSURE_S, 2 * UNSURE_S, 4 * UNSURE_S, 8 * UNSURE_S]
    assert outlook.look(300.0, children=True, decides=True, lost=False) == (LeaderStep.GO_ON, 0.0)
    later = [300.0 + UNSURE_S, 301.0 + 2 * UNSURE_S]
    assert looks(outlook, later, decides=False) == [LeaderStep.GO_ON, LeaderStep.SEND_ELSEWHERE], (
        "it begins from the start"
    )


def test_leader_that_was_replaced_stands_by() -> None:
    assert looks(Outlook(), [0.0, 100.0], decides=False, lost=True) == [LeaderStep.STAND_BY] * 2
