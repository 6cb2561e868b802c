"""Plays of Managers that share a job's state in etcd: each request waits until the play lets it pass.

So a play has any order of the requests of two Managers, of the ends of leases, and of answers that are lost or late. It
is checked while it goes on:

- *One decides*: no two Managers may act at the same time, by their own clocks.
- *One history*: each later leader reads a decision that was acted on, and no other decision has its number.
- *As a whole*: a commit takes several transactions, and whoever reads has all of it or nothing.
- *A later one alone*: a Manager loses the lead to one that has led since, and to nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final, Protocol, TypeAlias, TypeVar

from hypothesis import strategies as st

from taskd_net.base.codes import ConfigError
from taskd_net.base.logger import get_logger
from taskd_net.job.keep.client import Etcd, EtcdError
from taskd_net.job.keep.leader import LED, Leader
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.manager.etcd_keeping import EtcdKeeping
from taskd_net.net.wire import etcd_pb2 as wire
from taskd_net.observe.job_view import JobCounters
from tests.etcd.double import Away

T = TypeVar("T")

LIMITS: Final = EtcdLimits(renew_s=0.0, again_s=0.0, look_s=0.0, gone_s=inf, commit_keys=2)
"""Managers wait for their requests alone, and a commit takes several transactions."""

PARTS: Final = 3
"""Parts of each commit; with two keys in a transaction it is staged, and takes six of them."""

AT_ONCE: Final = 2
"""Managers at the same time."""

TURNS: Final = 12
"""Turns of the loop in which nothing has happened, after which nothing more happens without a request."""

LAST: Final = 4
"""Requests of each Manager before the end of a play, enough to learn that another one has led."""

MANY: Final = 500
"""Requests at the end of a play, more than any Manager needs to begin and to commit."""

RENEWS: Final = "keep_alive"
"""The name of a request that renews a lease."""

Step: TypeAlias = tuple[str, int, tuple[str, ...]]

ANSWERS: Final = ("ok", "ok", "ok", "ok", "slow", "away", "lost", "twice", "late")
"""The ends of a request: `slow` is carried out, and its answer passes later; the others are those of the double."""

STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(["run", "run", "run", "run", "renew", "late", "end", "die"]),
        st.integers(0, AT_ONCE - 1),
        st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=10).map(tuple),
    ),
    min_size=4,
    max_size=24,
)
"""Steps of a play: the event, its Manager, and the ends of so many of its requests."""

BEGINNING: Final[list[Step]] = [("run", 0, ("ok",) * 20)]
"""The first Manager leads, and has decided."""


class Ground(Protocol):
    """The etcd below a play."""

    @property
    def etcd(self) -> Etcd:
        """Carries the requests out."""

    async def end(self, lease: int) -> None:
        """End a lease, as if its holder had been silent."""

    @property
    def by_time(self) -> bool:
        """True if the holder's clock tells it of the end."""


