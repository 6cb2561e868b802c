"""Slow cases among nodes of the original: two nodes with one position, and thousands of late Acks."""

import asyncio
import random

import pytest

from taskd_net.base import limits
from tests.peers.mesh import Mesh
from tests.peers.original.cluster import Originals, stands
from tests.peers.original.forms import parse

FIGHT_S = 10.0
PATIENCE_S = 30.0
"""Seconds until every late Ack has come."""

JOINS = 15
"""Registrations of all claimants in ten seconds. Without pauses there would be some 7,000."""


@pytest.mark.timeout(180)
async def test_two_nodes_with_one_position(mesh: Mesh, theirs: Originals) -> None:
    """Two of theirs below ours, one of each, two of ours below theirs; no other node is disturbed."""
    mesh.expected_errors.add("position_taken")
    mgr, other = await mesh.mgr(), await theirs.start("Mgr/0")
    calm = await theirs.start("Worker/9/9", mgr)
    fighters = [await theirs.start("Worker/0/0", mgr, join=False) for _ in range(2)]
    mixed = await theirs.start("Worker/0/1", mgr, join=False)
    await mesh.worker(0, 1, mgr, join=False)
    for _ in range(2):
        await mesh.worker(0, 2, other.address, join=False)
    until = asyncio.get_running_loop().time() + FIGHT_S
    answers = []
    while asyncio.get_running_loop().time() < until:
        answers.append(await mgr.send("x", to=calm.position, timeout=1.0))
        await asyncio.sleep(0.1)
    assert {answer.code for answer in answers} == {0}
    assert all(fighter.up for fighter in fighters) and mixed.up is not None and other.down is not None
    assert 2 <= sum(fighter.up.joins for fighter in fighters if fighter.up) <= JOINS
    assert 2 <= mixed.up.joins + mesh.count("joined", node="Worker/0/1") <= JOINS
    assert 2 <= other.down.stays.count(parse("Worker/0/2")) <= JOINS
    # The current holder is a member.
    await stands(mgr, "Worker/0/0")


async def late_acks(mesh: Mesh, theirs: Originals, messages: int, senders: int, slow: int) -> None:
    """Sync messages through a Proxy of theirs to nodes that are late, some beyond its wait.

    The Proxy waits its real time. Between our answer and the end of its wait, a short standstill of the loop may pass
    unnoticed (`ordered_acks.PULSE_S`); a shorter wait would leave no room for that.
    """
    mgr = await mesh.mgr()
    proxy = await theirs.start("Proxy/0", mgr)
    assert proxy.down is not None
    chance = random.Random(1)
    workers = [await mesh.worker(0, rank, proxy.address, inbox=100_000, ack_timeout=60.0) for rank in range(4)]
    sent = 0
    sleepy = await theirs.start("Worker/0/9", await mesh.proxy(5, proxy.address, ack_timeout=6.0))
    wanted: dict[str, str] = {}

    async def send(number: int) -> None:
        nonlocal sent
        while sent < messages:
            sent += 1
            uuid = f"{number}-{sent}"
            nth, rest = divmod(sent, messages // slow)
            if not rest:
                sleepy.late = (0.0, 0.6, 1.2)[nth % 3] * limits.ORIGINAL_WAIT_S
                to = sleepy.position
            else:
                to = str(chance.choice(workers).position)
            ack = await mgr.send(uuid, to=to, uuid=uuid, timeout=20.0)
            assert ack.uuid == uuid
            if ack.ok:
                assert str(ack.src) == to
                wanted[uuid] = to

    await asyncio.gather(*(send(number) for number in range(senders)))
    sleepy.late = 0.0
    async with asyncio.timeout(PATIENCE_S):
        while not (await mgr.send("still there", to=sleepy.position)).ok:  # noqa: ASYNC110 - asked again, not signalled
            await asyncio.sleep(0.05)
    got: dict[str, str] = {}
    for worker in workers:
        got |= dict.fromkeys(await worker.take_all(worker.waiting()), str(worker.position))
    got |= dict.fromkeys(sleepy.bodies(), sleepy.position)
    # Acknowledged messages are at their destinations: no Ack was taken for another's.
    assert wanted.items() <= got.items()
    assert len(wanted) > 0.9 * messages
    assert not proxy.down.shifted


@pytest.mark.more
@pytest.mark.timeout(240)
async def test_late_acks_through_a_proxy_of_theirs(mesh: Mesh, theirs: Originals) -> None:
    await late_acks(mesh, theirs, 4_000, 20, slow=6)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_hundred_thousand_late_acks_through_a_proxy_of_theirs(mesh: Mesh, theirs: Originals) -> None:
    await late_acks(mesh, theirs, 100_000, 50, slow=12)
