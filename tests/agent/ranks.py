"""Processes of ranks that run one piece of Python after another, with records of this process."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from taskd_net.base import rank_record
from taskd_net.base.progress import NodeProgress
from taskd_net.job.agent.records import Records

SOON: Final = 20.0
"""Seconds for one step, on a busy machine."""

ROOT: Final = Path(__file__).parents[2]

PROGRAM: Final = """
import sys
names = {}
for line in sys.stdin:
    exec(eval(line), names)
    print("done", flush=True)
"""


class Rank:
    """A rank. Its process has ended after `with`.

    Args:
        records: of its node.
        local_rank, rank: which it is.
        program: Python's arguments; they run the pieces of the standard input.
        path: of its record; None: it gets a new one.
        variables: more of its environment.
    """

    def __init__(
        self,
        records: Records,
        local_rank: int = 0,
        rank: int = 0,
        *program: str,
        path: str | None = None,
        **variables: str,
    ) -> None:
        given = records.begin(local_rank, rank) if path is None else {rank_record.VARIABLE: path}
        self.process = subprocess.Popen(
            [sys.executable, *(program or ("-c", PROGRAM))],
            cwd=ROOT,
            env={**os.environ, **given, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        records.started(local_rank, self.process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def run(self, *pieces: str) -> str:
        """Run pieces of Python. Returns the last line that they print."""
        said = ""
        for piece in pieces:
            self.begin(piece)
            while (word := self.line()) != "done":
                said = word
        return said

    def begin(self, piece: str) -> None:
        """Run a piece of Python, without waiting for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{piece!r}\n")
        self.process.stdin.flush()

    def line(self) -> str:
        """Read a line of its standard output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.end()
        return line.strip()

    def end(self) -> str:
        """End its input, and wait for it. Returns its standard error."""
        _, said = self.process.communicate(timeout=SOON)
        return said


def look(records: Records) -> NodeProgress:
    """Look once."""
    found = records.look()
    assert found is not None
    return found


def look_until(records: Records, true: Callable[[NodeProgress], object], pause: float = 0.02) -> NodeProgress:
    """Look until a condition holds."""
    give_up_at = time.monotonic() + SOON
    while not true(found := look(records)):
        assert time.monotonic() < give_up_at, found
        select.select([], [], [], pause)
    return found
