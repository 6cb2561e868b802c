"""Fault levels: the measure `faults`. Its part with a mesh is in `fault_mesh`; here is the policy alone."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from typing import Final

from benchmarks.fault_mesh import in_mesh
from benchmarks.measures import Bench
from benchmarks.systems import OURS
from taskd_net.job.faults import editions
from taskd_net.job.faults.events import FaultEvent, FaultKind
from taskd_net.job.faults.levels import FaultType, Mode
from taskd_net.job.faults.policy import FaultPolicy
from taskd_net.job.faults.reading import read_rules
from taskd_net.job.faults.rules import CODES_FILE, CUSTOMIZATION_FILE, FaultRules

CODES: Final = 800
RULES: Final = 60
EVENTS: Final = 200_000
DEVICES: Final = 1_000
MANY: Final = 10_000

EVENTS_METRIC: Final = "events through the policy"
MEMORY_METRIC: Final = "memory of 10,000 devices, 1 % of them with counters"
WORST_METRIC: Final = "memory at all bounds"


def faults(bench: Bench) -> None:
    """The policy under load, its memory with many devices and at all of its bounds, and the answers of a Manager."""
    for _ in range(bench.effort.turns):
        bench._progress("faults: events through the policy")
        bench.results.add("faults", EVENTS_METRIC, "events/s", OURS, throughput())
    bench._progress("faults: memory")
    bench.results.add("faults", MEMORY_METRIC, "MB", OURS, memory())
    bench._progress("faults: memory at all bounds")
    bench.results.add("faults", WORST_METRIC, "MB", OURS, worst_memory())
    in_mesh(bench)


def rules() -> FaultRules:
    """Rules with 800 codes, of which 60 have a rule of frequency."""
    words = ["NotHandleFault", "RestartRequest", "RestartBusiness", "FreeRestartNPU", "RestartNPU", "SeparateNPU"]
    codes = {
        f"{word}Codes": [f"{0x80000000 + number:08X}" for number in range(at, CODES, 6)]
        for at, word in enumerate(words)
    }
    frequency = [
        {
            "EventId": f"{0x80000000 + number:08X}",
            "TimeWindow": 864_000,
            "Times": 100,
            "FaultHandling": "ManuallySeparateNPU" if number % 2 else "SeparateNPU",
        }
        for number in range(RULES)
    ]
    files = {CODES_FILE: codes, CUSTOMIZATION_FILE: {"FaultFrequency": frequency}}
    found, problems = read_rules({name: json.dumps(value).encode() for name, value in files.items()})
    assert not problems and len(found.codes) == CODES and len(found.frequency) == RULES
    return found


def throughput() -> float:
    """Events per second through the policy: occurrences, recoveries and momentary faults of 1,000 devices."""
    policy, chance, kinds = FaultPolicy(rules(), Mode.GRACE), random.Random(1), list(FaultKind)
    codes = list(policy.rules.codes)
    events = [
        FaultEvent(chance.choice(codes), f"npu-{chance.randrange(DEVICES)}", chance.choice(kinds), None, number / 1000)
        for number in range(EVENTS)
    ]
    began = time.perf_counter()
    for event in events:
        policy.event(event, event.at)
    return EVENTS / (time.perf_counter() - began)


def memory() -> float:
    """Megabytes of 10,000 devices with a fault each, of which 1 % have all counters one below their rules."""
    known = rules()
    tracemalloc.start()
    policy = FaultPolicy(known)
    _fill(policy, MANY // 100)
    for number in range(MANY):
        policy.event(_event(list(known.codes)[-1], number), 100.0)
    return _traced()


def worst_memory() -> float:
    """Megabytes of as many devices, faults and counters as there can be, each counter one below its rule."""
    known = rules()
    codes = [code for code, fault_type in known.codes.items() if fault_type is FaultType.RESTART_REQUEST]
    tracemalloc.start()
    policy = FaultPolicy(known)
    _fill(policy, editions.COUNTERS // RULES)
    for turn in range(editions.FAULTS // editions.DEVICES):
        for number in range(editions.DEVICES):
            policy.event(_event(codes[-1 - turn], number), 100.0)
    return _traced()


def _fill(policy: FaultPolicy, devices: int) -> None:
    """Give devices all counters, each one below its rule, as from a saved state: events would take minutes."""
    times = [float(at) for at in range(99)]
    for number in range(devices):
        occurrences = dict.fromkeys(policy.rules.frequency, times)
        policy.load({_device(number): {"counted": 99.0, "occurrences": occurrences}})


def _device(number: int) -> str:
    return f"node-{number // 8}/npu-{number % 8}"


def _event(code: str, device: int) -> FaultEvent:
    return FaultEvent(code, _device(device), FaultKind.OCCURRED, None, 100.0)


def _traced() -> float:
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / 1e6
