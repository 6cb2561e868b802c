"""Calls of a Worker's device, with stand-ins for the packages that make them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from taskd_net.api import devices
from taskd_net.api.duties import Detect, DeviceCall, Outcome, SwitchNic
from tests.api.conftest import Failures

pytestmark = pytest.mark.oldest

SWITCH = SwitchNic((3, 4), (True, False))


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


def install(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Have both packages."""
    device = Device()
    torch_npu, mindspore = ModuleType("torch_npu"), ModuleType("mindspore")
    torch_npu.npu = device  # type: ignore[attr-defined]
    mindspore.communication = SimpleNamespace(management=device)  # type: ignore[attr-defined]
    mindspore.utils = device  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_npu", torch_npu)
    monkeypatch.setitem(sys.modules, "mindspore", mindspore)
    return device


@pytest.mark.parametrize("framework", ["pt", "ms"])
@pytest.mark.parametrize(
    ("call", "arguments", "answer", "outcome"),
    [
        (SWITCH, ([3, 4], [True, False]), True, Outcome.OK),
        (SWITCH, ([3, 4], [True, False]), False, Outcome.FAILED),
        (SWITCH, ([3, 4], [True, False]), None, Outcome.FAILED),
        (Detect("aic"), ("aic",), 0, Outcome.OK),
        (Detect("hccs"), ("hccs",), 1, Outcome.FAILED),
        (Detect("hccs"), ("hccs",), 2, Outcome.FAULT),
        (Detect("hccs"), ("hccs",), 3, Outcome.FAILED),
        (Detect("hccs"), ("hccs",), None, Outcome.FAILED),
    ],
)
def test_calls(
    framework: str,
    call: DeviceCall,
    arguments: tuple[object, ...],
    answer: object,
    outcome: Outcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = install(monkeypatch)
    device.answer = answer
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert devices.perform(framework, call) is outcome
    assert device.calls == ([5] if framework == "pt" else []) + [arguments]


@pytest.mark.parametrize(("call", "outcome"), [(SWITCH, Outcome.FAILED), (Detect("aic"), Outcome.VOLTAGE)])
def test_call_that_raises(
    call: DeviceCall, outcome: Outcome, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch).answer = RuntimeError("no voltage")
    assert devices.perform("ms", call) is outcome
    assert "device_call_failed" in (line := failures.only()) and "no voltage" in line


@pytest.mark.parametrize("framework", ["pt", "ms"])
@pytest.mark.parametrize("call", [SWITCH, Detect("aic")])
def test_package_that_is_not_installed(
    framework: str, call: DeviceCall, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch_npu", "mindspore"):
        monkeypatch.setitem(sys.modules, name, None)
    assert devices.perform(framework, call) is Outcome.FAILED
    assert "ModuleNotFoundError" in failures.only()
