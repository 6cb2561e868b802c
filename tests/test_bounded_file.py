"""Files from outside: read to their end, or given up in time."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from taskd_net.base.bounded_file import open_to_write, read_end, read_file


def test_file_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 1000)
    file.chmod(0o640)
    content = read_file(file, 1000, 5.0)
    assert content.data == b"x" * 1000 and stat.S_IMODE(content.mode) == 0o640
    with pytest.raises(ValueError, match="it has more than 999 bytes"):
        read_file(file, 999, 5.0)


def test_devices(tmp_path: Path) -> None:
    assert read_file("/dev/null", 10, 5.0).data == b""
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_file("/dev/zero", 10, 5.0)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, 10, 5.0)
    with pytest.raises(ValueError, match="embedded null"):
        read_file("a\0b", 10, 5.0)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nobody", 10, 5.0)


def test_what_is_no_regular_file_is_refused_on_demand(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert read_file(tmp_path / "file", 10, 5.0, regular=True).data == b"x"
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path / "fifo", "FIFO"), (tmp_path, "folder"), ("/dev/null", "device")):
        with pytest.raises(OSError, match=f"it is a {kind}; expected a regular file"):
            read_file(path, 10, 5.0, regular=True)


def test_fifo_that_nobody_writes_into_is_given_up(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"could not be read to its end within 0\.05 s"):
        read_file(fifo, 10, 0.05)
    assert time.monotonic() - began >= 0.05


def test_pipe_is_read_to_its_end() -> None:
    """As of a shell's `--config <(...)`."""
    reading, writing = os.pipe()

    def write() -> None:
        for part in (b"ab", b"c"):
            os.write(writing, part)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert read_file(f"/dev/fd/{reading}", 10, 30.0).data == b"abc"
    finally:
        writer.join()
        os.close(reading)


def test_writer_without_an_end_is_given_up(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x")
        with pytest.raises(ValueError, match="to its end"):
            read_file(f"/dev/fd/{reading}", 10, 0.05)
    finally:
        os.close(reading)
        os.close(writing)


def test_file_is_written_at_its_end(tmp_path: Path) -> None:
    for data in (b"a", b"b"):
        descriptor = open_to_write(tmp_path / "file")
        os.write(descriptor, data)
        os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"ab"


@pytest.mark.parametrize("read", [False, True])
def test_fifo_is_not_written_whether_it_is_read_or_not(tmp_path: Path, read: bool) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK) if read else None
    with pytest.raises(OSError, match="it is a FIFO or a socket"):
        open_to_write(fifo)
    if reader is not None:
        os.close(reader)


def test_end_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcdef")
    assert read_end(tmp_path / "file", 3) == b"def"
    assert read_end(tmp_path / "file", 10) == b"abcdef"
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path, "folder"), (tmp_path / "fifo", "FIFO"), (Path(os.devnull), "device")):
        with pytest.raises(OSError, match=f"it is a {kind}; expected a regular file"):
            read_end(path, 3)
