"""Recordings of the real ClusterD, played against the stand-in and compared with it.

A recording has what a client, an operator and the platform did, and what ClusterD sent. The player repeats the former
at the same distances from what comes, in a time of its own: a flow of minutes takes milliseconds. Then it compares
contents, codes, ends of streams, the states that were walked, and each wait.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import selectors
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Never

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from taskd_net.base.bounded_file import read_file
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import json_value
from taskd_net.net.wire import recover_pb2 as pb
from taskd_net_lab.clusterd.course import SECONDS, Wait
from taskd_net_lab.clusterd.desk import Desk
from taskd_net_lab.clusterd.machine import Device, Machine
from taskd_net_lab.clusterd.messages import Stream
from taskd_net_lab.clusterd.round import DOWNGRADE, STRATEGIES, Job
from taskd_net_lab.clusterd.scenario import Scenario
from taskd_net_lab.clusterd.script import Script
from taskd_net_lab.clusterd.service import Service
from taskd_net_lab.clusterd.table import State

FILE_BYTES: Final = 16 * 1024 * 1024
FILE_S: Final = 5.0
TOLERANCE_S: Final = 1.0
TOLERANCE: Final = 0.2
"""A wait may differ by this many seconds, or by this part of it, whichever is more."""

_CAUSE_S: Final = 0.2
"""Seconds between a signal and what answers it, at least: the client of the recordings takes 0.3."""

_NEVER_S: Final = 1e9
_MISSING_S: Final = 1000.0
"""Seconds after the end of a recording that its play waits for signals."""

_RESULT: Final = re.compile(r", (?=result:|faultRank:|isolate node:)|,result:")
"""The begin of the client's result in the text for an operator."""

_JOB: Final = "j"
_MEMORY_FAULT: Final = "80E01801"
_REQUESTS: Final[Mapping[str, Any]] = {
    "Init": pb.ClientInfo,
    "Register": pb.ClientInfo,
    "HealthCheck": pb.ClientInfo,
    "ReportStopComplete": pb.StopCompleteRequest,
    "ReportRecoverStrategy": pb.RecoverStrategyRequest,
    "ReportRecoverStatus": pb.RecoverStatusRequest,
    "ReportProcessFault": pb.ProcessFaultRequest,
    "ReplySwitchNicResult": pb.SwitchResult,
    "ReplyStressTestResult": pb.StressTestResult,
    "SwitchNicTrack": pb.SwitchNics,
    "StressTest": pb.StressTestParam,
    **dict.fromkeys(map(str, Stream), pb.ClientInfo),
    "SubscribeSwitchNicSignal": pb.SwitchNicRequest,
    "SubscribeStressTestResponse": pb.StressTestRequest,
}
_SAME: Final[Mapping[str, str]] = {
    "flush finished": "fault flush finished",
    "clear success": "clear config map fault success",
    "check finish": "check result finish",
    "restart finish": "restart process finish",
    "scale running": "scale in running",
}
"""Names in the recordings, and in the table of the stand-in."""


