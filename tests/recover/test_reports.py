from __future__ import annotations

import pytest

from taskd_net.job.clusterd import reports
from taskd_net.net.wire import recover_pb2 as wire

pytestmark = pytest.mark.oldest


def test_reports_carry_their_arguments() -> None:
    faults = [wire.FaultRank(rankId="3", faultType="1")]
    status = wire.Status(code=499, info="why")
    assert reports.stop_complete("J", 499, "why", {3: 1}) == wire.StopCompleteRequest(
        jobId="J", status=status, faultRanks=faults
    )
    assert reports.recover_strategy("J", {"3": "1"}, ["retry", "exit"]) == wire.RecoverStrategyRequest(
        jobId="J", faultRanks=faults, strategies=["retry", "exit"]
    )
    assert reports.recover_status("J", 499, "why", {3: 1}, "dump") == wire.RecoverStatusRequest(
        jobId="J", status=status, strategy="dump", isolateRankIds=["3"]
    )
    assert reports.process_fault("J", {3: 1}) == wire.ProcessFaultRequest(jobId="J", faultRanks=faults)


@pytest.mark.parametrize(
    ("ranks", "error", "words"),
    [
        ([3], TypeError, "fault_ranks is [3]; expected a dict"),
        ({"three": 1}, ValueError, "a rank of fault_ranks is 'three'; expected a rank"),
        ({-1: 1}, ValueError, "is -1; expected a rank"),
        ({2**31: 1}, ValueError, "expected a rank from 0 to 2147483647"),
        ({True: 1}, TypeError, "is True; expected a rank"),
        ({3.0: 1}, TypeError, "is 3.0"),
        ({3: 7}, ValueError, "the type of fault of rank 3 is 7; expected 0"),
        ({3: None}, TypeError, "the type of fault of rank 3 is None"),
    ],
)
def test_ranks_are_checked(ranks: object, error: type[Exception], words: str) -> None:
    for make in (
        lambda: reports.stop_complete("J", 0, "", ranks),
        lambda: reports.recover_strategy("J", ranks, []),
        lambda: reports.recover_status("J", 0, "", ranks, "dump"),
        lambda: reports.process_fault("J", ranks),
    ):
        with pytest.raises(error) as raised:
            make()
        assert words in str(raised.value)


@pytest.mark.parametrize(
    ("code", "msg", "error", "words"),
    [
        ("0", "", TypeError, "code is '0'; expected a whole number"),
        (True, "", TypeError, "code is True"),
        (2**31, "", ValueError, "expected a number of 32 bits"),
        (0, None, TypeError, "msg is None; expected a text"),
        (0, "\ud800", ValueError, "UTF-8"),
    ],
)
def test_status_is_checked(code: object, msg: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        reports.stop_complete("J", code, msg, {})
    assert words in str(raised.value)


@pytest.mark.parametrize("strategies", ["retry", None, [3], [None], 7])
def test_strategies_are_texts(strategies: object) -> None:
    with pytest.raises(TypeError, match=r"strategy_list is .*expected a list|expected a text"):
        reports.recover_strategy("J", {}, strategies)
    with pytest.raises(TypeError, match="strategy is 3; expected a text"):
        reports.recover_status("J", 0, "", {}, 3)


def test_client_has_a_job_and_any_role() -> None:
    for role in ("master agent", "boss", ""):
        assert reports.client_info("J", role) == wire.ClientInfo(jobId="J", role=role)
    with pytest.raises(TypeError, match="role is None; expected a text"):
        reports.client_info("J", None)
    with pytest.raises(ValueError, match="jobId is empty"):
        reports.client_info("", "taskd")
    with pytest.raises(TypeError, match="jobId is 7; expected a text"):
        reports.client_info(7, "taskd")
