from __future__ import annotations

import re

import pytest

from taskd_net.job.clusterd.orders import Message, job_of, read
from taskd_net.job.decide.events import ProfilingSwitch, Signal
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.net.wire import datatrace_pb2
from taskd_net.net.wire import recover_pb2 as wire

pytestmark = pytest.mark.oldest


def test_signal() -> None:
    message = wire.ProcessManageSignal(
        uuid="u",
        jobId="J",
        signalType="changeStrategy",
        actions=["change_strategy"],
        faultRanks=[wire.FaultRank(rankId="3", faultType="2")],
        changeStrategy="recover",
        timeout=-5,
        nodeRankIds=["1", "2"],
        extraParams="recover-in-place",
    )
    assert job_of(message) == "J"
    assert read(message) == Signal(
        "u", "changeStrategy", ("change_strategy",), {3: 2}, "recover", 0, (1, 2), "recover-in-place"
    )


def test_operations_and_profiling() -> None:
    switch = wire.SwitchRankList(rankID=["0", "1"], op=[True, False], jobId="J")
    stress = wire.StressTestRankParams(stressParam={"3": wire.StressOpList(ops=[0, 1])}, jobId="J")
    assert read(switch) == SwitchNic((0, 1), (True, False))
    assert read(stress) == StressTest({3: (0, 1)})
    assert job_of(stress) == "J"


@pytest.mark.parametrize(
    ("communication", "step", "switch"),
    [("on", "", ProfilingSwitch(True, True)), ("off", "on", ProfilingSwitch(True)), ("off", "off", ProfilingSwitch())],
)
def test_profiling_switch(communication: str, step: str, switch: ProfilingSwitch) -> None:
    wanted = datatrace_pb2.ProfilingSwitch(CommunicationOperator=communication, Step=step)
    message = datatrace_pb2.DataStatusRes(profilingSwitch=wanted, code=200)
    assert job_of(message) is None
    assert read(message) == switch


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (wire.ProcessManageSignal(faultRanks=[wire.FaultRank(rankId="x", faultType="0")]), "a rankId is 'x'"),
        (wire.ProcessManageSignal(faultRanks=[wire.FaultRank(rankId="1")]), "a faultType is ''"),
        (wire.ProcessManageSignal(nodeRankIds=["-1"]), "a nodeRankId is '-1'"),
        (wire.SwitchRankList(rankID=["0"]), "op has 0 entries; expected one for each of 1 ranks"),
        (wire.SwitchRankList(rankID=["z"], op=[True]), "a rankID is 'z'"),
        (wire.StressTestRankParams(stressParam={"": wire.StressOpList()}), "a rank of stressParam is ''"),
        (datatrace_pb2.DataStatusRes(code=404, message="none"), "code is 404 ('none'); expected 200"),
        (
            datatrace_pb2.DataStatusRes(code=200, profilingSwitch=datatrace_pb2.ProfilingSwitch(FP="maybe")),
            "FP is 'maybe'; expected on or off",
        ),
    ],
)
def test_unreadable_messages_say_what_is_wrong(message: Message, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        read(message)
