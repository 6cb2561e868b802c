"""The environment of gRPC, which reads it once, at its import.

Two settings:

- `GRPC_EXPERIMENTS=-event_engine_client,-event_engine_listener`: from 1.80 on the event engine is the default. It
  costs a message over two hops a quarter to a half more time (docs/performance.md).
- `GRPC_ENABLE_FORK_SUPPORT=0`: otherwise forked children of a training script (data loaders) can crash.

Importing this package sets both, unless grpc is imported already or the user has set them. `TASKD_NET_GRPC_ENV=off`
leaves the environment alone.

It also sets `GRPC_VERBOSITY=ERROR`, the default by gRPC's documents: newer releases print a line for every failed TLS
handshake otherwise. An import too late for this one causes no warning. The command line sets it to `NONE` (`silence`):
its commands explain a failed connection themselves.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Final

SWITCH: Final = "TASKD_NET_GRPC_ENV"
VERBOSITY: Final = "GRPC_VERBOSITY"
_SET_HERE: Final[set[str]] = set()
"""Variables that were not the user's. The others stay as they are."""
EVENT_ENGINE_SINCE: Final = (1, 80)


def wanted() -> dict[str, str]:
    """The settings for the installed grpcio. Experiments that a version does not know make it print an error."""
    settings = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
    major, minor = _grpcio_version().split(".")[:2]
    if (int(major), int(minor)) >= EVENT_ENGINE_SINCE:
        settings["GRPC_EXPERIMENTS"] = "-event_engine_client,-event_engine_listener"
    return settings


def _grpcio_version() -> str:
    # Read from a file of grpc's, as grpc must not be imported yet, and importlib.metadata costs 20 ms and 2 MiB.
    spec = importlib.util.find_spec("grpc")
    if spec is not None and spec.origin is not None:
        try:
            text = Path(spec.origin).with_name("_grpcio_metadata.py").read_text("utf-8")
        except OSError:
            text = ""
        if found := re.search(r"\d+\.\d+[^\"']*", text):
            return found.group()
    from importlib import metadata

    return metadata.version("grpcio")


def silence() -> None:
    """Keep the lines of gRPC's log from the standard error, unless the user wants another verbosity."""
    if VERBOSITY in _SET_HERE and "grpc" not in sys.modules:
        os.environ[VERBOSITY] = "NONE"


def prepare() -> None:
    """Set the missing settings, or warn that it is too late."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return
    if "grpc" not in sys.modules and VERBOSITY not in os.environ:
        os.environ[VERBOSITY] = "ERROR"
        _SET_HERE.add(VERBOSITY)
    missing = {key: value for key, value in wanted().items() if key not in os.environ}
    if not missing:
        return
    if "grpc" in sys.modules:
        settings = " ".join(f"{key}={value}" for key, value in missing.items())
        warnings.warn(
            f"grpc was imported before taskd_net, so its environment cannot be set any more: import taskd_net first, "
            f"or set {settings} yourself; {SWITCH}=off silences this",
            RuntimeWarning,
            stacklevel=3,
        )
        return
    os.environ.update(missing)
