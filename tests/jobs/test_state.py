"""The stored state: it comes back whole, an older one is read, a newer one refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.base.position import Position
from taskd_net.job.decide.events import Acknowledged, Reported, Resumed, Signal, Tick, Unbarred
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.outbox import COMMAND_ATTEMPTS
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.state import SCHEMA
from taskd_net.job.profiling_domains import ProfilingSwitch
from tests.jobs.scene import CLUSTERD, LOCAL, Scene, started

STATES: Final = Path(__file__).parent / "states"
"""States that earlier code has written. `schema-1` is of the last commit before version 2."""


def test_a_newer_one_is_refused_in_words() -> None:
    text = json.dumps({"schema": SCHEMA + 1, "state": {}})
    with pytest.raises(ConfigError, match=rf"schema {SCHEMA + 1}, of a newer release; this one reads up to {SCHEMA}"):
        Job.from_json(text, LOCAL)


@pytest.mark.parametrize("text", ["nonsense", "[]", "{}", '{"schema": "1"}', '{"schema": 1, "state": 3}'])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="state"):
        Job.from_json(text, LOCAL)


def test_an_older_one_is_read() -> None:
    job = started(0, 1).job
    stored = json.loads(job.to_json())
    older = {"schema": SCHEMA - 1, "state": {"seed": "u", "numbered": 2, "records": stored["state"]["records"]}}
    read = Job.from_json(json.dumps(older), LOCAL)
    assert read.state.records == job.state.records
    assert read.state.uuid() == "u-3"


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("release", ["0.2.0", "schema-1"])
def test_the_state_of_an_earlier_release_goes_on(release: str, parts: bool) -> None:
    """Its Manager ended while ClusterD waited for a switch of cards and a stress test, in a round."""
    stored = json.loads((STATES / f"{release}.json").read_text())
    config = JobConfig(nodes=2, processes_per_node=2, fault_recover="on", clusterd=True)
    if parts:
        job = Job.from_parts({name: json.dumps(value) for name, value in stored["parts"].items()}, config)
    else:
        job = Job.from_json(json.dumps(stored["text"]), config)
    assert job.to_json() == Job.from_json(job.to_json(), config).to_json()
    job.step(1003.0, Resumed("v"))
    sent = {command.code: command for command in job.step(1003.0, Tick()).commands}
    assert {command.uuid for command in sent.values()} >= {"u-5", "u-6", "u-7"}
    test = sent[205].extension["stressTestUUID"]
    result = {"0": {"code": "0", "result": "ok"}}
    said = [(rank, 204, "switchOK", {"switchNicUUID": sent[204].extension["switchNicUUID"]}) for rank in (1, 2, 3)]
    said += [(2, 205, json.dumps({"rankResult": result}), {"stressTestUUID": test})]
    for number, (rank, code, message, extension) in enumerate(said):
        source = Position.worker(rank // 2, rank)
        assert job.step(1004.0, Reported(source, "ACTION", code, message, extension, f"w{number}")).taken
    replies = {reply.rpc: json.loads(reply.result) for reply in job.step(1004.0, Tick()).replies}
    assert replies == {"ReplySwitchNicResult": True, "ReplyStressTestResult": {"2": result}}
    assert job.requests["ProfilingSwitch"] == ProfilingSwitch(default=True)
    assert not job.step(1005.0, Signal("s1", "stopTrain", ("stop_train",), {2: 1}, node_rank_ids=(1,))).taken


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(
    ("signal", "ranks"),
    [
        (Signal("u", "stopTrain", ("stop_train",), {3: 1}), {3: 1}),
        (Signal("u", "globalFault", ("on_global_rank",), {2: 1, 3: 1}), {2: 1, 3: 1}),
        (Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "recover"), {}),
    ],
)
def test_a_round_of_0_2_0_is_open_until_its_strategy(signal: Signal, ranks: dict[int, int], parts: bool) -> None:
    """It has no open faults in its state. After the strategy the round may be over."""
    scene = started(0, 1, config=CLUSTERD)
    scene.take(signal)
    scene.settle()
    if parts:
        stored = dict(scene.parts) | parts_of(scene.job)
        rest = json.loads(stored["rest"])
        del rest["state"]["open_faults"]
        job = Job.from_parts(stored | {"rest": json.dumps(rest)}, CLUSTERD)
    else:
        whole = json.loads(scene.job.to_json())
        del whole["state"]["open_faults"]
        job = Job.from_json(json.dumps(whole), CLUSTERD)
    assert job.state.open_faults.ranks == ranks
    assert job.state.open_faults.stopped == bool(ranks)


def test_a_plugin_that_fails_to_read_its_state_is_named() -> None:
    stored = json.loads(started(0).job.to_json())
    stored["plugins"]["StopTrainPlugin"] = {"until": "x"}
    with pytest.raises(ConfigError, match=r"plugins\.StopTrainPlugin\.until is 'x'; expected float"):
        Job.from_json(json.dumps(stored), LOCAL)


def parts_of(job: Job) -> dict[str, str]:
    """The parts of a state that is stored for the first time."""
    return {name: text for name, text in job.unsaved().items() if text is not None}


def test_only_changed_parts_are_unsaved() -> None:
    scene = Scene()
    scene.register(0, 1)
    scene.workers(2)
    scene.job.step(scene.now, Tick())
    sending = scene.job.state.outbox.commands()
    always = {"rest", "plugins", "devices"}
    names = {"agent/0", "agent/1", "worker/2", "books", "hangs", *always, *(f"sending/{uuid}" for uuid in sending)}
    assert scene.job.unsaved().keys() == names and len(sending) == 2
    assert scene.job.unsaved().keys() == always
    scene.job.step(scene.now, Acknowledged(sending[0]))
    assert scene.job.unsaved()[f"sending/{sending[0]}"] is None


def test_parts_that_are_none_are_refused() -> None:
    parts = parts_of(started(0).job)
    wrong: list[dict[str, str]] = [{}, parts | {"rest": '{"schema": 1}'}]
    wrong += [parts | {"agent/0": text} for text in ("nonsense", "3")]
    wrong += [parts | {"devices": "[]"}]
    for each in wrong:
        with pytest.raises(ConfigError, match=r"stored state|agents|state\.devices is"):
            Job.from_parts(each, LOCAL)


def test_a_manager_that_goes_on_sends_again_what_is_on_its_way() -> None:
    scene = Scene()
    scene.register(0)
    (command,) = scene.job.step(scene.now, Tick()).commands
    job = Job.from_parts(parts_of(scene.job), LOCAL)
    assert job.wake > scene.now + 1.0
    job.step(scene.now + 0.5, Resumed("v"))
    for _ in range(2):
        assert job.step(scene.now + 0.5, Tick()).commands == [command]
        # However often it was tried, its receivers have to rejoin first.
        job.state.outbox.sending[command.uuid].tries = COMMAND_ATTEMPTS
        job.step(scene.now + 0.5, Resumed("v"))
    assert (job.state.records.since, job.state.outbox.codes_to("Agent/0")) == (scene.now + 0.5, [210])
    assert (command.uuid, job.state.uuid()) == ("u-1", "v-2"), "a stored state may not have all uuids that were given"


def test_a_bar_is_lifted_for_a_stream_of_its_own_or_for_all() -> None:
    job = started(0).job
    for stream in job.state.streams.values():
        stream.barred |= {"ProfilingPlugin", "StopTrainPlugin"}
    job.step(0.0, Unbarred("ProfilingPlugin", alone=True))
    job.step(0.0, Unbarred("StopTrainPlugin", alone=True))
    left = {name: stream.barred for name, stream in job.state.streams.items()}
    assert left["ProfilingCollect"] == {"StopTrainPlugin"}
    assert left["ResumeTrainingAfterFaultStream"] == {"ProfilingPlugin", "StopTrainPlugin"}
    job.step(0.0, Unbarred("StopTrainPlugin", alone=False))
    assert not any("StopTrainPlugin" in stream.barred for stream in job.state.streams.values())
