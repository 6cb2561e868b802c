"""A worker without torch that fails as the file of its rank says, such as `fail-3`: the file has Python code.

It says its pid and its environment first, in the form of `plain.py`. Without that file it waits for `end-3`.
"""

from __future__ import annotations

import os
import select
from pathlib import Path

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "RESTART_FAULT_PROCESS_TYPE")

print(os.getpid(), *(os.environ.get(name, "-") for name in NAMES), flush=True)
fail, end = (Path(f"{name}-{os.environ['RANK']}") for name in ("fail", "end"))


def step() -> None:
    """Carry out what the file says, once it is whole."""
    if fail.exists() and (code := fail.read_text()).endswith("\n"):
        exec(code)  # noqa: S102 - the test's own


while not end.exists():
    step()
    select.select([], [], [], 0.02)
