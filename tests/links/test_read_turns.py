"""The turns of reads: at once while the loop has time, then by processes; a thousand positions of one process."""

from __future__ import annotations

import asyncio

from taskd_net.net.links import read_turns
from taskd_net.net.links.read_turns import ReadTurns

LONG_S = read_turns.TURN_S


class Socket:
    """A socket whose every slice takes the time of a turn.

    Attributes:
        left: slices.
    """

    def __init__(self, turns: ReadTurns, served: list[str], name: str, place: str, left: int = 1) -> None:
        self._turns = turns
        self._served = served
        self._name = name
        self.place = place
        self.left = left

    def wait(self, size: int = 100) -> None:
        """Wait with so many bytes; with 0, for the next slice of a batch."""
        if size:
            self._turns.wait(self, size)
        else:
            self._turns.wait(self)

    def go_on(self) -> None:
        """Take a slice."""
        self._served.append(self._name)
        self._turns.ended(0.0, LONG_S)
        self.left -= 1
        if self.left:
            self.wait()


def turns() -> tuple[ReadTurns, list[str]]:
    """Turns in this loop, and the names of the sockets in the order of their service."""
    return ReadTurns(asyncio.get_running_loop()), []


async def test_reads_go_at_once_until_they_have_taken_their_time() -> None:
    made, _ = turns()
    assert made.begin("here", 1.0)
    made.ended(1.0, 1.0 + 0.9 * LONG_S)
    assert made.begin("here", 1.0 + 0.9 * LONG_S)
    made.ended(1.0 + 0.9 * LONG_S, 1.0 + LONG_S, left=LONG_S)
    assert not made.begin("here", 1.0 + LONG_S)
    assert made.begin("here", 1.0 + LONG_S + read_turns.GAP_S), "the loop has had other turns"


async def test_read_of_a_process_of_which_others_wait_waits_too() -> None:
    made, served = turns()
    Socket(made, served, "a", "here").wait()
    assert not made.begin("here", 1.0)
    assert made.begin("there", 1.0)
    await asyncio.sleep(0)
    assert served == ["a"] and made.begin("here", 1.0)


async def test_processes_take_turns() -> None:
    made, served = turns()
    for number in range(3):
        Socket(made, served, f"here {number}", "here").wait()
    Socket(made, served, "there", "there").wait()
    for _ in range(4):
        await asyncio.sleep(0)
    assert served == ["here 0", "there", "here 1", "here 2"]


async def test_smallest_and_oldest_of_a_process_take_turns() -> None:
    made, served = turns()
    Socket(made, served, "large", "here").wait(100_000)
    for number in range(3):
        Socket(made, served, f"small {number}", "here").wait(100)
    for _ in range(4):
        await asyncio.sleep(0)
    assert served == ["small 0", "large", "small 1", "small 2"]


async def test_batch_that_has_begun_is_ended_before_others_of_the_process() -> None:
    made, served = turns()
    for number in range(3):
        Socket(made, served, f"here {number}", "here").wait()
    Socket(made, served, "begun", "here").wait(0)
    Socket(made, served, "there", "there").wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert served == ["begun", "there", "here 0", "here 1", "here 2"]
    assert not made.waiting


async def test_socket_that_goes_on_is_served_again_once_a_turn() -> None:
    made, served = turns()
    Socket(made, served, "a", "here", left=3).wait()
    for number in range(1, 4):
        await asyncio.sleep(0)
        assert served == ["a"] * number
    assert not made.waiting


async def test_socket_that_has_ended_is_not_served() -> None:
    made, served = turns()
    gone, other = Socket(made, served, "gone", "here"), Socket(made, served, "other", "there")
    gone.wait()
    other.wait()
    made.drop(gone)
    made.drop(gone)
    await asyncio.sleep(0)
    assert served == ["other"]
