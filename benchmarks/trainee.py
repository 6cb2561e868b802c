"""A training process, seen from `worker`: `python -m benchmarks.trainee KIND UPSTREAM RANK`.

Each line of its stdin is a request, each line of its stdout the answer, as JSON. A number: compute for so many seconds,
and answer with the rounds a second. `join`: add KIND beside the loop (`grpc`: a connected gRPC channel alone; `worker`:
a joined Worker), and answer with the cost. The process ends with its stdin.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
import time
from typing import TypedDict

CONNECT_S = 20.0


class Cost(TypedDict):
    """Times in ms: of importing grpc, of importing taskd_net after it, and of `init_taskd_worker`."""

    grpc: float
    taskd_net: float
    init: float


def main(kind: str, upstream: str, rank: str) -> None:
    """Run a training process."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = _compute(request) if isinstance(request, float) else _join(kind, upstream, rank)
        print(json.dumps(answer), flush=True)


def _join(kind: str, upstream: str, rank: str) -> Cost:
    began = time.perf_counter()
    importlib.import_module("grpc.aio")
    grpc_imported = time.perf_counter()
    if kind == "grpc":
        _hold_channel(upstream)
        return Cost(grpc=(grpc_imported - began) * 1e3, taskd_net=0.0, init=0.0)
    # As a training script does; the rest of the package has another process's roles in it.
    from taskd_net import init_taskd_worker, send_to_manager, start_taskd_worker

    imported = time.perf_counter()
    os.environ |= {"RANK": rank, "LOCAL_WORLD_SIZE": str(int(rank) + 1), "TASKD_NET_UPSTREAM": upstream}
    assert init_taskd_worker(int(rank))
    initialised = time.perf_counter()
    assert start_taskd_worker() and send_to_manager(0, "STATUS")
    return Cost(
        grpc=(grpc_imported - began) * 1e3,
        taskd_net=(imported - grpc_imported) * 1e3,
        init=(initialised - imported) * 1e3,
    )


def _hold_channel(upstream: str) -> None:
    """Hold the parts of a program that uses the same Proxy over gRPC alone: a loop in a thread, a connected channel."""
    import grpc.aio

    connected = threading.Event()

    async def hold() -> None:
        async with grpc.aio.insecure_channel(upstream) as channel:
            await channel.channel_ready()
            connected.set()
            await asyncio.get_running_loop().create_future()

    threading.Thread(target=lambda: asyncio.run(hold()), daemon=True).start()
    assert connected.wait(CONNECT_S)


def _compute(seconds: float) -> float:
    """Rounds a second of a loop in pure Python."""
    rounds, value = 0, 1
    began = time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        for _ in range(1000):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF
        rounds += 1
    return rounds / (now - began)


if __name__ == "__main__":
    main(*sys.argv[1:4])
