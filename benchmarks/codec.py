"""The cost of the wire: hand-written code beside the generated classes, in µs of CPU for each message.

    python -m benchmarks.codec                a table for docs/performance.md

Hand-written code stays only where the generated classes take longer at load. Batches have 1, 16 and 64 messages.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable

import google.protobuf

from taskd_net import Message, Position
from taskd_net.base.position import Destination
from taskd_net.core.frame import Frame
from taskd_net.net.wire import codec
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.batches import read_batch, write_batch
from taskd_net.net.wire.link_pb2 import Batch
from taskd_net.net.wire.positions import read_position, write_position

SIZES = (1, 16, 64)
BODIES = (64, 4096, 65_536)


def _generated_write(message: Message) -> bytes:
    src, dst = write_position(message.src), write_position(message.dst)
    header = pb.MessageHeader(
        uuid=message.uuid, mtype=message.mtype, sync=message.sync, src=src, dst=dst, createTime=message.create_time
    )
    data: bytes = pb.Message(header=header, body=message.body).SerializeToString()
    return data


def _generated_frame(data: bytes) -> Frame:
    header = pb.Message.FromString(data).header
    src, dst = read_position(header.src), Destination.of(read_position(header.dst))
    return Frame(header.uuid, header.sync, src, dst, data)


def _generated_message(frame: Frame) -> Message:
    message = pb.Message.FromString(frame.data)
    header = message.header
    dst = frame.dst.position
    return Message(frame.uuid, header.mtype, frame.sync, frame.src, dst, header.createTime, message.body)


def _microseconds(work: Callable[[], object], messages: int, size: int) -> float:
    number = max(10, 200_000 // (messages * (50 + size // 100)))
    return min(timeit.repeat(work, number=number, repeat=7, timer=time.process_time)) / number / messages * 1e6


def rows(size: int, count: int) -> list[tuple[str, float, float]]:
    """The work on a batch of `count` messages with bodies of `size`: ours and the generated classes', per message."""
    src, dst = Position.worker(0, 3), Position.mgr()
    uuids = [f"tn1-0123456789abcdef-1-{number:x}-0123456789abcdef" for number in range(count)]
    messages = [Message(uuid, "default", True, src, dst, 1_800_000_000_000, "x" * size) for uuid in uuids]
    data = [codec.write_message(message).data for message in messages]
    patience, numbers = [2850] * count, list(range(1000, 1000 + count))
    batch = write_batch(data, Batch(patience=patience, taken=1, numbers=numbers))
    frames = [frame for frame in codec.read_known_frames(data) if isinstance(frame, Frame)]
    works: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        (
            "write a batch",
            lambda: write_batch(data, Batch(patience=patience, taken=1, numbers=numbers)),
            lambda: Batch(messages=data, patience=patience, taken=1, numbers=numbers).SerializeToString(),
        ),
        ("read a batch", lambda: list(read_batch(batch).messages), lambda: list(Batch.FromString(batch).messages)),
        (
            "write a message",
            lambda: [codec.write_message(message) for message in messages],
            lambda: [_generated_write(message) for message in messages],
        ),
        ("read headers", lambda: codec.read_known_frames(data), lambda: [_generated_frame(one) for one in data]),
        (
            "read a delivered message",
            lambda: [codec.read_message(frame) for frame in frames],
            lambda: [_generated_message(frame) for frame in frames],
        ),
    ]
    return [
        (name, _microseconds(ours, count, size), _microseconds(generated, count, size))
        for name, ours, generated in works
    ]


def main() -> None:
    """Print the table."""
    print(f"protobuf {google.protobuf.__version__}\n")
    print("| µs for each message | body | messages | ours | generated |\n|---|--:|--:|--:|--:|")
    for size in BODIES:
        for count in SIZES:
            for name, ours, generated in rows(size, count):
                print(f"| {name} | {size} | {count} | {ours:.2f} | {generated:.2f} |")


if __name__ == "__main__":
    main()
