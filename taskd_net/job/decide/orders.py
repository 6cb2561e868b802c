"""Memory of ClusterD's orders, which outlives ClusterD's own.

- `Orders`: each order is taken once. ClusterD may send a signal again, and one fault's signals may share a uuid.
- `ClusterdRound`: signals of a round share a uuid, and name the same nodes again. globalFault and changeStrategy both
  say to end or restart the faulty processes. A second command would end a pod that has come back, or a process that
  has just been restarted.
- `OpenFaults`: faulty ranks that no round has answered, and a training that ClusterD has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.job.decide.events import GLOBAL_FAULT, KILL_MASTER, PRE_EXIT, STOP_TRAIN, Signal
from taskd_net.job.decide.plain import UNSTORED
from taskd_net.job.decide.traffic import Command

ORDERS_KEPT: Final = 512
"""Orders of ClusterD that a client remembers, so that none is carried out twice: a fault has some ten."""


@dataclass(slots=True)
class Orders:
    """The last orders that were taken, oldest first.

    An order is one action of a signal, by uuid, type and strategy: a fault's signals may share a uuid, and a signal may
    come again with further actions or another strategy.

    Args:
        taken: their keys.
        changed: since they were last taken out for storing.
    """

    taken: list[str] = field(default_factory=list)
    changed: bool = field(default=False, compare=False, metadata=UNSTORED)

    def fresh(self, signal: Signal) -> Signal | None:
        """Take a signal.

        A killMaster has the uuid of the exit before it, or none, and a hot switch never has one. Each is a new order.

        Returns:
            The signal with those of its actions that are new; None where none is, and for the globalFault of a round
            that ClusterD has reset.
        """
        if signal.is_ghost:
            return None
        if signal.signal_type == KILL_MASTER or not signal.uuid:
            return signal
        head = f"{signal.uuid} {signal.signal_type} {signal.strategy} "
        new = [action for action in signal.actions or ("",) if head + action not in self.taken]
        if not new:
            return None
        self.changed = True
        self.taken += (head + action for action in new)
        del self.taken[:-ORDERS_KEPT]
        return replace(signal, actions=tuple(new)) if signal.actions else signal

    def decide_again(self) -> None:
        """Forget the last globalFault: after a retry that has failed (405), ClusterD sends another of that uuid."""
        heads = [key.split(" ")[:2] for key in self.taken]
        last = next((head for head in reversed(heads) if head[1] == GLOBAL_FAULT), None)
        self.taken = [key for key, head in zip(self.taken, heads, strict=True) if head != last]
        self.changed = True


@dataclass(slots=True)
class ClusterdRound:
    """The nodes and ranks that commands of the last round have named.

    Args:
        uuid: of the round's signals; empty before the first round.
        exited: nodes whose Agent was sent 203.
        restarted: ranks that were named in 209s, by node.
    """

    uuid: str = ""
    exited: set[int] = field(default_factory=set)
    restarted: dict[int, list[int]] = field(default_factory=dict)

    def take(self, uuid: str, node: int, command: Command) -> None:
        """A command to a node's Agent was decided on, under this uuid."""
        if uuid != self.uuid:
            self.uuid, self.exited, self.restarted = uuid, set(), {}
        if command.code == vocabulary.EXIT:
            self.exited.add(node)
        elif command.code == vocabulary.RESTART_RANKS:
            self.restarted[node] = sorted({*self.restarted.get(node, ()), *command.ranks})

    def has_exited(self, uuid: str, node: int) -> bool:
        """True where the round with this uuid has sent 203 to a node."""
        return bool(uuid) and uuid == self.uuid and node in self.exited

    def has_restarted(self, uuid: str, node: int) -> list[int]:
        """Ranks that the round with this uuid has restarted on a node."""
        return self.restarted.get(node, []) if uuid and uuid == self.uuid else []


CONTINUE: Final = "continue"
EXIT: Final = "exit"
_PAUSE: Final = "pause_train"


