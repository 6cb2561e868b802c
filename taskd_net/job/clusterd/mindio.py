"""MindIO's controller, where `mindio_ttp` is installed, in a process of its own.

```
  orders ──▶ MindIO ── a call, its answer ──▶ mindio_process ──▶ mindio_ttp.controller_ttp ◀── training processes
  reports ◀─ a queue, a thread ◀──────────────── callbacks
```

A call that MindIO answers with anything but 0 is refused: no report follows, so the caller reports a failure at once.

A controller that ends before its training processes leaves them *lost*: they never connect to another one, and train on
without it. Each call is refused then, until the processes are restarted.
"""

from __future__ import annotations

import importlib.util
import math
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from queue import Empty, Full, Queue, SimpleQueue
from typing import Any, Final

from taskd_net.base import limits, threads
from taskd_net.base.codes import TaskdNetError
from taskd_net.base.logger import late_logger
from taskd_net.base.untrusted import natural
from taskd_net.job.clusterd import mindio_process
from taskd_net.job.clusterd.codes import Code
from taskd_net.job.clusterd.controller import Controller, NoHandler, Ranks, Reports

PACKAGE: Final = "mindio_ttp"
PORT: Final = "TTP_PORT"
TORCH_AGENT_START: Final = "TORCH_AGENT_START"
TIMEOUT_S: Final = 600
"""Seconds that MindIO holds a stopped training without `HCCL_CONNECT_TIMEOUT`."""
TIMEOUT_MOST_S: Final = 7200
"""Seconds of that wait at most."""
HOLD_MOST_S: Final = 3600
"""Seconds that MindIO takes as the time of an `on_global_rank` or a wait, at most. It refuses more."""
PORT_MOST: Final = 65_535
"""The highest TCP port."""
SIZE_MOST: Final = 2**31 - 1
"""The most processes of a training: int32."""

CALL_S: Final = 30.0
"""Seconds for one call of MindIO's controller, which returns at once: its process may be starting on a busy machine."""

END_S: Final = 10.0
"""Seconds that MindIO's controller has to end after an `exit`: it takes 5 s. Then its process is killed."""

AGAIN_S: Final = 60.0
"""Seconds that a process of MindIO's controller has lived if another one follows at once. One that ends sooner ends
again, so the next one waits for a restart of the training."""

GIVES_UP_S: Final = 60.0
"""Seconds after a fault that it has reported after which MindIO ends the training, where no order has come."""

_ENDS_ROUND: Final = ("retry", "recover", "downgrade", "upgrade")
_log = late_logger()


class MindIORefused(TaskdNetError):
    """MindIO does not carry out a call; the text says why."""


