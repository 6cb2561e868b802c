"""What gRPC has to find in the environment of a process that runs a Node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GRPC_SETTINGS: Final = {
    # A training process forks (data loaders do): with gRPC's own fork handlers such children crash.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    # The older poller: the one that grpc.aio has been measured with.
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
}


def grpc_environment(given: Mapping[str, str]) -> dict[str, str]:
    """An environment completed by what gRPC needs; what the user has set stays as it is.

    gRPC reads it when it is imported, and importing `taskd_net` imports gRPC: later than the start of the process is
    too late.
    """
    return {**GRPC_SETTINGS, **given}
