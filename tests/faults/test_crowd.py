"""Very many children of one parent: a common loss and rejoin, and joins and leaves without a trace."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.conftest import Form
from tests.faults.controlled import ControlledProcess
from tests.faults.figures import Figures
from tests.faults.lab import Lab

pytestmark = [pytest.mark.timeout(600), pytest.mark.more]

PROCESSES = 4
WINDOW_S = 0.010
MIB = 1 << 20
COUNTED = ("fds", "tasks", "python_threads", "children", "routes")


class Doorman:
    """A listener in a parent's place that counts connections and refuses them all."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_server((host, int(port)), backlog=4096)
        self.knocks: list[float] = []
        self._thread = threading.Thread(target=self._open)
        self._thread.start()

    def _open(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.knocks.append(time.monotonic())
            connection.close()

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def busiest(self, times: list[float]) -> int:
        """The most connections within a window."""
        return max(sum(1 for other in times if 0 <= other - at < WINDOW_S) for at in times)


class Crowds:
    """The children, in a few processes."""

    def __init__(self, lab: Lab, upstream: str, children: int) -> None:
        each = children // PROCESSES
        self.each = each
        self._processes = [
            ControlledProcess(
                f"crowd{number}",
                ["-m", "tests.faults.crowd", upstream, str(number * each), str(each)],
                lab.folder / f"crowd{number}.log",
            )
            for number in range(PROCESSES)
        ]

    def ask(self, do: str, *, within: float = 120.0, **arguments: object) -> list[Any]:
        """Give all processes an order. Returns the results."""
        begun = [(process, process.begin(do, **arguments)) for process in self._processes]
        return [process.answer(number, within) for process, number in begun]

    def start_other_ranks(self, turn: int) -> None:
        """Start children with new ranks."""
        for index, process in enumerate(self._processes):
            process.ask("start", first=(1 + turn) * 100_000 + index * self.each)

    def joined(self) -> list[float]:
        """Wait until all have joined. Returns the times."""
        return [at for times in self.ask("joined", timeout=60.0) for at in times]

    def end(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.end()


@pytest.fixture
def alone(form: Form, tmp_path: Path) -> Iterator[Lab]:
    """A Mgr and a Proxy alone, with a short grace time."""
    settings = {"grace": 1.0, "times": {"registration_hold": 1.0}}
    with Lab(tmp_path / "lab", proxies=1, workers=0, settings=settings) as lab:
        yield lab


def test_reconnect_together(alone: Lab, form: Form, figures: Figures) -> None:
    parent = alone.proxies[0]
    crowds = Crowds(alone, parent.settings["listen"], form.crowd)
    try:
        crowds.ask("start")
        children = len(crowds.joined())
        before = parent.ask("usage")

        # All lose the parent at once. The doorman in its place sees each attempt.
        parent.kill()
        doorman = Doorman(parent.settings["listen"])
        crowds.ask("left")
        time.sleep(3.0 if form.long else 1.0)
        doorman.close()
        # Connections that the doorman accepted and never answered time out; from now on all are refused.
        time.sleep(4.0 if form.long else 0.5)
        knocks = doorman.knocks
        assert len(knocks) >= children
        first = sorted(knocks)[:children]
        figures.add("crowd", f"the first {children} attempts within", first[-1] - first[0], "s")
        figures.add("crowd", "of these within the busiest 10 ms:", doorman.busiest(first))

        listening = parent.start()
        took = [at - listening for at in crowds.joined()]
        cpu = psutil.Process(parent.process.pid).cpu_times()
        assert len(took) == children
        assert {code for codes in crowds.ask("send", to="Mgr/0") for code in codes} == {0}
        after = parent.ask("usage")
        assert after["children"] == children
        figures.add("crowd", f"{children} joined in", max(took), "s", at_most=5.0)
        figures.add("crowd", "CPU of the parent", cpu.user + cpu.system, "s")
        figures.add("crowd", "its memory", after["bytes"] / MIB, "MiB")
        assert after["bytes"] < 4 * before["bytes"]
    finally:
        crowds.end()


def test_nothing_is_left(alone: Lab, form: Form, figures: Figures) -> None:
    parent = alone.proxies[0]
    crowds = Crowds(alone, parent.settings["listen"], 40)
    turns = form.joins // 40
    watched = [alone.mgr, parent]

    def come_and_go(turn: int) -> None:
        if turn % 2:
            crowds.start_other_ranks(turn)
        else:
            crowds.ask("start")
        crowds.joined()
        assert {code for codes in crowds.ask("send", to="Mgr/0") for code in codes} == {0}
        if turn % 4 < 2:
            crowds.ask("withdraw")
        crowds.ask("close")

    def settled(reference: dict[str, Any] | None = None) -> dict[str, Any]:
        """The resources of both nodes after the last child's grace time, once they are within these bounds."""
        give_up_at = time.monotonic() + 30.0
        while True:
            usage = alone.together("usage", watched)
            gone = usage["proxy0"]["children"] == 0 and usage["mgr"]["routes"] == 1
            if gone and reference is not None:
                gone = all(usage[name][what] <= reference[name][what] for name in usage for what in COUNTED)
            if gone or time.monotonic() > give_up_at:
                return usage
            time.sleep(0.1)

    try:
        # Caches of gRPC, of Python's allocator and of positions stay filled; they are not growth.
        for turn in range(8 if form.long else 2):
            come_and_go(turn)
        before = settled()
        for turn in range(turns):
            come_and_go(turn)
        after = settled(before)
    finally:
        crowds.end()
    for name in before:
        for what in COUNTED:
            assert after[name][what] <= before[name][what], f"{name}: {what} {before[name]} {after[name]}"
        grown = {what: after[name][what] - before[name][what] for what in ("fds", "tasks", "threads", "bytes")}
        # gRPC's own threads come and go.
        assert grown["threads"] <= 8 and grown["bytes"] < 32 * MIB
        text = f"{name}: {grown['fds']:+d} descriptors, {grown['tasks']:+d} tasks, {grown['threads']:+d} threads"
        figures.note("leaks", text)
        figures.add("leaks", "memory grown by", grown["bytes"] / MIB, "MiB", at_most=8.0)
