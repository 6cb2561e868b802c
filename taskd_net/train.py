"""Marks of a training script: steps, sections and waits, for the Agent outside of the process (docs/watching.md).

    from taskd_net import train

    for n, batch in enumerate(batches):
        ...
        train.step(n, samples=len(batch))
        if n % 100 == 0:
            with train.section("checkpoint"):
                save(...)

A mark writes into memory that the Agent reads: no lock, no system call, no message. Without `taskd-net run`, and in
children of the training process, marks do nothing. No mark raises: a value of another kind is one line in the log.
"""

from __future__ import annotations

import math
import os
import threading
from _thread import get_ident
from binascii import crc32
from contextlib import AbstractContextManager, nullcontext, suppress
from numbers import Integral, Real
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from taskd_net.base import rank_record
from taskd_net.base.logger import late_logger
from taskd_net.base.progress import SECTION_CHARS, STEP_MOST
from taskd_net.base.untrusted import shown

if TYPE_CHECKING:
    import mmap
    from types import TracebackType

__all__ = ["section", "step", "waiting"]

NAMES_MOST: Final = 256
"""Names of sections that are kept. A script with more of them puts numbers into names; further names take longer."""

log: Final = late_logger()

_PACK: Final = rank_record.SCRIPT.pack
_CHECK: Final = rank_record.CHECK.pack
_SLOTS: Final = [slice(at, at + rank_record.SCRIPT.size + rank_record.CHECK.size) for at in rank_record.SCRIPT_AT]
_START, _STEPS, _AGAIN = range(3)
_CLASSES: Final = {name: index for index, name in enumerate(rank_record.CLASSES)}
_OTHER: Final = _CLASSES["other"]
_OF_SECTIONS: Final = {name: _CLASSES[name] for name in ("data", "checkpoint", "load", "evaluation")}


def step(n: int, *, loss: float | None = None, samples: int | None = None, of: int | None = None) -> None:
    """Mark the end of a training step. Takes less than 2 µs.

    A step that the job has done before counts as repeated: after a restart, or in a process that has gone back to a
    checkpoint. The time since the step before belongs to this one, as far as it was outside of sections.

    Args:
        n: number of the step, which grows over the whole training: also over epochs and restarts.
        loss: its loss, as a Python number. A tensor is not read, since that would wait for the device.
        samples: number of samples that this rank has trained in it.
        of: number of the last step of the training, for an estimate of its end.
    """
    if (ledger := _process.ledger) is not None:
        ledger.step(n, loss, samples, of)


def section(name: str) -> AbstractContextManager[None]:
    """Mark a block that is no training step. Of nested ones the inner one counts.

    Args:
        name: `data`, `checkpoint`, `load` and `evaluation` have books of their own; all others have one together. The
            name is shown, cut to 32 characters.

    Returns:
        The context manager of the block.
    """
    if _process.ledger is None:
        return _NOTHING
    return (_sections.get(name) if type(name) is str else None) or _new_section(name)


def waiting() -> AbstractContextManager[None]:
    """Mark a block that waits for something outside of the training, such as a person. It counts as no hang.

    Returns:
        The context manager of the block.
    """
    return _NOTHING if _process.ledger is None else _WAITING


