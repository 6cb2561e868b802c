"""OMStressTestPlugin: results of all named Workers."""

from __future__ import annotations

import json

import pytest

from taskd_net.base.limits import STRESS_TEST_S
from taskd_net.job.decide.events import MachineReset, Tick
from taskd_net.job.decide.plugins.stress_test import StressTest, read_result
from taskd_net.job.decide.traffic import Outcome
from tests.jobs.scene import CLUSTERD, Scene, started

OK = '{"rankResult": {"0": {"code": "0", "result": "OK"}}}'


def begun(*ranks: int, away: str = "") -> tuple[Scene, str]:
    """Workers under test, and the test's uuid."""
    scene = Scene()
    scene.workers(*ranks)
    scene.settle()
    scene.away.add(away)
    scene.take(StressTest(dict.fromkeys(ranks, (0,))))
    scene.settle()
    return scene, scene.job.requests["StressTest"].uuid


def result(outcomes: list[Outcome]) -> object:
    """The only reply."""
    (reply,) = [reply for outcome in outcomes for reply in outcome.replies]
    assert reply.rpc == "ReplyStressTestResult"
    return {rank: ops["0"]["code"] for rank, ops in json.loads(reply.result).items()}


def answer(scene: Scene, rank: int, uuid: str, message: str = OK) -> None:
    scene.report(f"Worker/{rank // 2}/{rank}", "ACTION", 205, message, stressTestUUID=uuid)


def test_answers_to_another_test_and_other_reports_do_not_count() -> None:
    scene, uuid = begun(0)
    answer(scene, 0, "another")
    scene.report("Worker/0/0", "STATUS", 1400)
    assert not any(outcome.replies for outcome in scene.settle())
    answer(scene, 0, uuid)
    assert result(scene.settle()) == {"0": "0"}


def test_an_answer_that_cannot_be_read_and_a_new_process_have_failed() -> None:
    scene, uuid = begun(0, 1)
    answer(scene, 0, uuid, "nonsense")
    scene.workers(1)
    assert result(scene.settle()) == {"0": "1", "1": "1"}


def test_a_worker_that_dies_is_found_faulty_at_once() -> None:
    """Also one that was dead before: it takes no 205. With the result 1 the job would train on with it."""
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.workers(2, 3)
    for _ in range(2):
        scene.take(StressTest({2: (0,), 3: (0,)}))
        scene.settle()
        scene.fault(1, 3)
        answer(scene, 2, scene.job.requests["StressTest"].uuid)
        assert result(scene.settle()) == {"2": "0", "3": "3"}


def test_workers_with_heartbeats_have_fifteen_minutes() -> None:
    scene, _ = begun(0)
    for _ in range(int(STRESS_TEST_S / 2.5) - 1):
        scene.report("Worker/0/0", "KEEP_ALIVE", 0)
        assert scene.job.step(scene.now, Tick()).replies == []
        scene.now += 2.5
    scene.report("Worker/0/0", "KEEP_ALIVE", 0)
    assert result([scene.tick(2.5)]) == {"0": "3"}


def test_silence_counts_from_the_arrival_of_the_command() -> None:
    scene, _ = begun(0, 1, away="Worker/0/1")
    begin, outcomes = scene.now, [Outcome()]
    while not outcomes[-1].replies and len(outcomes) < 20:
        if scene.now > begin + 5.0:
            scene.away.clear()
        outcomes.append(scene.tick(scene.job.wake - scene.now))
    assert result(outcomes) == {"0": "3", "1": "3"}
    assert begin + 9.0 <= scene.now < begin + 13.0, "the command took 6 s to arrive"


def test_a_command_of_an_earlier_test_that_is_lost_says_nothing_of_this_one() -> None:
    scene, _ = begun(0, away="Worker/0/0")
    plugin = next(plugin for plugin in scene.job.plugins if plugin.name == "OMStressTestPlugin")
    (command,) = [sending.command for sending in scene.job.state.outbox.sending.values()]
    assert command is not None
    plugin.state.uuid = "later"
    assert plugin.lost(command, scene.job._snapshot()) is False
    assert 0 in plugin.state.waiting


def test_a_test_of_nobody_has_an_empty_result() -> None:
    scene, _ = begun()
    replies = [line for line in scene.lines if "ReplyStressTestResult" in line]
    assert replies == ["  clusterd ReplyStressTestResult {}"]


@pytest.mark.parametrize(
    "message",
    [
        *("", "[]", "{}", '{"rankResult": 1}', '{"rankResult": {"0": 1}}'),
        '{"rankResult": {"0": {"code": 0, "result": "OK"}}}',
        '{"rankResult": {"0": {"code": "0"}}}',
    ],
)
def test_other_answers_cannot_be_read(message: str) -> None:
    assert read_result(message) is None
    assert read_result(OK) == {"0": {"code": "0", "result": "OK"}}


def test_a_test_that_clusterd_has_forgotten_has_no_result() -> None:
    scene, first = begun(0)
    scene.take(MachineReset())
    scene.settle()
    answer(scene, 0, first)
    assert [reply for outcome in scene.settle() for reply in outcome.replies] == []
    assert scene.job.state.streams["OMStressTestStream"].owner == ""


def test_a_further_request_ends_the_wait_for_the_one_before() -> None:
    scene, first = begun(0)
    scene.take(StressTest({0: (0,)}))
    scene.settle()
    second = scene.job.requests["StressTest"].uuid
    answer(scene, 0, first, '{"rankResult": {"0": {"code": "2", "result": "of the first"}}}')
    assert [reply for outcome in scene.settle() for reply in outcome.replies] == []
    answer(scene, 0, second)
    assert result(scene.settle()) == {"0": "0"}