class MindIO(Controller):
    """The controller of MindIO's training fault tolerance.

    Args:
        lost: called in another thread when the training processes have lost the controller; with True where another
            `start` is due. A process that ends again and again is left until the next restart.

    Attributes:
        end_s: seconds that its process has to end.
        again_s: seconds that a process has lived if another one follows at once.
        gives_up_s: seconds after which MindIO ends the training without an order.
        loss: the reason for which the training processes have no controller; empty while they have one.
    """

    def __init__(self, lost: Callable[[bool], object] = lambda _: None) -> None:
        self._heard = lost
        self.end_s = END_S
        self.again_s = AGAIN_S
        self.gives_up_s = GIVES_UP_S
        self._process: _ControllerProcess | None = None
        self._is_killed = False
        # A stop, or a checkpoint before the end, was ordered.
        self._in_round = False
        # The moment in which MindIO gives up without an order, after a fault or a pause.
        self._gives_up_at = math.inf
        self.loss = ""

    @classmethod
    def find(cls, lost: Callable[[bool], object] = lambda _: None) -> MindIO | None:
        """The controller, if its package is installed."""
        return cls(lost) if is_installed() else None

    def lose(self, reason: str) -> None:
        """Refuse each call from now on: the training processes belong to a controller that has ended."""
        self.loss = reason

    def regain(self) -> None:
        """Take calls again: the training processes were restarted."""
        self.loss = ""

    def start(self, reports: Reports) -> None:
        """Start it with the environment's `WORLD_SIZE` or `MS_WORKER_NUM`, `POD_IP` and `TTP_PORT`, unless it runs.

        Raises:
            NoHandler: one of them is missing or no number.
            Refused: it does not start.
        """
        if self._process is not None and self._process.lives:
            return
        size = _number("WORLD_SIZE", SIZE_MOST) or _number("MS_WORKER_NUM", SIZE_MOST)
        port, host = _number(PORT, PORT_MOST), os.environ.get("POD_IP")
        if not size or not port or not host:
            raise NoHandler("MindIO's controller needs WORLD_SIZE or MS_WORKER_NUM, POD_IP and TTP_PORT")
        os.environ[TORCH_AGENT_START] = "0"  # as TaskD: torch's agent is not to start a controller of its own
        elastic = "elastic-training" in os.environ.get("HIGH_AVAILABILITY", "").split(",")
        self._in_round, self._gives_up_at = False, math.inf
        process = self._process = _ControllerProcess(reports, self._reported, self._ended)
        try:
            if self._is_killed:
                raise MindIORefused("MindIO's controller was ended while it started")
            process.call("init", -1, size, False, os.environ.get("PROCESS_RECOVER") == "on", elastic)
            process.call("start", host, port, False, "")
            if not process.ask("has", "prepare_action"):
                reason = "this version has no tft_notify_controller_prepare_action"
                _log.warning("mindio_without_hot_switch", reason=reason)
        except BaseException:
            process.kill()
            self._process = None
            raise

    def restart(self, reports: Reports) -> None:
        """End it and the training processes, and start another one.

        Without `exit` it waits for 30 s out of a wait, and lets new processes in only then.
        """
        if self._process is not None:
            with suppress(MindIORefused):  # outside a round it waits for nothing, and refuses
                self._process.call("change_strategy", "exit", "")
        self.close()
        self.loss = ""
        self.start(reports)

    def stop_train(self, ranks: Ranks, timeout: int) -> None:
        """Stop the training. MindIO has no time for that.

        Raises:
            Refused: a second one in a round, too, and one after MindIO has given up. It answers them with 0, and no
                report follows, so it and its processes are ended here, and it starts again.
        """
        process = self._require()
        reason = "a second stop_train came within a round, after which MindIO gives up" if self._in_round else ""
        if time.monotonic() > self._gives_up_at:
            reason = "no order came in time after a fault or a pause, so MindIO has given up"
        if reason:
            self.restart(process.reports)
            self.lose(reason)
            self._heard(False)
            self._require()
        gives_up_at = self._gives_up_at
        self._ordered(in_round=True)  # before its report, which may end the round, can come
        try:
            process.call("stop_train", dict(ranks), "stop")
        except MindIORefused:  # no order to MindIO
            self._in_round, self._gives_up_at = False, gives_up_at
            raise

    def pause_train(self, ranks: Ranks, timeout: int) -> None:
        """Pause the training."""
        seconds = timeout or _timeout()
        self._require().call("stop_train", dict(ranks), "pause", seconds)
        self._gives_up_at = time.monotonic() + seconds

    def on_global_rank(self, ranks: Ranks, timeout: int) -> None:
        """Give it the faulty ranks. It holds the training for the time that it gets, so that is the signal's alone."""
        times = [min(timeout, HOLD_MOST_S)] if timeout else []
        self._require().call("on_global_rank", dict(ranks), *times)

    def change_strategy(self, strategy: str, params: str) -> None:
        """Have it carry out a strategy."""
        self._require().call("change_strategy", strategy, params)
        self._gives_up_at = math.inf

    def save_and_exit(self) -> None:
        """Have it write a checkpoint, and end the training."""
        process = self._require()
        self._ordered(in_round=True)
        process.call("dump")

    def prepare(self, action: str, ranks: Ranks) -> None:
        """Have it prepare a switch.

        Raises:
            NoHandler: this version cannot.
        """
        process = self._require()
        if not process.ask("has", "prepare_action"):
            raise NoHandler("this version of MindIO has no tft_notify_controller_prepare_action")
        process.call("prepare_action", action, dict(ranks))

    def close(self) -> None:
        """End it, if it was started."""
        if self._process is not None:
            self._process.end(self.end_s)
            self._process = None

    def kill(self) -> None:
        """End its process at once, also in a call, for good."""
        self._is_killed = True
        if (process := self._process) is not None:
            process.kill()

    def _require(self) -> _ControllerProcess:
        if self.loss:
            raise MindIORefused(f"MindIO has no training processes until they are restarted: {self.loss}")
        if self._process is None:
            raise NoHandler("MindIO's controller was not started")
        return self._process

    def _ordered(self, *, in_round: bool = False) -> None:
        self._in_round, self._gives_up_at = self._in_round or in_round, math.inf

    def _reported(self, report: str, arguments: list[Any]) -> None:
        if report == "result" and arguments[0] == Code.OK and arguments[3] in _ENDS_ROUND:
            self._in_round = False
        elif report == "fault_ranks" and not self._in_round:
            self._gives_up_at = time.monotonic() + self.gives_up_s

    def _ended(self, status: int | None, seconds: float) -> None:
        """The process has ended by itself."""
        self.lose(f"its process has ended with status {status}")
        _log.error("mindio_ended", status=status)
        self._heard(seconds >= self.again_s)


