"""Benchmarks of this checkout, run with the package of another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

# The package is imported first, as both checkouts have benchmarks.
_RUN = """
import runpy, sys
tree, here, module = sys.argv[1:4]
sys.path[0] = tree
import taskd_net
assert taskd_net.__file__.startswith(tree), taskd_net.__file__
sys.path[0] = here
sys.argv[:4] = [module]
runpy.run_module(module, run_name="__main__")
"""


def run(tree: Path, module: str, *arguments: str) -> str:
    """Run a benchmark in a process of its own.

    Args:
        tree: the checkout whose package is measured.
        module: the benchmark, a module of this checkout.
        arguments: its command line.

    Returns:
        The standard output.

    Raises:
        CalledProcessError: The benchmark failed.
    """
    command = [sys.executable, "-c", _RUN, str(tree.resolve()), str(HERE), module, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