class _Section:
    """A kind of block. It has no state of its own, so any number of blocks share it.

    Args:
        running: class of its time.
        name: as the record has it.
        waits: 1 for a wait.
    """

    __slots__ = ("name", "running", "waits")

    def __init__(self, running: int, name: bytes, waits: int = 0) -> None:
        self.running = running
        self.name = name
        self.waits = waits

    def __enter__(self) -> None:
        if (ledger := _process.ledger) is not None:
            ledger.enter(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if (ledger := _process.ledger) is not None:
            ledger.leave(self)


class _Ledger:
    """The writer of a record. After an exec it continues the record of the same process.

    Marks of one thread count: of the main thread, or of the one that has marked the last step. A checkpoint that
    another thread writes does not stop the training.

    Args:
        record: the record.
    """

    __slots__ = (
        "again",
        "at",
        "blocks",
        "following",
        "highest",
        "last",
        "loss",
        "marked",
        "of",
        "pending",
        "pid",
        "record",
        "running",
        "samples",
        "spent",
        "steps",
        "thread",
        "turn",
    )

    def __init__(self, record: mmap.mmap) -> None:
        self.record = record
        self.pid = os.getpid()
        self.thread = threading.main_thread().ident
        self.blocks: list[_Section] = []
        self.pending = 0  # nanoseconds since the last step that were booked for the following one
        said = rank_record.head(record[:])
        begun, self.highest = (monotonic_ns(), -1) if said is None else said[3:]
        self.turn, self.last, self.of, self.loss = 0, -1, -1, math.nan
        self.steps = self.again = self.samples = self.marked = 0
        self.spent = [0] * len(rank_record.CLASSES)
        before = rank_record.newest(record[:], rank_record.SCRIPT, rank_record.SCRIPT_AT)
        if before is not None and before[1] == self.pid:
            self.turn, _, begun, self.last, self.of, self.steps, self.again, self.samples, self.loss = before[:9]
            self.marked, self.spent = before[10], list(before[14:])
        self.highest = max(self.highest, self.last)
        self.at = min(begun, monotonic_ns())
        self.following = _AGAIN if self.last < self.highest else _STEPS
        self.running = self.following if self.marked else _START
        self._write(_OUTSIDE)

    def step(self, n: int, loss: float | None, samples: int | None, of: int | None) -> None:
        """Mark a step, as the function."""
        if (type(n) is not int or not 0 <= n <= STEP_MOST) and (n := _whole("step", n)) < 0:
            return
        self._book()
        self.thread = get_ident()
        self.steps += 1
        if n > self.highest:
            kind, self.highest = _STEPS, n
        else:  # also after a rejoin, in which this process has gone back to a checkpoint
            kind = _AGAIN
            self.again += 1
        if kind != self.following:
            self.spent[self.following] -= self.pending
            self.spent[kind] += self.pending
        self.pending = 0
        self.last = n
        self.following = _AGAIN if n < self.highest else _STEPS
        if loss is not None:
            self.loss = loss if type(loss) is float else _number(loss, self.loss)
        if samples is not None:
            more = samples if type(samples) is int and 0 <= samples <= STEP_MOST else _whole("samples", samples)
            if more > 0:
                self.samples = min(self.samples + more, STEP_MOST)
        if of is not None:
            last = of if type(of) is int and 0 <= of <= STEP_MOST else _whole("of", of)
            if last >= 0:
                self.of = last
        if self.blocks:
            self._write(self.blocks[-1])
        else:
            self.running = self.following
            self._write(_OUTSIDE)

    def enter(self, block: _Section) -> None:
        """A block begins."""
        if get_ident() == self.thread:
            self._book()
            self.blocks.append(block)
            self.running = block.running
            self._write(block)

    def leave(self, block: _Section) -> None:
        """A block ends: the inner one of its kind."""
        if get_ident() == self.thread and block in self.blocks:
            self._book()
            if self.blocks[-1] is block:
                self.blocks.pop()
            else:
                self.blocks.remove(block)
            outer = self.blocks[-1] if self.blocks else _OUTSIDE
            self.running = outer.running if self.blocks else self.following
            self._write(outer)

    def _book(self) -> None:
        """Book the time since the last mark."""
        now = monotonic_ns()
        elapsed, self.at = now - self.at, now
        self.spent[self.running] += elapsed
        if self.running == self.following:
            self.pending += elapsed
        self.marked = 1

    def _write(self, block: _Section) -> None:
        """Write a slot, in one store of bytes."""
        self.turn = turn = self.turn + 1
        data = _PACK(
            turn,
            self.pid,
            self.at,
            self.last,
            self.of,
            self.steps,
            self.again,
            self.samples,
            self.loss,
            self.running,
            self.marked,
            block.waits,
            len(block.name),
            block.name,
            *self.spent,
        )
        self.record[_SLOTS[turn & 1]] = data + _CHECK(crc32(data))


class _Process:
    """The state of this process.

    Attributes:
        ledger: the writer; None: this process has no record.
        refused: the marks with values of another kind, of which the log has a line.
    """

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.ledger: _Ledger | None = None

    def open(self) -> None:
        """Open the record, if there is one."""
        try:
            record = rank_record.opened()
        except (OSError, ValueError) as error:
            log.warning("marks_not_seen", reason=str(error))
            return
        if record is not None:
            self.ledger = _Ledger(record)

    def forget(self) -> None:
        """Leave the record to the parent, in a forked child."""
        self.ledger = None


def _new_section(name: object) -> AbstractContextManager[None]:
    if not isinstance(name, str):
        _refuse("section", name, "a text")
        return _NOTHING
    cut = name[:SECTION_CHARS]
    made = _Section(_OF_SECTIONS.get(name, _OTHER), cut.encode("utf-8", "replace"))
    if len(_sections) < NAMES_MOST:
        _sections[name] = made
    return made


def _whole(mark: str, value: object) -> int:
    """A whole number within its bounds; -1 for anything else."""
    if not isinstance(value, bool) and isinstance(value, Integral) and 0 <= (whole := int(value)) <= STEP_MOST:
        return whole
    _refuse(mark, value, f"a whole number from 0 to {STEP_MOST}")
    return -1


def _number(value: object, before: float) -> float:
    """The number of a loss; the one before for anything else."""
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):
            return float(value)
    _refuse("loss", value, "a Python number, such as loss.item() every hundred steps")
    return before


def _refuse(mark: str, value: object, expected: str) -> None:
    """Log a value of another kind, once for each mark. Only a plain value is shown: a tensor's text needs its data."""
    if mark not in _process.refused:
        _process.refused.add(mark)
        plain = value is None or isinstance(value, bool | int | float | str)
        log.warning("mark_refused", mark=mark, reason=f"{shown(value) if plain else type(value)}; expected {expected}")


_NOTHING: Final = nullcontext()
_OUTSIDE: Final = _Section(_STEPS, b"")
_WAITING: Final = _Section(_CLASSES["waiting"], b"", 1)
_sections: Final[dict[str, _Section]] = {}

_process: Final = _Process()
_process.open()
os.register_at_fork(after_in_child=_process.forget)
