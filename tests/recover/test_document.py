"""docs/recovery.md draws each flow, with the messages in the order of the stand-in and its client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from taskd_net_lab.clusterd.messages import Queue, Report
from taskd_net_lab.clusterd.reader import SCENARIOS
from tests.lab.clusterd.client import WELL, Said, play, scenario

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "recovery.md"
FAULTY: Final[Said] = {"stress": [Report(Queue.STRESSED, tested={3: ("2",)})]}

_FAULT: Final = "Begin of each fault"
SECTIONS: Final = {
    "retry": (_FAULT, "retry"),
    "recover": (_FAULT, "recover"),
    "recover-in-place": (_FAULT, "recover in place"),
    "dump": (_FAULT, "dump, exit"),
    "exit": (_FAULT, "dump, exit"),
    "save-and-exit": ("save and exit", "dump, exit"),
    "downgrade-upgrade": (_FAULT, "downgrade, upgrade"),
    "hot-switch": ("Hot switch",),
    "hot-switch-timeout": ("Hot switch",),
    "switch-cards": ("Switch of cards",),
    "stress-test": ("Stress test", _FAULT, "recover"),
    "pre-exit": (_FAULT, "recover"),
    "pause-start-agent": ("Pause of starts",),
    "kill-master": (_FAULT, "End of the job"),
    "switched-on-later": ("403", _FAULT, "recover"),
}
"""The drawings that show a flow, in order."""

pytestmark = pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")


def drawn(section: str) -> list[str]:
    """The messages of a drawing: `stopTrain`, `changeStrategy dump`, `ReportStopComplete`."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(f"### {section}\n")[2]
    drawing = text.split("```")[1]
    found = re.findall(r"── (\S.*?) ─+▶|◀─ (\S.*?) ─+ ", drawing)
    return [re.sub(r" \(.*", "", to or back) for to, back in found]


def exchanged(name: str) -> list[str]:
    """The messages of a played flow, in the words of the drawings."""
    played = play(scenario(name), FAULTY if name == "stress-test" else None)
    signals, messages = iter(played.signals), list[str]()
    reports = dict(WELL)
    if name.startswith("hot-switch"):
        reports["hot switch"] = reports.pop("new pod running")  # the framework reports at once
    for order in played.orders:
        if order in ("switch", "stress"):
            messages.append({"switch": "SwitchRankList", "stress": "StressTestRankParams"}[order])
        else:
            signal = next(signals)
            messages.append(f"{signal.signal_type} {signal.change_strategy}".strip())
        if order in reports:
            messages.append(reports[order].queue)
    return messages


@pytest.mark.parametrize("name", SECTIONS)
def test_messages_of_a_flow_are_drawn_in_their_order(name: str) -> None:
    lines = iter([message for section in SECTIONS[name] for message in drawn(section)])
    for message in exchanged(name):
        assert any(line == message for line in lines), message


def test_each_flow_has_its_drawing() -> None:
    assert SECTIONS.keys() == {path.stem for path in SCENARIOS.glob("*.yaml")} - {"killed-at-each-stage"}
