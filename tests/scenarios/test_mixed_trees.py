"""Every combination of ours and the original's in the four roles, with the results in `docs/interop.md`.

`make more` observes half of the trees, and `make matrix` compares the whole table. This writes it:
`pytest -m matrix -k test_matrix --rewrite-matrix tests/scenarios`.
Rules here define the expectation; the table has the observation.
"""

import asyncio
import time
from collections.abc import Sequence
from itertools import combinations

import pytest

from taskd_net import Code
from tests.peers.mesh import Mesh
from tests.peers.original.cluster import Originals
from tests.peers.original.mixed import EVERY, Combination, Member, Tree
from tests.peers.original.sizes import body_for
from tests.polling import asked_until
from tests.scenarios.matrix import keep, table_of

pytestmark = pytest.mark.timeout(180)

BEGIN, END = "<!-- matrix: written by the tests -->\n", "<!-- end of the matrix -->\n"
MIB = 1024 * 1024
PATIENCE_S = 4.0
"""Seconds until a restarted node is reachable. A leaf of the original tries once a second."""

TREES = 8
"""Trees at a time. They share one event loop, and answers must come in time on a busy machine."""

RESENDS = 5
"""The code of a large message without an answer in time."""

COLUMNS = (
    "Mgr ↔ all below",
    "within a node",
    "between nodes",
    "All, from the Mgr",
    "All, from a Worker",
    "list, from the Mgr",
    "list, from a Worker",
    "codes",
    "frozen Worker",
    "largest message down",
    "restart of a leaf or Proxy",
    "restart of the Mgr",
)
YES = "yes"


def expected(kinds: Combination) -> dict[str, str]:
    """The possibilities of the original's design, all of which we promise."""
    row = dict.fromkeys(COLUMNS, YES)
    row["All, from the Mgr"] = row["All, from a Worker"] = "once each"
    row["largest message down"] = "4 MiB" if kinds.proxy or kinds.worker else "8 MiB"
    if kinds.proxy:
        # It sends up only messages for the Mgr, and copies a broadcast to its own side alone.
        row["between nodes"] = "5002"
        row["list, from a Worker"] = "5002"
        row["All, from a Worker"] = "own node, sender too" if kinds.worker else "own node"
        # It does not announce its leaves again; a Mgr of ours learns them from their messages.
        row["restart of the Mgr"] = "no" if kinds.mgr else "when it sends"
        # It gets no Ack in time, and then none on this stream; the same holds for a Mgr of theirs with the same wait.
        if kinds.mgr or kinds.worker:
            row["frozen Worker"] = f"until the {'Proxy' if kinds.mgr else 'Worker'} joins again"
    if kinds.mgr:
        row["list, from the Mgr"] = "5002"
        if kinds.proxy and kinds.worker:
            row["All, from the Mgr"] = "once for each receiver of its node"
    return row


async def unicasts(tree: Tree) -> dict[str, str]:
    """Every node to every other, sync and not: all of a kind must agree."""
    seen: dict[str, set[int]] = {column: set() for column in COLUMNS[:3]}
    codes: dict[tuple[str, str, str], int] = {}
    for sender in tree.members.values():
        for receiver in tree.members.values():
            if sender is receiver:
                continue
            if "Mgr" in (sender.position[:3], receiver.position[:3]):
                kind = "Mgr ↔ all below"
            else:
                same = sender.position.split("/")[1] == receiver.position.split("/")[1]
                kind = "within a node" if same else "between nodes"
            for sync in (True, False):
                body = f"{sender.position} to {receiver.position}, {sync}"
                code = await sender.send(receiver.position, body, sync=sync)
                codes[sender.position, receiver.position, body] = code
                seen[kind].add(code)

    async def arrived() -> bool:
        """Messages without the receiver's answer may still be under way."""
        looks = {name: await member.look() for name, member in tree.members.items()}
        return all(looks[to][body] for (_, to, body), code in codes.items() if code == 0)

    await asked_until(arrived, PATIENCE_S)
    for (_, receiver_name, body), code in codes.items():
        assert (await tree[receiver_name].look())[body] == (code == 0), (str(tree.kinds), body, code)
    return {kind: verdict(codes_seen) for kind, codes_seen in seen.items()}


async def broadcasts(tree: Tree) -> dict[str, str]:
    row = {}
    workers = {name for name in tree.members if name.startswith("Worker")}
    for column, sender in (("All, from the Mgr", "Mgr/0"), ("All, from a Worker", "Worker/0/0")):
        cells = set()
        for sync in (True, False):
            body = f"{column} {sync}"
            code = await tree[sender].send("Worker/All/All", body, sync=sync)
            # A parent of the original cannot answer a broadcast, and delivers it.
            assert code == 0 or (code == Code.NET_ERR and (tree[sender].theirs)), (str(tree.kinds), sender, code)
            copies = await tree.copies(body)
            others = workers - {sender}
            if copies == dict.fromkeys(others, 1):
                cells.add("once each")
            elif copies == {"Worker/0/2": 1}:
                cells.add("own node")
            elif copies == {"Worker/0/0": 1, "Worker/0/2": 1}:
                cells.add("own node, sender too")
            elif copies == {"Worker/0/0": 2, "Worker/0/2": 2, "Worker/1/1": 1}:
                cells.add("once for each receiver of its node")
            else:
                cells.add(str(copies))
        (row[column],) = cells
    return row


