"""The kinds of link, the preferred first. Another kind is its own module and one line here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    from taskd_net.net.links.kind import LinkKind

KINDS: Final = {
    "direct": "taskd_net.net.links.direct_kind",
    "batched": "taskd_net.net.links.batched_kind",
    "tasknet": "taskd_net.net.links.tasknet",
}
"""The module of each kind, by its name. The last kind is the one that every peer knows."""


class _Kinds(Sequence["LinkKind"]):
    """Kinds of link. Each is imported when it is first looked at: most leaves use the first one alone."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    @overload
    def __getitem__(self, index: int) -> LinkKind: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[LinkKind]: ...

    def __getitem__(self, index: int | slice) -> LinkKind | Sequence[LinkKind]:
        if isinstance(index, slice):
            return _Kinds(self._modules[index])
        return _load(self._modules[index])

    def __len__(self) -> int:
        return len(self._modules)


def usable(best: str) -> Sequence[LinkKind]:
    """The kinds that a node uses whose best one is `best`: that one, and those behind it."""
    names = list(KINDS)
    return _Kinds([KINDS[name] for name in names[names.index(best) :]])


def best() -> str:
    """The name of the preferred kind."""
    return next(iter(KINDS))


def plain() -> LinkKind:
    """The kind that every peer knows."""
    return _load(list(KINDS.values())[-1])


def probed(code: int) -> LinkKind | None:
    """The kind of link that answers a probe with `code`; None for any other answer."""
    return next((kind for kind in map(_load, KINDS.values()) if kind.probed == code), None)


@cache
def _load(module: str) -> LinkKind:
    kind: LinkKind = import_module(module).KIND
    return kind
