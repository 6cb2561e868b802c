"""The record of a rank: a page of memory that its Agent makes and reads, and the rank's process writes.

It stays readable for a process that is stopped, has ended, or holds the interpreter. It has three regions:

- the head, which the Agent writes before the process starts;
- the script's, which `taskd_net.train` writes;
- the beat, which a thread of the start program's writes (`torch/beat.py`).

The two of the process have two slots each, which are written by turns, with a checksum. So a reader finds a whole slot,
in whatever order a processor stores bytes, and also after a kill in the middle of the other slot.

The start program reads this file by its path. So the file imports nothing of this package, and its syntax is that of
Python 3.6.
"""

import mmap
import os
import struct
from binascii import crc32

TYPE_CHECKING = False  # `typing` costs half of Python's own start
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "TASKD_NET_RANK_RECORD"
"""Variable of a rank: the path of its record, `/proc/AGENT/fd/N`; empty without one."""

STACKS_VARIABLE = "TASKD_NET_STACKS"
"""Variable of a rank: the path of the memory that gets its stacks; empty without one."""

MAGIC = b"taskdnet"
VERSION = 1
BYTES = 4096
"""Bytes of a record: a page."""

NAME_BYTES = 128
"""Bytes of a section's name: 32 characters of four bytes."""

CLASSES = ("start", "steps", "again", "data", "checkpoint", "load", "evaluation", "waiting", "other")
"""Classes of time in the order of the record: the values of `progress.Spent`."""

HEAD = struct.Struct("<8sIIqq")
"""Magic, version, bytes, time of making in nanoseconds of the steady clock, highest step of the job before (-1: none).
"""

SCRIPT = struct.Struct("<QqqqqQQQdBBBB" + str(NAME_BYTES) + "s" + str(len(CLASSES)) + "Q")
"""Turn, pid, time of the last mark, last step and number of all (-1: none), counts of steps, of repeated steps and of
samples, loss (NaN: none), class that runs since the last mark, 1 after the first mark, 1 during a wait, bytes of the
section's name, the name, nanoseconds of each class until the last mark."""

BEAT = struct.Struct("<QqqqB")
"""Turn, pid, time of the last beat, sequence number of torch's default group (-1: none), 1 while it beats."""

CHECK = struct.Struct("<I")
SCRIPT_AT = (256, 1024)
BEAT_AT = (2048, 2304)


def newest(record: "bytes", form: "struct.Struct", places: "tuple[int, int]") -> "tuple[Any, ...] | None":
    """The fields of the newer whole slot of a region; None: there is none.

    Args:
        record: the bytes of a record.
        form: of the region, which begins with the turn.
        places: of its slots.
    """
    found = None
    for at in places:
        data = record[at : at + form.size]
        check = record[at + form.size : at + form.size + CHECK.size]
        if len(check) == CHECK.size and CHECK.unpack(check)[0] == crc32(data):
            fields = form.unpack(data)
            if found is None or fields[0] > found[0]:
                found = fields
    return found


def head(record: "bytes") -> "tuple[Any, ...] | None":
    """The fields of the head; None: it is of another version."""
    if len(record) < HEAD.size:
        return None
    fields = HEAD.unpack(record[: HEAD.size])
    return fields if fields[:3] == (MAGIC, VERSION, BYTES) else None


def opened() -> "mmap.mmap | None":
    """Map the record of this process; None: it has none. Its children have none, whatever their environment says.

    Raises:
        OSError: the record cannot be opened, such as that of another user's Agent.
        ValueError: it is none of this version.
    """
    path = os.environ.get(VARIABLE, "")
    if path.split("/")[:4] != ["", "proc", str(os.getppid()), "fd"]:
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        record = mmap.mmap(descriptor, BYTES)  # refuses a smaller file
    finally:
        os.close(descriptor)
    whole = record[:]
    written = [newest(whole, SCRIPT, SCRIPT_AT), newest(whole, BEAT, BEAT_AT)]
    if head(whole) is None:
        record.close()
        raise ValueError(path + " is no record of version " + str(VERSION))
    if any(fields is not None and fields[1] != os.getpid() for fields in written):
        record.close()  # an orphan of the rank, in a container whose first process is the Agent
        return None
    return record
