"""Exports of a package that are imported with their first use: a training process loads what it uses alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def late(
    namespace: dict[str, Any], homes: Mapping[str, Collection[str]], modules: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], object]:
    """The `__getattr__` of a package. It keeps each export that it has imported.

    Args:
        namespace: of the package.
        homes: the names of the exports, by the module that has them.
        modules: names of modules that can be used without an import of their own, and their paths.
    """
    package: str = namespace["__name__"]
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name in modules:
            return import_module(modules[name])
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = found = getattr(import_module(home_of[name]), name)
        return found

    return find
