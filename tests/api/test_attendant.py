"""A Worker's own answers, in a mesh of real sockets, with stand-ins for the packages of its device."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from taskd_net import BlockingNode
from taskd_net.base.body import Body
from taskd_net.job import api, profiling_switch
from taskd_net.job.worker import duties
from taskd_net.job.worker.duties import Detect, DeviceOutcome, MakeCall, stressed, switched
from taskd_net.job.worker.worker import WorkerTimes
from tests.api.conftest import SOON, WORKER, Failures, reach, started, take, until
from tests.api.test_devices import Device, install
from tests.api.test_duties import stress, switch

pytestmark = pytest.mark.oldest


QUICK = WorkerTimes(beat=0.02)


class Slow(Device):
    """A device whose calls wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on: SimpleQueue[object] = SimpleQueue()
        self.begun: SimpleQueue[object] = SimpleQueue()

    def _do(self, *arguments: object) -> object:
        self.begun.put(arguments)
        return self.go_on.get(timeout=SOON)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """The device of this process; every call has returned afterwards."""
    slow = Slow()
    install(monkeypatch, slow)
    yield slow
    for _ in range(4):
        slow.go_on.put(0)


def answer(mgr: BlockingNode) -> Body:
    """The next answer of the Worker."""
    message, body = take(mgr)
    assert (str(message.src), message.mtype) == (WORKER, "default")
    return body


def test_nothing_is_installed(mgr: BlockingNode, near: BlockingNode, failures: Failures) -> None:
    started(QUICK)
    reach(mgr, switch())
    assert answer(mgr) == switched("s1", False)
    reach(mgr, stress())
    while (body := answer(mgr)).code != 205:
        pass
    assert body == stressed("t1", {0: DeviceOutcome.FAILED, 1: DeviceOutcome.FAILED})
    for command, state in ((700, 1400), (711, 1422)):
        reach(mgr, Body("ACTION", command))
        while (body := answer(mgr)).code != state:
            pass
        assert body.msg_type == "STATUS"
    assert all("device_call_failed" in line for line in failures.lines) and len(failures.lines) == 3
    failures.lines.clear()
    assert api.destroy_taskd_worker()


def test_stress_test_holds_nothing_up(mgr: BlockingNode, near: BlockingNode, device: Slow) -> None:
    """KEEP_ALIVEs go on, handlers and reports too; and end with it."""
    called = threading.Event()
    api.register_handler(9, lambda _: called.set())
    started(QUICK)
    reach(mgr, stress())
    assert device.begun.get(timeout=SOON) == ("aic",)
    reach(mgr, Body("ACTION", 9))
    assert called.wait(SOON)
    assert api.send_to_manager(1, "STATUS")
    device.go_on.put(0)
    assert device.begun.get(timeout=SOON) == ("hccs",)
    beats = 0
    while beats < 3:
        beats += Body.parse(mgr.receive(SOON).body).msg_type == "KEEP_ALIVE"
    device.go_on.put(2)
    while (body := answer(mgr)).code != 205:
        pass
    assert json.loads(body.message)["rankResult"]["1"] == {"code": "2", "result": "find fault rank"}
    node = api.worker.slot.member
    assert not node._attendant._testing.is_set()
    assert api.destroy_taskd_worker()


def test_call_that_does_not_return(
    mgr: BlockingNode, near: BlockingNode, device: Slow, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends by its time; the next ones fail until it returns, and work then."""
    monkeypatch.setitem(duties._DETECTS, 0, MakeCall(Detect("aic"), 0.05))
    started(QUICK)
    reach(mgr, stress())
    while (body := answer(mgr)).code != 205:
        pass
    assert body == stressed("t1", {0: DeviceOutcome.TIMEOUT, 1: DeviceOutcome.FAILED})
    assert "an earlier one has not returned" in failures.only()
    attendant = api.worker.slot.member._attendant
    device.go_on.put(0)
    until(lambda: not attendant._busy)
    assert device.begun.get(timeout=SOON) == ("aic",)
    reach(mgr, switch())
    assert device.begun.get(timeout=SOON) == ([3, 4], [True, False])
    device.go_on.put(True)
    while (body := answer(mgr)).code != 204:
        pass
    assert body == switched("s1", True)
    assert api.destroy_taskd_worker()


def test_destroy_does_not_wait_for_a_device(mgr: BlockingNode, near: BlockingNode, device: Slow) -> None:
    started(QUICK)
    reach(mgr, stress())
    assert device.begun.get(timeout=SOON) == ("aic",)
    assert api.destroy_taskd_worker()


def test_handlers_of_the_application_go_first(mgr: BlockingNode, near: BlockingNode, device: Slow) -> None:
    taken: SimpleQueue[int] = SimpleQueue()
    for code in (204, 205, 710):
        api.register_handler(code, lambda command: taken.put(command.code))
    started(QUICK)
    for body in (switch(), stress(), Body("ACTION", 710)):
        reach(mgr, body)
        assert taken.get(timeout=SOON) == body.code
    api.register_handler(710, None)
    reach(mgr, Body("ACTION", 710))
    assert answer(mgr) == Body("STATUS", 1420)
    assert device.begun.empty()
    assert api.destroy_taskd_worker()


def test_command_that_cannot_be_carried_out(
    mgr: BlockingNode, near: BlockingNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    started(QUICK)
    reach(mgr, Body("ACTION", 205))
    until(lambda: "205 has no stressTestUUID" in caplog.text)
    assert api.destroy_taskd_worker()


def test_profiling_switch_of_the_file_counts_until_the_mgr_sends_one(
    mgr: BlockingNode, near: BlockingNode, tmp_path: Path, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = tmp_path / "switch", tmp_path / "new"
    monkeypatch.setenv(profiling_switch.PATH, str(path))

    def write(**domains: str) -> None:
        new.write_text(json.dumps(domains))
        new.rename(path)

    write(Step="on")
    started(WorkerTimes(switch=0.01))
    assert answer(mgr) == Body("STATUS", 1420)
    taken: SimpleQueue[tuple[int, str]] = SimpleQueue()

    def handle(command: api.Command) -> None:
        taken.put((command.code, str(command.src)))
        raise OSError("no profiler")

    api.register_handler(711, handle)
    write(CommunicationOperator="on")
    assert taken.get(timeout=SOON) == (711, WORKER)
    until(lambda: bool(failures.lines))
    assert "no profiler" in failures.only()
    reach(mgr, Body("ACTION", 700))
    while answer(mgr).code != 1400:
        pass
    watch = api.worker.slot.member._switch
    assert watch._thread is not None
    watch._thread.join(SOON)
    assert not watch._thread.is_alive()
    assert api.destroy_taskd_worker()
