"""The scenarios of a training: for each its steps, and the course that outside observers have to see."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from taskd_net.base.vocabulary import GRACE_EXIT, STOP_RANKS
from taskd_net_lab.demos.job.run import Result, play_beside
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.training.evidence import STEPS, Course
from taskd_net_lab.demos.training.stage import CLUSTERD, LOCAL, NODES, PATIENCE_S, Stage

FIRST: Final = 5
"""The step after which something happens."""

IN_PLACE_AT_A_REPORT: Final = {
    "jobs": [{"id": "demo", "nodes": NODES, "processes": LOCAL, "strategies": ["recover-in-place", "exit"]}],
    "steps": [
        {"when": "wait report process recover status", "change": {}},
        {"when": "init", "wait": 0.2, "end": True},
    ],
}
"""A scenario of ClusterD without a fault of its own: it recovers from the one that is reported, and ends."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Args:
        name: for the command line.
        title: a sentence for people.
        play: the steps.
        expected: the course that they have to lead to.
        restarts: restarts of the job.
        in_place: the Manager restarts failed workers alone.
        clusterd: ClusterD decides on faults.
        alone: no platform starts launchers again: the Manager that node 0 starts restarts what fails.
    """

    name: str
    title: str
    play: Callable[[Stage], Awaitable[None]]
    expected: Course
    restarts: int = 3
    in_place: bool = False
    clusterd: bool = False
    alone: bool = False


async def _launcher_killed(stage: Stage, node: int) -> None:
    """A launcher of node 0 takes the Manager along."""
    await stage.start_job()
    await stage.until_step(FIRST)
    await stage.kill_daemon(f"Agent/{node}")
    await stage.launch(node)
    await stage.until_step(STEPS - 1)
    await _both_end(stage)


async def _launcher_0_killed(stage: Stage) -> None:
    await _launcher_killed(stage, 0)


async def _launcher_1_killed(stage: Stage) -> None:
    await _launcher_killed(stage, 1)


async def _same_failure(stage: Stage) -> None:
    """Rank 0 writes the checkpoints."""
    await stage.start_job()
    await stage.until_step(FIRST)
    await stage.block_checkpoints()
    await _both_end(stage)


async def _interrupted(stage: Stage) -> None:
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.interrupt(1)
    await _both_end(stage)


async def _to_the_end(stage: Stage) -> None:
    await stage.start_job()
    await _both_end(stage)


async def _worker_killed(stage: Stage) -> None:
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(3)
    await _node_1_returns(stage)


async def _two_killed(stage: Stage) -> None:
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(2)
    stage.kill(3)
    await _node_1_returns(stage)


async def _two_killed_in_place(stage: Stage) -> None:
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(2)
    stage.kill(3)
    await stage.until_step(STEPS - 1)
    await _both_end(stage)


async def _rank_0_killed(stage: Stage) -> None:
    """The platform replaces the other node, too: torch's store was in the launcher of node 0."""
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(0)
    await stage.ended(0)
    stage.end(1)
    await stage.ended(1)
    for node in range(NODES):
        await stage.launch(node)
    await stage.until_step(STEPS - 1, lives=2)
    await _both_end(stage)


async def _worker_killed_in_place(stage: Stage) -> None:
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(3)
    await stage.until_step(STEPS - 1)
    await _both_end(stage)


async def _second_failure_in_place(stage: Stage) -> None:
    """The restarted worker is killed before it is back."""
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(3)
    await stage.until_lives(3, 2)
    stage.kill(3)
    await _node_1_returns(stage)


async def _node_lost_in_place(stage: Stage) -> None:
    """The platform has another node when the Manager has given up the first."""
    await stage.start_job()
    await stage.until_step(FIRST)
    await stage.kill_daemon("Agent/1")
    await stage.until_no_worker()
    await stage.launch(1)
    await stage.until_step(STEPS - 1, lives=2)
    await _both_end(stage)


async def _rank_0_killed_in_place(stage: Stage) -> None:
    """It writes the checkpoints; torch's store is in its launcher, which lives."""
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(0)
    await stage.until_step(STEPS - 1)
    await _both_end(stage)


async def _ordered_in_place(stage: Stage) -> None:
    """ClusterD knows of a faulty device before its training process does."""
    await stage.start_job()
    await stage.until_step(FIRST)
    await stage.start_clusterd("recover-in-place")
    await _recovered_by_clusterd(stage)


async def _killed_and_ordered_in_place(stage: Stage) -> None:
    """ClusterD learns from the Manager that a training process has died."""
    await stage.start_job()
    await stage.start_clusterd(IN_PLACE_AT_A_REPORT)
    await stage.until_step(FIRST)
    stage.kill(3)
    await _recovered_by_clusterd(stage)


