"""The program that beats in a training process: once a second, a sign of life with the number of its last collective.

`start.py` reads it in a thread, once torch's groups have been imported. The beat stands still while another thread
holds the interpreter, or the process is stopped. It imports nothing of this package, and its syntax is that of Python
3.6.
"""

import _thread
import atexit
import os
import sys
import time
from binascii import crc32

TYPE_CHECKING = False  # `typing` costs half of Python's own start
if TYPE_CHECKING:
    from typing import Any

BEAT_S = 1.0
"""Seconds between two beats. One takes 10 µs, and 0.2 ms where others have used the processor's caches meanwhile."""

END_S = 1.0
"""Seconds that the end of the interpreter waits for a beat under way."""

GROUPS = "torch.distributed.distributed_c10d"


class Groups:
    """The default group of torch, as far as the installed torch has one with a number.

    The group's own method knows some of torch's backends alone, so each backend is asked. No reference is kept: a group
    that the script has destroyed must end at once.
    """

    def __init__(self) -> None:
        self.refused = None  # type: Any

    def number(self) -> int:
        """Sequence number of the last collective that this process has begun, of all backends together; -1: none."""
        world = None
        try:
            world = sys.modules[GROUPS].GroupMember.WORLD
            if world is None or id(world) == self.refused:
                return -1
            backends = []  # type: list[Any]
            for device in world._device_types:
                backend = world._get_backend(device)
                if not any(each is backend for each in backends):
                    backends.append(backend)
            number = sum(backend._get_sequence_number_for_group() for backend in backends)
            return number if 0 <= number < 2**63 else -1
        except Exception:  # noqa: BLE001 - a torch or a backend without these names
            # An error of torch's takes a thousand times longer than an answer.
            self.refused = None if world is None else id(world)
            return -1


def run(layout: "dict[str, Any]") -> None:
    """Beat as long as the process lives.

    Args:
        layout: names of `rank_record.py`.
    """
    record = layout["opened"]()
    if record is None:
        return
    form, check, places = layout["BEAT"], layout["CHECK"], layout["BEAT_AT"]
    pid, groups, at_work = os.getpid(), Groups(), _thread.allocate_lock()
    before = layout["newest"](record[:], form, places)
    turn = 0 if before is None else before[0]
    number = -1

    def write(beats: int) -> None:
        now = int(time.monotonic() * 1e9)  # Python 3.6 has no monotonic_ns
        data = form.pack(turn, pid, now, number, beats)
        at = places[turn % 2]
        record[at : at + form.size + check.size] = data + check.pack(crc32(data))

    def end() -> None:
        # The interpreter ends its threads: one that comes back from torch's C++ just then would abort the process.
        nonlocal turn
        if os.getpid() == pid and at_work.acquire(True, END_S):  # and it is never given back
            turn += 1
            write(0)

    atexit.register(end)
    while True:
        with at_work:
            turn, number = turn + 1, groups.number()
            write(1)
        time.sleep(BEAT_S)
