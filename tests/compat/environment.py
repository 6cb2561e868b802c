"""The environment of a process that imports from `compat/`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import taskd

COMPAT: Final = Path(taskd.__file__).parents[1]


def with_compat(path: Path = COMPAT) -> dict[str, str]:
    """This process's environment, in which imports also find the packages in a folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}
