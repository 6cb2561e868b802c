"""Faulty ranks that no round of ClusterD has answered, and a training that it has stopped: what has to be done again.

ClusterD resets the machine of a job at the begin and at the end of each stream of signals. It forgets a round under way
then, and the fault is no news for it. A report that arrives during a reset is answered 0, and its ranks are lost.

```
  reported, or named by ──▶ open ── result 0, exit obeyed, killMaster ───▶ answered
  stopTrain,                  │  ── a stopTrain that does not name them ──▶ reported again, once in a round
  preExitProcess              └──── the next stream of signals begins ────▶ reported again
```

A pause for a switch of cards or a stress test has no faulty rank, and neither has the stopTrain after a switch that has
failed. ClusterD cannot be told of them, so its client brings the training on itself:

```
  pause_train ──▶ paused ── result 0 of continue ────────────────▶ goes on
                    │    ── the stream of signals has ended ─────▶ continue ── fails ──┐
  stopTrain without ranks ── the stream of signals has ended ──────────────────────────┴──▶ exit: everybody restarts
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net.job.decide.events import KILL_MASTER, PRE_EXIT, STOP_TRAIN, Signal

CONTINUE: Final = "continue"
EXIT: Final = "exit"
_PAUSE: Final = "pause_train"


@dataclass(slots=True)
class OpenFaults:
    """The open ranks of a job.

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
