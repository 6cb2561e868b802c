"""Targets of devices: reports of their faults, the files with the rules, and files of the platform about devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.position import Position
from taskd_net.base.untrusted import json_value
from taskd_net.job.decide.device_reports import DeviceReport, read_report
from taskd_net.job.decide.device_state import FaultConfig
from taskd_net.job.decide.devices import as_bytes, as_texts
from taskd_net.job.decide.events import DeviceEvent, FaultFiles, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.faults import editions
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.events import FaultEvent, FaultKind, read_event
from taskd_net.job.faults.levels import Mode
from taskd_net.job.faults.policy import FaultPolicy
from taskd_net.job.faults.reading import PROBLEMS, poll_interval, read_rules
from taskd_net.job.faults.rules import FILES, FaultRules, RulesRefused
from taskd_net.job.manager import device_files, dispatch
from taskd_net.mindspore import reset
from taskd_net.net.wire.codec import Message

T = TypeVar("T")

CODE: Final = "8C0A4E00"
DEVICE: Final = "host-a/Ascend910-3"
CONFIG: Final = JobConfig(nodes=2, processes_per_node=2, faults=FaultConfig(mode=Mode.GRACE))
RULES: Final = FaultFiles({"faultCode.json": '{"RestartNPUCodes": ["8C0A4E00"]}'})
EXTENSIONS: Final = (vocabulary.DEVICE, vocabulary.NODE, vocabulary.SEVERITY, vocabulary.NETWORK, vocabulary.AT)
SENDERS: Final = (Position.mgr(), Position.worker(0, 1), Position("Agent", "9" * 30, "-1"))
SHORT: Final = 1000
"""Characters of a line in the log, which is no place for a whole file."""


def device_reports(data: bytes) -> None:
    """Reports of devices: an event, or a short reason; the job decides on each, is stored, and read again."""
    text = data.decode("utf-8", "surrogateescape")
    job = Job(CONFIG, "u")
    job.step(1.0, RULES)
    good = {vocabulary.DEVICE: DEVICE, vocabulary.NODE: "1"}
    bodies = [
        Body(vocabulary.DEVICE_FAULT, code, said, good)
        for code in (*range(4), len(text))
        for said in (text, f"8C0A4E{text}")
    ]
    bodies += [Body(vocabulary.DEVICE_FAULT, 0, CODE, good | {name: text}) for name in EXTENSIONS]
    bodies.append(Body(vocabulary.DEVICE_FAULT, 1, CODE, dict.fromkeys(EXTENSIONS, text)))
    for body in bodies:
        for src in SENDERS:
            event = _read(partial(read_report, src, body, 1.0))
            if event is None:
                continue
            job.step(1.0, event)
            if isinstance(event, DeviceEvent):
                again = read_report(src, DeviceReport(event.event, event.node).body, 2.0)
                assert again == event
    job.step(2.0, Tick())
    assert Job.from_json(job.to_json(), CONFIG).to_json() == job.to_json()
    message = Message("u", "default", True, Position.proxy(7), Position.mgr(), 0, text)
    _read(lambda: dispatch.read_event(message, 1.0))
    found = _read(lambda: read_event(json_value(text), 1.0))
    assert found is None or found.device.isprintable()


def fault_files(data: bytes) -> None:
    """The files with the rules, split at NUL: rules under which a policy decides, or a reason."""
    files = dict(zip(FILES, data.split(b"\0"), strict=False))
    assert as_bytes(as_texts(files)) == files
    for edition in Edition:
        try:
            rules, problems = read_rules(files, edition)
        except RulesRefused as refused:
            rules, problems = None, refused.problems
            assert any(each.refused for each in problems)
        assert len(problems) <= PROBLEMS + 3
        assert all(len(str(each)) < SHORT and str(each).isprintable() for each in problems)
        if rules is not None:
            _decide(rules)
    least, most, _ = editions.POLL_INTERVAL
    seconds, problem = poll_interval(data)
    assert least <= seconds <= most and (problem is None or len(str(problem)) < SHORT)


def _decide(rules: FaultRules) -> None:
    """A policy decides on the codes that the rules name, and is stored and read again."""
    policy = FaultPolicy(rules, Mode.GRACE)
    for at, code in enumerate([CODE, *list(rules.codes)[:4], *list(rules.frequency)[:4], *list(rules.duration)[:4]]):
        for number, kind in enumerate((*FaultKind, FaultKind.OCCURRED)):
            now = at + number / 4
            policy.event(FaultEvent(code, DEVICE, kind, None, now), now)
    policy.look(min(policy.next_look, 1e9))
    again = FaultPolicy(rules, Mode.GRACE)
    again.load(policy.saved())
    assert again.saved() == policy.saved() and list(again.isolated()) == list(policy.isolated())


def platform_files(data: bytes) -> None:
    """Ranks of devices, the list of separated ones, and the files about a node's restart."""
    ranks = _read(lambda: device_files.read_ranks(data.decode()))
    assert ranks is None or all(device.isprintable() and rank >= 0 for device, rank in ranks.items())
    names = _read(lambda: device_files.read_names(data.decode()))
    assert names is None or device_files.read_names(",".join(sorted(names))) == names
    restart = _read(lambda: reset.read_reset(data))
    assert restart is None or all(rank >= 0 for rank in restart.ranks)
    assert _read(lambda: reset.read_restart_type(data)) in (None, *reset.RESTART_TYPES)
    version = _read(lambda: reset.read_version(data))
    assert version is None or 0 <= version <= reset.VERSION_MOST


def _read(read: Callable[[], T]) -> T | None:
    """The value of a reader; None for its refusal."""
    try:
        return read()
    except ValueError as error:
        reason = str(error)
    assert len(reason) < SHORT
    return None
