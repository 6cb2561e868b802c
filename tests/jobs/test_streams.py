"""Streams: priorities, one owner, and plugins that fail."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.job.decide.events import RetryTime, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins import AnyPlugin, Plugin, Progress
from taskd_net.job.decide.snapshot import JobConfig, Snapshot


@dataclass
class Steps:
    """State: the steps so far."""

    steps: int = 0


class Scripted(Plugin[Steps]):
    """A plugin that wants its stream for so many steps, and may fail."""

    streams: ClassVar = {"s": None}

    def __init__(self, name: str, priority: int | None = None, steps: int = 1, fails: str = "") -> None:
        super().__init__(Steps())
        self.name = name  # type: ignore[misc]
        self.streams = {"s": priority}  # type: ignore[misc]
        self.left = steps
        self.fails = fails

    def _fail(self, part: str) -> None:
        if self.fails == part:
            raise KeyError(part)

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        self._fail("wants")
        return ("s",) if self.left else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        self._fail("step")
        self.send("Agent/0", 204 if self.fails == "command" else 213, "[]", {"By": self.name})
        self.state.steps += 1
        self.left -= 1
        return Progress.HOLD if self.left else Progress.FINAL

    def release(self, stream: str) -> None:
        self._fail("release")

    def deadline(self, snapshot: Snapshot) -> float:
        return super().deadline(snapshot)


def job(*plugins: AnyPlugin) -> Job:
    made = Job(JobConfig(), "u", plugins)
    made.step(1.0, RetryTime(1))
    return made


def tick(made: Job, now: float = 1.0) -> list[str]:
    """The senders of a tick, and who was barred."""
    outcome = made.step(now, Tick())
    barred = [f"{notice.fields['plugin']} barred" for notice in outcome.notices if notice.event == "plugin_barred"]
    return [command.extension["By"] for command in outcome.commands] + barred


def test_the_lowest_number_comes_first_then_the_others_by_name() -> None:
    made = job(Scripted("b"), Scripted("a"), Scripted("z", 1), Scripted("y", 2))
    assert tick(made) == ["z", "y", "a", "b"]


def test_the_owner_keeps_its_stream_until_it_is_final() -> None:
    made = job(Scripted("b", 2, steps=2), Scripted("a", 3))
    assert tick(made) == ["b"]
    assert made.state.streams["s"].owner == "b"
    made.plugins.append(Scripted("first", 1))
    assert tick(made, 2.0) == ["b", "a"]
    assert made.state.streams["s"].owner == ""


def test_a_plugin_that_wants_a_stream_again_has_to_wait_for_the_next_tick() -> None:
    class Greedy(Scripted):
        def step(self, stream: str, snapshot: Snapshot) -> Progress:
            super().step(stream, snapshot)
            return Progress.FINAL

    made = job(Greedy("a", 1, steps=2))
    assert tick(made) == ["a"]
    assert made.wake == 1.0 + made.config.interval
    assert tick(made, made.wake) == ["a"]
    assert made.wake > 3.0, "the resend is next"


@pytest.mark.parametrize("part", ["step", "command"])
def test_a_plugin_that_fails_is_barred_until_another_has_finished(part: str) -> None:
    failing, other = Scripted("a", 1, steps=9, fails=part), Scripted("b", 2)
    made = job(failing, other)
    assert tick(made)[:2] == ["b", "a barred"]
    failing.fails, failing.left = "", 1
    assert tick(made, 2.0) == ["a"], "b has finished"


def test_a_plugin_that_fails_to_say_what_it_wants_does_not_stop_the_others() -> None:
    made = job(Scripted("a", 1, fails="wants"), Scripted("b", 2))
    assert tick(made) == ["b", "a barred", "a barred"]


def test_a_plugin_that_fails_alone_stays_barred() -> None:
    failing = Scripted("a", 1, fails="step")
    made = job(failing)
    assert tick(made) == ["a barred"]
    failing.fails = ""
    made.step(2.0, RetryTime(2))
    assert tick(made, 2.0) == []


def test_a_plugin_that_fails_to_release_has_released() -> None:
    made = job(Scripted("a", 1, fails="release"), Scripted("b", 2))
    assert tick(made) == ["a", "b", "a barred"]


def test_two_plugins_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two plugins a"):
        job(Scripted("a"), Scripted("a"))


def test_streams_of_plugins_that_are_gone_are_free() -> None:
    made = job(Scripted("a", 1, steps=2))
    tick(made)
    resumed = Job.from_json(made.to_json(), JobConfig(), [Scripted("b", 1)])
    assert resumed.state.streams["s"].owner == ""
    assert tick(resumed, 2.0) == ["b"]
