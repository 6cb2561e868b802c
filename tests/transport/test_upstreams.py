"""Joining through several addresses: refusals, silence, losses, and the ledger of a move."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskd_net import Code
from taskd_net.base import limits
from taskd_net.base.address import Address
from taskd_net.base.times import LinkTimes
from taskd_net.net.joining.connecting import Connector
from taskd_net.net.joining.join import Joiner, _Lost
from taskd_net.net.links import registry
from taskd_net.net.links.kind import Failed
from taskd_net.net.retry import Backoff
from tests.cli.processes import Command, Daemon, run
from tests.faults.relay import Relay
from tests.links.pipes import FakeNode
from tests.peers import mesh_state
from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, address_of, soon
from tests.peers.original.cluster import Originals
from tests.peers.parent import RawParent
from tests.ports import free_address


async def test_refusal_leads_to_the_next_address_without_a_pause(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    async with RawParent() as standby:
        standby.refuse["Register"] = int(Code.CLIENT_ERR)
        monkeypatch.setattr(Backoff, "pause", lambda *_: 1 / 0)
        worker = await mesh.worker(0, 0, f"{free_address()},{standby.address},{address_of(mgr)}")
        assert standby.requests["Register"].qsize() == 1
    assert mesh.count("join_failed", node=worker.position) == 2
    assert mesh.count("joined", node=worker.position, upstream=address_of(mgr)) == 1
    nodes = await mesh_state.until(mgr, lambda now: now.get("Worker/0/0", {}).get("upstream"))
    in_use, *left = nodes["Worker/0/0"]["upstream"].split("; not ")
    assert in_use == address_of(mgr)
    assert left[1].startswith(f"{standby.address}: Register was refused: 4999")


async def test_trouble_names_every_address(mesh: Mesh) -> None:
    async with RawParent() as standby:
        standby.refuse["Register"] = int(Code.CLIENT_ERR)
        nobody = free_address()
        worker = await mesh.worker(0, 0, f"{nobody},{standby.address}", join=False)
        await mesh.logged("join_failed", node=worker.position, times=2)
        with pytest.raises(TimeoutError, match=f"{nobody}: .*{standby.address}: Register was refused"):
            await worker.joined(0.01)
        standby.refuse.clear()
        await soon(worker.joined())


async def test_after_a_loss_a_silent_address_is_passed_over(mesh: Mesh) -> None:
    """It takes connections and never answers, as a frozen process: in turn it would cost 5 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with RawParent() as first, RawParent() as second:
            frozen = f"127.0.0.1:{silent.getsockname()[1]}"
            worker = await mesh.worker(0, 0, f"{first.address},{frozen},{second.address}")
            await first.stop()
            async with asyncio.timeout(4):
                assert await second.opened.get() == "Worker/0/0"
            await mesh.logged("joined", node=worker.position, upstream=second.address)
            assert mesh.count("join_failed", node=worker.position, upstream=frozen) == 0


async def test_a_silent_address_costs_a_first_join_little(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        frozen = f"127.0.0.1:{silent.getsockname()[1]}"
        worker = await mesh.worker(0, 0, f"{frozen},{address_of(mgr)}", join=False)
        async with asyncio.timeout(limits.CONNECT_S + 2):
            await worker.joined()
        assert mesh.count("join_failed", node=worker.position, upstream=frozen) == 1


async def test_name_that_resolves_to_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, f"nobody.invalid:9601,{address_of(mgr)}")
    assert mesh.count("join_failed", node=worker.position, upstream="nobody.invalid:9601") == 1