@dataclass(slots=True)
class OpenFaults:
    """Faulty ranks of a job that no round of ClusterD has answered, and a training that it has stopped.

    ClusterD resets the machine of a job at the begin and at the end of each stream of signals. It forgets a round under
    way then, and the fault is no news for it. A report that arrives during a reset is answered 0, and its ranks are
    lost.

    ```
      reported, or named by ──▶ open ── result 0, exit obeyed, killMaster ───▶ answered
      stopTrain,                  │  ── a stopTrain that does not name them ──▶ reported again, once in a round
      preExitProcess              └──── the next stream of signals begins ────▶ reported again
    ```

    A pause for a switch of cards or a stress test has no faulty rank, and neither has the stopTrain after a switch that
    has failed. ClusterD cannot be told of them, so its client brings the training on itself:

    ```
      pause_train ──▶ paused ── result 0 of continue ────────────────▶ goes on
                        │    ── the stream of signals has ended ─────▶ continue ── fails ──┐
      stopTrain without ranks ── the stream of signals has ended ──────────────────────────┴──▶ exit: all restart
    ```

    Args:
        ranks: type of fault by rank.
        stopped: a stopTrain has stopped the training because of them, so a new process of a rank is no answer.
        compared: uuid of the last stopTrain.
        subscribed: a stream of signals stands.
        announced: those that only a preExitProcess has named. ClusterD waits for a report of them, without a limit.
        paused: a stopTrain has paused the training.
        forgotten: the stream of that stop or pause has ended.
    """

    ranks: dict[int, int] = field(default_factory=dict)
    stopped: bool = False
    compared: str = ""
    subscribed: bool = False
    announced: set[int] = field(default_factory=set)
    paused: bool = False
    forgotten: bool = False

    @property
    def strategy(self) -> str:
        """The strategy that the client has to carry out of itself; empty for none."""
        if not self.forgotten or self.ranks:
            return ""
        return CONTINUE if self.paused else EXIT

    def reported(self, ranks: Mapping[int, int]) -> None:
        """ClusterD was told of these ranks, or is about to be."""
        self.ranks |= ranks
        self.announced -= ranks.keys()

    def take(self, signal: Signal) -> dict[int, int]:
        """Take a signal in.

        Returns:
            The ranks to report again: the stopTrain of this round does not name them.
        """
        missing: dict[int, int] = {}
        if signal.signal_type == STOP_TRAIN:
            self.paused, self.forgotten, self.announced = _PAUSE in signal.actions, False, set()
            self.stopped = not self.paused
        if signal.signal_type == STOP_TRAIN and self.stopped:
            if signal.uuid != self.compared:
                missing = {rank: kind for rank, kind in self.ranks.items() if rank not in signal.fault_ranks}
            self.compared = signal.uuid
            self.ranks |= signal.fault_ranks
        elif signal.signal_type == PRE_EXIT:
            self.announced |= signal.fault_ranks.keys() - self.ranks.keys()
            self.ranks |= signal.fault_ranks
        elif signal.signal_type == KILL_MASTER:
            self.answered()
        return missing

    def answered(self) -> None:
        """The training goes on, or everybody starts again."""
        self.ranks, self.stopped, self.paused, self.forgotten, self.announced = {}, False, False, False, set()

    def continued(self, *, done: bool) -> None:
        """The training goes on after a pause, or cannot. Then ClusterD ends the job, unless it has forgotten it."""
        if done:
            self.paused = self.forgotten = False
        elif self.forgotten and self.paused:
            self.paused, self.stopped = False, True

    def replaced(self, ranks: Iterable[int]) -> None:
        """These ranks have new processes."""
        if not self.stopped:
            for rank in ranks:
                self.ranks.pop(rank, None)
                self.announced.discard(rank)

    def begin(self) -> dict[int, int]:
        """A stream of signals has begun. Returns the ranks to report over it."""
        self.subscribed = True
        return dict(self.ranks)

    def end(self) -> None:
        """The stream of signals has ended."""
        self.subscribed = False
        self.forgotten = self.forgotten or self.paused or self.stopped
