"""Exports of a package that are imported with their first use: a training process loads what it uses alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def late(
    namespace: dict[str, Any], homes: Mapping[str, Collection[str]], submodules: Collection[str] = ()
) -> Callable[[str], object]:
    """The `__getattr__` of a package. It keeps each export that it has imported.

    Args:
        namespace: of the package.
        homes: the names of the exports, by the module that has them.
        submodules: names of modules of the package that can be used without an import of their own.
    """
    package: str = namespace["__name__"]
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name in submodules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = found = getattr(import_module(home_of[name]), name)
        return found

    return find
