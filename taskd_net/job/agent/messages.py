"""Messages between an Agent and the Mgr: commands down, reports up (docs/contract.md, section 7)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.cause import Cause, read_cause, write_cause
from taskd_net.base.codes import ArgumentError
from taskd_net.base.progress import STEP_MOST, NodeProgress, write_progress
from taskd_net.base.untrusted import json_value, natural, shown
from taskd_net.job.decide.traffic import read_count

_STATUS_MOST: Final = 255
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Go:
    """210: start the workers.

    Args:
        remaining: restarts that remain, if the Mgr says so.
        ours: the Mgr is one of this package, which takes repeated reports for one.
        in_place: it restarts failed workers alone, and the others are to rejoin.
        round: the round that begins, where the nodes meet by way of the Mgr; 0 where their framework lets them meet.
        patience: seconds that the Mgr waits for a node.
        restarts: the Mgr restarts what fails. Else a platform does, as with TaskD.
    """

    remaining: int | None = None
    ours: bool = False
    in_place: bool = False
    round: int = 0
    patience: float = 0.0
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """203: end the workers and leave.

    Args:
        reason: of a Mgr that ends the job itself; else empty.
        cause: the first failure of the job; None if the Mgr does not say it.
        others: ranks that failed because of it.
        status: exit status.
    """

    reason: str = ""
    cause: Cause | None = None
    others: tuple[int, ...] = ()
    status: int = 1


@dataclass(frozen=True, slots=True)
class ExitGracefully:
    """`GRACE_EXIT`: let the workers end, and leave as after SIGTERM."""


@dataclass(frozen=True, slots=True)
class RestartAll:
    """208: end all workers and start them again.

    Args:
        remaining: restarts that remain, if the Mgr says so.
        round, patience: as in a `Go`.
    """

    remaining: int | None = None
    round: int = 0
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class RestartRanks:
    """209: end the workers with these global ranks and start them again."""

    ranks: frozenset[int]


@dataclass(frozen=True, slots=True)
class StopRanks:
    """213: end the workers with these global ranks."""

    ranks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Meeting:
    """305: all nodes are ready for a round.

    Args:
        round: its number.
        store: address of the workers' store.
        local_worlds: number of workers of each node.
        cause: the first failure of the job, because of which the round has begun; None without one.
        starts: starts of all processes before, in this run; None where the Mgr does not say it.
    """

    round: int
    store: str
    local_worlds: tuple[int, ...]
    cause: Cause | None = None
    starts: int | None = None

    @property
    def restarts(self) -> int:
        """The starts before, the same at all nodes; rounds, where the Mgr says no more."""
        return self.round - 1 if self.starts is None else self.starts


@dataclass(frozen=True, slots=True)
class Waiting:
    """305: the nodes wait for others.

    Args:
        missing: their ranks, for people.
        left: seconds until the Mgr gives up.
    """

    missing: str
    left: float


@dataclass(frozen=True, slots=True)
class Released:
    """307: the workers of all nodes have succeeded in this round."""

    round: int


@dataclass(frozen=True, slots=True)
class WantStacks:
    """310: collect the stacks of ranks.

    Args:
        collection: the Mgr's name for it.
        ranks: global ranks; empty for all.
    """

    collection: str
    ranks: frozenset[int] = frozenset()


Planned = Go | Exit | ExitGracefully | RestartAll | RestartRanks | StopRanks
"""A command with a plan of its own."""

Command = Planned | Meeting | Waiting | Released


def read_command(body: Body) -> Command | WantStacks:
    """Read a command.

    Raises:
        ArgumentError: an Agent knows no such command, or its message has another form.
    """
    if body.msg_type == vocabulary.GRACE_EXIT:
        return ExitGracefully()
    match body.code:
        case vocabulary.START:
            extension = body.extension
            ours, in_place = vocabulary.INCARNATION in extension, vocabulary.IN_PLACE in extension
            restarts = extension.get(vocabulary.RESTARTS) == vocabulary.JOB
            return Go(_count(body.message), ours, in_place, *_round(extension), restarts)
        case vocabulary.EXIT:
            others = (natural(text, _MOST) for text in body.extension.get(vocabulary.OTHERS, "").split(","))
            ranks = tuple(rank for rank in others if rank is not None)
            status = natural(body.extension.get(vocabulary.EXIT_STATUS, ""), _STATUS_MOST) or 1  # never success
            return Exit(body.extension.get(vocabulary.REASON, ""), _cause(body.extension), ranks, status)
        case vocabulary.RESTART_ALL:
            return RestartAll(_count(body.message), *_round(body.extension))
        case vocabulary.MEETING:
            return _meeting(body)
        case vocabulary.RELEASED:
            return Released(_natural(body.message, "message"))
        case vocabulary.STACKS_WANTED:
            return WantStacks(body.extension.get(vocabulary.COLLECTION, ""), _ranks(body.message))
        case vocabulary.RESTART_RANKS:
            return RestartRanks(_ranks_to_restart(body))
        case vocabulary.STOP_RANKS:
            return StopRanks(_ranks(body.message))
        case _:
            text = f"an Agent does nothing for code {shown(body.code)}, msg_type {shown(body.msg_type)}"
            raise ArgumentError(text)


def read_highest(body: Body) -> int | None:
    """The highest step that the job has done, from a command; None: it does not say it."""
    return natural(body.extension.get(vocabulary.HIGHEST_STEP, ""), STEP_MOST)


def registration(
    incarnation: str, devices: Sequence[str] = (), features: Collection[str] = (), round_: int = 0
) -> Body:
    """The Agent is there; the same again for one incarnation says nothing new.

    Args:
        incarnation: a text of this Agent's own.
        devices: names of the node's devices, by local rank.
        features: what the Agent can do.
        round_: the round that it is in; 0 for none.
    """
    extension = {vocabulary.INCARNATION: incarnation}
    if devices:
        extension[vocabulary.DEVICES] = json.dumps(list(devices))
    if features:
        extension[vocabulary.FEATURES] = ",".join(sorted(features))
    if round_:
        extension[vocabulary.ROUND] = str(round_)
    return Body(vocabulary.REGISTER, vocabulary.AGENT_REGISTERS, extension=extension)


def question(remaining: str, most: int | None = None) -> Body:
    """201: may the workers be started?

    Args:
        remaining: restarts that remain, in decimal digits.
        most: restarts that the launcher's user allows; None where nobody has said it.
    """
    extension = {} if most is None else {vocabulary.MAX_RESTARTS: str(most)}
    return Body(vocabulary.STATUS, vocabulary.MAY_I_START, remaining, extension)


def ready(round_: int, store: str, local_world: int, cause: Cause | None = None) -> Body:
    """304: no worker runs, and those of a round may start.

    Args:
        round_: its number.
        store: address of the workers' store; of node 0 alone.
        local_world: number of workers.
        cause: the first failure of the workers that ran before.
    """
    extension = {vocabulary.LOCAL_WORLD: str(local_world)} | ({vocabulary.STORE: store} if store else {})
    extension |= _told(cause)
    return Body(vocabulary.STATUS, vocabulary.READY, str(round_), extension)


def finished(round_: int) -> Body:
    """306: all workers of the node have succeeded in a round."""
    return Body(vocabulary.STATUS, vocabulary.FINISHED, str(round_))


def leaves(signal: str, *, job: bool) -> Body:
    """309: a signal ends the Agent.

    Args:
        signal: its name.
        job: it ends the job, too. Else the other nodes wait for the return of this one.
    """
    extension = {vocabulary.REASON: signal}
    return Body(vocabulary.STATUS, vocabulary.LEAVES, vocabulary.JOB if job else "", extension)


def fault(
    ranks: Collection[int],
    at: int,
    after: str = "",
    worker_state: str = "",
    cause: Cause | None = None,
    progress: NodeProgress | None = None,
) -> Body:
    """202: the workers with these global ranks have failed.

    Args:
        ranks: of the workers.
        at: the time at which it was seen, in seconds since the epoch.
        after: uuid of the last command that has restarted workers; empty for none.
        worker_state: of all workers, as the framework names it; empty where it has no name.
        cause: the first failure; None where the framework does not know it.
        progress: as of `keep_alive`: the last steps of the workers, of which no KEEP_ALIVE has told yet.
    """
    extension = {vocabulary.FAULT_TIME: str(at)} | ({vocabulary.AFTER: after} if after else {}) | _named(worker_state)
    extension |= _told(cause) | _progress(progress)
    return Body(vocabulary.STATUS, vocabulary.FAULT, _state(ranks), extension)


def stacks(collection: str, text: str) -> Body:
    """311: the stacks of ranks.

    Args:
        collection: the Mgr's name for it.
        text: of `base.stacks`.
    """
    return Body(vocabulary.STATUS, vocabulary.STACKS, collection, {vocabulary.STACKS_TEXT: text})


def keep_alive(worker_state: str = "", progress: NodeProgress | None = None) -> Body:
    """The Agent runs.

    Args:
        worker_state: of all workers, as the framework names it; empty where it has no name.
        progress: of the workers; None where it is not told.
    """
    return Body(vocabulary.KEEP_ALIVE, 0, _state(()), _named(worker_state) | _progress(progress))


def _progress(progress: NodeProgress | None) -> dict[str, str]:
    return {} if progress is None else {vocabulary.PROGRESS: write_progress(progress)}


def _told(cause: Cause | None) -> dict[str, str]:
    return {} if cause is None else {vocabulary.CAUSE: write_cause(cause)}


def _cause(extension: Mapping[str, str]) -> Cause | None:
    return read_cause(extension.get(vocabulary.CAUSE, ""))


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


def _natural(text: str, name: str) -> int:
    number = natural(text.strip(), _MOST)
    if number is None:
        raise ArgumentError(f"{name} is {shown(text)}; expected a whole number")
    return number


def _round(extension: Mapping[str, str]) -> tuple[int, float]:
    """The round of a 208 or 210, and the Mgr's patience; zeros where there is none."""
    if vocabulary.ROUND not in extension:
        return 0, 0.0
    seconds = extension.get(vocabulary.SECONDS, "0")
    return _natural(extension[vocabulary.ROUND], vocabulary.ROUND), float(_natural(seconds, vocabulary.SECONDS))


def _meeting(body: Body) -> Meeting | Waiting:
    extension = body.extension
    if vocabulary.MISSING in extension:
        left = _natural(extension.get(vocabulary.SECONDS, "0"), vocabulary.SECONDS)
        return Waiting(extension[vocabulary.MISSING], float(left))
    worlds = extension.get(vocabulary.LOCAL_WORLDS, "").split(",")
    return Meeting(
        _natural(body.message, "message"),
        extension.get(vocabulary.STORE, ""),
        tuple(_natural(each, vocabulary.LOCAL_WORLDS) for each in worlds),
        _cause(extension),
        _natural(extension[vocabulary.STARTS], vocabulary.STARTS) if vocabulary.STARTS in extension else None,
    )


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
