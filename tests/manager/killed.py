"""A Manager's process that kills itself: `python -m tests.manager.killed PORT STATE POINT SETTINGS`.

Its points are the boundaries of messages: before and after each commit, before and after the Acks to reports, before
each command and each reset, and before each answer and each end of a reset is taken in. With POINT 0 it lives until
SIGTERM, and until its commands are taken. Its host's clock differs by CLOCK_SHIFT_S seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from taskd_net import Node, NodeConfig
from taskd_net.core.frame import Ack
from taskd_net.job.decide.traffic import Command, Reset
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.dispatch import Dispatch
from taskd_net.job.manager.faults import DeviceFaults
from taskd_net.job.manager.keeping import Keeping
from taskd_net.job.manager.resets import Resets
from tests.polling import until


class Points:
    """Counts the points; at the last one the process dies."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.passed = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def instrument(point: Points, keeping: Any = Keeping) -> None:
    """Pass a point at every boundary.

    Args:
        point: called there.
        keeping: the class of the place of the state.
    """
    save, send = keeping.save, Dispatch.send
    confirm, answered = Node.confirm, Manager._answered
    begin, ended = Resets.begin, DeviceFaults._reset_ended

    async def saved(self: Any, now: float, parts: Mapping[str, str | None]) -> bool:
        point()
        may_act: bool = await save(self, now, parts)
        point()
        return may_act

    def confirmed(self: Node, messages: Any) -> None:
        point()
        confirm(self, messages)
        point()

    def sent(self: Dispatch, command: Command) -> None:
        point()
        send(self, command)

    def taken(self: Manager, uuid: str, ack: Ack, late: bool) -> None:
        point()
        answered(self, uuid, ack, late)

    def begun(self: Resets, reset: Reset) -> None:
        point()
        begin(self, reset)
        point()

    def reset_ended(self: DeviceFaults, uuid: str, done: bool, reason: str) -> None:
        point()
        ended(self, uuid, done, reason)

    changes: list[tuple[Any, str, Any]] = [(keeping, "save", saved), (Dispatch, "send", sent)]
    changes += [(Node, "confirm", confirmed), (Manager, "_answered", taken)]
    changes += [(Resets, "begin", begun), (DeviceFaults, "_reset_ended", reset_ended)]
    for owner, name, changed in changes:
        setattr(owner, name, changed)


async def main(port: str, state: str, last: int, settings: dict[str, Any]) -> None:
    """Run until SIGTERM, and say how many points were passed."""
    point = Points(last)
    instrument(point)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    config = NodeConfig.mgr(listen=f"127.0.0.1:{port}", confirms=True)
    async with Node(config) as node, Manager(node, ManagerConfig(job_id="J", state=state, **settings)) as manager:
        print("ready", flush=True)
        await ended.wait()
        # The policy may look at a device later.
        await until(lambda: not manager.job.state.outbox.sending and manager.job.wake > manager._now() + 1.0)
        print(point.passed, flush=True)


def shift_clock() -> None:
    """Shift the host's clock by CLOCK_SHIFT_S seconds, for this process."""
    real, shift = time.time, float(os.environ.get("CLOCK_SHIFT_S", "0"))
    time.time = lambda: real() + shift


if __name__ == "__main__":
    shift_clock()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])))
