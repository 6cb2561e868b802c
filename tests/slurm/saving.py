"""A worker without torch that writes a checkpoint at SIGUSR1, and goes on.

It says its pid and its environment first, in the form of `tests/torch/plain.py`.
"""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from types import FrameType

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "RESTART_FAULT_PROCESS_TYPE")


def save(number: int, frame: FrameType | None) -> None:
    """Write the checkpoint of this rank."""
    Path(f"checkpoint-{os.environ['RANK']}").write_text(f"{os.getpid()}\n")


signal.signal(signal.SIGUSR1, save)
print(os.getpid(), *(os.environ.get(name, "-") for name in NAMES), flush=True)
while True:
    select.select([], [], [], 1.0)