async def lists(tree: Tree) -> dict[str, str]:
    row = {}
    for column, sender in (("list, from the Mgr", "Mgr/0"), ("list, from a Worker", "Worker/1/1")):
        code = await tree[sender].send("Worker/0/0,2", column)
        copies = await tree.copies(column)
        assert copies == (dict.fromkeys(("Worker/0/0", "Worker/0/2"), 1) if code == 0 else {}), (
            str(tree.kinds),
            copies,
        )
        row[column] = verdict({code})
    return row


async def codes(tree: Tree, mesh: Mesh, originals: Originals) -> dict[str, str]:
    """The same code at the sender over any hops: from above, and from the same node."""
    senders, seen = (tree["Mgr/0"], tree["Agent/0"]), dict[str, list[int]]()
    worker = tree["Worker/0/0"]

    async def see(what: str, to: str) -> None:
        # Without waiting for the join, whose last trial may correctly end with 6001.
        answers = (sender.send(to, what, wait=False) for sender in senders)
        seen[what] = list(await asyncio.gather(*answers))

    await see("5002", "Worker/9/9")
    await worker.look()
    worker.fill()
    await see("5001", worker.position)
    await worker.stop()
    await see("6002", worker.position)
    await worker.start(mesh, originals)
    # Nodes of ours also tell each other the fault of the message.
    for sender in senders:
        if not sender.theirs:
            for to, code in (("Boss/0", 4003), ("Worker/x/0", 4004), ("Worker/0/x", 4005)):
                seen.setdefault(str(code), []).append(await sender.send(to, "x"))
            seen.setdefault("4999", []).append(await sender.send("Mgr/0", "x" * (8 * MIB)))
    wrong = {what: found for what, found in seen.items() if {*found} != {int(what)}}
    return {"codes": YES if not wrong else str(wrong)}


async def frozen(tree: Tree) -> dict[str, str]:
    """Its senders get 6001, nodes behind other Proxies notice nothing, and all works again when it resumes."""
    worker = tree["Worker/0/0"]
    thaw = worker.freeze()
    waiting = asyncio.create_task(tree["Mgr/0"].send(worker.position, "frozen"))
    began = time.monotonic()
    others = [await tree["Mgr/0"].send(to, "other") for to in ("Worker/1/1", "Agent/1", "Proxy/1")]
    took = time.monotonic() - began
    code = await waiting
    thaw()
    assert {*others} == {0} and took < 2.5 and code == Code.NETWORK_ACK_LOST, (str(tree.kinds), others, took, code)
    cell = YES
    for again in (worker.position, "Proxy/0"):
        if await asked_until(lambda: sent_code(tree["Mgr/0"], worker.position, 0), 1.5):
            return {"frozen Worker": cell}
        await tree.restart(again)
        cell = f"until the {again.partition('/')[0]} joins again"
    # An answer that is late once more, as on a busy machine, costs a Proxy of theirs its link again.
    for _ in range(3):
        if await asked_until(lambda: sent_code(tree["Mgr/0"], worker.position, 0), 5.0):
            return {"frozen Worker": cell}
        await tree.restart("Proxy/0")
    raise AssertionError(tree.kinds)


async def sizes(tree: Tree) -> dict[str, str]:
    """A byte below, at and above each limit; ours refuse larger ones, and no connection ends."""
    mgr, worker = tree["Mgr/0"], tree["Worker/0/0"]
    largest = ""
    for limit in (4, 8):
        at = limit * MIB
        if {await sized(mgr, worker, at + more) for more in (-1, 0)} == {0}:
            largest = f"{limit} MiB"
        beyond = await sized(mgr, worker, at + 1)
        if limit == 4 and not beyond:
            continue
        # One of theirs loses the connection to the receiver.
        assert beyond == Code.CLIENT_ERR or mgr.theirs, (str(tree.kinds), beyond)
        break
    assert await asked_until(lambda: sent_code(mgr, worker.position, 0), PATIENCE_S), str(tree.kinds)
    up = [await sized(worker, mgr, 8 * MIB + more) for more in (-1, 0, 1)]
    assert up[:2] == [0, 0] and up[2] in (Code.CLIENT_ERR, Code.NET_ERR), (str(tree.kinds), up)
    assert await asked_until(lambda: sent_code(mgr, worker.position, 0), PATIENCE_S), str(tree.kinds)
    return {"largest message down": largest}


