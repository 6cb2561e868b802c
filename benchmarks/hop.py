"""What a message costs one node that passes it on, without sockets and gRPC: a batch in, decided on, a batch out.

    python -m benchmarks.hop                  ns of CPU for each message and its answer
    python -m benchmarks.hop --traced         with tracing on, each message traced, spans recorded and then dropped
    python -m benchmarks.hop --against TREE   beside another checkout of this package, taking turns; prints the ratio

The two links of a Proxy are the real ones; only their streams are not. This is what shows whether something that was
added to every message's way costs it anything: a run of the whole system varies by more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from inspect import signature
from itertools import repeat
from pathlib import Path
from typing import Any

from taskd_net import Message, Node, NodeConfig, Position
from taskd_net.core.actions import Kind
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.links.batched import BatchedLink
from taskd_net.links.session import Pipe
from taskd_net.wire import codec
from taskd_net.wire.batches import write_batch

MESSAGES = 64
ROUNDS = 400
TURNS = 15


class _Pipe:
    """A stream that takes everything at once."""

    async def read(self) -> bytes | None:
        return None

    async def write(self, data: bytes) -> bool:
        return True

    async def finish(self) -> None:
        pass


def _no_answer(ack: Ack) -> None:
    pass


def _write(link: BatchedLink) -> None:
    """Let a link write what it has, as its writer does."""
    while link._has_queued():
        step = link._write_next()
        try:
            step.send(None)
        except StopIteration:
            continue
        raise AssertionError("a write that has to wait")


def _traced_link(position: Position) -> Callable[[Node, int, Position, Pipe], BatchedLink]:
    # Not at the top: an older checkout has neither.
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from taskd_net.links.traced import batched_link
    from taskd_net.observe.tracing import load_tracer

    trace.set_tracer_provider(TracerProvider())
    return partial(batched_link, tracer=load_tracer(position))


def _spans(uuids: list[str]) -> bytes:
    from taskd_net.wire.batches import write_spans

    return write_spans([(uuid, {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}) for uuid in uuids])


async def measure(*, traced: bool = False) -> float:
    """The least ns of CPU for a message up and its answer down, of several turns."""
    node = Node(NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream="127.0.0.1:1"))
    node._loop = asyncio.get_running_loop()
    worker, router = Position.worker(0, 0), node.router
    child = router.register(0.0, worker)
    # An older checkout answers by uuid.
    by_number: dict[str, Any] = {"numbered": True} if "numbered" in signature(BatchedLink).parameters else {}
    make = partial(_traced_link(worker) if traced else BatchedLink, **by_number)
    down, up = make(node, child.id, worker, _Pipe()), make(node, UP, Position.mgr(), _Pipe())
    down._counts = up._counts = True  # as between two nodes of this version
    router.link_up(0.0, child, down, **by_number)
    node.links[child.id], node.links[UP] = down, up
    router.upstream_up(0.0, up, Position.mgr(), **by_number)
    router.announced(0.0, child, Kind.ADD, [worker], _no_answer, "a")
    uuids = [f"6ba7b810-9dad-11d1-80b4-{number:012x}" for number in range(MESSAGES)]
    now = time.time_ns() // 1_000_000
    messages = [
        codec.write_message(Message(uuid, "default", True, worker, Position.mgr(), now, "x" * 64)) for uuid in uuids
    ]
    everyone = [message.data for message in messages], [3000] * MESSAGES
    if by_number:
        batch = write_batch(*everyone, (), (), 1, range(1, MESSAGES + 1))
        # As many as there are, written before the clock runs: their numbers go on.
        all_rounds = [range(at, at + MESSAGES) for at in range(1, TURNS * ROUNDS * MESSAGES, MESSAGES)]
        answers = iter([write_batch((), (), (), (), 1, (), numbers) for numbers in all_rounds])
    else:
        batch = write_batch(*everyone, (), (), 1)
        answers = repeat(write_batch((), (), uuids, (), 1))
    if traced:
        batch += _spans(uuids)
    times = []
    for _ in range(TURNS):
        began = time.process_time_ns()
        for _ in range(ROUNDS):
            down._take_in(batch)
            _write(up)
            up._take_in(next(answers))
            _write(down)
        times.append((time.process_time_ns() - began) / ROUNDS / MESSAGES)
    assert router.statistics.forwarded == TURNS * ROUNDS * MESSAGES
    assert not router.busy
    return min(times)


def _in(tree: Path) -> float:
    """Measure in a process of its own, with the package of a checkout."""
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[0])


def main() -> None:
    """Measure, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout")
    parser.add_argument("--traced", action="store_true", help="with tracing on")
    arguments = parser.parse_args()
    if arguments.against is None:
        print(f"{asyncio.run(measure(traced=arguments.traced)):.0f} ns")
        return
    here = Path(__file__).resolve().parents[1]
    pairs = [(_in(here), _in(arguments.against)) for _ in range(5)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = sorted(one / other for one, other in pairs)
    print(f"{ours:.0f} ns here, {theirs:.0f} ns there; ratio {statistics.median(ratios):.3f}", end="")
    print(f" ({ratios[0]:.3f} to {ratios[-1]:.3f} in {len(pairs)} turns)")


if __name__ == "__main__":
    main()
