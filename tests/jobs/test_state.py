"""The stored state: it comes back whole, an older one is read, a newer one refused."""

from __future__ import annotations

import json

import pytest

from taskd_net.codes import ConfigError
from taskd_net.jobs.job import Job
from taskd_net.jobs.state import SCHEMA
from tests.jobs.scene import LOCAL, started


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


def test_a_plugin_that_fails_to_read_its_state_is_named() -> None:
    stored = json.loads(started(0).job.to_json())
    stored["plugins"]["StopTrainPlugin"] = {"until": "x"}
    with pytest.raises(ConfigError, match=r"plugins\.StopTrainPlugin\.until is 'x'; expected float"):
        Job.from_json(json.dumps(stored), LOCAL)
