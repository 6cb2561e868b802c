"""The ranks that hold up a job which stands still: a guess from outside, without a graph of waits. Pure.

In a synchronous training the others wait for the guilty rank, so it has the lowest step, and has entered fewer
collectives. Equals are told apart by the state of their processes. A wrong name costs a person hours, so a comparison
counts only where all ranks can be compared, and "not known" is an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from taskd_net.base.progress import SEEN_WORDS, RankProgress, Seen

NAMED_MOST: Final = 2
"""Ranks that are named for nothing but their place behind the others. A hang has one or two guilty ranks; of more, most
wait for one of them in a group of their own."""

APART_MOST: Final = 10**9
"""Greatest difference of steps or collectives that is believed: at one mark in 2 µs a lead of half an hour."""

_FROZEN: Final = (Seen.STOPPED, Seen.TRACED, Seen.HOLDS, Seen.ENDED)
"""States in which a process counts its collectives no more: a thread of it does so once a second."""

LISTED_MOST: Final = 16
"""Guilty ranks that are listed: where a disk holds up a whole job, the first ones stand for all."""


@dataclass(frozen=True, slots=True)
class Described:
    """A rank that its Agent describes.

    Args:
        node: rank of its node.
        rank: its progress.
        odd: its process has been in its present odd state for as long as the job is quiet.
        renewed: every rank of this node has told something before, so one that tells nothing has not come as far.
    """

    node: int
    rank: RankProgress
    odd: bool = False
    renewed: bool = False


@dataclass(frozen=True, slots=True)
class Guess:
    """The answer.

    Args:
        guilty: the ranks, each with the reason in words; none: not known.
        words: the reason why none is known.
        ends: a rank has ended that is not behind, so the job may be about to end.
    """

    guilty: tuple[tuple[Described, str], ...] = ()
    words: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Leaders:
    """The ranks in front, described or not.

    Args:
        step, group: highest numbers of all ranks; None: not known, or not to be compared.
        ranks: number of all ranks.
        hidden: nodes with ranks that their Agent does not describe.
    """

    step: int | None
    group: int | None
    ranks: int
    hidden: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """The reason to take ranks for those that are furthest behind.

    Args:
        words: it.
        by_beat: it follows from the number of collectives, which is old where the process is frozen.
    """

    words: str
    by_beat: bool = False


def guess(described: Sequence[Described], leaders: Leaders) -> Guess:
    """Name the ranks that the others wait for.

    Args:
        described: the ranks that wait for nothing outside of the training.
        leaders: the ranks in front.
    """
    behind, place = _furthest(described, leaders)
    ended = [each for each in described if each.rank.seen is Seen.ENDED]
    if any(each not in behind or place is None for each in ended):
        return Guess(words="a rank has ended that is not behind the others", ends=True)
    if odd := [each for each in behind if each.odd]:
        return Guess(tuple((each, in_words(each, place)) for each in odd[:LISTED_MOST]))
    if place is None:
        return Guess(words="all ranks are equally far, and their processes run")
    unseen = any(all(each in behind for each in described if each.node == node) for node in leaders.hidden)
    if unseen or len(behind) > NAMED_MOST or 2 * len(behind) > leaders.ranks:
        named = ", ".join(str(each.rank.rank) for each in behind[:LISTED_MOST])
        return Guess(words=f"several ranks are equally far behind, among them {named}")
    return Guess(tuple((each, in_words(each, place)) for each in behind))


def in_words(each: Described, place: Place | None) -> str:
    """The reason to name a rank: the state of its process, its place behind the others, and its section."""
    rank = each.rank
    reason = "" if place is None or (place.by_beat and rank.seen in _FROZEN) else place.words
    state = SEEN_WORDS[rank.seen] if rank.seen is not Seen.RUNS else ""
    section = f"is in the section {rank.section}" if rank.section else ""
    return "; ".join(filter(None, (state, reason, section)))


def _furthest(described: Sequence[Described], leaders: Leaders) -> tuple[list[Described], Place | None]:
    """The ranks that are furthest behind, with the reason; all ranks without one where nothing tells them apart."""
    told = [each for each in described if not _tells_nothing(each.rank)]
    if len(told) < len(described):
        untold = [each for each in described if _tells_nothing(each.rank)]
        if told and all(each.renewed for each in untold):
            return untold, Place("has told nothing since its start")
        return list(described), None
    left, place = told, None
    for name, front, words in (
        ("step", leaders.step, "its last step is {}, and {} that of others"),
        ("group", leaders.group, "has entered {} collectives, and others {}"),
    ):
        by_beat = name == "group"
        # The last beat of a process may be older than its last collective, and tells nothing at its end.
        among = [each for each in left if not by_beat or each.rank.seen is not Seen.ENDED]
        numbers: list[int | None] = [getattr(each.rank, name) for each in among]
        known = [number for number in numbers if number is not None]
        if front is None or not known or len(known) < len(numbers) or not 0 < front - min(known) <= APART_MOST:
            continue
        if by_beat and place is not None and len(among) < len(left):
            break  # ended with the lowest step
        place = place or Place(words.format(min(known), front), by_beat)
        left = [each for each, number in zip(among, numbers, strict=True) if number == min(known)]
    return left, place


def _tells_nothing(rank: RankProgress) -> bool:
    return rank.marked is None and rank.step is None and rank.group is None