class Gated:
    """An etcd whose requests wait until a play lets them pass.

    Args:
        etcd: carries them out.
        late: takes requests without an answer, which may still arrive.

    Attributes:
        waiting: the requests, and answers that are on their way, with the names of the requests.
        under_way: number of those that are carried out now.
        lease: the last one that was granted.
    """

    def __init__(self, etcd: Etcd, late: list[Callable[[], Awaitable[object]]]) -> None:
        self._etcd = etcd
        self._late = late
        self.waiting: list[tuple[str, asyncio.Future[str]]] = []
        self.under_way = 0
        self.lease = 0

    async def range(self, request: wire.RangeRequest) -> wire.RangeResponse:
        return await self._gate("range", lambda: self._etcd.range(request))

    async def txn(self, request: wire.TxnRequest) -> wire.TxnResponse:
        return await self._gate("txn", lambda: self._etcd.txn(request))

    async def grant(self, request: wire.LeaseGrantRequest) -> wire.LeaseGrantResponse:
        granted = await self._gate("grant", lambda: self._etcd.grant(request))
        self.lease = granted.ID
        return granted

    async def keep_alive(self, request: wire.LeaseKeepAliveRequest) -> wire.LeaseKeepAliveResponse:
        return await self._gate(RENEWS, lambda: self._etcd.keep_alive(request))

    async def revoke(self, request: wire.LeaseRevokeRequest) -> wire.LeaseRevokeResponse:
        return await self._gate("revoke", lambda: self._etcd.revoke(request))

    async def close(self) -> None:
        """There are no connections of its own."""

    def pass_one(self, answer: str, *, renews: bool = False) -> None:
        """Let one of the waiting requests pass, if there is one: the oldest one, or the oldest renewal."""
        found = next((each for each in self.waiting if (each[0] == RENEWS) == renews), None)
        if found is not None:
            self.waiting.remove(found)
            self.under_way += 1
            found[1].set_result(answer)

    async def _gate(self, name: str, carry_out: Callable[[], Awaitable[T]]) -> T:
        answer = await self._passes(name)
        try:
            if answer == "late":
                self._late.append(carry_out)
            if answer in ("late", "away"):
                raise Away("no member answers")
            done = await carry_out()
            if answer == "twice":
                with contextlib.suppress(EtcdError):  # the first answer counts
                    await carry_out()
        finally:
            self.under_way -= 1
        if answer == "slow":
            await self._passes(name)
            self.under_way -= 1
        if answer == "lost":
            raise Away("no answer in time")
        return done

    async def _passes(self, name: str) -> str:
        """Wait until the play lets a request or an answer pass."""
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting.append((name, gate))
        try:
            return await gate
        finally:
            if (name, gate) in self.waiting:
                self.waiting.remove((name, gate))


