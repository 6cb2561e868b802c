"""Rates of messages and bytes, from the counters of successive documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from taskd_net.observe.document import Document

COUNTED: Final = ("messages", "bytes", "failed")

STILL_S: Final = 15.0
"""Seconds without a change after which a rate is 0. Figures come every 2 s, and later from far below or from one of
very many nodes."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Per second: messages, bytes and failures on the link to a node (`down`) and from it (`up`)."""

    down_messages: float = 0.0
    down_bytes: float = 0.0
    down_failed: float = 0.0
    up_messages: float = 0.0
    up_bytes: float = 0.0
    up_failed: float = 0.0

    @property
    def messages(self) -> float:
        """Messages a second in both directions."""
        return self.down_messages + self.up_messages


class Rates:
    """The rates of every node, updated by each document."""

    def __init__(self) -> None:
        self._counters: dict[str, tuple[float, list[int]]] = {}
        self._rates: dict[str, Rate] = {}

    def take(self, document: Document) -> dict[str, Rate]:
        """Update from a document. Returns the rates by position, of nodes that were in the document before as well."""
        counters, rates = {}, {}
        for node in document["nodes"]:
            name, at, now = node["position"], node["at"], _counters(node)
            before = self._counters.get(name)
            counters[name] = (at, now)
            if before is None:
                continue
            then, old = before
            if at > then:
                # A counter that went back was reset: there is no rate.
                known = all(new >= was for new, was in zip(now, old, strict=True))
                rates[name] = (
                    Rate(*((new - was) / (at - then) for new, was in zip(now, old, strict=True))) if known else Rate()
                )
            else:
                rates[name] = self._rates.get(name, Rate()) if document["time"] - at < STILL_S else Rate()
        self._counters, self._rates = counters, rates
        return rates


def _counters(node: dict[str, Any]) -> list[int]:
    return [node[way][counter] for way in ("down", "up") for counter in COUNTED]
