"""Reports of device watchers: messages to the Mgr, written and read."""

from __future__ import annotations

import pytest

from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError
from taskd_net.base.position import Position, tool_ranks
from taskd_net.job.decide.device_reports import DeviceReport, read_report, release_body
from taskd_net.job.decide.events import DeviceEvent, DeviceReleased
from taskd_net.job.faults.events import FaultEvent, FaultKind, Severity, read_event

NOW = 1_700_000_000.25
TOOL = Position.agent(1_500_000_000)


@pytest.mark.parametrize("kind", list(FaultKind))
@pytest.mark.parametrize("node", [None, 3])
def test_a_report_comes_back_as_it_was(kind: FaultKind, node: int | None) -> None:
    event = FaultEvent("8C0A4E00", "host-b/Ascend910-3", kind, Severity.MAJOR, NOW, network=True)
    body = Body.parse(DeviceReport(event, node).body.to_json())
    assert body.msg_type == "FAULT"
    assert read_report(TOOL, body, 5.0) == DeviceEvent(event, node, TOOL)


def test_a_report_says_nothing_of_what_is_not_known() -> None:
    event = FaultEvent("8C0A4E00", "host-b/npu", FaultKind.OCCURRED, None, NOW)
    body = DeviceReport(event).body
    assert body.extension == {"Device": "host-b/npu", "At": "1700000000.25"}
    assert read_report(TOOL, body, 5.0) == DeviceEvent(event, None, TOOL)


def test_a_release_comes_back_as_it_was() -> None:
    assert read_report(TOOL, release_body("host-b/npu"), NOW) == DeviceReleased("host-b/npu", TOOL)


def test_what_is_missing_comes_from_the_sender_and_the_clock() -> None:
    body = Body("FAULT", 1, "8c0a4e00", {"Device": "npu"})
    event = read_event({"code": "8C0A4E00", "device": "4/npu"}, NOW)
    for sender in (Position.worker(4, 33), Position.agent(tool_ranks(4)[-1])):
        assert read_report(sender, body, NOW) == DeviceEvent(event, 4, sender)
    for sender in (Position.mgr(), Position.agent(tool_ranks(None)[0])):
        with pytest.raises(ArgumentError, match="without a Node"):
            read_report(sender, body, NOW)


def test_the_said_node_goes_before_the_senders() -> None:
    found = read_report(Position.agent(4), Body("FAULT", 1, "8C0A4E00", {"Device": "npu", "Node": "2"}), NOW)
    assert isinstance(found, DeviceEvent) and (found.node, found.event.device) == (2, "2/npu")


@pytest.mark.parametrize(
    ("code", "message", "extension", "words"),
    [
        (4, "8C0A4E00", {"Device": "a/b"}, r"code of a FAULT is 4; expected 1 \(occurred\)"),
        (1, "8C0A4E0", {"Device": "a/b"}, "code is '8C0A4E0'; expected 8 or 9 hexadecimal digits"),
        (1, "8C0A4E00", {}, "device is ''"),
        (1, "8C0A4E00", {"Device": "npu"}, "without a Node; expected HOST/NAME"),
        (1, "8C0A4E00", {"Device": "a/b", "Node": "-1"}, "Node is '-1'; expected the rank"),
        (1, "8C0A4E00", {"Device": "a/b", "Node": "1000000000"}, "Node is '1000000000'"),
        (1, "8C0A4E00", {"Device": "a/b", "Severity": "loud"}, "severity is 'loud'; expected one of notice"),
        (1, "8C0A4E00", {"Device": "a/b", "At": "noon"}, "At is 'noon'; expected seconds since the epoch"),
        (1, "8C0A4E00", {"Device": "a/b", "At": "nan"}, "at is nan"),
        (3, "", {}, "device is ''"),
        (3, "a\nb", {}, "device is"),
    ],
)
def test_a_value_that_is_not_usable_is_named(code: int, message: str, extension: dict[str, str], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        read_report(TOOL, Body("FAULT", code, message, extension), NOW)
