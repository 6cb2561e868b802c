"""A double of MindIO's controller. It refuses, aborts and waits as the real one does; MINDIO_SPEED divides its times.

```
            stop_train, 0              on_global_rank, 0            change_strategy
  NORMAL ─────────────────▶ STOPPED ───────────────────▶ CHOSEN ─┬────────────────▶ NORMAL (retry, recover, …)
    │  ▲                       │ 30 s, or a second             │  └ dump ▶ DUMPED   └ exit ▶ EXIT
    │  │ continue              ▼ stop_train                    ▼
    └▶ PAUSED                 EXIT: all processes end with 2; each later stop_train answers 0 and does nothing
```

A call that is refused returns 1, and no report follows. A callback that raises ends in EXIT. A process that is lost is
reported after 11 s; 60 s later, without an order, the others end with 2 and write no checkpoint.

Each call is a line in the file MINDIO_CALLS. MINDIO_FAULT names a fault of the next calls: `hang CALL`, `abort CALL`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

SPEED: Final = float(os.environ.get("MINDIO_SPEED", "1"))
LONGEST_S: Final = 3600
SEEN_AFTER_S: Final = 11.0
UNANSWERED_S: Final = 60.0
END_S: Final = 3.5
END_IN_WAIT_S: Final = 30.0
WAIT: Final = "MINDIO_WAIT_MINDX_TIME"
CALLBACKS: Final = ("report_fault_ranks", "report_stop_complete", "report_strategies", "report_result")
GOES_ON: Final = ("retry", "recover", "downgrade", "upgrade", "migration")
STRATEGIES: Final = (*GOES_ON, "continue", "dump", "exit")

Ranks = Mapping[int, int]


class State(Enum):
    """The state of the controller."""

    NORMAL = auto()
    PAUSED = auto()
    FAULTY = auto()
    STOPPED = auto()
    CHOSEN = auto()
    DUMPED = auto()
    EXIT = auto()


_callbacks: Final[dict[str, Callable[..., object]]] = {}
_lock: Final = threading.RLock()
_said: Final[SimpleQueue[tuple[Any, ...]]] = SimpleQueue()


class _Controller:
    def __init__(self, size: int) -> None:
        self.size = size
        self.state = State.NORMAL
        self.processes: dict[int, socket.socket] = {}
        self.known: set[int] = set()
        self.server: socket.socket | None = None
        self.turn = 0  # a timer of an earlier turn does nothing

    def listen(self, host: str, port: int) -> None:
        self.server = socket.create_server((host, port))
        threading.Thread(target=self._accept, args=(self.server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                link, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(link,), daemon=True).start()

    def _read(self, link: socket.socket) -> None:
        with link, link.makefile("r") as lines:
            rank = int(lines.readline() or -1)
            if not 0 <= rank < self.size:
                return
            with _lock:
                self.processes[rank] = link
                self.known.add(rank)
            link.sendall(b"registered\n")
            for _ in lines:
                pass
        with _lock:
            if _controller is self and self.processes.get(rank) is link:
                del self.processes[rank]
                if self.state is State.NORMAL:
                    self.later(SEEN_AFTER_S, self._seen, rank)

    def _seen(self, rank: int) -> None:
        self.go(State.FAULTY)
        self.report("report_fault_ranks", {rank: 1}, {rank: "0"})
        if self.state is State.FAULTY:
            self.later(UNANSWERED_S, self.give_up)

    def go(self, state: State) -> None:
        self.state, self.turn = state, self.turn + 1

    def later(self, seconds: float, then: Callable[..., None], *arguments: object) -> None:
        turn = self.turn

        def run() -> None:
            with _lock:
                if _controller is self and self.turn == turn:
                    then(*arguments)

        timer = threading.Timer(seconds / SPEED, run)
        timer.daemon = True
        timer.start()

    def report(self, name: str, *arguments: object) -> bool:
        """Call a callback, which the controller waits for. One that raises ends in the exit state."""
        try:
            _callbacks[name](*arguments)
        except Exception:  # noqa: BLE001 - as the real one
            self.give_up()
            return False
        return True

    def give_up(self) -> None:
        self.go(State.EXIT)
        self.tell("exit")

    def tell(self, what: str) -> None:
        for link in list(self.processes.values()):
            try:
                link.sendall(f"{what}\n".encode())
            except OSError:
                continue

    def knows(self, ranks: Ranks) -> bool:
        return ranks.keys() <= self.known and all(kind in (0, 1, 2) for kind in ranks.values())

    def close(self) -> None:
        if self.server is not None:
            self.server.shutdown(socket.SHUT_RDWR)
            self.server.close()
        for link in list(self.processes.values()):
            link.close()


_controller: _Controller | None = None
_begun = 0


def tft_register_mindx_callback(action: str, func: Callable[..., object]) -> int:
    """Register a report."""
    if action not in CALLBACKS or not callable(func):
        return 1
    _callbacks[action] = func
    return 0


def tft_init_controller(rank: int, world_size: int, copy: bool, recovers: bool, elastic: bool = False) -> int:
    """Begin. A second one in a process aborts it, as in a build by g++ 12, unless it logs to standard output."""
    global _controller, _begun  # noqa: PLW0603 - as a library in C has it
    _note("init_controller", rank, world_size, copy, recovers, elastic)
    _begun += 1
    if _begun > 1 and os.environ.get("TTP_LOG_STDOUT") != "1":
        os.abort()
    _controller = _Controller(world_size)
    return 0


def tft_start_controller(host: str, port: int, tls: bool, info: str) -> int:
    """Listen to processors."""
    _note("start_controller", host, port, tls, info)
    if _controller is None:
        return 1
    _controller.listen(host, port)
    return 0


def tft_notify_controller_stop_train(ranks: dict[int, int], stop_type: str = "stop", timeout: Any = None) -> int:
    """Stop, or pause."""
    _note("stop_train", ranks, stop_type, *(() if timeout is None else (timeout,)))
    with _lock:
        if (here := _controller) is None:
            return 1
        if stop_type == "pause":
            if not isinstance(timeout, int) or here.state is not State.NORMAL:
                return 1
            here.go(State.PAUSED)
            here.later(timeout, here.give_up)
            _said.put(("report_stop_complete", 0, "paused", {}))
            return 0
        if stop_type != "stop" or not here.knows(ranks):
            return 1
        if here.state in (State.STOPPED, State.CHOSEN, State.DUMPED):  # unexpected: no report
            here.give_up()
        elif here.state is not State.EXIT:
            here.go(State.STOPPED)
            here.tell("stop")
            here.later(_wait(), here.give_up)
            _said.put(("report_stop_complete", 0, "stopped", ranks))
    return 0


def tft_notify_controller_on_global_rank(ranks: dict[int, int], time: int = 1) -> int:
    """Take the faulty ranks. A refusal leaves the wait to its end."""
    _note("on_global_rank", ranks, *(() if time == 1 else (time,)))
    with _lock:
        if (here := _controller) is None:
            return 1
        if not 0 < time <= LONGEST_S or not here.knows(ranks) or here.state is not State.STOPPED:
            return 1
        here.go(State.CHOSEN)
        here.later(max(time, _wait()), here.give_up)
        strategies = ["retry"] * all(kind == 0 for kind in ranks.values()) + ["recover", "dump", "exit"]
        _said.put(("report_strategies", ranks, strategies))
    return 0


def tft_notify_controller_change_strategy(strategy: str, params: str = "") -> int:
    """Carry a strategy out. A result 0 follows after one more step."""
    _note("change_strategy", strategy, params)
    with _lock:
        here = _controller
        if here is None or strategy not in STRATEGIES or (strategy in ("downgrade", "upgrade") and not params):
            return 1
        if strategy == "exit":
            if here.state in (State.NORMAL, State.EXIT):
                return 1  # nothing waits
            here.give_up()
        elif strategy == "dump" and here.state is State.CHOSEN:
            _save(here)
            _said.put(("report_result", 0, "saved", {}, "dump"))
        elif (strategy == "continue") is (here.state is State.PAUSED) and here.state in (State.PAUSED, State.CHOSEN):
            here.go(State.NORMAL)
            here.tell("continue")
            _said.put(("report_result", 0, "done", {}, strategy))
        else:
            return 1
    return 0


def tft_notify_controller_dump() -> int:
    """Write a checkpoint, and end the training."""
    _note("dump")
    with _lock:
        if _controller is None:
            return 1
        _save(_controller)
    return 0


def tft_notify_controller_prepare_action(action: str, ranks: dict[int, int] | None = None) -> int:
    """Prepare a hot switch, or call it off."""
    _note("prepare_action", action, ranks)
    return 0 if action in ("hot switch", "stop switch") else 1


def tft_destroy_controller() -> int:
    """End: 30 s out of a wait, else 3.5 s. Logs beside those of MindIO become read-only."""
    global _controller
    _note("destroy_controller")
    with _lock:
        here, _controller = _controller, None
    if here is None:
        return 0
    waits = here.state in (State.PAUSED, State.STOPPED, State.CHOSEN)
    time.sleep((END_IN_WAIT_S if waits else END_S) / SPEED)
    here.close()
    for log in Path(os.environ.get("TTP_LOG_PATH", "logs")).absolute().parent.glob("*.log"):
        log.chmod(0o444)
    return 0


atexit.register(tft_destroy_controller)


def _report() -> None:
    while True:
        name, *arguments = _said.get()
        with _lock:
            if _controller is not None:
                _controller.report(name, *arguments)


threading.Thread(target=_report, daemon=True).start()


def _save(here: _Controller) -> None:
    here.go(State.DUMPED)
    here.tell("save")


def _wait() -> int:
    return int(os.environ.get(WAIT, "30"))


def _note(call: str, *arguments: object) -> None:
    if path := os.environ.get("MINDIO_CALLS"):
        listed = [sorted(each.items()) if isinstance(each, dict) else each for each in arguments]
        with Path(path).open("a") as file:
            file.write(json.dumps([call, *listed]) + "\n")
    fault, _, name = os.environ.get("MINDIO_FAULT", "").partition(" ")
    if name == call:
        if fault == "abort":
            os.abort()
        while fault == "hang":
            time.sleep(60)
        if fault == "raise":
            raise RuntimeError("no libttp.so")
        if fault == "exit":
            sys.exit(3)
