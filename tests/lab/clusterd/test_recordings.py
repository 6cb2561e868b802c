"""Recordings of the real ClusterD against its double, and differences that the comparison has to find."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net_lab.clusterd.recordings import check

RECORDINGS: Final = Path(__file__).parent / "recordings"
FILES: Final = sorted(RECORDINGS.glob("*.jsonl"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_double_does_what_the_real_one_did(file: Path) -> None:
    assert check(file) == []


def test_all_recordings_are_here() -> None:
    assert len(FILES) == 38


def _signal(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(line for line in lines if line.get("message", {}).get("signalType") == kind)


def _later(lines: list[dict[str, Any]], kind: str, seconds: float) -> None:
    at = _signal(lines, kind)["at"]
    for line in lines:
        if line.get("at", -1) >= at:
            line["at"] += seconds


CHANGES: Final[dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]]] = {
    "another rank": (
        lambda lines: _signal(lines, "globalFault")["message"]["faultRanks"].pop(),
        'expected {"actions": ["on_global_rank", "fault_nodes_exit"], "faultRanks": [["2", "1"]]',
    ),
    "another node": (lambda lines: _signal(lines, "changeStrategy")["message"].update(nodeRankIds=["0"]), '["0"]'),
    "another uuid": (lambda lines: _signal(lines, "globalFault")["message"].update(uuid="uuid-1"), '"uuid": "uuid-1"'),
    "a signal more": (lambda lines: lines.insert(-2, {**_signal(lines, "stopTrain"), "at": 40.0}), "did not send"),
    "a signal less": (lambda lines: lines.remove(_signal(lines, "preExitProcess")), "only the stand-in sent"),
    "no end": (lambda lines: lines.remove(next(line for line in lines if "ended" in line)), '{"ended": "OK"}'),
    "another code": (lambda lines: next(line for line in lines if "call" in line).update(code=403), "expected 403"),
    "a longer wait": (
        lambda lines: _later(lines, "globalFault", 4.0),
        "globalFault came after 11.00 s; expected 15.06",
    ),
    "another path": (lambda lines: lines[-1]["walked"].insert(3, "notify dump / notify success"), "notify dump"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_difference_is_found(change: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (RECORDINGS / "recover.jsonl").read_text().splitlines()]
    alter, words = CHANGES[change]
    alter(lines)
    file = tmp_path / "changed.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert words in "\n".join(check(file))


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "expected a JSON object"), ("[]", "no JSON object"), ("{}", "no recording"), ("", "no recording")],
)
def test_what_is_no_recording_is_refused(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        check(file)
