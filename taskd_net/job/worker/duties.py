"""A Worker's own answers to the Mgr's commands 204, 205 and 7xx: commands in, device calls and answers out. Pure.

    204, 205 ─▶ queue ─▶ one device call after another ─▶ answer
    7xx ──────▶ answer

An operation has a uuid of its own beside that of its message. It is carried out once: a command with the uuid of the
last operation is answered with the same answer.

This package has no profiler, so the wanted domains are reported as failed, and no domain as off.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError
from taskd_net.base.limits import SWITCH_NIC_S
from taskd_net.base.untrusted import json_value, natural, shown
from taskd_net.base.vocabulary import ACTION, KEEP_ALIVE, STATUS

CALLS_WAITING: Final = 8
"""Switches of cards and stress tests that a Worker has at a time, as many as its inbox; more are answered as failed."""

STRESS_AIC_S: Final = 300.0
"""Seconds for the stress test of a device's cores, as with TaskD."""

STRESS_HCCS_S: Final = 600.0
"""Seconds for the stress test of a device's links, as with TaskD."""

SWITCHED: Final = "switchOK"
NOT_SWITCHED: Final = "switchFail"
DEFAULT_FAILED: Final = 20
"""Part of the profiling state for default domains that could not be switched, as with TaskD."""
COMMUNICATION_FAILED: Final = 2
"""Part of it for communication domains."""

_RANK_MOST: Final = 2**31 - 1
_DOMAINS: Final = {0: (False, False), 1: (False, True), 10: (True, False), 11: (True, True)}
"""Default and communication domain by 7xx - 700."""


class DeviceOutcome(IntEnum):
    """Codes of a stress test. A switch of cards has worked, or it has not."""

    OK = 0
    FAILED = 1
    FAULT = 2
    TIMEOUT = 3
    VOLTAGE = 4


_TEXTS: Final = {
    DeviceOutcome.OK: "OK",
    DeviceOutcome.FAILED: "exec failed",
    DeviceOutcome.FAULT: "find fault rank",
    DeviceOutcome.TIMEOUT: "exec timeout",
    DeviceOutcome.VOLTAGE: "voltage recovery failed",
}


@dataclass(frozen=True, slots=True)
class SwitchCards:
    """Switch the network cards of these global ranks; each op says whether to the backup card."""

    ranks: tuple[int, ...]
    ops: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Detect:
    """Stress this rank's device: `aic` (its cores) or `hccs` (its links)."""

    kind: str


DeviceCall = SwitchCards | Detect


@dataclass(frozen=True, slots=True)
class MakeCall:
    """Make a device call, and report its end with `Duties.ended`.

    Args:
        call: the call.
        seconds: after this time it has ended with TIMEOUT.
    """

    call: DeviceCall
    seconds: float


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """Send this to the Mgr."""

    body: Body


@dataclass(frozen=True, slots=True)
class DutyIgnored:
    """A command is not carried out; the reason is for the log."""

    reason: str


Action = MakeCall | SendAnswer | DutyIgnored

_DETECTS: Final = {
    0: MakeCall(Detect("aic"), STRESS_AIC_S),
    1: MakeCall(Detect("hccs"), STRESS_HCCS_S),
}


@dataclass(slots=True)
class _Job:
    """An operation.

    Args:
        code: 204 or 205.
        uuid: of the operation.
        waiting: device calls that are left, with the op of each.
        results: by op.
    """

    code: int
    uuid: str
    waiting: deque[tuple[int, MakeCall]]
    results: dict[int, DeviceOutcome] = field(default_factory=dict)

    def answer(self) -> Body:
        """The answer to the Mgr."""
        if self.code == vocabulary.SWITCH_NIC:
            return switched(self.uuid, set(self.results.values()) == {DeviceOutcome.OK})
        return stressed(self.uuid, self.results)


