"""Messages between an Agent and the Mgr: commands down, reports up (docs/contract.md, section 7)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError
from taskd_net.base.untrusted import json_value, natural, shown
from taskd_net.job.decide.traffic import read_count

_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Go:
    """210: start the workers.

    Args:
        remaining: restarts that remain, if the Mgr says so.
        ours: the Mgr is one of this package, which takes repeated reports for one.
        in_place: it restarts failed workers alone, and the others are to rejoin.
    """

    remaining: int | None = None
    ours: bool = False
    in_place: bool = False


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
    if body.msg_type == vocabulary.GRACE_EXIT:
        return ExitGracefully()
    match body.code:
        case vocabulary.START:
            extension = body.extension
            return Go(_count(body.message), vocabulary.INCARNATION in extension, vocabulary.IN_PLACE in extension)
        case vocabulary.EXIT:
            return Exit()
        case vocabulary.RESTART_ALL:
            return RestartAll(_count(body.message))
        case vocabulary.RESTART_RANKS:
            return RestartRanks(_ranks_to_restart(body))
        case vocabulary.STOP_RANKS:
            return StopRanks(_ranks(body.message))
        case _:
            text = f"an Agent does nothing for code {shown(body.code)}, msg_type {shown(body.msg_type)}"
            raise ArgumentError(text)


def registration(incarnation: str, devices: Sequence[str] = ()) -> Body:
    """The Agent is there; the same again for one incarnation says nothing new.

    Args:
        incarnation: a text of this Agent's own.
        devices: names of the node's devices, by local rank.
    """
    extension = {vocabulary.INCARNATION: incarnation}
    if devices:
        extension[vocabulary.DEVICES] = json.dumps(list(devices))
    return Body(vocabulary.REGISTER, vocabulary.AGENT_REGISTERS, extension=extension)


def question(remaining: str) -> Body:
    """201: may the workers be started? `remaining` is the number of restarts that remain, in decimal digits."""
    return Body(vocabulary.STATUS, vocabulary.MAY_I_START, remaining)


def fault(ranks: Collection[int], at: int, after: str = "", worker_state: str = "") -> Body:
    """202: the workers with these global ranks have failed.

    Args:
        ranks: of the workers.
        at: the time at which it was seen, in seconds since the epoch.
        after: uuid of the last command that has restarted workers; empty for none.
        worker_state: of all workers, as the framework names it; empty where it has no name.
    """
    extension = {vocabulary.FAULT_TIME: str(at)} | ({vocabulary.AFTER: after} if after else {}) | _named(worker_state)
    return Body(vocabulary.STATUS, vocabulary.FAULT, _state(ranks), extension)


def keep_alive(worker_state: str = "") -> Body:
    """The Agent runs, and its workers are in this state; empty where the framework has no name for it."""
    return Body(vocabulary.KEEP_ALIVE, 0, _state(()), _named(worker_state))


def _named(worker_state: str) -> dict[str, str]:
    return {vocabulary.WORKER_STATE: worker_state} if worker_state else {}


def _state(ranks: Collection[int]) -> str:
    # TaskD's Agents give no number of restarts here.
    return json.dumps({"fault_ranks": sorted(ranks), "restart_times": -1})


def _count(message: str) -> int | None:
    if not message.strip():
        return None
    number = read_count(message)
    if number is None:
        raise ArgumentError(f"message is {shown(message)}; expected a number of restarts")
    return number


def _ranks_to_restart(body: Body) -> frozenset[int]:
    if body.message.strip() or vocabulary.FAULT_RANKS not in body.extension:
        return _ranks(body.message)
    text = body.extension[vocabulary.FAULT_RANKS]
    ranks = _json(text, vocabulary.FAULT_RANKS)
    if not isinstance(ranks, dict):
        raise ArgumentError(f"{vocabulary.FAULT_RANKS} is {shown(text)}; expected a JSON object with ranks as its keys")
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