async def _recovered_by_clusterd(stage: Stage) -> None:
    await stage.ended(CLUSTERD)  # its round is over
    await stage.until_step(STEPS - 1)
    await _both_end(stage)


async def _worker_hangs(stage: Stage) -> None:
    await stage.start_job(operated=True)
    await stage.until_step(FIRST)
    stage.freeze(3)
    await stage.until_stalled()
    stage.command("Agent/1", STOP_RANKS, "[3]")
    await _node_1_returns(stage)


async def _restarts_exhausted(stage: Stage) -> None:
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(3)
    await stage.ended(1)
    await stage.launch(1)
    await stage.until_step(FIRST, lives=2)
    stage.kill(3)
    await _both_end(stage)


async def _graceful_exit(stage: Stage) -> None:
    await stage.start_job(operated=True)
    await stage.until_step(FIRST)
    for node in range(NODES):
        stage.command(f"Agent/{node}", 0, msg_type=GRACE_EXIT)
    await _both_end(stage)


async def _manager_killed(stage: Stage) -> None:
    """A training process is killed while there is no Manager."""
    await stage.start_job()
    await stage.until_step(FIRST)
    await stage.kill_daemon("Mgr")
    stage.kill(3)
    await stage.start_mgr()
    await _node_1_returns(stage)


async def _proxy_killed(stage: Stage) -> None:
    """A training process is killed while its node has no Proxy."""
    await stage.start_mgr()
    for node in range(NODES):
        await stage.start_proxy(node)
        await stage.launch(node)
    await stage.until_step(FIRST)
    await stage.kill_daemon("Proxy/1")
    stage.kill(3)
    await stage.start_proxy(1)
    await _node_1_returns(stage)


async def _node_1_returns(stage: Stage) -> None:
    """The Agent of node 1 leaves, the platform starts it again, and the training comes to its end."""
    await stage.ended(1)
    await stage.launch(1)
    await stage.until_step(STEPS - 1, lives=2)
    await _both_end(stage)


async def _both_end(stage: Stage) -> None:
    for node in range(NODES):
        await stage.ended(node)


def _each(lives: int) -> dict[int, int]:
    return dict.fromkeys(range(NODES * LOCAL), lives)


_WELL: Final = {"Agent/0": [0], "Agent/1": [0]}
_SAME: Final = dict.fromkeys(_WELL, "the same failure twice in a row: ")
_CTRL_C: Final = {"Agent/0": "node 1 has got 'SIGINT'", "Agent/1": "SIGINT has come, and the job ends"}
_KILLED: Final = {"Agent/0": [0], "Agent/1": [1, 0]}
_BY_CLUSTERD: Final = Course({**_each(1), 3: 2}, {"Agent/0": [0], "Agent/1": [0], CLUSTERD: [0]})

