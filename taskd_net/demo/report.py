"""The findings of a demo, compared with the expected ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

from taskd_net import Position
from taskd_net.base.codes import describe


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` percent of them do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


Received: TypeAlias = Mapping[Position, Mapping[str, Sequence[str]]]
"""The uuids of the messages received by each node, by mtype, in the order of arrival."""


@dataclass(frozen=True, slots=True)
class Sends:
    """Sends of one kind. `code` is their common code, or the first that is not `expected_code`."""

    name: str
    title: str
    count: int
    code: int
    expected_code: int
    p50_us: float
    p99_us: float

    @classmethod
    def of(cls, name: str, title: str, expected_code: int, codes: Sequence[int], us: Sequence[float]) -> Sends:
        """Sum up the answers to sends of one kind."""
        code = next((code for code in codes if code != expected_code), expected_code)
        return cls(name, title, len(codes), code, expected_code, percentile(us, 50), percentile(us, 99))

    @property
    def ok(self) -> bool:
        """True when every send was answered with the expected code."""
        return self.code == self.expected_code


@dataclass(slots=True)
class Broadcast:
    """Copies of broadcast messages: exactly one expected for each message and Worker."""

    expected: int = 0
    delivered: int = 0
    duplicates: int = 0


@dataclass(slots=True)
class DemoReport:
    """The findings of a demo.

    Attributes:
        expected: nodes started. joined: nodes that have joined.
        recovered_s: seconds from the moment the new Proxy listens until each of its Workers has acknowledged.
        tree: each node with children, and its children, from the root down.
        addresses: of the listening nodes.
        replaced: the node that was killed and started again.
        left_out: steps that need a larger mesh.
        problems: every deviation from the expected result.
    """

    expected: int
    joined: int = 0
    sends: list[Sends] = field(default_factory=list)
    broadcast: Broadcast = field(default_factory=Broadcast)
    recovered_s: float | None = None
    tree: dict[Position, list[Position]] = field(default_factory=dict)
    addresses: dict[Position, str] = field(default_factory=dict)
    replaced: Position | None = None
    left_out: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True without problems."""
        return not self.problems

    def add(self, sends: Sends) -> None:
        """Add the answers to sends of one kind."""
        self.sends.append(sends)
        if not sends.ok:
            self.problems.append(f"{sends.title}: expected {sends.expected_code}, got {describe(sends.code)}")

    def check_received(self, expected: Received, received: Received) -> None:
        """Compare the messages received by each node with those sent to it: each once, in order, and no others."""
        for position, by_kind in received.items():
            for kind in by_kind.keys() | expected.get(position, {}).keys():
                due = list(expected.get(position, {}).get(kind, ()))
                came = list(by_kind.get(kind, ()))
                if came == due:
                    continue
                missing, twice = len(set(due) - set(came)), len(came) - len(set(came))
                strange = len(set(came) - set(due))
                how = f"{missing} missing, {twice} twice, {strange} not for it" if missing or twice or strange else ""
                problem = f"{position} received {kind!r} messages wrongly: {how or 'not in order'}"
                if problem not in self.problems:  # later checks find it again
                    self.problems.append(problem)

    def as_json(self) -> dict[str, object]:
        """The report as `--json` prints it."""
        return {
            "joined": self.joined,
            "expected": self.expected,
            "sends": [
                {
                    "name": sends.name,
                    "code": sends.code,
                    "expected_code": sends.expected_code,
                    "p50_us": round(sends.p50_us, 1),
                    "p99_us": round(sends.p99_us, 1),
                }
                for sends in self.sends
            ],
            "broadcast": asdict(self.broadcast),
            "recovered_s": None if self.recovered_s is None else round(self.recovered_s, 4),
            "ok": self.ok,
        }
