"""The stubs of an independent peer: code generated from the public proto file, nothing of the package."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROTO = Path(__file__).resolve().parents[2] / "proto"


def _generate() -> tuple[Any, Any]:
    """Generate with the installed grpc_tools, import, and leave only the modules."""
    with tempfile.TemporaryDirectory() as folder:
        compiler = [sys.executable, "-m", "grpc_tools.protoc"]
        outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
        command = [*compiler, f"-I{PROTO}", *outputs, "tasknet.proto"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("tasknet_pb2"), importlib.import_module("tasknet_pb2_grpc")
        finally:
            sys.path.remove(folder)


pb, rpc = _generate()


def position(text: str) -> Any:
    """`Worker/0/3` as a Position of the wire; a missing processRank is `-1`."""
    role, server_rank, process_rank, *_ = [*text.split("/"), "-1"]
    return pb.Position(role=role, serverRank=server_rank, processRank=process_rank)


def name(position: Any) -> str:
    """The identity of a Position of the wire, as text: `Worker/0/3`, `Proxy/1`."""
    ranks = (position.serverRank, position.processRank) if position.role == "Worker" else (position.serverRank,)
    return "/".join((position.role, *ranks))


def matches(dst: Any, node: str) -> bool:
    """True if the named node is a receiver of the destination."""
    role, *ranks = node.split("/")
    return role == dst.role and all(
        wanted == "All" or rank in wanted.split(",")
        for wanted, rank in zip((dst.serverRank, dst.processRank), ranks, strict=False)
    )