class _ControllerProcess:
    """The process of a controller, from its start to its end. One thread at a time calls it.

    Args:
        reports: where its reports go, one after another, in a thread.
        reported: takes each report before.
        ended: called with its status and the seconds that it has lived, if it ends by itself.

    Attributes:
        lives: until it has ended, or is to end.
    """

    def __init__(
        self,
        reports: Reports,
        reported: Callable[[str, list[Any]], None],
        ended: Callable[[int | None, float], None],
    ) -> None:
        self.reports = reports
        self._reported, self._heard = reported, ended
        self._numbers = count()
        self._answers: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._waiting: Queue[tuple[str, list[Any]] | None] = Queue(mindio_process.SAID)
        self._is_ending, self.lives = False, True
        self._began = time.monotonic()
        self._socket, there = socket.socketpair()
        # A process that is stopped reads nothing, and a call's time is over then.
        limit = struct.pack("ll", math.ceil(CALL_S), 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        command = [sys.executable, "-P", mindio_process.__file__, str(there.fileno()), str(os.getpid())]
        with ExitStack() as undo:
            undo.callback(self._socket.close)
            with there:
                self._popen = subprocess.Popen(  # noqa: S603 - our own program
                    command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()]
                )
            undo.callback(self._popen.wait)
            undo.callback(self._popen.kill)
            threads.start(self._deliver, "reports of MindIO's controller")
            undo.callback(self._waiting.put, None)
            self._reader = threads.start(self._read, "reads from MindIO's controller")
            undo.pop_all()
        self._send({"path": sys.path})

    def ask(self, name: str, *arguments: Any, seconds: float = CALL_S) -> int:
        """Make a call. Returns its answer.

        Raises:
            Refused: it has raised, has not returned in time, or the process has ended.
        """
        number = next(self._numbers)
        self._send({"call": name, "number": number, "arguments": arguments})
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, give_up_at - time.monotonic()))
            except Empty:
                self._kill()
                raise MindIORefused(f"MindIO has not returned from {name} within {seconds:g} s") from None
            if answer is None:
                self._answers.put(None)
                raise MindIORefused(f"MindIO's controller has ended in {name}")
            if answer["number"] != number:
                continue  # of a call whose caller was interrupted
            if "error" in answer:
                raise MindIORefused(f"MindIO has failed in {name}: {answer['error']}")
            return int(answer["answer"])

    def call(self, name: str, *arguments: Any, seconds: float = CALL_S) -> None:
        """Make a call whose answer is to be 0.

        Raises:
            Refused: as `ask`, or another answer.
        """
        if code := self.ask(name, *arguments, seconds=seconds):
            raise MindIORefused(f"MindIO has refused {name}: it returned {code}, expected 0")

    def end(self, seconds: float) -> None:
        """End it, after its own end if that takes no longer than these seconds. Further reports are dropped."""
        self._is_ending, self.lives = True, False
        with suppress(MindIORefused):
            self.call("destroy", seconds=seconds)
        self.kill()
        self._reader.join(limits.KILLED_S)  # its port is free then

    def kill(self) -> None:
        """End it at once, from any thread."""
        self._is_ending, self.lives = True, False
        self._kill()

    def _kill(self) -> None:
        self._popen.kill()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # it has ended, which the reader says
            self._socket.sendall(mindio_process.encode(message))

    def _read(self) -> None:
        with self._socket, suppress(OSError):
            for line in self._socket.makefile("rb"):
                message = mindio_process.decode(line)
                if "report" not in message:
                    self._answers.put(message)
                    continue
                self._reported(message["report"], message["arguments"])
                try:
                    self._waiting.put_nowait((message["report"], message["arguments"]))
                except Full:
                    _log.error("mindio_report_dropped", report=message["report"])
        self.lives = False
        self._popen.kill()
        with suppress(subprocess.TimeoutExpired):  # a driver holds it
            self._popen.wait(limits.KILLED_S)
        if not self._is_ending:
            self._heard(self._popen.returncode, time.monotonic() - self._began)
        self._answers.put(None)
        self._waiting.put(None)

    def _deliver(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            report, arguments = waiting
            if self._is_ending:
                continue
            try:
                code = getattr(self.reports, report)(*arguments)
            except Exception as error:  # noqa: BLE001 - ClusterD's, or of arguments that MindIO has made; the next one goes on
                _log.error("mindio_report_failed", report=report, reason=str(error))
            else:
                if code != Code.OK:
                    _log.warning("mindio_report_refused", report=report, code=code)


def is_installed() -> bool:
    """True where MindIO's package can be found."""
    try:
        return importlib.util.find_spec(PACKAGE) is not None
    except ValueError:  # a module without a spec has the name
        return True


def _number(variable: str, most: int) -> int | None:
    return natural(os.environ.get(variable, ""), most)


def _timeout() -> int:
    """Seconds for a pause without a time of its own: two and a half times those of a connect, as in TaskD."""
    connect = _number("HCCL_CONNECT_TIMEOUT", SIZE_MOST)
    return min(int(connect * 2.5), TIMEOUT_MOST_S) if connect else TIMEOUT_S
