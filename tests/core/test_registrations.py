"""Registrations without a stream: places by connection and address, turns, and the bound of the line."""

from __future__ import annotations

import pytest

from taskd_net.core.registrations import Registration, Registrations

HERE = "ipv4:10.0.0.1"


def none() -> int:
    """No place is left."""
    return 0


def enter(registrations: Registrations, connection: str, address: str = HERE) -> Registration:
    """A registration that takes nobody's place in line."""
    registration = Registration(connection, address)
    assert registrations.enter(registration) is None
    return registration


def test_connection_has_its_places_and_the_next_waits() -> None:
    registrations = Registrations(2, 9, none, 9)
    one, two, three = (enter(registrations, "a") for _ in range(3))
    assert [one.admitted, two.admitted, three.admitted] == [True, True, False]
    assert enter(registrations, "b").admitted, "another connection has its own"
    assert registrations.leave(two) == [three]
    assert three.admitted
    assert registrations.leave(one) == []


def test_address_has_its_places_and_connections_take_turns() -> None:
    registrations = Registrations(9, 2, none, 9)
    first = [enter(registrations, "a") for _ in range(2)]
    line = [enter(registrations, name) for name in ("a", "a", "b", "b", "c")]
    assert not any(one.admitted for one in line)
    assert enter(registrations, "d", "ipv4:10.0.0.2").admitted, "another address has its own"
    admitted = []
    for held in first:
        admitted += registrations.leave(held)
    while len(admitted) < len(line):
        admitted += registrations.leave(admitted[-1])
    assert admitted == [line[0], line[2], line[4], line[1], line[3]]


@pytest.mark.parametrize(("addresses", "share"), [(1, 30), (2, 20), (3, 15)])
def test_address_alone_gets_half_of_the_places_and_two_a_third_each(addresses: int, share: int) -> None:
    held: list[Registration] = []
    registrations = Registrations(99, 3, lambda: 60 - len(held), 999)
    for number in range(60 * addresses):
        one = enter(registrations, f"c{number}", f"a{number % addresses}")
        held += [one] if one.admitted else []
    assert len(held) == share * addresses
    assert enter(registrations, "next", "a9").admitted


def test_nobody_overtakes_the_line() -> None:
    registrations = Registrations(1, 9, none, 9)
    held, waits = enter(registrations, "a"), enter(registrations, "a")
    registrations.leave(waits)
    assert registrations.leave(held) == []
    held, waits = enter(registrations, "a"), enter(registrations, "a")
    assert enter(registrations, "b").admitted, "the line of a full connection stops nobody else"
    assert registrations.leave(held) == [waits]


def test_caller_that_is_gone_leaves_the_line() -> None:
    registrations = Registrations(9, 1, none, 9)
    held, gone, next_one, last = (enter(registrations, name) for name in "abbc")
    assert registrations.leave(gone) == []
    assert registrations.leave(last) == []
    assert registrations.leave(held) == [next_one]
    assert registrations.leave(next_one) == []
    assert enter(registrations, "d").admitted


def test_connection_at_its_bound_takes_no_turn() -> None:
    registrations = Registrations(1, 2, none, 9)
    held, other = enter(registrations, "a"), enter(registrations, "b")
    again, late = enter(registrations, "a"), enter(registrations, "c")
    assert registrations.leave(other) == [late]
    assert registrations.leave(late) == []
    assert registrations.leave(held) == [again]


def test_longest_line_gives_way_where_all_lines_are_full() -> None:
    registrations = Registrations(1, 1, none, 3)
    held = enter(registrations, "a")
    line = [enter(registrations, "a") for _ in range(3)]
    newcomer = Registration("b", HERE)
    assert registrations.enter(newcomer) is line[-1]
    pushed = Registration("a", HERE)
    assert registrations.enter(pushed) is pushed
    assert registrations.leave(held) == [newcomer]
    assert registrations.leave(newcomer) == [line[0]]


def test_connection_whose_registration_was_admitted_keeps_its_turn() -> None:
    registrations = Registrations(2, 3, none, 9)
    others = [enter(registrations, name) for name in "bbc"]
    first, second = enter(registrations, "a"), enter(registrations, "a")
    assert registrations.leave(others[0]) == [first]
    assert registrations.leave(others[1]) == [second]
