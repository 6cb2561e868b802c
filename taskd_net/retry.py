"""Sending a message again, with the same uuid, until it has arrived or it is not worth it any more."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from taskd_net import limits
from taskd_net.codes import ArgumentError
from taskd_net.core.frame import Ack


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and for how long, a message is sent again that was answered with 5xxx or 6xxx.

    A 4xxx is not tried again: the answer would be the same. Receivers suppress what they have got already (contract,
    section 5), so an Ack 0 means that the message was delivered once, whichever attempt did it.

    Args:
        attempts: how often it is sent at most, the first time included. More: longer outages are outlasted.
        within: seconds in all, pauses included; a last attempt ends there too, whatever its own timeout. Between two
            attempts there is a random pause that doubles: up to 50 ms at first, up to 1 s later (`limits`).

    Raises:
        ArgumentError: names the field, its value and what was expected.
    """

    attempts: int = limits.RETRY_ATTEMPTS
    within: float = limits.RETRY_WITHIN_S

    def __post_init__(self) -> None:
        attempts, within = (getattr(self, field) for field in ("attempts", "within"))
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise ArgumentError(f"attempts is {attempts!r}; expected a whole number, at least 1")
        if not isinstance(within, int | float) or not math.isfinite(within) or within <= 0:
            raise ArgumentError(f"within is {within!r}; expected a number of seconds above 0")

    async def run(self, attempt: Callable[[], Awaitable[Ack]]) -> Ack:
        """Repeat an attempt while that may help. Returns the last answer."""
        # Not at the top: who sends without retries, a training process, has no need of it.
        from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, stop_before_delay
        from tenacity.wait import wait_random_exponential

        def last(state: RetryCallState) -> Ack:
            assert state.outcome is not None
            ack: Ack = state.outcome.result()
            return ack

        retrying = AsyncRetrying(
            retry=retry_if_result(_worth_another),
            stop=stop_after_attempt(self.attempts) | stop_before_delay(self.within),
            wait=wait_random_exponential(multiplier=limits.BACKOFF_INITIAL_S, max=limits.BACKOFF_MAX_S),
            retry_error_callback=last,
        )
        ack: Ack = await retrying(attempt)
        return ack


def _worth_another(ack: Ack) -> bool:
    return ack.code >= 5000
