"""The training framework's controller in a Manager without ClusterD."""

from __future__ import annotations

import threading

import pytest

from taskd_net.job.clusterd.codes import Code
from taskd_net.job.clusterd.controller import HandlerController, Reports
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.limits import ManagerLimits
from tests.manager.cluster import agent, leaves, managed
from tests.polling import until

pytestmark = pytest.mark.oldest

JOB = ManagerConfig(job_id="J")


async def test_reports_that_nobody_hears_are_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    codes: list[int] = []

    class Reporting(HandlerController):
        def start(self, reports: Reports) -> None:
            codes.append(reports.fault_ranks({3: 1}))
            codes.append(reports.stop_complete(0, "", {}))
            codes.append(reports.strategies({}, ["exit"]))
            codes.append(reports.result(0, "", {}, "dump"))

    async with managed(JOB, framework=Reporting()):
        await until(lambda: len(codes) == 4)
    assert codes == [Code.UN_REGISTRY] * 4
    assert caplog.text.count("controller_unheard") == 4


async def test_controller_that_fails_or_hangs_ends_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, hangs, go = threading.Event(), threading.Event(), threading.Event()

    class Hanging(HandlerController):
        def start(self, reports: Reports) -> None:
            started.set()

        def close(self) -> None:
            if not hangs.is_set():
                hangs.set()
                go.wait(20)
            raise RuntimeError("no port")

    try:
        limits = ManagerLimits(controller_s=2.0)
        async with (
            managed(JOB, framework=Hanging(), limits=limits) as (node, _),
            leaves(node, agent(0), agent(1)) as (zero, one),
        ):
            for each in (zero, one):
                await each.register()
                await each.command()
            await until(started.is_set)
            await one.fault(3)
            assert (await zero.command()).code == 208
            await until(lambda: "TimeoutError" in caplog.text)
    finally:
        go.set()
    assert caplog.text.count("controller_failed") == 2, "the restart, and the end"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "it has raised SystemExit: 3"),
        (TimeoutError("no answer of the store"), "no answer of the store"),
        (type("Unprintable", (Exception,), {"__str__": None, "__repr__": None})(), "it has raised Unprintable"),
    ],
)
async def test_controller_that_raises_anything_ends_nothing(
    error: BaseException, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[threading.Thread] = []

    class Raising(HandlerController):
        def start(self, reports: Reports) -> None:
            started.append(threading.current_thread())

        def close(self) -> None:
            started.append(threading.current_thread())
            raise error

    async with managed(JOB, framework=Raising()) as (node, _), leaves(node, agent(0), agent(1)) as (zero, one):
        for each in (zero, one):
            await each.register()
            await each.command()
        await one.fault(3)
        assert (await zero.command()).code == 208
        await until(lambda: "controller_failed" in caplog.text)
    lines = [record.getMessage() for record in caplog.records if "event=controller_failed " in record.getMessage()]
    assert len(lines) == 2 and all(said in line for line in lines), "the restart, and the end"
    assert len(set(started)) == 1, "none of them hangs, so there is one thread"
