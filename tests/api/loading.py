"""A training process whose data loader forks 4 workers for each epoch: `python -m tests.api.loading EPOCHS [THREADS]`.

It sends all the time, and so many threads log without pause. Prints one JSON object, like `tests.api.forking`.
"""

from __future__ import annotations

import json
import sys

import torch
from torch.utils.data import DataLoader

from taskd_net.job import api
from tests.api.forking import traffic

ITEMS = 32
WORKERS = 4


class Numbers:
    """Items that are made in the forked workers, which find that they have no node."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> torch.Tensor:
        if api.send_to_manager(3, "STATUS"):
            raise AssertionError("a forked child has a node")
        return torch.full((64,), float(index))


def main(count: int, threads: int) -> None:
    """Load the items in `count` epochs."""
    troubles = []
    with traffic(threads) as sent:
        for epoch in range(count):
            batches = iter(DataLoader(Numbers(), batch_size=4, num_workers=WORKERS, multiprocessing_context="fork"))
            try:
                total = sum(float(batch[:, 0].sum()) for batch in batches)
            except RuntimeError as error:  # a worker died, or hangs
                troubles.append(f"epoch {epoch}: {error}")
                continue
            if total != sum(range(ITEMS)):
                troubles.append(f"epoch {epoch}: the items add up to {total}")
            codes = [process.exitcode for process in batches._workers]
            if codes != [0] * WORKERS:
                troubles.append(f"epoch {epoch}: exit codes {codes}")
    print(json.dumps({"troubles": troubles, "messages": sent[0], "failed": sent[1]}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
