"""An Agent whose Mgr is away, or gives no answer."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from taskd_net import BlockingNode, NodeConfig
from taskd_net.base.body import Body
from taskd_net.job import api
from taskd_net.job.agent import agent as shell
from taskd_net.job.agent.agent import Agent, ProcessEnds
from taskd_net.job.agent.plans import Look
from taskd_net.job.agent.supervision import AgentTimes, WorkerStatus
from taskd_net.job.api import agent
from tests.api.conftest import AGENT, QUICK, SOON, Start, take
from tests.api.frameworks import Msrun

PLAIN_GO = Body("ACTION", 210, "1")
OUR_GO = Body("ACTION", 210, "1", {"Incarnation": "the Mgr"})
ANEW = ["REGISTER", "STATUS"]

pytestmark = pytest.mark.usefixtures("quick")


def times(**others: float) -> AgentTimes:
    """The times of an Agent, but for some."""
    return replace(shell.times_of_environment(), **others)


def test_go_is_asked_for_again(start: Start, msrun: Msrun) -> None:
    running = start(msrun, times=times(repeat=0.1))
    uuids: set[str] = set()
    while len(uuids) < 3:
        message, body = take(running.mgr)
        assert body == Body("STATUS", 201, "1")
        uuids.add(message.uuid)
    running.command(210)
    running.command(210)
    assert msrun.called() == ("START_ALL_WORKER",)
    msrun.looked()
    assert msrun.calls.empty()


@pytest.mark.parametrize(("name", "reason"), [("join", "not joined"), ("go", "no go")])
def test_waiting_for_the_mgr_ends(
    name: str,
    reason: str,
    start: Start,
    msrun: Msrun,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    if name == "join":
        config = {"Framework": "MindSpore", "UpstreamPort": 1}
        assert agent.initialise(config, look=QUICK, times=times(join=0.1))
        with pytest.raises(SystemExit) as left:
            api.start_taskd_agent()
        assert left.value.code == 1
    else:
        assert start(msrun, times=times(go=0.1)).exit_status() == 1
    assert f"{reason} within 0.1 s" in caplog.text
    assert msrun.calls.empty()


def test_fault_without_an_answer(start: Start, msrun: Msrun, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    running = start(msrun, times=times(fault=0.0))
    running.command(210)
    msrun.called()
    os.kill(msrun.processes[0].pid, signal.SIGKILL)
    assert msrun.called() == ("KILL_WORKER", [-1])
    assert running.exit_status() == 143
    assert "no answer to a fault within 0 s" in caplog.text


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("300", 300), ("600", 600), ("299", None), ("601", None), ("long", None)]
)
def test_time_for_an_answer_to_a_fault(
    text: str, seconds: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(shell.FAULT_TIMEOUT, text)
    assert shell.times_of_environment().fault == shell.fault_timeout() == seconds
    said = f"TASKD_REPORT_FAULT_TIMEOUT is '{text}'; expected 300 to 600 seconds" in caplog.text
    assert said == (bool(text) and seconds is None)


@pytest.mark.parametrize(("go", "expected"), [(OUR_GO, ["STATUS"]), (PLAIN_GO, ANEW)])
def test_mgr_that_was_away_gets_the_fault_again(go: Body, expected: list[str], start: Start, msrun: Msrun) -> None:
    """One of this package without a registration, an original one behind a registration."""
    running = start(msrun)
    assert running.mgr.send(go.to_json(), to=AGENT).ok
    msrun.called()
    os.kill(msrun.processes[0].pid, signal.SIGKILL)
    first = running.report(202)
    address = running.mgr.address or ""
    running.mgr.close()
    with BlockingNode(NodeConfig.mgr(listen=address)) as second:
        bodies: list[Body] = []
        # An attempt that the first Mgr has refused may come again before those.
        while [body.msg_type for body in bodies[-len(expected) :]] != expected:
            body = Body.parse(second.receive(SOON).body)
            if body.msg_type != "KEEP_ALIVE":
                bodies.append(body)
        assert [body.msg_type for body in bodies if body != first] == expected[:-1]


def test_call_that_returns_after_the_end_watches_nothing(
    start: Start, msrun: Msrun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It watched the workers again while the node was closing, and left their descriptors open."""
    late: list[Agent] = []

    class Closing(ProcessEnds):
        def close(self) -> None:
            super().close()
            asyncio.get_running_loop().call_soon(lambda: late[0]._called(Look(), WorkerStatus(), None, [os.getpid()]))

    monkeypatch.setattr(shell, "ProcessEnds", Closing)
    start(msrun)
    assert agent.slot._member is not None
    late.append(agent.slot._member)
    assert api.destroy_taskd_agent()
    assert late[0]._ends._watched == {}


def test_fault_of_an_agent_is_repeated_to_a_mgr_of_ours(start: Start, msrun: Msrun) -> None:
    running = start(msrun, times=times(repeat=0.2))
    assert running.mgr.send(OUR_GO.to_json(), to=AGENT).ok
    msrun.called()
    os.kill(msrun.processes[0].pid, signal.SIGKILL)
    first = running.report(202)
    uuids: set[str] = set()
    while len(uuids) < 2:
        message = running.mgr.receive(SOON)
        body = Body.parse(message.body)
        assert body.msg_type != "REGISTER"
        if body.code == 202:
            assert body == first
            uuids.add(message.uuid)
