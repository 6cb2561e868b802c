"""Repeated attempts: pauses that grow, and a bound on their number and time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from taskd_net.base import limits
from taskd_net.base.chance import chance
from taskd_net.base.codes import ArgumentError, ArgumentTypeError
from taskd_net.base.untrusted import shown
from taskd_net.core.frame import Ack

ATTEMPTS: Final = 16
"""Times that a message is sent at most, by default: with pauses of half a second on average, some 7 s of refusals, the
time to notice a frozen node. Attempts that time out take far longer."""

WITHIN_S: Final = 30.0
"""Seconds for all attempts together, by default: the grace time, in which a restarted node is back."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts: exponential, with full jitter.

    Args:
        initial: seconds, upper bound of the first pause.
        maximum: seconds, upper bound of every pause.
    """

    initial: float
    maximum: float

    def pause(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row (from 1)."""
        return chance.uniform(0.0, min(self.maximum, self.initial * 2.0 ** min(failures - 1, 30)))


async def repeat(attempt: Callable[[], Awaitable[Ack]], pauses: Iterable[float], least: int = 1) -> Ack:
    """Repeat an attempt while its answer is a failure, once after each pause.

    Args:
        attempt: sends the message, with the same uuid each time.
        pauses: seconds before each further attempt; their end is the end of the attempts.
        least: smallest code that is worth another attempt.

    Returns:
        The last answer.
    """
    left = iter(pauses)
    while (ack := await attempt()).code >= least:
        pause = next(left, None)
        if pause is None:
            break
        await asyncio.sleep(pause)
    return ack


@dataclass(frozen=True, slots=True)
class Retry:
    """Bounds on resends of a message that was answered with 5xxx or 6xxx.

    A 4xxx is final: the answer would be the same. Receivers suppress duplicates (docs/contract.md, section 5), so an
    Ack 0 means one delivery, by whichever attempt.

    Args:
        attempts: bound on the sends, the first one included. More outlast longer outages.
        within: seconds for all attempts and pauses; the last attempt ends there too, whatever its own timeout. Pauses
            are random, up to 50 ms at first, and double up to 0.8 s (`limits`).

    Raises:
        ArgumentError: names the field, its value and what was expected.
    """

    attempts: int = ATTEMPTS
    within: float = WITHIN_S

    def __post_init__(self) -> None:
        attempts, within = (getattr(self, field) for field in ("attempts", "within"))
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise ArgumentError(f"attempts is {attempts!r}; expected a whole number, at least 1")
        if not isinstance(within, int | float) or not 0 < within <= sys.float_info.max:
            raise ArgumentError(f"within is {within!r}; expected a number of seconds above 0")

    async def run(self, attempt: Callable[[float], Awaitable[Ack]]) -> Ack:
        """Repeat an attempt, which gets the seconds left, while that may help. Returns the last answer."""
        until = time.monotonic() + self.within
        return await repeat(lambda: attempt(until - time.monotonic()), self._pauses(until), least=5000)

    def _pauses(self, until: float) -> Iterator[float]:
        backoff = Backoff(limits.BACKOFF_INITIAL_S, limits.BACKOFF_MAX_S)
        for failures in range(1, self.attempts):
            pause = backoff.pause(failures)
            if time.monotonic() + pause >= until:
                return
            yield pause


def require_retry(retry: object) -> None:
    """Check the `retry` of a caller that wants one.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not isinstance(retry, Retry):
        raise ArgumentTypeError(f"retry is {shown(retry)}; expected a Retry, such as Retry(attempts=3)")
