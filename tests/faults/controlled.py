"""A process with orders over its standard input and answers over its standard output, from outside."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.fork_server import forked
from tests.freezing import freeze

ROOT: Final = Path(__file__).resolve().parents[2]

ANSWER_S: Final = 60.0
"""Default seconds for an answer: longer than every order takes, so that a hang ends."""


class OrderFailed(AssertionError):
    """A process has died, does not answer, or failed at an order."""


class ControlledProcess:
    """One process.

    Args:
        name: for messages.
        arguments: of Python.
        errors: the file for its standard error.
        wrapper: a command that runs it, for example in a network namespace.
        environment: variables beside those that Python needs.
        session: whether it has a session of its own, which Linux may give a share of the processors (autogroup).
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        errors: Path,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        session: bool = True,
    ) -> None:
        self.name = name
        self._errors = errors
        with errors.open("ab") as log, forked():
            self._process = subprocess.Popen(
                [*wrapper, sys.executable, *arguments],
                cwd=ROOT,
                env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # A Ctrl-C reaches the laboratory alone, which then ends the others.
                start_new_session=session,
                process_group=None if session else 0,
            )
        self._number = 0
        self._buffer = b""
        self._told: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    def begin(self, do: str, **arguments: object) -> int:
        """Give an order. Returns its number, for `answer`."""
        self._number += 1
        assert self._process.stdin is not None
        order = json.dumps({"id": self._number, "do": do, **arguments})
        try:
            self._process.stdin.write(order.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise OrderFailed(f"{self.name} has ended; {self._last_words()}") from error
        return self._number

    def answer(self, number: int, timeout: float = ANSWER_S) -> Any:
        """The result of an order.

        Raises:
            OrderFailed: the order failed, or the process is silent or has ended.
        """
        told = self._await("id", number, timeout)
        if "error" in told:
            raise OrderFailed(f"{self.name}: {told['error']}")
        return told["value"]

    def ask(self, do: str, *, within: float = ANSWER_S, **arguments: object) -> Any:
        """Give an order, and wait up to `within` seconds for the result."""
        return self.answer(self.begin(do, **arguments), within)

    def event(self, name: str, timeout: float = ANSWER_S) -> dict[str, Any]:
        """Wait until the process reports this event."""
        return self._await("event", name, timeout)

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        if number == signal.SIGSTOP:
            freeze(self._process.pid)
        else:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it by force, and wait until it has ended."""
        self._process.kill()
        self._process.wait()
        self._close()

    def begin_end(self) -> None:
        """Close its input, for an orderly end; `end` waits for it."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def end(self, timeout: float = 5.0) -> None:
        """End it in an orderly way, or else by force."""
        self.begin_end()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _await(self, key: str, value: object, timeout: float) -> dict[str, Any]:
        give_up_at = time.monotonic() + timeout
        while True:
            for told in self._told:
                if told.get(key) == value:
                    self._told.remove(told)
                    return told
            self._told.append(json.loads(self._line(give_up_at, f"{key} {value}")))

    def _line(self, give_up_at: float, what: str) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, give_up_at - time.monotonic())):
                    raise OrderFailed(f"{self.name} said nothing in time of {what}; {self._last_words()}")
                data = os.read(self._process.stdout.fileno(), 1 << 20)
                if not data:
                    raise OrderFailed(f"{self.name} has ended; {self._last_words()}")
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").splitlines()[-12:]
        return "the end of its stderr:" + "".join(f"\n    {line}" for line in lines)
