"""All that a job remembers, as plain data, and as a JSON text with a schema version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import json_value, shown
from taskd_net.job.decide.books import Books
from taskd_net.job.decide.device_state import DeviceState
from taskd_net.job.decide.events import GLOBAL_FAULT, STOP_TRAIN, Signal
from taskd_net.job.decide.failures import JobFailures
from taskd_net.job.decide.hangs import Hangs
from taskd_net.job.decide.node_ranks import NodeRanks
from taskd_net.job.decide.orders import ClusterdRound, OpenFaults, Orders
from taskd_net.job.decide.outbox import Outbox, Sending
from taskd_net.job.decide.plain import from_plain, to_text
from taskd_net.job.decide.plugins.plugin import AnyPlugin
from taskd_net.job.decide.records import Records
from taskd_net.job.decide.streams import Stream
from taskd_net.job.decide.times import Moment, Timer
from taskd_net.job.decide.traffic import Call

SCHEMA: Final = 2
"""Version of the stored form. A newer release reads older ones: every field has a default.

| version | |
|---|---|
| 1 | 0.2.0 |
| 2 | the state of a plugin has the last request to it; before, that of the job had it |
"""

_REQUESTS_OF_1: Final = {
    "profiling": "ProfilingPlugin",
    "switch_nic": "OMSwitchNicPlugin",
    "stress_test": "OMStressTestPlugin",
}
"""Fields of the job's state in version 1, with the plugin that has each as its `request`."""


class NewerRelease(ConfigError):
    """A newer release has written the state."""


_OWN_PARTS: Final = ("records", "outbox", "orders", "devices", "failures", "books", "hangs")
"""Fields of the state that are stored in parts of their own."""

_OF_DEVICES: Final = ("tasks", "nodes", "reporters", "ranks", "listed")
"""Fields of the devices that are stored together."""

_APART: Final = frozenset(
    ("agents", "workers", "unsaved_agents", "unsaved_workers", "fresh_faults", "registered_again")
)
"""Fields of the records that are no part of `rest`: those that are stored entry by entry, and marks."""


@dataclass(slots=True)
class JobState:
    """All but the plugins' own.

    Args:
        seed: head of new uuids; each start of a Manager has its own.
        numbered: uuids given so far.
        now: the last time that was seen. It never goes back between two moves of the clock.
        dirty: something changed since the last tick.
        ticked: time of the last tick.
        again: time of a tick that is due without a change; 0 for none.
        records: of Agents and Workers.
        outbox: of commands and replies.
        streams: by name.
        signal: ClusterD's last one that was looked at.
        signals: those that came since.
        orders: ClusterD's orders that were taken.
        clusterd_round: commands of ClusterD's last round.
        open_faults: faulty ranks that no round of ClusterD has answered.
        first_failure: the Agent's time of the first of them, where the job recovers in place.
        to_report: those of them that ClusterD has to hear of again.
        announced_until: the time at which ranks that a preExitProcess has named are reported.
        own_order: uuid of the last strategy that ClusterD has not ordered.
        own_until: the time at which that one has failed; 0 without one under way.
        devices: faults of devices.
        failures: of the run.
        books: of the run: its wall time, and its steps.
        hangs: the watch over the progress of its ranks.
        calls: calls of the controller whose report is missing, by name.
        paused_until: end of `pauseStartAgent` at the latest; 0 while it is not in force.
        retry_time, first_retry_time: as in a Snapshot.
        ranks: of nodes whose launchers have none.
    """

    seed: str = ""
    numbered: int = 0
    now: Moment = 0.0
    dirty: bool = False
    ticked: Moment = 0.0
    again: Timer = 0.0
    records: Records = field(default_factory=Records)
    outbox: Outbox = field(default_factory=Outbox)
    streams: dict[str, Stream] = field(default_factory=dict)
    signal: Signal = field(default_factory=Signal)
    signals: list[Signal] = field(default_factory=list)
    orders: Orders = field(default_factory=Orders)
    clusterd_round: ClusterdRound = field(default_factory=ClusterdRound)
    open_faults: OpenFaults = field(default_factory=OpenFaults)
    first_failure: Moment = 0.0
    to_report: dict[int, int] = field(default_factory=dict)
    announced_until: Timer = 0.0
    own_order: str = ""
    own_until: Timer = 0.0
    devices: DeviceState = field(default_factory=DeviceState)
    failures: JobFailures = field(default_factory=JobFailures)
    books: Books = field(default_factory=Books)
    hangs: Hangs = field(default_factory=Hangs)
    calls: dict[str, Call] = field(default_factory=dict)
    paused_until: Timer = 0.0
    retry_time: int | None = None
    first_retry_time: int | None = None
    ranks: NodeRanks = field(default_factory=NodeRanks)

    @property
    def paused(self) -> bool:
        """True while `pauseStartAgent` is in force."""
        return self.paused_until > 0.0

    def uuid(self) -> str:
        """A new uuid. It follows from the state, so a Manager that resumes gives the same one again."""
        self.numbered += 1
        return f"{self.seed}-{self.numbered}"


