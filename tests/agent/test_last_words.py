"""The last words of a launcher, on the screen and in the file of its container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskd_net.base.log_budget import LogBudget
from taskd_net.job.agent import last_words
from taskd_net.job.agent.last_words import HEAD_BYTES, TERMINATION_BYTES, bounded, say


def test_words_are_said_and_kept_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is a mount: it is the same one afterwards, and has nothing of what was in it."""
    path = tmp_path / "termination-log"
    path.write_text(9000 * "before ")
    number = path.stat().st_ino
    say(["rank 1 failed", "ValueError: boom"], str(path))
    assert capsys.readouterr().err == "taskd-net run: rank 1 failed\nValueError: boom\n"
    assert path.read_text() == "rank 1 failed\nValueError: boom\n" and path.stat().st_ino == number


def test_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "termination-log"
    path.write_text("before")
    say([], str(path))
    assert capsys.readouterr().err == "" and path.read_text() == "before"


@pytest.mark.parametrize("kind", ["none", "folder", "fifo", "link"])
def test_what_is_no_file_stays_as_it_is(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "termination-log", tmp_path / "other"
    other.write_text("other")
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(other)
    say(["words"], str(path))
    assert capsys.readouterr().err == "taskd-net run: words\n"
    assert other.read_text() == "other" and path.exists() == (kind != "none")


def test_file_that_cannot_be_written(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(last_words, "keep", refuse)
    monkeypatch.setattr(last_words.log, "_budget", LogBudget())  # a whole one
    say(["words"], "/somewhere")
    assert capsys.readouterr().err.endswith("taskd-net run: words\n"), "the last ones"
    (record,) = caplog.records
    assert record.getMessage().startswith("event=termination_log_unwritable path=/somewhere reason=")


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f600"])
def test_long_words_keep_their_beginning_and_their_end(letter: str) -> None:
    data = bounded("begin" + 90_000 * letter + "end")
    assert TERMINATION_BYTES - 8 <= len(data) <= TERMINATION_BYTES
    text = data.decode()
    assert text.startswith("begin") and text.endswith(f"{letter}end") and "\n[...]\n" in text
    assert HEAD_BYTES - 4 <= len(text.partition("\n[...]\n")[0].encode()) <= HEAD_BYTES
    assert bounded(TERMINATION_BYTES * "x") == TERMINATION_BYTES * b"x"
    assert bounded("\ud800") == b"\\ud800"
