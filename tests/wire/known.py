"""The reading of one message that a node of ours has checked."""

from __future__ import annotations

from taskd_net.base.codes import Refusal
from taskd_net.base.limits import MESSAGE_BYTES
from taskd_net.core.frame import Frame
from taskd_net.net.wire import codec


def read_known_frame(data: bytes, most: int = MESSAGE_BYTES) -> Frame:
    """Read a message as a batch with that message alone is read.

    Raises:
        Refusal: the header is not valid.
    """
    frame = codec.read_known_frames((data,), most)[0]
    if isinstance(frame, Refusal):
        raise frame
    return frame
