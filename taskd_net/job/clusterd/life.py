"""The life of a subscription: when to call Init and Register, to subscribe, to look and to wait.

```
            0              0               opened
   INIT ────────▶ REGISTER ─────▶ SUBSCRIBE ──────▶ READING ◀─┐ health check, each second
    ▲ │ 403          │ no, 3 times    │  ▲             │ └────┘
    │ └──▶ OFF       │                │  └─────────────┤ ClusterD has ended the stream: a round is over
    │                ▼                ▼                ▼ the stream broke, the health check failed
    └──────────────── WAITING ◀───────┴────────────────┘
         the pause is over, or ClusterD can be reached again after a connect, one each second, had failed
```

ClusterD ends the stream with the status OK at the end of each round, and when another client of the job subscribes. An
end after an order is that of a round, and the next stream is opened at once. A stream that has brought no order was
taken over. The next one is opened after a pause, because two clients would take the stream from each other.

Pure: time is an argument, and a shell makes the calls. It asks `next`, waits until that time, does the step, and says
what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from taskd_net.job.clusterd.codes import Code

REGISTERS: Final = 3
"""Registers before the client begins again with Init, as TaskD's client."""


@dataclass(frozen=True, slots=True)
class ClusterdTimes:
    """Times of a client of ClusterD, in seconds; no user sets them."""

    call: float = 15.0
    """Time for one call: ClusterD answers Register after 6 s where the kube API fails."""

    report: float = 15.0
    """Time for one report. ClusterD holds a second report back until the first one is read."""

    init: float = 5.0
    """Pause between two Inits, and two Registers, that fail, as TaskD's client waits."""

    pause: float = 1.0
    """Pause after a first stream that broke; each further one in a row adds as much."""

    pause_most: float = 10.0
    """The longest such pause, and the one after a health check without an answer."""

    settled: float = 0.2
    """Time from a subscription to the first report of a fault, and from the end of a stream for operations to the next.
    ClusterD loses the ranks of a report in the first 0.1 s, while it resets the machine of the job."""

    fragile: float = 6.0
    """Time after changeStrategy recover-in-place in which a client ends no stream of signals: the end of one within 5 s
    ends ClusterD, with the rounds of all jobs."""

    health: float = 1.0
    """Pause between two health checks, as TaskD's client."""

    look: float = 1.0
    """Pause between two connects to a ClusterD that could not be reached, and time for each of them. One that works
    ends the pause: a ClusterD that is back gets its clients within 1.5 s."""


class LifeStep(Enum):
    """A step of the shell."""

    INIT = auto()
    REGISTER = auto()
    SUBSCRIBE = auto()
    HEALTH_CHECK = auto()
    CONNECT = auto()
    """A plain connection, to see whether ClusterD can be reached."""
    END = auto()
    """Nothing more: recovery is switched off."""


class Next(NamedTuple):
    """The next step, and its time."""

    step: LifeStep
    at: float


class Life:
    """The state of one subscription.

    Args:
        off_again: seconds after which Init is tried again where ClusterD answers 403; None: it ends then.
        times: of the client.
    """

    def __init__(self, off_again: float | None = None, times: ClusterdTimes = ClusterdTimes()) -> None:
        self._off_again = off_again
        self._times = times
        self._step = LifeStep.INIT
        self._at = 0.0
        self._look: float | None = None
        self._away = False
        self._off = False
        self._registers = 0
        self._breaks = 0
        self._has_order = False
        self._taken_over = 0

    @property
    def next(self) -> Next:
        """The next step. A time in the past is now."""
        if self._look is not None and self._look < self._at:
            return Next(LifeStep.CONNECT, self._look)
        return Next(self._step, self._at)

    @property
    def is_reading(self) -> bool:
        """True while the stream stands."""
        return self._step is LifeStep.HEALTH_CHECK

    @property
    def is_off(self) -> bool:
        """True where the last Init was answered with 403: recovery is switched off."""
        return self._off

    def answered(self, now: float, step: LifeStep, code: int) -> None:
        """ClusterD has answered Init, Register or a health check."""
        self._off = step is LifeStep.INIT and code == Code.PROCESS_RESCHEDULE_OFF
        if step is LifeStep.HEALTH_CHECK:
            if code == Code.OK:
                self._go(LifeStep.HEALTH_CHECK, now + self._times.health)
            else:
                self.ended(now, unreachable=False)
        elif code == Code.OK:
            self._registers = 0
            self._go(LifeStep.REGISTER if step is LifeStep.INIT else LifeStep.SUBSCRIBE, now)
        elif step is LifeStep.REGISTER:
            self._not_registered(now, code)
        elif code != Code.PROCESS_RESCHEDULE_OFF:
            self._go(LifeStep.INIT, now + self._times.init)
        elif self._off_again is None:
            self._go(LifeStep.END, now)
        else:
            self._go(LifeStep.INIT, now + self._off_again)

    def failed(self, now: float, step: LifeStep, *, unreachable: bool) -> None:
        """A call has no answer, or a connect has failed.

        Args:
            now: the time.
            step: that has failed.
            unreachable: there is no connection.
        """
        if step is LifeStep.CONNECT:
            self._away, self._look = True, now + self._times.look
            return
        health = step is LifeStep.HEALTH_CHECK
        pause = self._times.pause_most if health else self._times.init
        self._wait(now, pause, unreachable=unreachable)

    def opened(self, now: float) -> None:
        """The stream stands."""
        self._go(LifeStep.HEALTH_CHECK, now + self._times.health)

    def heard(self) -> None:
        """A message has come over the stream: the next break is a first one."""
        self._breaks = 0

    def ordered(self) -> None:
        """An order has come over the stream: its end is that of a round."""
        self._has_order, self._taken_over = True, 0

    def over(self, now: float) -> bool:
        """ClusterD has ended the stream with OK.

        Returns:
            True at the end of a round; False where the stream has brought no order, so another client has taken it.
        """
        round_over, self._has_order = self._has_order, False
        self._taken_over += not round_over
        pause = min(self._taken_over * self._times.pause, self._times.pause_most)
        self._go(LifeStep.SUBSCRIBE, now if round_over else now + pause)
        return round_over

    def ended(self, now: float, *, unreachable: bool) -> None:
        """The stream has broken, or could not be opened."""
        self._breaks += 1
        pause = min(self._breaks * self._times.pause, self._times.pause_most)
        self._wait(now, pause, unreachable=unreachable)

    def reached(self, now: float) -> None:
        """A connect has worked. It ends the pause if ClusterD could not be reached before."""
        if self._away:
            self._go(LifeStep.INIT, now)
        else:
            self._look = now + self._times.look

    def _not_registered(self, now: float, code: int) -> None:
        self._registers += 1
        again = code != Code.UN_INIT and self._registers < REGISTERS
        self._go(LifeStep.REGISTER if again else LifeStep.INIT, now + self._times.init)
        if not again:
            self._registers = 0

    def _wait(self, now: float, pause: float, *, unreachable: bool) -> None:
        """Begin again after a pause."""
        self._registers, self._has_order = 0, False
        self._go(LifeStep.INIT, now + pause)
        self._away, self._look = unreachable, now + self._times.look

    def _go(self, step: LifeStep, at: float) -> None:
        self._step, self._at, self._look = step, at, None