def unsaved(state: JobState, plugins: Iterable[AnyPlugin]) -> dict[str, str | None]:
    """Take out the changed parts: `agent/3`, `worker/7`, `sending/UUID`, `device/NODE/NAME`, `orders`, `failures`,
    `books`, `hangs`, `fault_files`; and always `rest`, `devices` and `plugins`.
    """
    records, outbox = state.records, state.outbox
    parts: dict[str, str | None] = {}
    for rank in records.unsaved_agents:
        parts[f"agent/{rank}"] = to_text(records.agents[rank])
    for rank in records.unsaved_workers:
        parts[f"worker/{rank}"] = to_text(records.workers[rank])
    for uuid in outbox.unsaved:
        parts[f"sending/{uuid}"] = to_text(outbox.sending[uuid]) if uuid in outbox.sending else None
    devices = state.devices
    for device in devices.unsaved:
        parts[f"device/{device}"] = devices.policy.get(device)
    for taken in (records.unsaved_agents, records.unsaved_workers, outbox.unsaved, devices.unsaved):
        taken.clear()
    if state.orders.changed:
        state.orders.changed, parts["orders"] = False, to_text(state.orders)
    if state.failures.changed:
        state.failures.changed, parts["failures"] = False, to_text(state.failures)
    if state.books.take_out():
        parts["books"] = to_text(state.books)
    if state.hangs.changed:
        state.hangs.changed, parts["hangs"] = False, to_text(state.hangs)
    rest = {each.name: getattr(state, each.name) for each in fields(state) if each.name not in _OWN_PARTS}
    indexes = {each.name: getattr(records, each.name) for each in fields(records) if each.name not in _APART}
    parts["rest"] = to_text({"schema": SCHEMA, "state": rest, "records": indexes})
    parts["plugins"] = to_text({plugin.name: plugin.state for plugin in plugins})
    parts["devices"] = to_text({name: getattr(devices, name) for name in _OF_DEVICES})
    if devices.files_changed:
        devices.files_changed, parts["fault_files"] = False, to_text(devices.files)
    return parts


def from_parts(parts: Mapping[str, str], plugins: Iterable[AnyPlugin]) -> JobState:
    """Read what `unsaved` gave, from the first time on; see `from_json` for the errors."""
    rest = _stored(parts.get("rest", ""))
    below: dict[str, dict[str, object]] = {kind: {} for kind in ("agent", "worker", "sending", "device")}
    for name, text in parts.items():
        kind, slash, key = name.partition("/")
        if slash and kind in below:
            below[kind][key] = text if kind == "device" else _value(text)
    state, records = rest.get("state"), rest.get("records")
    if not isinstance(state, dict) or not isinstance(records, dict):
        raise ConfigError(f"the stored state is {shown(rest)}; expected its parts")
    records |= {"agents": below["agent"], "workers": below["worker"]}
    orders = _value(parts.get("orders", "{}"))
    devices = _value(parts.get("devices", "{}"))
    if isinstance(devices, dict):
        devices |= {"files": _value(parts.get("fault_files", "{}")), "policy": below["device"]}
    own = {name: _value(parts.get(name, "{}")) for name in ("failures", "books", "hangs")}
    own |= {"records": records, "orders": orders, "devices": devices}
    read = _with_round(from_plain(JobState, state | own, "state"), state)
    sendings = {uuid: from_plain(Sending, value, f"sending.{uuid}") for uuid, value in below["sending"].items()}
    read.outbox.fill(sendings)
    _fill(plugins, _with_requests(_value(parts.get("plugins", "{}")), state))
    return read


def to_json(state: JobState, plugins: Iterable[AnyPlugin]) -> str:
    """The state and those of the plugins, as a JSON text."""
    return to_text({"schema": SCHEMA, "state": state, "plugins": {plugin.name: plugin.state for plugin in plugins}})


def from_json(text: str, plugins: Iterable[AnyPlugin]) -> JobState:
    """Read what `to_json` wrote, and fill the plugins' states.

    Raises:
        NewerRelease: a newer release wrote it.
        ConfigError: it is no such text.
    """
    stored = _stored(text)
    state = _with_round(from_plain(JobState, stored.get("state"), "state"), stored.get("state"))
    _fill(plugins, _with_requests(stored.get("plugins"), stored.get("state")))
    return state


def _with_round(state: JobState, stored: object) -> JobState:
    """Open the round of a state of 0.2.0, which has no open faults, where ClusterD has decided on no strategy yet."""
    signal = state.signal
    if isinstance(stored, dict) and "open_faults" not in stored and signal.signal_type in (STOP_TRAIN, GLOBAL_FAULT):
        state.open_faults.take(replace(signal, signal_type=STOP_TRAIN))
    return state


def _with_requests(own: object, state: object) -> object:
    """The states of plugins, with the requests that the job's state has in version 1."""
    if not isinstance(own, dict) or not isinstance(state, dict):
        return own
    found = {plugin: state[name] for name, plugin in _REQUESTS_OF_1.items() if name in state and plugin in own}
    return own | {plugin: own[plugin] | {"request": request} for plugin, request in found.items()}


def _value(text: str) -> object:
    try:
        return json_value(text)
    except ValueError as error:
        raise ConfigError(f"the stored state cannot be read: {error}") from None


def _stored(text: str) -> dict[str, object]:
    stored = _value(text)
    schema = stored.get("schema") if isinstance(stored, dict) else None
    if not isinstance(stored, dict) or type(schema) is not int:
        raise ConfigError(f"the stored state is {shown(stored)}; expected an object with a schema version")
    if schema > SCHEMA:
        raise NewerRelease(f"the stored state has schema {schema}, of a newer release; this one reads up to {SCHEMA}")
    return stored


def _fill(plugins: Iterable[AnyPlugin], own: object) -> None:
    for plugin in plugins:
        if isinstance(own, dict) and plugin.name in own:
            plugin.restore(own[plugin.name], f"plugins.{plugin.name}")