class Event(NamedTuple):
    """An event: a message from ClusterD, or an act on it.

    Args:
        at: seconds since the beginning.
        channel: the call, or the stream.
        content: the message, the answer, or the end.
    """

    at: float
    channel: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording.

    Args:
        flow: its name.
        job: the job, without name.
        seconds: times of the platform.
        acts: what client, operator and platform did.
        events: what ClusterD sent.
        keep_alives: uuids of keep-alives.
        walked: the path of the first round: states and events.
        end: seconds.
    """

    flow: str
    job: Job
    seconds: Mapping[Wait, float]
    acts: Sequence[Event]
    events: Sequence[Event]
    keep_alives: Sequence[str]
    walked: Sequence[str]
    end: float


@dataclass(slots=True)
class Played:
    """The course of a play."""

    acts: dict[int, float] = field(default_factory=dict)
    answers: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    keep_alives: set[str] = field(default_factory=set)
    walks: list[list[str]] = field(default_factory=lambda: [[]])


def load(path: str | Path) -> Recording:
    """Read a recording.

    Raises:
        ConfigError: a line cannot be read; the text has file, line, value and expectation.
        OSError: the file cannot be read.
    """
    lines = []
    for number, text in enumerate(read_file(path, FILE_BYTES, FILE_S).data.decode(errors="replace").splitlines(), 1):
        try:
            line = json_value(text)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: {error}; expected a JSON object") from None
        if not isinstance(line, dict):
            raise ConfigError(f"{path}:{number}: {text[:60]!r} is no JSON object")
        lines.append(line)
    try:
        return _recording(lines)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} is no recording: {type(error).__name__}: {error}") from None


def _recording(lines: Sequence[Mapping[str, Any]]) -> Recording:
    head = lines[0]["job"]
    names = {"elastic-training": DOWNGRADE}
    strategies = tuple(name for given in head["strategies"] if (name := names.get(given, given)) in STRATEGIES)
    walks: list[list[str]] = [line["walked"] for line in lines if "walked" in line]
    job = Job(_JOB, strategies, head["nodes"], head["processes"], loses=any("order mixed" in walk for walk in walks))
    seconds = {Wait.POD: _NEVER_S, Wait.OLD_POD: _NEVER_S, Wait.PODS: _NEVER_S}
    for annotation in head.get("annotations", ()):
        name, _, value = annotation.partition("=")
        if name == "wait-reschedule-timeout":
            seconds[Wait.SCHEDULE] = float(value)
    acts, events, end = [], [], 0.0
    keep_alives: list[str] = []
    for line in lines:
        at = line.get("at", 0.0)
        match line:
            case {"message": {"signalType": "keep-alive", **rest}}:
                keep_alives.append(str(rest.get("uuid", "")))
            case {"stream": stream, "message": message}:
                events.append(Event(at, stream, message))
            case {"stream": stream, "ended": "UNAVAILABLE"}:
                acts.append(Event(at, "kill", {}))
            case {"stream": stream, "ended": how}:
                events.append(Event(at, stream, {"ended": how}))
            case {"call": call, "request": request}:
                acts.append(Event(at, call, {"request": request, "answer": line.get("code", line.get("status"))}))
            case {"subscribe": stream, "request": request}:
                acts.append(Event(at, stream, {"request": request}))
            case {"platform": what}:
                acts.append(Event(at, "platform", {"words": what.split()}))
            case {"end": True}:
                end = at
    # A walk whose order was lost is told by the states before.
    lost = [walk[: walk.index("order mixed") - 1] for walk in walks if "order mixed" in walk]
    walked: Sequence[str] = next(iter(lost or walks), ())
    return Recording(lines[0]["flow"], job, seconds, acts, events, keep_alives, [_words(step) for step in walked], end)


def _words(step: str) -> str:
    """A state and an event, in the words of the stand-in's table."""
    parts = [part.removesuffix(" event").replace(" strategy success", " success") for part in step.split(" / ")]
    if parts[0].startswith("notify decided"):
        parts[1:] = [part.replace("scale in success", "scale in strategy success") for part in parts[1:]]
    return " / ".join(_SAME.get(part, part) for part in parts)


class _Jumps(selectors.DefaultSelector):
    """A selector that moves the clock of its loop in place of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now


class _Aborted(Exception):
    """A call that ended with a status of gRPC."""


class _Context:
    """The part of gRPC's context that the service uses."""

    async def abort(self, code: grpc.StatusCode, details: str) -> Never:
        raise _Aborted(code.name)


@dataclass(slots=True)
class _Call:
    """Details of a call, as a generic handler needs them."""

    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...] = ()


def play(recording: Recording) -> Played:
    """Play a recording against the stand-in."""
    loop = _Loop()
    try:
        return loop.run_until_complete(_Player(recording, loop).play())
    finally:
        loop.close()


