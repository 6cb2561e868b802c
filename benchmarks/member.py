"""One process of a benchmark: a member of a system under test, driven by lines of JSON over stdin and stdout.

A request is `{"do": "load", ...}`; its answer is `{"value": ...}` or `{"error": "..."}`, in the order of the requests.
The first answer comes by itself, when the member has started. The process ends with its stdin, so it cannot outlive
its controller.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from typing import TypedDict

import uvloop

from benchmarks import systems
from benchmarks.load import open_loop
from benchmarks.systems.member import Member, NotAcknowledged, Spec
from taskd_net.demo.process import CLOSE_S, LINE_BYTES


class Started(TypedDict):
    """The start of a member: its address, and the processes whose CPU time is its own."""

    address: str
    pids: list[int]


class Loaded(TypedDict):
    """The result of a load: messages, seconds, and on request their latencies (`histogram.Latencies`)."""

    count: int
    seconds: float
    latencies: str


async def _answer(member: Member, request: dict[str, object]) -> object:
    match request:
        case {"do": "ready"}:
            await member.ready()
            return None
        case {"do": "received"}:
            return member.received
        case {
            "do": "load",
            "to": str(to),
            "body": int(size),
            "seconds": float(seconds),
            "in_flight": int(in_flight),
            "latencies": bool(wanted),
        }:
            return _loaded(*await member.load(to, member.body(size), seconds, in_flight), wanted=wanted)
        case {"do": "pace", "to": str(to), "body": int(size), "seconds": float(seconds), "rate": int(rate)}:
            return _loaded(*await open_loop(member.send, to, member.body(size), seconds, rate), wanted=True)
    return await member.answer(request)


def _loaded(took: list[int], seconds: float, *, wanted: bool) -> Loaded:
    latencies = ""
    if wanted:
        from benchmarks.histogram import Latencies

        latencies = Latencies.of(took).encode()
    return Loaded(count=len(took), seconds=seconds, latencies=latencies)


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def _serve(member: Member) -> None:
    stdin = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    try:
        address = await member.start()
        _say({"value": Started(address=address, pids=list(member.pids) or [os.getpid()])})
        while line := await stdin.readline():
            try:
                _say({"value": await _answer(member, json.loads(line))})
            except (NotAcknowledged, ExceptionGroup, TimeoutError, ValueError) as error:
                _say({"error": _words(error)})
    finally:
        # No controller is left to end a process that hangs in closing.
        signal.alarm(CLOSE_S)
        await member.close()


def _words(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def main() -> None:
    """Run the member that the argument describes, until stdin ends."""
    spec: Spec = json.loads(sys.argv[1])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(_serve(systems.make(spec)))


if __name__ == "__main__":
    main()