class Duties:
    """The state machine of one Worker.

    Args:
        rank: its global rank.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._jobs: deque[_Job] = deque()  # the first one runs
        self._answers: dict[int, tuple[str, Body]] = {}

    @property
    def testing(self) -> bool:
        """True while a stress test waits or runs: the Mgr wants KEEP_ALIVEs."""
        return any(job.code == vocabulary.STRESS_TEST for job in self._jobs)

    def take(self, body: Body) -> list[Action]:
        """Take a command in."""
        if body.code in vocabulary.PROFILING_COMMANDS:
            domains = _DOMAINS.get(body.code - vocabulary.PROFILING_COMMANDS.start)
            if domains is None:
                return [DutyIgnored(f"no profiling command has code {body.code}")]
            return [SendAnswer(not_profiling(*domains))]
        switches = body.code == vocabulary.SWITCH_NIC
        key = vocabulary.SWITCH_NIC_UUID if switches else vocabulary.STRESS_TEST_UUID
        uuid = body.extension.get(key)
        if uuid is None:
            return [DutyIgnored(f"{body.code} has no {key}")]
        known, answer = self._answers.get(body.code, ("", None))
        if uuid == known and answer is not None:
            return [SendAnswer(answer)]
        if any((job.code, job.uuid) == (body.code, uuid) for job in self._jobs):
            return [DutyIgnored("the operation is under way")]
        return self._take_switch(uuid, body) if switches else self._take_test(uuid, body)

    def ended(self, outcome: DeviceOutcome) -> list[Action]:
        """The current device call has ended."""
        job = self._jobs[0]
        op, _ = job.waiting.popleft()
        job.results[op] = outcome
        return self._advance()

    def _take_switch(self, uuid: str, body: Body) -> list[Action]:
        try:
            call = read_switch(body)
        except ArgumentError as error:
            return [DutyIgnored(str(error)), self._answered(vocabulary.SWITCH_NIC, uuid, switched(uuid, False))]
        return self._queue(_Job(body.code, uuid, deque([(0, MakeCall(call, SWITCH_NIC_S))])))

    def _take_test(self, uuid: str, body: Body) -> list[Action]:
        try:
            ops = read_ops(body, self._rank)
        except ArgumentError as error:
            # Without its ops there is nothing to answer: the Mgr takes silence for a failure.
            return [DutyIgnored(str(error))]
        job = _Job(body.code, uuid, deque((op, _DETECTS[op]) for op in ops if op in _DETECTS))
        job.results.update((op, DeviceOutcome.FAILED) for op in ops if op not in _DETECTS)
        return self._queue(job)

    def _queue(self, job: _Job) -> list[Action]:
        if len(self._jobs) >= CALLS_WAITING:
            job.results.update((op, DeviceOutcome.FAILED) for op, _ in job.waiting)
            reason = f"{CALLS_WAITING} operations wait already"
            return [DutyIgnored(reason), self._answered(job.code, job.uuid, job.answer())]
        self._jobs.append(job)
        return self._advance() if len(self._jobs) == 1 else []

    def _advance(self) -> list[Action]:
        """Begin the next device call, and answer the operations that have none left."""
        actions: list[Action] = []
        while self._jobs:
            job = self._jobs[0]
            if job.waiting:
                return [*actions, job.waiting[0][1]]
            self._jobs.popleft()
            actions.append(self._answered(job.code, job.uuid, job.answer()))
        return actions

    def _answered(self, code: int, uuid: str, body: Body) -> SendAnswer:
        self._answers[code] = (uuid, body)
        return SendAnswer(body)


def switched(uuid: str, ok: bool) -> Body:
    """The answer to a 204."""
    extension = {vocabulary.SWITCH_NIC_UUID: uuid}
    return Body(ACTION, vocabulary.SWITCH_NIC, SWITCHED if ok else NOT_SWITCHED, extension)


def stressed(uuid: str, results: dict[int, DeviceOutcome]) -> Body:
    """The answer to a 205, with the result of each operation."""
    result = {str(op): {"code": str(int(results[op])), "result": _TEXTS[results[op]]} for op in sorted(results)}
    message = json.dumps({"rankResult": result})
    return Body(ACTION, vocabulary.STRESS_TEST, message, {vocabulary.STRESS_TEST_UUID: uuid})


def not_profiling(default: bool, communication: bool) -> Body:
    """The state in which the wanted domains have failed."""
    state = DEFAULT_FAILED * default + COMMUNICATION_FAILED * communication
    return Body(STATUS, vocabulary.PROFILING_STATES.start + state)


def keep_alive() -> Body:
    """The Worker lives while it tests its device."""
    return Body(KEEP_ALIVE, 0)


def read_switch(body: Body) -> SwitchCards:
    """The device call of a 204.

    Raises:
        ArgumentError: the ranks or the ops cannot be read, or are not as many as the others.
    """
    ranks = [_rank(rank) for rank in _list(body, vocabulary.SWITCH_RANKS)]
    ops = _list(body, vocabulary.SWITCH_OPS)
    if len(ranks) != len(ops):
        raise ArgumentError(f"{vocabulary.SWITCH_OPS} has {len(ops)} items; expected {len(ranks)}, one for each rank")
    switches = []
    for op in ops:
        if not isinstance(op, bool):
            raise ArgumentError(f"op is {shown(op)}; expected true or false")
        switches.append(op)
    return SwitchCards(tuple(ranks), tuple(switches))


def read_ops(body: Body, rank: int) -> list[int]:
    """The operations of a 205 for one rank, each once.

    Raises:
        ArgumentError: they cannot be read, or there are none.
    """
    value = _json(body, vocabulary.STRESS_OPS)
    mine = value.get(str(rank)) if isinstance(value, dict) else None
    ops = mine.get("ops") if isinstance(mine, dict) else None
    if not isinstance(ops, list) or not ops or not all(type(op) is int for op in ops):
        text = f"{vocabulary.STRESS_OPS} is {shown(value)}; expected the ops of rank {rank}"
        raise ArgumentError(text)
    return list(dict.fromkeys(ops))


def _list(body: Body, key: str) -> list[object]:
    value = _json(body, key)
    if not isinstance(value, list):
        raise ArgumentError(f"{key} is {shown(value)}; expected a JSON list")
    return value


def _json(body: Body, key: str) -> object:
    text = body.extension.get(key, "")
    try:
        return json_value(text)
    except ValueError as error:
        raise ArgumentError(f"{key} is {shown(text)}; expected JSON: {error}") from None


def _rank(value: object) -> int:
    number = natural(value, _RANK_MOST) if isinstance(value, str) else value
    if type(number) is not int or not 0 <= number <= _RANK_MOST:
        raise ArgumentError(f"rank is {shown(value)}; expected a whole number, at least 0")
    return number