class _Player:
    """One play: the acts of a recording at their distances from what the stand-in does."""

    def __init__(self, recording: Recording, loop: _Loop) -> None:
        self._recording = recording
        self._loop = loop
        self._played = Played()
        numbers = itertools.count(1)
        self._desk = Desk([recording.job], lambda: f"u{next(numbers)}", {**SECONDS, **recording.seconds})
        self._tasks: set[asyncio.Task[None]] = set()
        self._came = asyncio.Condition()

    async def play(self) -> Played:
        """Play it to its end."""
        script = Script(Scenario((self._recording.job,)), lambda _: False, 0.0)
        self._service = Service(self._desk, script, self._say)
        ticks = self._loop.create_task(self._tick())
        acts = [self._loop.create_task(self._act(number)) for number in range(len(self._recording.acts))]
        with suppress(TimeoutError):  # a signal that has to come before the end does not come
            async with asyncio.timeout(self._recording.end + _MISSING_S):
                await self._until(Event(self._recording.end, "end", {}))
        for task in (ticks, *acts, *self._tasks):
            task.cancel()
        ended = await asyncio.gather(ticks, *acts, *self._tasks, return_exceptions=True)
        for result in ended:
            if isinstance(result, Exception):
                raise result
        return self._played

    async def _tick(self) -> None:
        while True:
            self._service.changed.clear()
            self._service.tick(self._loop.time())
            machine = self._desk.machine(_JOB)
            try:
                async with asyncio.timeout_at(machine.wake if machine is not None else None):
                    await self._service.changed.wait()
            except TimeoutError:
                pass

    def _say(self, event: str, fields: Mapping[str, object]) -> None:
        walks = self._played.walks
        if event == "moved":
            walks[-1].append(f"{fields['state']} / {fields['by']}")
            if fields["to"] == State.INIT:
                walks[-1].append(str(State.INIT))
                walks.append([])
        elif event == "reset" and fields["state"] != State.INIT:
            walks.append([])

    async def _until(self, act: Event) -> None:
        """Wait for the time of an act: so long after the signal that came before it."""
        causes = [event for event in self._recording.events if "ended" not in event.content]
        number = sum(event.at <= act.at - _CAUSE_S for event in causes)
        since = causes[number - 1].at if number else 0.0
        async with self._came:
            await self._came.wait_for(lambda: len(self._signals()) >= number)
        came = self._signals()[number - 1].at if number else 0.0
        await asyncio.sleep(max(0.0, came + act.at - since - self._loop.time()))

    def _signals(self) -> list[Event]:
        return [event for event in self._played.events if "ended" not in event.content]

    async def _act(self, number: int) -> None:
        act = self._recording.acts[number]
        await self._until(act)
        self._played.acts[number] = self._loop.time()
        if act.channel == "kill":
            self._desk.forget()
            for task in tuple(self._tasks):
                task.cancel()
        elif act.channel == "platform":
            self._platform(*act.content["words"])
        else:
            await self._call(number, act)

    def _platform(self, what: str, *words: str) -> None:
        machine, now = self._desk.machine(_JOB), self._loop.time()
        if machine is None:
            return
        _PLATFORM[what](machine, words, now)
        self._service.settle(_JOB, machine)
        self._service.changed.set()

    async def _call(self, number: int, act: Event) -> None:
        kind = _REQUESTS[act.channel]
        request = ParseDict(act.content["request"], kind())
        setattr(request, "jobId" if "jobId" in kind.DESCRIPTOR.fields_by_name else "jobID", _JOB)
        methods = (each.service(_Call(f"/Recover/{act.channel}")) for each in self._service.handlers())
        method: Any = next(each for each in methods if each is not None)
        if method.unary_unary is None:
            task = self._loop.create_task(self._read(act.channel, method.unary_stream(request, _Context())))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        try:
            status = await method.unary_unary(request, _Context())
        except _Aborted as aborted:
            self._played.answers[number] = {"answer": str(aborted)}
        else:
            self._played.answers[number] = {"answer": status.code}

    async def _read(self, stream: str, messages: AsyncIterator[Any]) -> None:
        try:
            async for message in messages:
                await self._note(stream, _plain(message))
        except _Aborted as aborted:
            await self._note(stream, {"ended": str(aborted)})
        else:
            await self._note(stream, {"ended": "OK"})

    async def _note(self, stream: str, content: Mapping[str, Any]) -> None:
        if content.get("signalType") == "keep-alive":
            self._played.keep_alives.add(content.get("uuid", ""))
            return
        async with self._came:
            self._played.events.append(Event(self._loop.time(), stream, content))
            self._came.notify_all()


def _plain(message: Any) -> dict[str, Any]:
    plain = MessageToDict(message)
    for name in ("jobId", "jobID"):
        plain.pop(name, None)
    return plain


def _fault(machine: Machine, words: Sequence[str], now: float) -> None:
    node = _node(words[0])
    faults = {}
    for word in words[1:]:
        device, code, level = word.split(":")
        kind = Device.SUB_HEALTH if level == "SubHealthFault" else Device.OTHER
        faults[node * machine.job.processes + int(device)] = Device.MEMORY if code == _MEMORY_FAULT else kind
    machine.devices(node, faults, now)


def _node(name: str) -> int:
    return int(name.rpartition("-")[2])


def _repod(machine: Machine, words: Sequence[str], now: float) -> None:
    after = float(words[3])
    machine.pod_deleted(int(words[1]), now + after if after >= 0 else math.inf)


_PLATFORM: Final[Mapping[str, Callable[[Machine, Sequence[str], float], None]]] = {
    "fault": _fault,
    "nodefault": lambda machine, words, now: machine.node(_node(words[0]), len(words) > 1, now),
    "repod": _repod,
    "backup": lambda machine, _, now: machine.new_pod(now),
    "rm": lambda machine, _, now: machine.old_pod_deleted(now),
}