async def test_parent_of_a_short_stay_is_tried_last(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that takes the stream and ends it at once would be the fastest, for ever."""
    async with RawParent() as hasty, RawParent() as steady:

        async def answers(connector: Connector) -> bool:
            return str(connector._upstream) == hasty.address or bool(await asyncio.Event().wait())

        monkeypatch.setattr(Connector, "answers", answers)
        mesh.let(upstream_look=0.05)
        worker = await mesh.worker(0, 0, f"{hasty.address},{steady.address}", backoff_max=60.0)
        hasty.streams["Worker/0/0"].queue.put_nowait(None)
        assert await soon(steady.opened.get()) == "Worker/0/0"
        await mesh.logged("joined", node=worker.position, upstream=steady.address)


async def test_it_does_not_move_back(mesh: Mesh) -> None:
    async with RawParent() as second:
        first = free_address()
        worker = await mesh.worker(0, 0, f"{first},{second.address}")
        async with RawParent() as back:
            await back.stop()
            await back.start(first)
            assert (await worker.send("x", to="Mgr", timeout=5)).ok
            assert back.requests["Register"].empty()


@pytest.mark.timeout(120)
async def test_worker_moves_between_proxies_without_loss_or_double(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    left, right = await mesh.proxy(0, mgr), await mesh.proxy(1, mgr)
    worker = await mesh.worker(0, 0, f"{address_of(left)},{address_of(right)}")
    confirmed, sent = [], 0
    for sent in range(60):
        if sent == 20:
            await left.close()
        ack = await worker.send(str(sent), to="Mgr", timeout=10)
        if ack.ok:
            confirmed.append(str(sent))
    await mesh.logged("joined", node=worker.position, upstream=address_of(right))
    got: list[str | bytes] = []
    while len(got) < len(confirmed):
        got.append((await soon(mgr.receive())).body)
    assert sorted(got) == sorted(confirmed), "what was answered 0 has come once"
    assert (await soon(mgr.send("back", to=worker.position))).ok, "the old route is replaced"


async def test_old_parent_that_lives_holds_the_place_for_the_grace_time(mesh: Mesh) -> None:
    """The connection to it is cut alone. Its own children send to the old place until then, all others to the new."""
    mgr = await mesh.mgr()
    left, right = await mesh.proxy(0, mgr), await mesh.proxy(1, mgr)
    sibling, other = await mesh.worker(0, 1, left), await mesh.worker(1, 1, right)
    relay = Relay("127.0.0.1", "127.0.0.2", [Address.parse(address_of(left)).port])
    await relay.start()
    before = address_of(left).replace("127.0.0.1", "127.0.0.2")
    worker = await mesh.worker(0, 0, f"{before},{address_of(right)}", links="batched")
    assert mgr.routes()[worker.position] == left.position
    await relay.close()
    await mesh.logged("joined", node=worker.position, upstream=address_of(right))
    assert mgr.routes()[worker.position] == right.position
    assert (await soon(mgr.send("x", to=worker.position))).ok
    assert (await soon(other.send("y", to=worker.position))).ok
    ack = await soon(sibling.send("z", to=worker.position))
    assert (ack.code, ack.src) == (Code.NET_STREAM_NOT_INITED, left.position)
    assert [(await worker.take()).body for _ in range(2)] == ["x", "y"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("theirs_first", [True, False])
async def test_move_between_a_proxy_of_the_original_s_and_one_of_ours(mesh: Mesh, *, theirs_first: bool) -> None:
    """The peers have other links, pings and announcements: the node finds out at each join."""
    mgr = await mesh.mgr()
    async with Originals() as originals:
        theirs, ours = await originals.start("Proxy/0", mgr), await mesh.proxy(1, mgr)
        addresses = [theirs.address, address_of(ours)]
        first, second = addresses if theirs_first else reversed(addresses)
        worker = await mesh.worker(0, 0, f"{first},{second}")
        assert (await soon(worker.send("up", to="Mgr", timeout=10))).ok
        assert (await soon(mgr.send("down", to=worker.position, timeout=10))).ok
        await (theirs.kill() if theirs_first else ours.close())
        await mesh.logged("joined", node=worker.position, upstream=second)
        assert (await soon(worker.send("up", to="Mgr", timeout=10))).ok
        assert (await soon(mgr.send("down", to=worker.position, timeout=10))).ok
        assert [(await worker.take()).body for _ in range(2)] == ["down", "down"]


@pytest.mark.timeout(60)
async def test_each_address_needs_its_name_in_the_certificate(mesh: Mesh, tmp_path: Path) -> None:
    mesh.let(renewal_spread=0.0, certificates_look=0.2)
    certificates = Folder(tmp_path)
    certificates.issue(hosts=("127.0.0.1",))
    wrong = await mesh.mgr("127.0.0.2:0", tls=certificates.listening())
    mgr = await mesh.mgr(tls=certificates.listening())
    both = f"{address_of(wrong)},{address_of(mgr)}"
    worker = await mesh.worker(0, 0, both, tls=certificates.connecting())
    assert mesh.count("join_failed", node=worker.position, upstream=address_of(wrong)) == 1
    # A renewal goes to the address in use.
    certificates.issue(hosts=("127.0.0.1",))
    await mesh.logged("renewed", node=worker.position, upstream=address_of(mgr))
    assert (await soon(mgr.send("x", to=worker.position))).ok
    assert mesh.count("upstream_lost") == 0


@pytest.mark.timeout(180)
async def test_second_manager_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    async with Daemon("mgr", logs=tmp_path / "a") as first, Daemon("mgr", logs=tmp_path / "b") as second:
        both = f"{first.address},{second.address}"
        async with Command("listen", "--as", "Worker/0/0", "--upstream", both) as leaf:
            await leaf.said(f"ready, upstream {re.escape(first.address)}")
            first.signal(signal.SIGKILL)
            await second.said("child_joined .*Worker/0/0")
            code, output, errors = await run("send", "Worker/0/0", "hello", "--upstream", both, "--timeout", "20")
            assert code == 0, output + errors
            assert "hello" in await leaf.line()
            code, output, errors = await run("tree", "--at", both)
            assert "Worker/0/0" in output, errors
            code, output, errors = await run("health", "--at", both, "--json")
            assert (code, json.loads(output)["address"]) == (0, second.address), errors
            code, output, _ = await run("ping", "Worker/0/0", "--count", "1", "--at", both)
            assert code == 0, output


PAUSE = -1
"""A pause between two attempts, in a trail of the addresses that were tried."""


class Play:
    """The attempts of a node at addresses whose reactions are given, one for each address at each attempt.

    Args:
        reactions: `accept` (and lose), `refuse`, `hang` or `fault`, by attempt and address.
        short: whether each stay is a short one.
    """

    def __init__(self, reactions: list[list[str]], *, short: bool) -> None:
        self._reactions = reactions
        self.maximum = 1e9 if short else -1.0
        self.trail: list[int] = []
        self.tried = 0
        self.running = 0
        self.over = asyncio.Event()
        addresses = [Address("127.0.0.1", 1 + at) for at in range(len(reactions[0]))]
        host, pauses = cast("Any", FakeNode("Worker/0/0", LinkTimes(upstream_look=0.001))), cast("Any", self)
        self.joiner = Joiner(host, addresses, pauses, 1.0, lambda _: None, kinds=registry.usable("tasknet"))
        self.joiner._connectors = [cast("Any", Listener(self, at)) for at in range(len(addresses))]
        self.joiner._attempt = self.attempt  # type: ignore[method-assign]

    def pause(self, _: int) -> float:
        """The pause of a `Backoff`."""
        self.trail.append(PAUSE)
        return 0.0

    def reaction(self, at: int) -> str:
        """The reaction of an address at the next attempt."""
        return self._reactions[self.tried][at]

    async def attempt(self) -> None:
        """One attempt at the address of the moment."""
        assert not self.running, "never at two at a time"
        if self.tried == len(self._reactions) - 1:
            self.over.set()
            await asyncio.Event().wait()
        self.running += 1
        await asyncio.sleep(0)
        self.running -= 1
        at = self.joiner._rounds.current
        reaction = self.reaction(at)
        self.trail.append(at)
        self.tried += 1
        if reaction == "accept":
            raise _Lost("it is gone", 0.0)
        raise ZeroDivisionError if reaction == "fault" else Failed(reaction)

    async def run(self) -> None:
        """From the start to the last reaction."""
        self.joiner.start()
        await soon(self.over.wait())
        await self.joiner.close(0.0, orderly=False)


class Listener:
    """An address of a play, for the look after a loss."""

    def __init__(self, play: Play, at: int) -> None:
        self._play = play
        self._at = at

    async def answers(self) -> bool:
        """It does unless it hangs."""
        return self._play.reaction(self._at) != "hang" or bool(await asyncio.Event().wait())


@given(st.data(), st.integers(1, 4), st.booleans())
@settings(deadline=None, max_examples=60)
def test_any_play_of_addresses(data: st.DataObject, count: int, short: bool) -> None:
    row = st.lists(st.sampled_from(("accept", "refuse", "hang", "fault")), min_size=count, max_size=count)
    reactions = data.draw(st.lists(row, min_size=2, max_size=14))

    async def played() -> list[int]:
        play = Play(reactions, short=short)
        await play.run()
        return play.trail

    trail = asyncio.run(played())
    rounds: list[list[int]] = [[]]
    for at in trail:
        rounds.append([]) if at == PAUSE else rounds[-1].append(at)
    number, lost = 0, False
    for tried in rounds:
        assert len(set(tried)) == len(tried), "each address once between two pauses"
        if lost and tried and not short and any(seen != "hang" for seen in reactions[number]):
            assert reactions[number][tried[0]] != "hang", "after a loss, one that answers first"
        outcomes = [reactions[number + n][at] for n, at in enumerate(tried)]
        number += len(tried)
        assert "accept" not in outcomes[:-1], "the first that accepts wins"
        if tried and outcomes[-1] == "accept":
            lost = True
        elif tried is not rounds[-1]:
            assert len(tried) == count, "no pause as long as an address of the round is untried"
