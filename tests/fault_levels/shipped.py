"""Files as they come with the device plugin, made for the tests: some hundred codes and the usual rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count, islice
from typing import Final

from taskd_net.job.faults.editions import LINK_DOWN, Edition
from taskd_net.job.faults.rules import CODES_FILE, CUSTOMIZATION_FILE, POLL_FILE

_SHARES: Final = {
    "NotHandleFaultCodes": 250,
    "RestartRequestCodes": 60,
    "RestartBusinessCodes": 140,
    "FreeRestartNPUCodes": 40,
    "RestartNPUCodes": 190,
    "SeparateNPUCodes": 120,
}
"""Codes of each level: 800 in all."""

_MORE: Final = {
    "PreSeparateNPUCodes": 6,
    "SubHealthFaultCodes": 9,
    "NotHandleFaultNetworkCodes": 2,
    "SeparateNPUNetworkCodes": 2,
    "SubHealthFaultNetworkCodes": 1,
}

_KNOWN: Final = {
    "NotHandleFaultCodes": ["8C0A4E00", "80E20207", "80E21007"],
    "RestartBusinessCodes": ["8C084E00", "8C204E00", "A8028802"],
    "RestartNPUCodes": ["8C03A000", "8C1FA006", "40F84E00"],
}
"""Codes of the documents' examples."""


def code_lists(edition: Edition) -> dict[str, list[str]]:
    """A faultCode.json, with codes of 8 and of 9 digits, in upper and in lower case."""
    fresh = (f"{0x80000000 + 7919 * number:08X}" for number in count(1))
    lists = {key: [*_KNOWN.get(key, [])] for key in (*_SHARES, *(_MORE if edition is Edition.CURRENT else ()))}
    for key, found in lists.items():
        number = (_SHARES | _MORE)[key] - len(found)
        lists[key].extend(islice(fresh, number))
        found[-1] = f"1{found[-1]}".lower()
    if edition is Edition.CURRENT:
        lists["PreSeparateNPUNetworkCodes"] = [LINK_DOWN]
    return lists


def customization(edition: Edition, rules: int = 60) -> dict[str, object]:
    """A faultCustomization.json with these many rules of frequency."""
    lists = code_lists(edition)
    codes = [*lists["RestartBusinessCodes"], *lists["RestartNPUCodes"]]
    current = edition is Edition.CURRENT
    handling = ["ManuallySeparateNPU", "SeparateNPU", "PreSeparateNPU", "RestartNPU"]
    frequency = []
    for number in range(rules):
        entry: dict[str, object] = {
            "EventId": codes[number : number + 1] if number % 2 else codes[number],
            "TimeWindow": 86_400,
            "Times": 2 + number % 9,
            "FaultHandling": handling[number % 4],
        }
        if current and number % 4:
            entry["ReleaseTimeWindow"] = 172_800
        frequency.append(entry)
    duration = {"EventId": [LINK_DOWN], "FaultTimeout": 20, "RecoverTimeout": 60, "FaultHandling": "PreSeparateNPU"}
    grace = (
        {"WaitProcessReadCMTime": 30, "WaitDeviceResetTime": 150, "WaitFaultSelfHealingTime": 15}
        if current
        else {"WaitFlushingCMTime": 90, "WaitDeviceResetTime": 60}
    )
    return {"GraceTolerance": grace, "FaultFrequency": frequency, "FaultDuration": [duration]}


def shipped(edition: Edition) -> Mapping[str, bytes]:
    """All files of an edition."""
    return {
        CODES_FILE: json.dumps(code_lists(edition), indent=2).encode(),
        CUSTOMIZATION_FILE: json.dumps(customization(edition), indent=2).encode(),
        POLL_FILE: b"300",
    }
