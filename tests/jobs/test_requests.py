"""Requests to one plugin: the job hands each to the plugin that takes its class, and shows it to the others."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import pytest

from taskd_net.job.decide.events import PluginRequest, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins import Plugin, Progress, built_in
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.snapshot import JobConfig, Snapshot
from taskd_net.job.profiling_domains import ProfilingSwitch


class Looking(Plugin[None]):
    """A user's plugin that looks at the requests to others, by the names of 0.2.0."""

    name = "Looking"
    streams: ClassVar = {"Looks": None}

    def __init__(self) -> None:
        super().__init__(None)
        self.seen: list[object] = []

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        self.seen = [snapshot.profiling, snapshot.switch_nic, snapshot.stress_test]
        return ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        return Progress.FINAL


def test_a_users_plugin_sees_the_requests_to_others() -> None:
    looking = Looking()
    job = Job(JobConfig(), "u", [*built_in(), looking])
    job.step(1.0, Tick())
    assert looking.seen == [None, SwitchNic(), StressTest()]
    for request in (ProfilingSwitch(default=True), SwitchNic((0,), (True,)), StressTest({0: (1,)})):
        assert job.step(1.0, request).taken
    job.step(2.0, Tick())
    given = [ProfilingSwitch(default=True), SwitchNic((0,), (True,), uuid="u-1"), StressTest({0: (1,)}, uuid="u-2")]
    assert looking.seen == given


def test_a_request_that_no_plugin_takes_is_refused() -> None:
    job = Job(JobConfig(), "u", [])
    assert not job.step(1.0, SwitchNic((0,), (True,))).taken and not job.requests


def test_the_job_names_those_that_may_own_a_stream() -> None:
    assert Job(JobConfig(), "u").candidates("OMSwitchNicStream") == ("OMSwitchNicPlugin",)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (SwitchNic((0, 1), (True, False)), "ClusterD asks for a switch of cards of 2 ranks"),
        (StressTest({3: (0,)}), "ClusterD asks for a stress test of 1 ranks"),
        (ProfilingSwitch(communication=True), "profiling switch 01"),
        (PluginRequest(), "PluginRequest"),
    ],
)
def test_a_request_is_said_in_words(request_: PluginRequest | ProfilingSwitch, words: str) -> None:
    assert request_.words == words


def test_a_device_that_nobody_knows_has_no_place() -> None:
    assert Job(JobConfig(), "u").place("host/npu0").node is None