SCENARIOS: Final = (
    Scenario(
        "alone-worker-killed",
        "Without a platform: the worker alone is restarted, the others keep their processes, and the loss continues",
        _worker_killed_in_place,
        Course({**_each(1), 3: 2}, _WELL),
        alone=True,
    ),
    Scenario(
        "alone-rank-0-killed",
        "Without a platform: rank 0, which writes the checkpoints, is restarted alone",
        _rank_0_killed_in_place,
        Course({**_each(1), 0: 2}, _WELL),
        alone=True,
    ),
    Scenario(
        "alone-launcher-1-killed",
        "The launcher of node 1 is killed with -9 and started again: the processes of node 0 go on",
        _launcher_1_killed,
        Course({**_each(1), 2: 2, 3: 2}, {"Agent/0": [0], "Agent/1": [-9, 0]}),
        alone=True,
    ),
    Scenario(
        "alone-launcher-0-killed",
        "The launcher of node 0 is killed with -9, with its Manager, and started again: those of node 1 go on",
        _launcher_0_killed,
        Course({**_each(1), 0: 2, 1: 2}, {"Agent/0": [-9, 0], "Agent/1": [0]}),
        alone=True,
    ),
    Scenario(
        "alone-same-failure",
        "No checkpoint can be written: at the second failure in the same line both launchers end, and name it",
        _same_failure,
        Course({**_each(1), 0: 2}, {"Agent/0": [65], "Agent/1": [65]}, ends=False, words=_SAME),
        alone=True,
    ),
    Scenario(
        "alone-ctrl-c",
        "Ctrl-C at the launcher of node 1 ends the job on both nodes",
        _interrupted,
        Course(_each(1), {"Agent/0": [1], "Agent/1": [1]}, ends=False, words=_CTRL_C),
        alone=True,
    ),
    Scenario(
        "to-the-end",
        "Four ranks on two nodes train to the last step",
        _to_the_end,
        Course(_each(1), {"Agent/0": [0], "Agent/1": [0]}),
    ),
    Scenario(
        "worker-killed",
        "Its node leaves (203) and returns, the other one restarts (208), from the checkpoint",
        _worker_killed,
        Course(_each(2), _KILLED),
    ),
    Scenario(
        "two-killed",
        "Both workers of a node are killed at once: the same course",
        _two_killed,
        Course(_each(2), _KILLED),
    ),
    Scenario(
        "rank-0-killed",
        "Node 0 leaves (203), and the platform starts both nodes again",
        _rank_0_killed,
        Course(_each(2), {"Agent/0": [1, 0], "Agent/1": [143, 0]}),
    ),
    Scenario(
        "worker-hangs",
        "A worker hangs, an operator has it stopped (213), and its end is a fault as any other",
        _worker_hangs,
        Course(_each(2), _KILLED),
    ),
    Scenario(
        "worker-killed-in-place",
        "The worker alone is restarted (209), the others rejoin in their processes, and the loss continues",
        _worker_killed_in_place,
        Course({**_each(1), 3: 2}, {"Agent/0": [0], "Agent/1": [0]}),
        in_place=True,
    ),
    Scenario(
        "two-killed-in-place",
        "Both workers of a node are killed at once: both are restarted, and the other node's rejoin in their processes",
        _two_killed_in_place,
        Course({**_each(1), 2: 2, 3: 2}, {"Agent/0": [0], "Agent/1": [0]}),
        in_place=True,
    ),
    Scenario(
        "rank-0-killed-in-place",
        "Rank 0, which writes the checkpoints, is restarted alone, and the others rejoin in their processes",
        _rank_0_killed_in_place,
        Course({**_each(1), 0: 2}, {"Agent/0": [0], "Agent/1": [0]}),
        in_place=True,
    ),
    Scenario(
        "second-failure-in-place",
        "The restarted worker is killed again before it is back: its node leaves (203), the other one restarts (208)",
        _second_failure_in_place,
        Course({**_each(2), 3: 3}, _KILLED),
        in_place=True,
    ),
    Scenario(
        "node-lost-in-place",
        "The launcher of a node is killed with -9: the other node restarts (208), and both train on",
        _node_lost_in_place,
        Course(_each(2), {"Agent/0": [0], "Agent/1": [-9, 0]}),
        in_place=True,
    ),
    Scenario(
        "clusterd-in-place",
        "ClusterD orders recover-in-place for a faulty device: stop, 209, and an epoch of all ranks",
        _ordered_in_place,
        _BY_CLUSTERD,
        in_place=True,
        clusterd=True,
    ),
    Scenario(
        "clusterd-worker-killed",
        "A worker is killed, the Manager reports it, and ClusterD orders recover-in-place",
        _killed_and_ordered_in_place,
        _BY_CLUSTERD,
        in_place=True,
        clusterd=True,
    ),
    Scenario(
        "restarts-exhausted",
        "A second worker is killed, no restart remains, and both nodes leave with 1",
        _restarts_exhausted,
        Course(_each(2), {"Agent/0": [1], "Agent/1": [1, 1]}, ends=False),
        restarts=1,
    ),
    Scenario(
        "graceful-exit",
        "GRACE_EXIT ends all workers by SIGTERM, and both nodes leave with 143",
        _graceful_exit,
        Course(_each(1), {"Agent/0": [143], "Agent/1": [143]}, ends=False),
    ),
    Scenario(
        "manager-killed",
        "The Manager and a worker are killed; the next Manager decides on the worker",
        _manager_killed,
        Course(_each(2), {**_KILLED, "Mgr": [-9]}),
    ),
    Scenario(
        "proxy-killed",
        "The Proxy of a node and a worker are killed; the report comes over the next Proxy",
        _proxy_killed,
        Course(_each(2), {**_KILLED, "Proxy/1": [-9]}),
    ),
)


async def play(scenario: Scenario, patience: float = PATIENCE_S) -> Result:
    """Play one scenario."""
    began = time.monotonic()
    problems: list[str] = []
    kind = {"in_place": scenario.in_place, "clusterd": scenario.clusterd, "alone": scenario.alone}
    async with Stage(scenario.restarts, patience, **kind) as stage:
        try:
            await scenario.play(stage)
        except Missed as error:
            problems.append(str(error))
        await stage.settle()
        problems += scenario.expected.differences(stage.evidence)
    return Result(scenario.name, time.monotonic() - began, tuple(problems))


play_all = partial(play_beside, play, together=1)
"""Play scenarios, one after another: each keeps two cores busy."""
