"""The cost of a message for a node that forwards it, without sockets and gRPC: a batch in, a decision, a batch out.

    python -m benchmarks.hop                  ns of CPU for each message and its answer
    python -m benchmarks.hop --traced         with tracing on, each message traced, spans recorded and then dropped
    python -m benchmarks.hop --against TREE   beside another checkout of this package, taking turns; prints the ratio

The two links of a Proxy are the real ones; only their streams are not. This is what shows whether something that was
added to every message's way costs it anything: a run of the whole system varies by more.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from benchmarks import checkout, routers
from taskd_net import Message, Node, NodeConfig, Position
from taskd_net.core.links import UP
from taskd_net.net.wire import codec
from taskd_net.net.wire.link_pb2 import Batch, SpanContext

MESSAGES = 64
ROUNDS = 400
TURNS = 15


class _Joined:
    """Takes the place of the joining."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class _Pipe:
    """A stream that takes everything at once."""

    async def read(self) -> bytes | None:
        return None

    async def write(self, data: bytes) -> bool:
        return True

    async def finish(self) -> None:
        pass


def _write(link: Any) -> None:
    """Let a link write what it has, as its writer does."""
    while link._has_queued():
        step = link._write_next()
        try:
            step.send(None)
        except StopIteration:
            continue
        raise AssertionError("a write that has to wait")


def _traced_link(position: Position) -> Callable[..., Any]:
    # Not at the top: an older checkout has neither.
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from taskd_net.net.links.traced import TracedLink
    from taskd_net.observe.tracing import load_tracer

    trace.set_tracer_provider(TracerProvider())
    return partial(TracedLink, tracer=load_tracer(position))


def _spans(uuids: list[str]) -> bytes:
    spans = [SpanContext(uuid=uuid, traceparent=f"00-{'a' * 32}-{'b' * 16}-01") for uuid in uuids]
    data: bytes = Batch(spans=spans).SerializeToString()
    return data


async def measure(*, traced: bool = False) -> float:
    """The least ns of CPU for a message up and its answer down, of several turns."""
    node = Node(NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream="127.0.0.1:1"))
    driver = routers.driver(node)
    driver._loop = asyncio.get_running_loop()
    driver.joiner = driver._joiner = driver._child = _Joined()
    worker, router, by_number = Position.worker(0, 0), driver.router, routers.BY_NUMBER
    child = routers.add_child(node, worker)
    make = _traced_link(worker) if traced else routers.LINK
    down = routers.batched_link(node, child, worker, _Pipe(), make)
    up = routers.batched_link(node, UP, Position.mgr(), _Pipe(), make)
    routers.child_up(node, child, down)
    routers.parent_up(node, up, Position.mgr())
    routers.announce(node, child, [worker])
    uuids = [f"6ba7b810-9dad-11d1-80b4-{number:012x}" for number in range(MESSAGES)]
    now = time.time_ns() // 1_000_000
    messages = [
        codec.write_message(Message(uuid, "default", True, worker, Position.mgr(), now, "x" * 64)) for uuid in uuids
    ]
    data = [message.data for message in messages]
    everyone: dict[str, Any] = {"messages": data, "patience": [3000] * MESSAGES, "taken": 1}
    if by_number:
        batch = Batch(**everyone, numbers=range(1, MESSAGES + 1)).SerializeToString()
        # As many as there are, written before the clock runs: their numbers go on.
        all_rounds = [range(at, at + MESSAGES) for at in range(1, TURNS * ROUNDS * MESSAGES, MESSAGES)]
        answers = iter([Batch(taken=1, accepted_numbers=numbers).SerializeToString() for numbers in all_rounds])
    else:
        batch = Batch(**everyone).SerializeToString()
        answers = repeat(Batch(taken=1, accepted=uuids).SerializeToString())
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
    return float(checkout.run(tree, "benchmarks.hop").split()[0])


def main() -> None:
    """Measure, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout")
    parser.add_argument("--traced", action="store_true", help="with tracing on")
    arguments = parser.parse_args()
    if arguments.against is None:
        print(f"{asyncio.run(measure(traced=arguments.traced)):.0f} ns")
        return
    pairs = [(_in(checkout.HERE), _in(arguments.against)) for _ in range(5)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = sorted(one / other for one, other in pairs)
    print(f"{ours:.0f} ns here, {theirs:.0f} ns there; ratio {statistics.median(ratios):.3f}", end="")
    print(f" ({ratios[0]:.3f} to {ratios[-1]:.3f} in {len(pairs)} turns)")


if __name__ == "__main__":
    main()
