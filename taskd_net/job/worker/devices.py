"""Calls of a Worker's device, by the functions that its framework names. They block, up to minutes.

A switch of network cards is `function(ranks, ops)`, and true where it has worked. A stress test is `function("aic")` or
`function("hccs")`, and answers its code.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable
from typing import Any, Final, cast

from taskd_net.base.untrusted import natural
from taskd_net.job.frameworks.kind import TrainingFramework
from taskd_net.job.member import log
from taskd_net.job.worker.duties import DeviceCall, DeviceOutcome, SwitchCards

_DEVICES_MOST: Final = 1024


def perform(framework: TrainingFramework, call: DeviceCall) -> DeviceOutcome:
    """Make a device call, in the thread that calls. Raises nothing; a failure is one line in the log.

    Args:
        framework: of the Worker.
        call: the call.
    """
    switches = isinstance(call, SwitchCards)
    name = framework.switch_nic if switches else framework.stress_test
    try:
        function = resolved(name)
        if framework.set_device is not None:
            _use_own_device(framework.set_device)
    except Exception as error:  # noqa: BLE001 - not installed, or its import fails: both are a failed call
        log.error("device_call_failed", call=name, reason=repr(error))
        return DeviceOutcome.FAILED
    try:
        if isinstance(call, SwitchCards):
            return DeviceOutcome.OK if function(list(call.ranks), list(call.ops)) else DeviceOutcome.FAILED
        return _outcome(function(call.kind))
    except Exception as error:
        log.error("device_call_failed", call=name, reason=repr(error), exc_info=error)
        # A stress test raises where the device's voltage has not come back.
        return DeviceOutcome.FAILED if switches else DeviceOutcome.VOLTAGE


def resolved(name: str) -> Callable[..., object]:
    """The function `module:function`.

    It is looked up in its module: a submodule of MindSpore has the same name as its function.

    Raises:
        ImportError, AttributeError: the framework is not installed, or has no such function.
        TypeError: what has the name is no function.
    """
    found = pkgutil.resolve_name(name)
    if not callable(found):
        raise TypeError(f"{name} is {found!r}; expected a function")
    return cast("Callable[..., object]", found)


def _use_own_device(set_device: str) -> None:
    """Give this thread the rank's own device; a new thread has device 0."""
    device = natural(os.environ.get("LOCAL_RANK", ""), _DEVICES_MOST)
    if device is not None:
        resolved(set_device)(device)


def _outcome(value: Any) -> DeviceOutcome:
    """A stress test's result; one that its documents do not have is a failure."""
    return (
        DeviceOutcome(value)
        if value in (DeviceOutcome.OK, DeviceOutcome.FAILED, DeviceOutcome.FAULT)
        else DeviceOutcome.FAILED
    )
