"""Ranks of nodes whose launchers have none: the order of arrival, hosts that return, and jobs that are full."""

from __future__ import annotations

from taskd_net.base import vocabulary
from taskd_net.base.position import Position
from taskd_net.job.decide.events import RankWanted, Resumed
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.node_ranks import Holder, NodeRanks
from taskd_net.job.decide.outbox import COMMAND_ATTEMPTS, COMMAND_RETRY_S
from taskd_net.job.decide.snapshot import JobConfig
from tests.jobs.scene import Scene


class Launchers:
    """Launchers that ask, of which some live.

    Args:
        nodes: size of the job.
        joined: nodes that have their ranks from elsewhere.
    """

    def __init__(self, nodes: int, *joined: int) -> None:
        self.ranks = NodeRanks()
        self.nodes = nodes
        self.joined = joined
        self.alive: set[str] = set()

    def ask(self, host: str, key: str) -> int | str:
        """A launcher begins, and asks."""
        asker = Holder(host, key, f"Agent/{key}")
        self.ranks.ask(asker, self.alive)
        found = self.ranks.give(asker, self.nodes, self.joined)
        if isinstance(found, int):
            self.alive.add(asker.position)
        return found

    def end(self, key: str) -> None:
        """A launcher ends."""
        self.alive.remove(f"Agent/{key}")


def test_ranks_are_given_in_the_order_of_arrival_and_a_launcher_keeps_its_own() -> None:
    launchers = Launchers(3)
    assert [launchers.ask(host, key) for host, key in (("b", "1"), ("a", "2"), ("a", "3"))] == [0, 1, 2]
    assert launchers.ask("a", "2") == 1


def test_host_that_returns_gets_the_lowest_of_its_ranks_that_is_free() -> None:
    launchers = Launchers(4)
    for key in "1234":
        launchers.ask("a" if key in "134" else "b", key)
    for key in "43":
        launchers.end(key)
    assert [launchers.ask("a", key) for key in "56"] == [2, 3]
    launchers.end("1")
    assert launchers.ask("a", "7") == 0


def test_new_host_gets_a_fresh_rank_before_one_whose_launcher_is_gone() -> None:
    launchers = Launchers(3)
    launchers.ask("a", "1")
    launchers.ask("b", "2")
    launchers.end("1")
    assert [launchers.ask(host, key) for host, key in (("c", "3"), ("d", "4"))] == [2, 0]
    assert launchers.ask("a", "5") == "all 3 ranks are taken, by d (0), b (1), c (2)"


def test_rank_of_an_agent_that_has_its_own_is_taken() -> None:
    launchers = Launchers(2, 0)
    assert launchers.ask("a", "1") == 1
    assert launchers.ask("b", "2") == "all 2 ranks are taken, by rank 0, a (1)"


def test_of_two_launchers_with_one_rank_the_first_stays_while_it_is_held() -> None:
    ranks = NodeRanks()
    first, second = (Holder(host, host, f"Agent/{host}", pid, 1) for host, pid in (("a", 7), ("b", 8)))
    for held, asker, expected in (
        ([], first, 1),
        ([first.position], first, 1),
        ([first.position], second, "node 1 of this job is run by a, pid 7"),
        ([], second, 1),
    ):
        ranks.ask(asker, held)
        assert ranks.give(asker, 2, {1}) == expected


def test_rank_beyond_the_size_of_the_job_is_refused() -> None:
    ranks, asker = NodeRanks(), Holder("a", "1", "Agent/1", 7, 2)
    ranks.ask(asker, ())
    assert ranks.give(asker, 3, ()) == 2
    said = "this node has the rank 2; expected 0 to 1, as the job has 2 nodes"
    assert ranks.give(asker, 2, ()) == said


def test_launcher_of_another_size_is_refused() -> None:
    """Two nodes that differ in it would be one training of a size that one of them does not want."""
    ranks = NodeRanks()
    for nodes, expected in ((0, 1), (2, 1), (3, "this node was started for 3 nodes, and the Manager for 2")):
        for rank in (1, None):
            asker = Holder("a", "1", "Agent/1", 7, rank, nodes)
            ranks.ask(asker, ())
            assert ranks.give(asker, 2, {0}) == expected


def wanted(key: str, host: str = "a", held: tuple[str, ...] = ()) -> RankWanted:
    return RankWanted(Position.agent(1_000_000_000 + int(key)), key, host, held=held)


def test_answer_is_a_command_to_the_one_who_asks_and_the_rank_is_stored() -> None:
    scene = Scene(JobConfig(nodes=2))
    scene.register(1, process="p")
    scene.settle()
    scene.take(wanted("1"))
    scene.take(wanted("1"))
    (sent,) = [command for outcome in scene.settle() for command in outcome.commands]
    assert (sent.to, sent.code, sent.message) == ("Agent/1000000001", vocabulary.RANK_GIVEN, "0")
    scene.take(wanted("2", "b", ("Agent/1000000001",)))
    (refused,) = [command for outcome in scene.settle() for command in outcome.commands]
    assert (refused.message, refused.extension["Reason"]) == ("", "all 2 ranks are taken, by a (0), rank 1")
    again = Job.from_json(scene.job.to_json(), scene.config)
    again.step(scene.now, Resumed("v"))
    assert again.state.ranks.holders == {0: Holder("a", "1", "Agent/1000000001")}


def test_answer_to_a_launcher_that_is_gone_is_given_up() -> None:
    scene = Scene(JobConfig(nodes=2))
    scene.away.add("Agent/1000000001")
    scene.take(wanted("1"))
    scene.settle()
    for _ in range(COMMAND_ATTEMPTS + 1):
        scene.tick(COMMAND_RETRY_S)
    assert not scene.job.state.outbox.sending


def test_job_of_unknown_size_gives_a_rank_to_everybody() -> None:
    scene = Scene(JobConfig())
    for key in "12":
        scene.take(wanted(key, held=("Agent/1000000001",)))
    assert [command.message for outcome in scene.settle() for command in outcome.commands] == ["0", "1"]
