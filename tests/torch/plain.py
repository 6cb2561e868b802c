"""A worker without torch: it says its pid and its environment, and waits for a file of its rank, `end-0`, to end by it.

The first line of that file is its exit status.
"""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "RESTART_FAULT_PROCESS_TYPE")

# One write: workers of a node share their output, and torchrun runs Python without a buffer.
sys.stdout.write(" ".join([str(os.getpid()), *(os.environ.get(name, "-") for name in NAMES)]) + "\n")
sys.stdout.flush()
end = Path(f"end-{os.environ['RANK']}")
while not end.exists() or not (status := end.read_text().strip()):
    select.select([], [], [], 0.02)
raise SystemExit(int(status))