def differences(recording: Recording, played: Played) -> Iterator[str]:
    """Differences between the stand-in and the real one, in words."""
    pairs: dict[int, float] = {}
    uuids: dict[str, str] = {}
    for channel in sorted({event.channel for event in (*recording.events, *played.events)}):
        expected = [(number, event) for number, event in enumerate(recording.events) if event.channel == channel]
        found = [event for event in played.events if event.channel == channel]
        for _, missing in expected[len(found) :]:
            yield f"{missing.at:.2f} s, {channel}: the stand-in did not send {_shown(missing.content)}"
        for extra in found[len(expected) :]:
            yield f"{extra.at:.2f} s, {channel}: only the stand-in sent {_shown(extra.content)}"
        for (number, wanted), got in zip(expected, found, strict=False):
            if _comparable(wanted.content, {}) != _comparable(got.content, uuids):
                yield (
                    f"{wanted.at:.2f} s, {channel}: the stand-in sent {_shown(_comparable(got.content, uuids))}; "
                    f"expected {_shown(_comparable(wanted.content, {}))}"
                )
            pairs[number] = got.at
    for number, act in enumerate(recording.acts):
        answer = act.content.get("answer")
        if number not in played.acts:
            yield f"{act.at:.2f} s: there was no occasion for {act.channel}"
        elif answer is not None and (given := played.answers.get(number, {}).get("answer")) != answer:
            yield f"{act.at:.2f} s: {act.channel} was answered {given}; expected {answer}"
    yield from _waits(recording, played, pairs)
    yield from _keep_alives(recording, played, uuids)
    walked, expected_walk = played.walks[0], list(recording.walked)
    if expected_walk and " / " not in expected_walk[-1]:  # the state in which it ends; what ended it is not recorded
        last = expected_walk.pop()
        walked = [
            *walked[: len(expected_walk)],
            *(step for step in walked[len(expected_walk) :][:1] if last not in step),
        ]
    if walked[: len(expected_walk) + 1] != expected_walk:
        yield f"walked {' | '.join(walked)}; expected {' | '.join(expected_walk)}"


def _keep_alives(recording: Recording, played: Played, uuids: Mapping[str, str]) -> Iterator[str]:
    """Keep-alives have the uuid of their round, where it lasts long enough for one."""
    for uuid in filter(None, recording.keep_alives):
        times = [event.at for event in played.events if event.content.get("uuid") == uuids.get(uuid)]
        lasts = times and times[-1] - times[0] > SECONDS[Wait.KEEP_ALIVE]
        if lasts and uuids[uuid] not in played.keep_alives:
            yield f"no keep-alive had {uuid}"


def _waits(recording: Recording, played: Played, pairs: Mapping[int, float]) -> Iterator[str]:
    """Waits from the event before, where both were played."""
    known = [(act.at, played.acts[number]) for number, act in enumerate(recording.acts) if number in played.acts]
    known += [(recording.events[number].at, at) for number, at in pairs.items()]
    for number, at in sorted(pairs.items()):
        event = recording.events[number]
        before = max((pair for pair in known if pair[0] < event.at), default=(0.0, 0.0))
        wanted, got = event.at - before[0], at - before[1]
        if abs(wanted - got) > max(TOLERANCE_S, TOLERANCE * wanted):
            what = event.content.get("signalType", "its end" if "ended" in event.content else "its message")
            yield f"{event.at:.2f} s, {event.channel}: {what} came after {got:.2f} s; expected {wanted:.2f}"


def _comparable(content: Mapping[str, Any], uuids: dict[str, str]) -> dict[str, Any]:
    """A message with sets for lists of ranks and nodes, and uuids in the recording's numbers."""
    result = dict(content)
    uuid = result.get("uuid", "")
    if uuid and not uuid.startswith("uuid-"):
        known = {ours: theirs for theirs, ours in uuids.items()}
        if uuid not in known:
            known[uuid] = f"uuid-{len(uuids) + 1}"
            uuids[known[uuid]] = uuid
        result["uuid"] = known[uuid]
    if "faultRanks" in result:
        result["faultRanks"] = sorted((each["rankId"], each.get("faultType", "0")) for each in result["faultRanks"])
    if "nodeRankIds" in result:
        result["nodeRankIds"] = sorted(result["nodeRankIds"])
    if "msg" in result:
        result["msg"] = _RESULT.split(result["msg"])[0]
    return result


def _shown(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True)


def check(path: str | Path) -> list[str]:
    """Play a recording, and return the differences.

    Raises:
        ConfigError: the file is no recording.
        OSError: it cannot be read.
    """
    recording = load(path)
    try:
        played = play(recording)
    except ParseError as error:
        raise ConfigError(f"{path} has a request that is none of ClusterD's: {error}") from None
    return list(differences(recording, played))
