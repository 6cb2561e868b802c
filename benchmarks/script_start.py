"""The start of a training script by the start program, beside plain Python's: milliseconds, and their ratio.

    python -m benchmarks.script_start [--turns 41]

Both take turns with an empty script, so that other load of the machine affects both. Ratios hold on a busy machine,
milliseconds need an idle one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.processes import ROOT

PROGRAM: Final = ROOT / "taskd_net" / "torch" / "start.py"
TURNS: Final = 41


def main() -> None:
    """Measure, and print a line for each form."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help="starts of each form")
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text("pass\n")
        forms = {
            "python train.py": ([], [str(script)], ""),
            "start.py train.py": ([str(PROGRAM)], [str(script)], ""),
            "start.py train.py, with an error file": ([str(PROGRAM)], [str(script)], str(Path(folder) / "error.json")),
            "python -m train": ([], ["-m", "train"], ""),
            "start.py -m train": ([str(PROGRAM)], ["-m", "train"], ""),
        }
        seconds: dict[str, list[float]] = {name: [] for name in forms}
        for _ in range(turns + 1):
            for name, (before, arguments, error_file) in forms.items():
                seconds[name].append(_start([*before, *arguments], folder, error_file))
    # The first turn reads the files into the machine's memory.
    medians = {name: 1000 * median(each[1:]) for name, each in seconds.items()}
    ratios = {
        name: median(ours / plain for ours, plain in zip(seconds[name][1:], seconds[_plain(name)][1:], strict=True))
        for name in forms
    }
    for name in forms:
        print(f"{name:40} {medians[name]:6.1f} ms   {ratios[name]:5.2f} × {_plain(name)}")


def _plain(name: str) -> str:
    """The form of plain Python that a form is compared with."""
    return "python -m train" if "-m" in name else "python train.py"


def _start(arguments: Sequence[str], folder: str, error_file: str) -> float:
    """The seconds from the start of a process to its end."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-u", *arguments],
        cwd=folder,
        env={**os.environ, "TORCHELASTIC_ERROR_FILE": error_file},
        check=True,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
