"""Calls of a Worker's device, with stand-ins for the packages that make them."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import pytest

from taskd_net.job.frameworks.mindspore import MINDSPORE
from taskd_net.job.frameworks.registry import of_worker
from taskd_net.job.worker import devices
from taskd_net.job.worker.duties import Detect, DeviceCall, DeviceOutcome, SwitchCards
from tests.api.conftest import Failures

pytestmark = pytest.mark.oldest

SWITCH = SwitchCards((3, 4), (True, False))


class Device:
    """The functions of both packages; they answer with `answer`, or raise it."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.answer: object = 0

    def _comm_switch_nic(self, ranks: list[int], ops: list[bool]) -> Any:
        return self._do(ranks, ops)

    def stress_detect(self, detect_type: str = "aic") -> Any:
        return self._do(detect_type)

    def set_device(self, number: int) -> None:
        self.calls.append(number)

    def _do(self, *arguments: object) -> object:
        self.calls.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def install(monkeypatch: pytest.MonkeyPatch, device: Device | None = None) -> Device:
    """Have both packages, with the modules of the real ones: a function of MindSpore has the name of its module."""
    device = device or Device()
    functions = {
        "torch_npu": (),
        "torch_npu.npu": ("_comm_switch_nic", "set_device", "stress_detect"),
        "mindspore": (),
        "mindspore.communication": (),
        "mindspore.communication.management": ("_comm_switch_nic",),
        "mindspore.utils": (),
        "mindspore.utils.stress_detect": ("stress_detect",),
    }
    for name, names in functions.items():
        module = ModuleType(name)
        module.__path__ = []
        for each in names:
            setattr(module, each, getattr(device, each))
        monkeypatch.setitem(sys.modules, name, module)
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, module)
    sys.modules["mindspore.utils"].stress_detect = device.stress_detect  # type: ignore[attr-defined]
    return device


@pytest.mark.parametrize("framework", ["pt", "ms"])
@pytest.mark.parametrize(
    ("call", "arguments", "answer", "outcome"),
    [
        (SWITCH, ([3, 4], [True, False]), True, DeviceOutcome.OK),
        (SWITCH, ([3, 4], [True, False]), False, DeviceOutcome.FAILED),
        (SWITCH, ([3, 4], [True, False]), None, DeviceOutcome.FAILED),
        (Detect("aic"), ("aic",), 0, DeviceOutcome.OK),
        (Detect("hccs"), ("hccs",), 1, DeviceOutcome.FAILED),
        (Detect("hccs"), ("hccs",), 2, DeviceOutcome.FAULT),
        (Detect("hccs"), ("hccs",), 3, DeviceOutcome.FAILED),
        (Detect("hccs"), ("hccs",), None, DeviceOutcome.FAILED),
    ],
)
def test_calls(
    framework: str,
    call: DeviceCall,
    arguments: tuple[object, ...],
    answer: object,
    outcome: DeviceOutcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = install(monkeypatch)
    device.answer = answer
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert devices.perform(of_worker(framework), call) is outcome
    assert device.calls == ([5] if framework == "pt" else []) + [arguments]


@pytest.mark.parametrize(("call", "outcome"), [(SWITCH, DeviceOutcome.FAILED), (Detect("aic"), DeviceOutcome.VOLTAGE)])
def test_call_that_raises(
    call: DeviceCall, outcome: DeviceOutcome, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch).answer = RuntimeError("no voltage")
    assert devices.perform(MINDSPORE, call) is outcome
    assert "device_call_failed" in (line := failures.only()) and "no voltage" in line


@pytest.mark.parametrize("framework", ["pt", "ms"])
@pytest.mark.parametrize("call", [SWITCH, Detect("aic")])
def test_package_that_is_not_installed(
    framework: str, call: DeviceCall, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch_npu", "mindspore"):
        monkeypatch.setitem(sys.modules, name, None)
    assert devices.perform(of_worker(framework), call) is DeviceOutcome.FAILED
    assert "ModuleNotFoundError" in failures.only()


def test_what_is_no_function_is_a_failed_call_and_no_voltage(
    failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    monkeypatch.setattr(sys.modules["mindspore.utils"], "stress_detect", sys.modules["mindspore.utils.stress_detect"])
    assert devices.perform(MINDSPORE, Detect("aic")) is DeviceOutcome.FAILED
    assert "expected a function" in failures.only()


@pytest.mark.mindspore
def test_real_mindspore_has_each_function_with_these_parameters() -> None:
    mindspore = pytest.importorskip("mindspore", reason="mindspore is not installed here")
    found = {name: devices.resolved(name) for name in (MINDSPORE.switch_nic, MINDSPORE.stress_test)}
    assert mindspore.__version__
    assert {name: list(inspect.signature(each).parameters) for name, each in found.items()} == {
        "mindspore.communication.management:_comm_switch_nic": ["global_ranks", "use_backup"],
        "mindspore.utils:stress_detect": ["detect_type"],
    }
