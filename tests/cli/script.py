"""A training script: `script.py HOST:PORT NODE RANK WAY`. It says `joined`, and ends in that way."""

from __future__ import annotations

import sys

from taskd_net import BlockingNode, NodeConfig


def main(upstream: str, node: str, rank: str, way: str) -> None:
    """Join, and end."""
    worker = BlockingNode(NodeConfig.worker(server_rank=node, rank=rank, upstream=upstream)).start()
    worker.joined(20.0)
    print("joined", flush=True)
    if way == "raise":
        sys.excepthook = lambda *_: None  # no traceback: it is meant to be
        raise ValueError("a fault of the script's")
    # Nothing is closed: the interpreter ends.


if __name__ == "__main__":
    main(*sys.argv[1:])