class Player:
    """One Manager: it begins, and decides one thing after another until another one leads.

    Args:
        name: of it.
        etcd: its way to etcd.
        place: of the state.
        play: has the history.
    """

    def __init__(self, name: str, etcd: Gated, place: Place, play: Play) -> None:
        self.name = name
        self.etcd = etcd
        leader = Leader(etcd, place, name, get_logger(), LIMITS)
        self.keeping = EtcdKeeping(leader, "J", JobCounters(), get_logger(), lambda: None)
        self._play = play
        self.committed = 0
        self.task = asyncio.create_task(self._manage(), name=f"Manager {name}")

    async def _manage(self) -> None:
        parts = await self.keeping.load(0.0, dict)
        number = self._play.read(self, parts or {})
        while True:
            number += 1
            decided: dict[str, str | None] = {f"part/{part}": f"{number} of {self.name}" for part in range(PARTS)}
            if not await self.keeping.save(float(number), decided):
                return
            self._play.act(self, number)
            self.committed += 1

    def may_act(self) -> bool:
        """True while it takes itself for the leader."""
        return self.keeping.term() is not None

    async def die(self) -> None:
        """End as a process does that is killed. Its late requests may still arrive."""
        tasks = [self.task, *filter(None, [self.keeping.leader._renewing])]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Play:
    """One play from its beginning to its end.

    Args:
        ground: the etcd below it.
        place: a prefix of its own.
    """

    def __init__(self, ground: Ground, place: Place) -> None:
        self._ground = ground
        self._place = place
        self._players: list[Player] = []
        # The ways to etcd of all Managers, those that have died included, and late requests of any of them.
        self._ways: list[Gated] = []
        self._late: list[Callable[[], Awaitable[object]]] = []
        # Decisions by number, with the Manager that has acted on each.
        self._acted: dict[int, str] = {}
        self._last = 0

    async def run(self, steps: list[Step]) -> int:
        """Play the steps. Then a further Manager reads the state, and decides. Returns the number of decisions."""
        try:
            for what, who, answers in BEGINNING + steps:
                while len(self._players) < AT_ONCE:
                    self._begin()
                    await self._settle()
                await self._step(what, self._players[who], answers)
            await self._come_to_rest()
        finally:
            for each in self._players:
                await each.die()
        return self._last

    def read(self, player: Player, parts: dict[str, str]) -> int:
        """Check the state that a leader has read; returns the number of its last decision."""
        assert set(parts) in (set(), {f"part/{part}" for part in range(PARTS)}), parts
        assert len(set(parts.values())) <= 1, f"{player.name} reads half of a commit: {parts}"
        number, _, name = next(iter(parts.values()), "0 of nobody").partition(" of ")
        assert int(number) >= self._last, f"{player.name} reads {number}, after {self._last} was acted on"
        if int(number) == self._last and self._last:
            assert self._acted[self._last] == name
        # A decision that its Manager could not act on any more is the reader's to finish.
        self._note(int(number), name)
        return int(number)

    def act(self, player: Player, number: int) -> None:
        """Check a decision that is acted on."""
        if self._ground.by_time:
            assert [each.name for each in self._players if each.may_act()] == [player.name]
            assert number > self._last, f"{player.name} acts on {number} after {self._last}"
        self._note(number, player.name)

    def _note(self, number: int, name: str) -> None:
        if number:
            assert self._acted.setdefault(number, name) == name, f"{number} is of {self._acted[number]} and of {name}"
            self._last = max(self._last, number)

    def _begin(self) -> None:
        self._ways.append(Gated(self._ground.etcd, self._late))
        self._players.append(Player(f"m{len(self._ways)}", self._ways[-1], self._place, self))

    async def _step(self, what: str, player: Player, answers: tuple[str, ...]) -> None:
        match what:
            case "run":
                for answer in answers:
                    player.etcd.pass_one(answer)
                    await self._settle()
            case "renew":
                player.etcd.pass_one(answers[0], renews=True)
            case "late" if self._late:
                with contextlib.suppress(EtcdError):  # as one that is bound to a lease that has ended
                    await self._late.pop(0)()
            case "end" if player.etcd.lease:
                await self._ground.end(player.etcd.lease)
            case "die":
                self._players.remove(player)
                await player.die()
        await self._settle()

    async def _settle(self) -> None:
        """Wait until every Manager waits for a request."""
        calm, before = 0, object()
        while calm < TURNS:
            await asyncio.sleep(0)
            now = [(id(way), list(way.waiting), way.under_way) for way in (each.etcd for each in self._players)]
            calm = calm + 1 if now == before and not any(each.etcd.under_way for each in self._players) else 0
            before = now
        for each in list(self._players):
            if each.task.done():
                self._players.remove(each)
                await self._ended(each)
                await each.die()
                with contextlib.suppress(ConfigError):  # a Manager that begins may find etcd away, and end
                    each.task.result()

    async def _ended(self, player: Player) -> None:
        """Check that a Manager has not lost the lead to a commit of one that has led before it."""
        leader = player.keeping.leader
        if leader.lost.is_set():
            found = await self._ground.etcd.range(wire.RangeRequest(key=self._place.key(LED)))
            assert found.kvs[0].mod_revision > leader.number, f"{player.name} loses the lead, and nobody has led since"

    async def _come_to_rest(self) -> None:
        """Some may learn of their end. Then all die, all leases end, and the next one comes to lead and to decide."""
        for _ in range(LAST):
            for each in list(self._players):
                each.etcd.pass_one("ok")
                each.etcd.pass_one("ok", renews=True)
                await self._settle()
        while self._players:
            await self._players.pop().die()
        for way in self._ways:
            if way.lease:
                await self._ground.end(way.lease)
        self._begin()
        (last,) = self._players
        for _ in range(MANY):
            await self._settle()
            if last.committed:
                return
            last.etcd.pass_one("ok")
            last.etcd.pass_one("ok", renews=True)
        raise AssertionError("the last Manager does not come to decide")
