"""The base class of built-in plugins and of users' own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, TypeVar

from taskd_net.base import vocabulary
from taskd_net.job.decide import times
from taskd_net.job.decide.events import PluginRequest, ProfilingSwitch
from taskd_net.job.decide.plain import from_plain
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.traffic import Call, Command, Item, Reply

S = TypeVar("S")
INFINITY: Final = float("inf")


class Progress(Enum):
    """The result of a step."""

    HOLD = "hold"
    """The plugin keeps the stream."""
    FINAL = "final"
    """The stream is free again."""


class Plugin(ABC, Generic[S]):
    """A plugin: it asks for streams, and decides while it owns one.

    A *stream* has one owner at a time, so plugins that would disturb each other share a stream. In each tick a free
    stream goes to the plugin with the lowest priority number among those that want it; its owner takes one step. An
    exception in a plugin frees the stream, and bars the plugin from it until another owner has finished there.

    A plugin has no I/O, no clock and no chance: the time is `snapshot.now`. All that it remembers between ticks is in
    `state`, which is stored with the job. A Manager that was killed goes on from there.

    Attributes:
        name: unique among the plugins; in the state and in log lines.
        streams: priority by stream; None for plugins behind all that have a number, by name.
        takes: the class of the requests to this plugin; None for a plugin that is asked for nothing. Its state has the
            last one, `request`.
        pauses_training: while the plugin owns a stream, ClusterD has paused the training.
        ends_job: its 203 to Agent 0 is for the whole job. A new round of ClusterD takes it back.
        state: a dataclass of plain data: numbers, texts, lists, dicts, sets and dataclasses, each with a default. A
            time in it is a `Moment` or a `Timer` of `taskd_net.job.decide.times`.
    """

    name: ClassVar[str]
    streams: ClassVar[Mapping[str, int | None]]
    takes: ClassVar[type[PluginRequest | ProfilingSwitch] | None] = None
    pauses_training: ClassVar[bool] = False
    ends_job: ClassVar[bool] = False

    def __init__(self, state: S) -> None:
        self.state = state
        self._items: list[Item] = []

    def take(self, request: PluginRequest | ProfilingSwitch) -> None:
        """Keep a request of the class that the plugin `takes`. Streams are given at the next tick."""
        state: Any = self.state
        state.request = request

    def clusterd_forgets(self) -> bool:
        """Take note that ClusterD has forgotten its orders. Returns whether one was under way; False by default."""
        return False

    @abstractmethod
    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The streams that the plugin wants now, of those in `streams`. Called often: it must not change anything."""

    def seizes(self, snapshot: Snapshot) -> Collection[str]:
        """The streams that the plugin takes at once from whichever plugin has them; none by default."""
        return ()

    @abstractmethod
    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Decide, as the owner of a stream. Called once in each tick, and once for each of ClusterD's signals.

        Use `send` and the like for what is to be done.
        """

    def messages(self) -> list[Item]:
        """Take out the decisions of the last step."""
        items, self._items = self._items, []
        return items

    def release(self, stream: str) -> None:
        """The stream was taken away: finished, or failed. `state` may be reset here."""

    def restore(self, state: object, name: str) -> None:
        """Take over a stored state.

        Args:
            state: as plain data.
            name: for the error's text.

        Raises:
            ConfigError: it is no state of this plugin's.
        """
        self.state = from_plain(type(self.state), state, name)

    def deadline(self, snapshot: Snapshot) -> float:
        """Time at which the plugin has to be asked again, though nothing changes; infinity by default."""
        return INFINITY

    def move(self, then: float, now: float) -> None:
        """Change the times in `state`: the Manager's clock has moved from `then` to `now`."""
        times.move(self.state, then, now)

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """Decide again on a command of this plugin that nobody acknowledged in five tries.

        Returns:
            True: five further tries, with the same uuid, so that a receiver whose acknowledgements were lost does not
            obey twice. False, the default: it is given up.
        """
        return False

    def send(self, to: str, code: int, message: str = "", extension: Mapping[str, str] | None = None) -> None:
        """Send a command, of msg_type `ACTION`.

        A plugin whose step sends to anything but Agents and Workers, or sends an Agent a command that an original's
        would die of, counts as failed.

        Args:
            to: `Agent/3`, `Worker/0/7`, `Worker/All/All`.
            code, message, extension: its body.
        """
        self._items.append(Command(to, code, message, dict(extension or {})))

    def call(
        self, name: str, ranks: Mapping[int, int] | None = None, text: str = "", params: str = "", timeout: int = 0
    ) -> None:
        """Call the training framework's controller; for the arguments see `Call`."""
        self._items.append(Call(name, dict(ranks or {}), text, params, timeout))

    def reply(self, rpc: str, result: str) -> None:
        """Answer ClusterD; for the arguments see `Reply`."""
        self._items.append(Reply(rpc, result))

    def decide(self, item: Item) -> None:
        """Add a decision of any kind."""
        self._items.append(item)


AnyPlugin = Plugin[Any]


class Recovery(Plugin[S]):
    """A plugin of the recovery stream. Its commands to Agents are repeated until a process has taken them.

    The process that was meant either acknowledges, or is replaced by one that registers; its commands are void then.
    """

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """Go on: silence of an Agent ends by its acknowledgement, or by the REGISTER of its next process."""
        return command.code in vocabulary.AGENT_COMMANDS or command.code in vocabulary.MEETING_COMMANDS
