"""The stand-in as a process: it listens, carries out the steps of its scenario, goes away and comes back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Final
from uuid import uuid4

import grpc

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net_lab.clusterd.course import Wait
from taskd_net_lab.clusterd.desk import HEALTH_CHECKS_PER_S, Desk
from taskd_net_lab.clusterd.scenario import Away, Change, End, Profiling, Scenario, Step
from taskd_net_lab.clusterd.script import Script, begin, holds
from taskd_net_lab.clusterd.service import Say, Service

PING_LEAST_MS: Final = 3_000
"""Milliseconds between two pings of a client at least; one that pings more often is cut off."""

STREAMS: Final = 64
"""Calls and streams of a connection at once; a further one waits."""

CONNECTIONS: Final = 512
"""Connections at once; a further one is closed. gRPC counts those of all addresses, and gRPC 1.62 none."""

_OPTIONS: Final = (
    ("grpc.max_allowed_incoming_connections", CONNECTIONS),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", PING_LEAST_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_concurrent_streams", STREAMS),
    ("grpc.compression_enabled_algorithms_bitset", 1),
)


RESETS: Final = ((0.04, 0.1), (0.8, 1.2), (1.2, 6.0))
"""Seconds that a reset takes: a write to the kube API; one that client-go throttles; and one that the API refuses."""


def resets(seed: int, speed: float = 1.0) -> Iterator[float]:
    """Draw the times of resets, of which each kind is as frequent.

    Args:
        seed: equal ones draw equal times.
        speed: divides them.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    while True:
        yield chance.uniform(*chance.choice(RESETS)) / speed


class Run:
    """One run of a scenario.

    Args:
        scenario: the scenario.
        listen: the address; port 0 takes any free port, and keeps it.
        say: prints what is seen and decided.
        resets: times of resets, one after another; None for those of the scenario.
        health_checks: taken in a second.
    """

    def __init__(
        self,
        scenario: Scenario,
        listen: Address,
        say: Say,
        resets: Iterator[float] | None = None,
        health_checks: int = HEALTH_CHECKS_PER_S,
    ) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._desk = Desk(scenario.jobs, lambda: uuid4().hex, scenario.waits, scenario.outcomes, resets=resets)
        self._script = Script(scenario, lambda step: holds(step, self._desk.machine(step.job)), self._loop.time())
        self._service = Service(self._desk, self._script, say, health_checks)
        self._listen = listen
        self._server: grpc.aio.Server | None = None

    async def until_end(self) -> None:
        """Listen, and carry out the steps; return at a step `end` only.

        Raises:
            ConfigError: the address cannot be bound.
        """
        await self._open()
        try:
            while True:
                now = self._loop.time()
                self._service.changed.clear()
                self._service.tick(now)
                if self._service.crashed:
                    self._service.crashed = ""
                    await self._be_away(self._desk.seconds[Wait.CRASH])
                step = self._script.take(now)
                if step is None:
                    await self._sleep(now)
                    continue
                self._say("step", {"job": step.job, "action": type(step.action).__name__})
                if isinstance(step.action, End):
                    return
                await self._carry_out(step)
                self._script.done(self._loop.time())
        finally:
            await self._close()

    async def _sleep(self, now: float) -> None:
        """Wait for the next time that something is due, or for a change."""
        times = [machine.wake for _, machine in self._desk.machines()]
        due = min((at for at in (*times, self._script.wake) if at is not None), default=None)
        try:
            async with asyncio.timeout_at(due):
                await self._service.changed.wait()
        except TimeoutError:
            pass

    async def _open(self) -> None:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers(self._service.handlers())
        try:
            port = server.add_insecure_port(str(self._listen))
        except RuntimeError as error:
            text = f"cannot listen on {self._listen}: in use, or not an address of this machine"
            raise ConfigError(text) from error
        self._listen = Address(self._listen.host, port)
        await server.start()
        self._server = server
        self._say("listening", {"address": str(self._listen)})

    async def _close(self) -> None:
        """Stop without a word to anyone, and forget all jobs."""
        self._desk.forget()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _be_away(self, seconds: float) -> None:
        await self._close()
        self._say("gone", {"seconds": seconds})
        await asyncio.sleep(seconds)
        await self._open()

    async def _carry_out(self, step: Step) -> None:
        """Carry out the action of a step. Of a job that is not registered, the platform's side alone changes."""
        machine, now, done = self._desk.machine(step.job), self._loop.time(), True
        match step.action:
            case Away(seconds):
                await self._be_away(seconds)
                return
            case Change(settings, waits):
                self._desk.wait(waits)
                for name, value in settings.items():
                    setattr(self._desk.jobs[step.job], name, value)
                return
            case Profiling(domains):
                self._service.profile(step.job, domains)
                return
            case _ if machine is None:
                done = False
            case action:
                done = begin(machine, action, now)
        if machine is not None:
            self._service.settle(step.job, machine)
        if not done:
            self._say("refused", {"job": step.job, "reason": "not registered" if machine is None else machine.state})
