"""Messages to the Mgr as events of the job."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from taskd_net.base.body import Body
from taskd_net.base.vocabulary import DEVICE_FAULT
from taskd_net.job.decide.device_reports import read_report
from taskd_net.job.decide.events import Event, Reported
from taskd_net.net.wire.codec import Message

_HEARTBEAT_CHARS: Final = 256


@lru_cache(maxsize=16)
def _heard(text: str) -> Body:
    """The body of a short message. The KEEP_ALIVEs of all Agents have one text, which is read once."""
    return Body.parse(text)


def read_event(message: Message, now: float) -> Event:
    """The event that a message is.

    Args:
        message: to the Mgr.
        now: time of its arrival, in seconds since the epoch.

    Raises:
        ArgumentError: its body is none of TaskD's, or a report of a device with a value that is not usable.
    """
    body = _heard(message.body) if len(message.body) <= _HEARTBEAT_CHARS else Body.parse(message.body)
    if body.msg_type == DEVICE_FAULT:
        return read_report(message.src, body, now)
    said = body.msg_type, body.code, body.message, dict(body.extension)
    return Reported(message.src, *said, uuid=message.uuid, mtype=message.mtype)
