"""All that a job remembers, as plain data, and as a JSON text with a schema version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from taskd_net.codes import ConfigError
from taskd_net.jobs.events import ProfilingSwitch, Signal, StressTest, SwitchNic
from taskd_net.jobs.outbox import Outbox
from taskd_net.jobs.plain import from_plain, to_plain
from taskd_net.jobs.plugins.plugin import AnyPlugin
from taskd_net.jobs.records import Records
from taskd_net.jobs.streams import Stream
from taskd_net.untrusted import json_value, shown

SCHEMA: Final = 1
"""Version of the stored form. A newer release reads older ones: every field has a default."""


@dataclass(slots=True)
class State:
    """All but the plugins' own.

    Args:
        seed: head of all uuids; no other Manager has it.
        numbered: uuids given so far.
        now: the last time that was seen; time never goes back.
        dirty: something changed since the last tick.
        ticked: time of the last tick.
        again: time of a tick that is due without a change; 0 for none.
        records: of Agents and Workers.
        outbox: of commands and replies.
        streams: by name.
        signal: ClusterD's last one that was looked at.
        signals: those that came since.
        paused: `pauseStartAgent` is in force.
        retry_time, first_retry_time, profiling, switch_nic, stress_test: as in a Snapshot.
    """

    seed: str = ""
    numbered: int = 0
    now: float = 0.0
    dirty: bool = False
    ticked: float = 0.0
    again: float = 0.0
    records: Records = field(default_factory=Records)
    outbox: Outbox = field(default_factory=Outbox)
    streams: dict[str, Stream] = field(default_factory=dict)
    signal: Signal = field(default_factory=Signal)
    signals: list[Signal] = field(default_factory=list)
    paused: bool = False
    retry_time: int | None = None
    first_retry_time: int | None = None
    profiling: ProfilingSwitch | None = None
    switch_nic: SwitchNic = field(default_factory=SwitchNic)
    stress_test: StressTest = field(default_factory=StressTest)

    def uuid(self) -> str:
        """A new uuid. It follows from the state, so a Manager that resumes gives the same one again."""
        self.numbered += 1
        return f"{self.seed}-{self.numbered}"


def to_json(state: State, plugins: Iterable[AnyPlugin]) -> str:
    """The state and those of the plugins, as a JSON text."""
    own = {plugin.name: to_plain(plugin.state) for plugin in plugins}
    return json.dumps(
        {"schema": SCHEMA, "state": to_plain(state), "plugins": own}, separators=(",", ":"), allow_nan=False
    )


def from_json(text: str, plugins: Iterable[AnyPlugin]) -> State:
    """Read what `to_json` wrote, and fill the plugins' states.

    Raises:
        ConfigError: it is no such text, or a newer release wrote it.
    """
    try:
        stored = json_value(text)
    except ValueError as error:
        raise ConfigError(f"the stored state cannot be read: {error}") from None
    schema = stored.get("schema") if isinstance(stored, dict) else None
    if not isinstance(stored, dict) or type(schema) is not int:
        raise ConfigError(f"the stored state is {shown(stored)}; expected an object with a schema version")
    if schema > SCHEMA:
        raise ConfigError(f"the stored state has schema {schema}, of a newer release; this one reads up to {SCHEMA}")
    state = from_plain(State, stored.get("state"), "state")
    own = stored.get("plugins")
    for plugin in plugins:
        if isinstance(own, dict) and plugin.name in own:
            plugin.state = from_plain(type(plugin.state), own[plugin.name], f"plugins.{plugin.name}")
    return state
