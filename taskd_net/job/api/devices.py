"""Calls of a Worker's device: `torch_npu` or `mindspore`, where they are installed. They block, up to minutes.

| framework | switch of network cards | stress test |
|---|---|---|
| `pt` | `torch_npu.npu._comm_switch_nic(ranks, ops)` | `torch_npu.npu.stress_detect("aic" \\| "hccs")` |
| `ms` | `mindspore.communication.management._comm_switch_nic(ranks, ops)` | `mindspore.utils.stress_detect(...)` |
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable
from typing import Any, Final, cast

from taskd_net.base.untrusted import natural
from taskd_net.job.api.duties import DeviceCall, Outcome, SwitchNic
from taskd_net.job.api.member import log

_SWITCHES: Final = {
    "pt": "torch_npu.npu:_comm_switch_nic",
    "ms": "mindspore.communication.management:_comm_switch_nic",
}
_DETECTS: Final = {"pt": "torch_npu.npu:stress_detect", "ms": "mindspore.utils:stress_detect"}
NAMES: Final = {framework: (_SWITCHES[framework], _DETECTS[framework]) for framework in ("pt", "ms")}
"""The functions of each framework, after the module that has them: a submodule of MindSpore has the same name as its
function."""

_SET_DEVICE: Final = "torch_npu.npu:set_device"
_DEVICES_MOST: Final = 1024


def perform(framework: str, call: DeviceCall) -> Outcome:
    """Make a device call, in the thread that calls. Raises nothing; a failure is one line in the log.

    Args:
        framework: `pt` or `ms`.
        call: the call.
    """
    switches = isinstance(call, SwitchNic)
    name = (_SWITCHES if switches else _DETECTS)[framework]
    try:
        function = resolved(name)
        if framework == "pt":
            _use_own_device()
    except Exception as error:  # noqa: BLE001 - not installed, or its import fails: both are a failed call
        log.error("device_call_failed", call=name, reason=repr(error))
        return Outcome.FAILED
    try:
        if isinstance(call, SwitchNic):
            return Outcome.OK if function(list(call.ranks), list(call.ops)) else Outcome.FAILED
        return _outcome(function(call.kind))
    except Exception as error:
        log.error("device_call_failed", call=name, reason=repr(error), exc_info=error)
        # A stress test raises where the device's voltage has not come back.
        return Outcome.FAILED if switches else Outcome.VOLTAGE


def resolved(name: str) -> Callable[..., object]:
    """The function of a framework.

    Raises:
        ImportError, AttributeError: the framework is not installed, or has no such function.
        TypeError: what has the name is no function.
    """
    found = pkgutil.resolve_name(name)
    if not callable(found):
        raise TypeError(f"{name} is {found!r}; expected a function")
    return cast("Callable[..., object]", found)


def _use_own_device() -> None:
    """Give this thread the rank's own device; a new thread has device 0."""
    device = natural(os.environ.get("LOCAL_RANK", ""), _DEVICES_MOST)
    if device is not None:
        resolved(_SET_DEVICE)(device)


def _outcome(value: Any) -> Outcome:
    """A stress test's result; one that its documents do not have is a failure."""
    return Outcome(value) if value in (Outcome.OK, Outcome.FAILED, Outcome.FAULT) else Outcome.FAILED
