"""Documented import paths of version 0.2.0. Each gives the module that has its place now, and warns once.

They are for one release: the next one is without this module.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final = {
    "taskd_net.api.validators": "taskd.python.utils.validator",
    "taskd_net.api": "taskd_net.job.api",
    "taskd_net.codes": "taskd_net.base.codes",
    "taskd_net.faults": "taskd_net.job.faults",
    "taskd_net.jobs": "taskd_net.job.decide",
    "taskd_net.logs": "taskd_net.base.logs",
    "taskd_net.manager": "taskd_net.job.manager",
    "taskd_net.page": "taskd_net.faces.page",
    "taskd_net.recover.stub": "taskd.python.toolkit.recover_module.pb.recover_pb2_grpc",
    "taskd_net.recover": "taskd_net.job.clusterd",
    "taskd_net.wire": "taskd_net.net.wire",
}
"""Packages and modules, with all that is in them: the old path, and the new one. The first row that fits counts.

The distribution `taskd-net-compat` has the paths that begin with `taskd`.
"""


def place_now(name: str) -> str | None:
    """The path that a documented one has now; None for a name that has not moved."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return None


class _Moved(MetaPathFinder, Loader):
    """The first finder: another one would find `policy` in the new package of `taskd_net.faults`, and load it twice."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module at its new path."""
        moved = fullname.startswith("taskd_net.") and place_now(fullname) is not None
        return ModuleSpec(fullname, self) if moved else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new path in the place of the empty one that importlib has made."""
        new = place_now(module.__name__)
        assert new is not None
        try:
            found = importlib.import_module(new)
        except ModuleNotFoundError as error:
            text = f"No module named {module.__name__!r}: it would be {new} now, which is not there"
            raise ModuleNotFoundError(text, name=module.__name__) from error
        text = f"{module.__name__} is {new} now; the next release is without the old path"
        warnings.warn(text, FutureWarning, stacklevel=2)
        sys.modules[module.__name__] = found


def find_moved() -> None:
    """Let the import system find them."""
    sys.meta_path.insert(0, _Moved())
