"""Lines on the standard output. Its threads live as long as the process: tests/cli/test_daemon.py has those."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from taskd_net import Message, Position
from taskd_net.base.untrusted import PIECE_CHARS
from taskd_net.cli import output as module
from taskd_net.cli.output import REST, WRITE_BYTES, Output, _joined, _rested, as_json, as_text

MESSAGE = Message("u", "kind", True, Position.mgr(), Position.worker(0, 3), 1, "bödy")


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The reading end of a pipe in the place of the standard output; no thread is started."""
    reading, writing = os.pipe()
    monkeypatch.setattr(module, "STDOUT", writing)
    monkeypatch.setattr("threading.Thread.start", lambda _: None)
    yield reading
    for descriptor in (reading, writing):
        with suppress(OSError):  # a test has closed it
            os.close(descriptor)


async def test_a_line_is_written_at_once_and_not_after_the_reader_has_gone(reading: int) -> None:
    output = Output(bool)
    assert output._write("é\n".encode()) is True
    assert os.read(reading, 100) == "é\n".encode()
    os.close(reading)
    assert output._write(b"x\n") is False


async def test_the_end_of_the_reader_is_told_while_nothing_is_written(reading: int) -> None:
    gone = asyncio.Event()
    output = Output(gone.set)
    os.close(reading)
    output._watch()
    async with asyncio.timeout(60):
        await gone.wait()


async def test_a_disk_without_room_is_told_once_and_tried_again(reading: int, monkeypatch: pytest.MonkeyPatch) -> None:
    full: list[bool] = []
    failures = [errno.ENOSPC, errno.EDQUOT]
    write = os.write

    def short(descriptor: int, data: bytes) -> int:
        if descriptor == module.STDOUT and failures:
            raise OSError(failures.pop(), "no room")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", short)
    output = Output(bool, lambda: full.append(True), 0.001)
    assert output._write(b"x\n") is True
    await asyncio.sleep(0)
    assert full == [True] and os.read(reading, 10) == b"x\n"


def test_messages_as_text_and_as_json() -> None:
    assert "".join(as_text(MESSAGE)) == "Mgr/0 kind bödy"
    found = json.loads("".join(as_json(MESSAGE)))
    assert (found["src"], found["dst"], found["body"]) == ("Mgr/0", "Worker/0/3", "bödy")


@pytest.mark.parametrize("field", ["mtype", "body"])
@pytest.mark.parametrize("form", [as_text, as_json])
def test_long_text_is_made_in_pieces(field: str, form: Callable[[Message], Iterator[str]]) -> None:
    """In one piece, 8 MiB of control characters held up the loop for one second."""
    long = MESSAGE._replace(**{field: "\x1b\n" * 100_000})  # type: ignore[arg-type]
    pieces = list(form(long))
    assert max(map(len, pieces)) <= 6 * PIECE_CHARS
    assert "".join(pieces).count("\\u001b\\n") == 100_000
    assert form is as_text or json.loads("".join(pieces))[field] == getattr(long, field)


def test_pieces_of_a_long_line_are_written_in_order() -> None:
    pieces = [str(number) * 3000 for number in range(10)]
    assert [len(data) for data in _joined(iter(pieces))] == [18_000, 12_001]
    assert b"".join(_joined(iter(pieces))) == "".join(pieces).encode() + b"\n"
    assert list(_joined(iter(("a", "b")))) == [b"ab\n"]


def test_the_writer_rests_behind_each_part_of_a_long_line_by_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now, rests = 0.0, list[float]()
    monkeypatch.setattr("taskd_net.cli.output.time.thread_time", lambda: now)
    monkeypatch.setattr("taskd_net.cli.output.time.sleep", rests.append)

    def parts() -> Iterator[bytes]:
        nonlocal now
        for took, size in ((1.0, WRITE_BYTES), (2.0, WRITE_BYTES + 1), (4.0, WRITE_BYTES - 1)):
            now += took
            yield bytes(size)

    for _ in _rested(parts()):
        now += 8.0  # the write
    assert rests == [REST * 1.0, REST * 2.0]