async def restarts(tree: Tree) -> dict[str, str]:
    row, leaves = {}, ("Worker/0/0", "Agent/0", "Worker/1/1")
    cells = set()
    for position in ("Worker/0/0", "Agent/0", "Proxy/0"):
        await tree.restart(position)
        cells.add(YES if await reached(tree, leaves) else f"no, after that of {position}")
    (row["restart of a leaf or Proxy"],) = cells
    await tree.restart("Mgr/0")
    cell = YES if await reached(tree, leaves) else "no"
    if cell == "no":
        for leaf in leaves:
            back = await asked_until(lambda leaf=leaf: sent_code(tree[leaf], "Mgr/0", 0), PATIENCE_S)  # type: ignore[misc]
            assert back, (str(tree.kinds), leaf)
        cell = "when it sends" if await reached(tree, leaves, 1.0) else "no"
    row["restart of the Mgr"] = cell
    return row


async def observe(
    kinds: Combination, mesh: Mesh, originals: Originals, room: asyncio.Semaphore, large: asyncio.Semaphore
) -> dict[str, str]:
    async with room:
        tree = await Tree(kinds, mesh, originals).start()
        row = await unicasts(tree) | await broadcasts(tree) | await lists(tree)
        row |= await codes(tree, mesh, originals) | await frozen(tree)
        async with large:
            row |= await sizes(tree)
        return row | await restarts(tree)


async def seen_in(trees: Sequence[Combination], mesh: Mesh, theirs: Originals) -> dict[str, dict[str, str]]:
    """Observe trees, some at a time, and check each cell."""
    mesh.expected_errors.add("position_taken")
    room, large = asyncio.Semaphore(TREES), asyncio.Semaphore(1)
    async with asyncio.TaskGroup() as group:
        rows = {kinds: group.create_task(observe(kinds, mesh, theirs, room, large)) for kinds in trees}
    seen = {str(kinds): {column: row.result()[column] for column in COLUMNS} for kinds, row in rows.items()}
    wrong = [
        f"{kinds}: {column}: {cell}, expected {wanted}"
        for kinds in trees
        for (column, cell), wanted in zip(seen[str(kinds)].items(), expected(kinds).values(), strict=True)
        if cell != wanted
    ]
    assert not wrong, "\n".join(wrong)
    return seen


@pytest.mark.more
async def test_half_of_the_matrix(mesh: Mesh, theirs: Originals) -> None:
    """The half with an even number of theirs, in which any three roles have each of their combinations."""
    half = [kinds for kinds in EVERY if sum(kinds) % 2 == 0]
    for three in combinations(range(4), 3):
        assert len({tuple(kinds[role] for role in three) for kinds in half}) == 8
    assert len(await seen_in(half, mesh, theirs)) == 8


@pytest.mark.matrix
async def test_matrix(mesh: Mesh, theirs: Originals, request: pytest.FixtureRequest) -> None:
    seen = await seen_in(EVERY, mesh, theirs)
    rows_of_page = [
        [*(f"**{kind}**" if kind == "theirs" else kind for kind in kinds.split()), *row.values()]
        for kinds, row in seen.items()
    ]
    table = table_of(["Mgr", "Proxy", "Worker", "Agent", *COLUMNS], rows_of_page)
    keep(BEGIN, END, table, rewrite=request.config.getoption("--rewrite-matrix"))


def verdict(found: set[int]) -> str:
    return YES if found == {0} else ", ".join(map(str, sorted(found)))


async def sized(sender: Member, receiver: Member, size: int) -> int:
    """The code for a message of so many bytes.

    Nodes of ours wait a second only, and all trees share one event loop. So a node of ours resends after a timeout.
    """
    body = body_for(size, sender.position, receiver.position, theirs=sender.theirs)
    code = await sender.send(receiver.position, body)
    for _ in range(RESENDS):
        if code != Code.NETWORK_ACK_LOST or sender.theirs:
            break
        code = await sender.send(receiver.position, body)
    return code


async def sent_code(sender: Member, to: str, code: int) -> bool:
    return await sender.send(to, "again") == code


async def reached(tree: Tree, leaves: tuple[str, ...], timeout: float = PATIENCE_S) -> bool:
    """True if the Mgr and these leaves and their Proxies reach each other within a while."""
    below = (*leaves, "Proxy/0", "Proxy/1")
    there = [asked_until(lambda to=to: sent_code(tree["Mgr/0"], to, 0), timeout) for to in below]  # type: ignore[misc]
    if not all(await asyncio.gather(*there)):
        return False
    back = [asked_until(lambda leaf=leaf: sent_code(tree[leaf], "Mgr/0", 0), timeout) for leaf in leaves]  # type: ignore[misc]
    return all(await asyncio.gather(*back))
