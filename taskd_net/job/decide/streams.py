"""Streams: which plugin owns which, and its step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from taskd_net.base.codes import ConfigError
from taskd_net.job.decide.plugins.plugin import AnyPlugin, Progress
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.traffic import Command, Item, Outcome

T = TypeVar("T")
CarryOut = Callable[[str, list[Item]], None]


class Stepped(NamedTuple):
    """The result of a step, and its decisions."""

    progress: Progress
    items: list[Item]


@dataclass(slots=True)
class Stream:
    """A stream.

    Args:
        owner: name of its plugin; empty when it is free.
        barred: plugins that failed on it, until another one has finished there.
    """

    owner: str = ""
    barred: set[str] = field(default_factory=set)


class Streams:
    """The allocation of streams.

    Args:
        plugins: each with a name of its own.
        streams: the stored state of the streams, by name. Streams of plugins that are no longer there become free.

    Raises:
        ConfigError: two plugins have one name.
    """

    def __init__(self, plugins: Sequence[AnyPlugin], streams: Mapping[str, Stream]) -> None:
        self.plugins: dict[str, AnyPlugin] = {}
        for plugin in plugins:
            if plugin.name in self.plugins:
                raise ConfigError(f"there are two plugins {plugin.name}; expected different names")
            self.plugins[plugin.name] = plugin
        named = sorted({stream for plugin in plugins for stream in plugin.streams})
        self.streams = {name: streams.get(name, Stream()) for name in named}
        # By priority, those without one behind all others; then by name.
        self._order = {
            name: sorted(
                (plugin for plugin in plugins if name in plugin.streams),
                key=lambda plugin: ((priority := plugin.streams[name]) is None, priority or 0, plugin.name),
            )
            for name in named
        }
        for name, stream in self.streams.items():
            if stream.owner not in {plugin.name for plugin in self._order[name]}:
                stream.owner = ""

    def candidates(self, name: str) -> tuple[str, ...]:
        """Names of the plugins that may own a stream, by priority."""
        return tuple(plugin.name for plugin in self._order[name])

    def unbar(self, plugin: str, *, alone: bool) -> None:
        """Let a plugin have its streams again; with `alone` only those that nobody else may have."""
        for name, stream in self.streams.items():
            if not alone or self.candidates(name) == (plugin,):
                stream.barred.discard(plugin)

    @property
    def pauses_training(self) -> bool:
        """True while the owner of a stream needs a paused training."""
        return any(stream.owner and self.plugins[stream.owner].pauses_training for stream in self.streams.values())

    def run(self, snapshot: Snapshot, outcome: Outcome, carry_out: CarryOut) -> bool:
        """Give free streams to plugins, and let every owner take its step.

        A stream that becomes free goes to the next one at once, and to each plugin once: who wants it again has to wait
        for the next tick.

        Args:
            snapshot: shows the effects of `carry_out` as they come.
            outcome: takes the notices.
            carry_out: takes an owner's name and its decisions.

        Returns:
            True where a plugin wants a stream again.
        """
        again = False
        for name in self.streams:
            again = self._run(name, snapshot, outcome, carry_out) or again
        return again

    def _run(self, name: str, snapshot: Snapshot, outcome: Outcome, carry_out: CarryOut) -> bool:
        stream, had = self.streams[name], set[str]()
        self._seize(name, snapshot, outcome)
        while True:
            if not stream.owner:
                wanting = self._first(name, snapshot, outcome)
                if wanting is None or wanting.name in had:
                    return wanting is not None
                stream.owner = wanting.name
                outcome.note("stream_taken", stream=name, plugin=wanting.name)
            plugin = self.plugins[stream.owner]
            had.add(plugin.name)
            stepped = self._guarded(name, plugin, outcome, partial(_step, plugin, name, snapshot))
            if stepped is not None:
                carry_out(plugin.name, stepped.items)
                if stepped.progress is Progress.HOLD:
                    return False
                stream.barred.clear()
                outcome.note("stream_released", stream=name, plugin=plugin.name)
            stream.owner = ""
            self._guarded(name, plugin, outcome, partial(plugin.release, name))

    def _seize(self, name: str, snapshot: Snapshot, outcome: Outcome) -> None:
        """Give a stream to a plugin that does not wait for its owner."""
        stream = self.streams[name]
        for plugin in self._order[name]:
            if plugin.name in stream.barred or name not in plugin.seizes(snapshot) or stream.owner == plugin.name:
                continue
            if stream.owner:
                owner = self.plugins[stream.owner]
                outcome.note("stream_released", stream=name, plugin=owner.name)
                self._guarded(name, owner, outcome, partial(owner.release, name))
            stream.owner = plugin.name
            outcome.note("stream_taken", stream=name, plugin=plugin.name)
            return

    def _first(self, name: str, snapshot: Snapshot, outcome: Outcome) -> AnyPlugin | None:
        """The plugin with the lowest number among those that want a stream and are not barred."""
        for plugin in self._order[name]:
            if plugin.name in self.streams[name].barred:
                continue
            if name in (self._guarded(name, plugin, outcome, partial(plugin.wants, snapshot)) or ()):
                return plugin
        return None

    def _guarded(self, name: str, plugin: AnyPlugin, outcome: Outcome, part: Callable[[], T]) -> T | None:
        """Run a part of a plugin. None if it raises: the plugin is barred from the stream then."""
        try:
            return part()
        except BaseException as error:  # noqa: BLE001 - a plugin of the user's ends no Manager; the notice is logged
            self.streams[name].barred.add(plugin.name)
            reason = f"{type(error).__name__}: {error}"
            outcome.note("plugin_barred", stream=name, plugin=plugin.name, reason=reason)
            return None


def _step(plugin: AnyPlugin, stream: str, snapshot: Snapshot) -> Stepped:
    """Let a plugin take its step, and check its commands.

    Raises:
        ArgumentError: a command that its receiver might not survive.
    """
    plugin.messages()  # what a failed step has left
    progress = plugin.step(stream, snapshot)
    items = plugin.messages()
    for item in items:
        if isinstance(item, Command):
            item.require()
    return Stepped(progress, items)
