"""PromQL in `deploy/`, beside the metrics that nodes export."""

from __future__ import annotations

import re
from typing import Final

from tests.metrics import Exported

NAMES: Final = r"\b(?:taskd_net|process)_\w+"
"""Metrics of a daemon."""

_OF_PROMETHEUS: Final = {"job", "instance", "le"}
"""Labels by Prometheus itself, and that of a histogram's buckets."""


def unknown(query: str, known: Exported) -> list[str]:
    """Unknown names, labels and label values in a query."""
    found = []
    names = re.findall(NAMES, query)
    labels = {label for name in names for label in known.get(name, {})}
    found += [name for name in names if name not in known]
    for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", query):
        for label, operator, value in re.findall(r"(\w+)(=~|!=|=)\"([^\"]*)\"", matchers):
            if label in _OF_PROMETHEUS:
                continue
            values = known.get(name, {}).get(label, set())
            wanted = set(value.split("|")) if re.fullmatch(r"[\w|]*", value) else set()
            if not values or not wanted <= values:
                found.append(f"{name}{{{label}{operator}{value}}}")
    for clause in re.findall(r"\b(?:by|without|on) \(([^)]*)\)", query):
        found += [label for label in re.split(r",\s*", clause) if label not in labels | _OF_PROMETHEUS]
    return found
