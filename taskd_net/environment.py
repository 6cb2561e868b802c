"""gRPC's environment: read once, when grpc is imported, so it has to be right before that.

Two settings:

- `GRPC_EXPERIMENTS=-event_engine_client,-event_engine_listener`: from 1.80 on the event engine is the default, and a
  message over two hops takes a quarter to a half longer with it (docs/performance.md).
- `GRPC_ENABLE_FORK_SUPPORT=0`: otherwise children that a training script forks (data loaders) can crash.

Importing this package sets both, if grpc has not been imported yet and the user has not set them. With
`TASKD_NET_GRPC_ENV=off` it leaves the environment alone.

Beside them `GRPC_VERBOSITY=ERROR`, which gRPC's documents call the default: otherwise newer releases print a line for
every TLS handshake that fails, as often as somebody tries. That it came too late for this is no reason to warn.
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
EVENT_ENGINE_SINCE: Final = (1, 80)


def wanted() -> dict[str, str]:
    """The settings for the installed grpcio. Experiments that a version does not know make it print an error."""
    settings = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
    major, minor = _grpcio_version().split(".")[:2]
    if (int(major), int(minor)) >= EVENT_ENGINE_SINCE:
        settings["GRPC_EXPERIMENTS"] = "-event_engine_client,-event_engine_listener"
    return settings


def _grpcio_version() -> str:
    # Read from a file of grpc's, as grpc itself must not be imported yet, and importlib.metadata takes 20 ms and 2 MiB.
    spec = importlib.util.find_spec("grpc")
    if spec is not None and spec.origin is not None:
        try:
            text = Path(spec.origin).with_name("_grpcio_metadata.py").read_text()
        except OSError:
            text = ""
        if found := re.search(r"\d+\.\d+[^\"']*", text):
            return found.group()
    from importlib import metadata

    return metadata.version("grpcio")


def prepare() -> None:
    """Set what is wanted and not set, or warn that it is too late for that."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return
    if "grpc" not in sys.modules:
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
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
