"""Messages between an Agent and the Mgr: commands down, reports up (contract, section 7)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from taskd_net.api import body as bodies
from taskd_net.api.body import Body
from taskd_net.codes import ArgumentError
from taskd_net.untrusted import json_value, natural, shown

FAULT_RANKS: Final = "FaultRanks"
FAULT_TIME: Final = "REPORT_FAULT_TIME"

_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Go:
    """210: start the workers.

    Args:
        remaining: restarts that remain, if the Mgr says so.
        ours: whether the Mgr is one of this package, which takes repeated reports for one.
    """

    remaining: int | None = None
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """203: end the workers and leave with exit status 1."""


@dataclass(frozen=True, slots=True)
class ExitGracefully:
    """`GRACE_EXIT`: let the workers end, and leave with exit status 0."""


@dataclass(frozen=True, slots=True)
class RestartAll:
    """208: end all workers and start them again.

    Args:
        remaining: restarts that remain, if the Mgr says so.
    """

    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class RestartRanks:
    """209: end the workers with these global ranks and start them again."""

    ranks: frozenset[int]


@dataclass(frozen=True, slots=True)
class StopRanks:
    """213: end the workers with these global ranks."""

    ranks: frozenset[int]


Command = Go | Exit | ExitGracefully | RestartAll | RestartRanks | StopRanks


def read_command(body: Body) -> Command:
    """Read a command.

    Raises:
        ArgumentError: an Agent knows no such command, or its message has another form.
    """
    if body.msg_type == bodies.GRACE_EXIT:
        return ExitGracefully()
    match body.code:
        case bodies.START:
            return Go(_count(body.message), bodies.INCARNATION in body.extension)
        case bodies.EXIT:
            return Exit()
        case bodies.RESTART_ALL:
            return RestartAll(_count(body.message))
        case bodies.RESTART_RANKS:
            return RestartRanks(_ranks_to_restart(body))
        case bodies.STOP_RANKS:
            return StopRanks(_ranks(body.message))
        case _:
            text = f"an Agent does nothing for code {shown(body.code)}, msg_type {shown(body.msg_type)}"
            raise ArgumentError(text)


def go(remaining: str, incarnation: str) -> Body:
    """210, the answer to a 201, which leaves the Agent its own count of restarts."""
    return Body(bodies.ACTION, bodies.START, remaining, {bodies.INCARNATION: incarnation})


def restart_ranks(ranks: Iterable[int]) -> Body:
    """209 in both forms: the original's Agents read the message, and its Mgr may send the extension alone."""
    texts = [str(rank) for rank in sorted(ranks)]
    extension = {FAULT_RANKS: json.dumps(dict.fromkeys(texts, 1))}
    return Body(bodies.ACTION, bodies.RESTART_RANKS, json.dumps(texts), extension)


def registration(incarnation: str) -> Body:
    """The Agent is there; the same again for one incarnation says nothing new."""
    return Body(bodies.REGISTER, bodies.AGENT_REGISTERS, extension={bodies.INCARNATION: incarnation})


def question(remaining: str) -> Body:
    """201: may the workers be started? `remaining` is the number of restarts that remain, in decimal digits."""
    return Body(bodies.STATUS, bodies.MAY_I_START, remaining)


def fault(ranks: Collection[int], at: int) -> Body:
    """202: the workers with these global ranks have failed, as was seen at this time in seconds since the epoch."""
    return Body(bodies.STATUS, bodies.FAULT, _state(ranks), {FAULT_TIME: str(at)})


def keep_alive() -> Body:
    """The Agent runs."""
    return Body(bodies.KEEP_ALIVE, 0, _state(()))


def _state(ranks: Collection[int]) -> str:
    # TaskD's Agents give no number of restarts here.
    return json.dumps({"fault_ranks": sorted(ranks), "restart_times": -1})


def _count(message: str) -> int | None:
    text = message.strip()
    if not text:
        return None
    number = natural(text.removeprefix("-"), _MOST)
    if number is None:
        raise ArgumentError(f"message is {shown(message)}; expected a number of restarts")
    return -number if text.startswith("-") else number


def _ranks_to_restart(body: Body) -> frozenset[int]:
    if body.message.strip() or FAULT_RANKS not in body.extension:
        return _ranks(body.message)
    text = body.extension[FAULT_RANKS]
    ranks = _json(text, FAULT_RANKS)
    if not isinstance(ranks, dict):
        raise ArgumentError(f"{FAULT_RANKS} is {shown(text)}; expected a JSON object with ranks as its keys")
    return frozenset(_rank(rank) for rank in ranks)


def _ranks(message: str) -> frozenset[int]:
    ranks = _json(message, "message")
    if not isinstance(ranks, list):
        raise ArgumentError(f"message is {shown(message)}; expected a JSON list of ranks")
    return frozenset(_rank(rank) for rank in ranks)


def _json(text: str, name: str) -> object:
    try:
        return json_value(text)
    except ValueError as error:
        raise ArgumentError(f"{name} is {shown(text)}; expected JSON: {error}") from None


def _rank(value: object) -> int:
    number = natural(value.strip(), _MOST) if isinstance(value, str) else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MOST:
        raise ArgumentError(f"rank is {shown(value)}; expected a whole number, at least 0")
    return number
