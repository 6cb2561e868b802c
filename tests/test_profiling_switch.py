"""The profiling switch of a job."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from queue import SimpleQueue

import pytest

from taskd_net.base.bounded_file import Content, read_file
from taskd_net.base.codes import ArgumentError
from taskd_net.job import profiling_switch
from taskd_net.job.decide.events import ProfilingSwitch
from taskd_net.job.profiling_switch import REST_S, SWITCH_BYTES, SwitchFile, SwitchWatch, read_switch

pytestmark = pytest.mark.oldest

OFF, ON, ALL = ProfilingSwitch(), ProfilingSwitch(True), ProfilingSwitch(True, True)


@pytest.mark.parametrize(
    ("text", "switch"),
    [
        ("{}", OFF),
        (json.dumps(dict.fromkeys(profiling_switch.DOMAINS, "off")), OFF),
        (json.dumps(dict.fromkeys(profiling_switch.DOMAINS, "on")), ALL),
        ('{"Step": "on", "Other": 5}', ON),
        ('{"DataLoader": "on", "FP": "off"}', ON),
        ('{"CommunicationOperator": "on"}', ALL),
    ],
)
def test_content(text: str, switch: ProfilingSwitch) -> None:
    assert read_switch(text) == switch


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is no JSON"),
        ("[" * 2000, "it is no JSON"),
        ("[]", "it is []; expected a JSON object"),
        ('{"Step": true}', "Step is True; expected on or off"),
        ('{"FP": []}', "FP is []; expected on or off"),
    ],
)
def test_content_that_is_none(text: str, reason: str) -> None:
    with pytest.raises(ArgumentError) as error:
        read_switch(text)
    assert reason in str(error.value)


def test_changes_of_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Content that cannot be read is as if unchanged, with a line for each reason."""
    path = tmp_path / "mounted" / "switch"
    file = SwitchFile(str(path))
    assert file.look() is None
    path.parent.mkdir()
    path.write_text('{"Step": "on"}')
    assert [file.look(), file.look()] == [ON, None]
    path.write_text('{"FP": "on"}')
    assert file.look() is None
    for content in (b"no JSON", b"\xff", b" " * (SWITCH_BYTES + 1)):
        path.write_bytes(content)
        assert [file.look(), file.look()] == [None, None]
    path.unlink()
    assert file.look() is None
    path.mkdir()
    assert file.look() is None
    path.rmdir()
    path.write_text("{}")
    assert file.look() == OFF
    assert caplog.text.count("profiling_switch_unreadable") == 4


def test_file_at_rest_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, later = tmp_path / "switch", time.time() + REST_S + 1.0
    reads: list[str | Path] = []

    def counted(path: str | Path, most: int, seconds: float) -> Content:
        reads.append(path)
        return read_file(path, most, seconds)

    monkeypatch.setattr(profiling_switch, "read_file", counted)
    path.write_text('{"Step": "on"}')
    file = SwitchFile(str(path))
    # It may change again within the tick of its clock.
    assert [file.look(), file.look(), len(reads)] == [ON, None, 2]
    monkeypatch.setattr(time, "time", lambda: later)
    assert [file.look(), file.look(), file.look(), len(reads)] == [None, None, None, 3]
    path.write_text('{"FP": "off"}')
    assert [file.look(), file.look(), len(reads)] == [OFF, None, 4]


def test_fifo_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "switch")
    writer = os.open(tmp_path / "switch", os.O_RDWR)
    try:
        assert SwitchFile(str(tmp_path / "switch"), patience=0.05).look() is None
    finally:
        os.close(writer)


def test_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(profiling_switch.PATH, raising=False)
    assert SwitchFile().path == "/user/cluster-info/datatrace-config/profilingSwitch"
    monkeypatch.setenv(profiling_switch.PATH, "/mounted/switch")
    assert SwitchFile().path == "/mounted/switch"


def test_watch(tmp_path: Path) -> None:
    path, taken = tmp_path / "switch", SimpleQueue[ProfilingSwitch]()
    watch = SwitchWatch(taken.put, str(path), every=0.01)
    watch.start()
    for text, switch in (('{"Step": "on"}', ON), ("{}", OFF)):
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(path)
        assert taken.get(timeout=10.0) == switch
    watch.close()
    assert watch._thread is not None and not watch._thread.is_alive()
    path.write_text('{"Step": "on"}')
    assert taken.empty()
