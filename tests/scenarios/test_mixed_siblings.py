"""A Proxy of the original beside one of ours: reachability, and no poisoned links.

Below a parent of the original, a message from one node may poison its siblings' links. So every node sends to every
form of destination, and afterwards a hundred messages go to each place. `pytest -m more --rewrite-matrix` writes the
table in `docs/interop.md`.
"""

import asyncio
from typing import NamedTuple

import pytest

from taskd_net import Code
from taskd_net.base.position import Destination, Position
from tests.peers.mesh import Mesh
from tests.peers.original.cluster import Originals
from tests.peers.original.mixed import ABOVE, Member, Siblings
from tests.scenarios.matrix import keep, table_of

pytestmark = pytest.mark.timeout(120)

BEGIN, END = "<!-- siblings: written by the tests -->\n", "<!-- end of the siblings -->\n"
AFTERWARDS = 100
"""Messages to each place after all others."""

SENDERS = (
    "above both",
    "their Proxy",
    "ours below their Proxy",
    "theirs below their Proxy",
    "our Proxy",
    "ours below our Proxy",
    "theirs below our Proxy",
)
FORMS = {
    "one of node 0": ("Proxy/0", "Agent/0", "Worker/0/0", "Worker/0/1"),
    "one of node 1": ("Proxy/1", "Agent/1", "Worker/1/2", "Worker/1/3"),
    "all": ("Worker/All/All", "Agent/All", "Proxy/All"),
    "all of node 0": ("Worker/0/All",),
    "all of node 1": ("Worker/1/All",),
    "list on node 0": ("Worker/0/0,1",),
    "list on node 1": ("Worker/1/2,3",),
    "list of nodes": ("Proxy/0,1",),
    "all of listed nodes": ("Worker/0,1/All",),
    "listed ranks of all nodes": ("Worker/All/0,1,3",),
    "two lists": ("Worker/0,1/0,1,2,3",),
    "list with a rank that nobody has": ("Worker/0/0,9", "Worker/1/2,9"),
}
ALONE = {("Agent/0", "Agent/All"), ("Proxy/0", "Proxy/All")}
"""Broadcasts of a node alone of its kind on its node: no answer shows whether they went further."""
UNPOISONED = f"{AFTERWARDS} more"
COLUMNS = (*FORMS, UNPOISONED)
YES = "yes"


def expected(above: str, sender: str) -> dict[str, str]:
    """The possibilities of the original's design, all of which we promise."""
    row = dict.fromkeys(COLUMNS, YES) | {"list with a rank that nobody has": "5002"}
    below_theirs = sender.endswith("their Proxy")
    if below_theirs:
        # It sends up only messages for the Mgr, and passes a broadcast on to its own node alone.
        row |= {"all": "own node", "listed ranks of all nodes": "own node"}
        row |= dict.fromkeys(("one of node 1", "list on node 1", "list of nodes", "two lists"), "5002")
        # A leaf cannot know whether Proxies of other nodes are below its own.
        row |= dict.fromkeys(("all of node 1", "all of listed nodes"), "6001")
    if sender.startswith("their") or (sender == "above both" and above == "their Mgr"):
        # It reads a list as one rank, which no node has. Its own broadcasts get no answer.
        row |= dict.fromkeys(("list on node 0", "list on node 1", "list of nodes", "two lists"), "5002")
        row |= dict.fromkeys(("all of listed nodes", "listed ranks of all nodes"), "nobody")
        row["all of node 1"] = "nobody" if below_theirs else YES
    if sender == "theirs below our Proxy":
        row = expected(above, "ours below our Proxy")
    if above == "their Mgr" and not below_theirs:
        row["two lists"] = "5002"
    return row


class Seen(NamedTuple):
    """One message with its outcome."""

    sender: Member
    to: str
    code: int
    got: dict[str, int]


def place_of(member: Member) -> str:
    """The row of a sender in the table."""
    if member.position in ("Mgr/0", "Proxy/9"):
        return "above both"
    if member.position.startswith("Proxy"):
        return "their Proxy" if member.theirs else "our Proxy"
    assert member.parent is not None
    return f"{'theirs' if member.theirs else 'ours'} below {'their' if member.parent.theirs else 'our'} Proxy"


def side_of(position: str) -> str:
    """The Proxy of a node."""
    return position.split("/")[1]


def verdict(tree: Siblings, seen: Seen) -> str:
    """The text of a cell for one message."""
    sender, to, code, got = seen
    wanted = {name for name in tree.members if Destination.of(Position.parse(to)).matches(Position.parse(name))}
    wanted.discard(sender.position)
    for name, count in got.items():
        again = tree[name].theirs and side_of(name) == "0"
        assert name in wanted or (name == sender.position and sender.theirs), seen
        assert count == 1 or again, seen
    # Its application checks only the status, and no broadcast of its own has status OK.
    answered = code == 0 or (sender.theirs and code == Code.NET_ERR and "All" in to)
    if not answered:
        return str(code)
    got.pop(sender.position, None)
    if wanted and not got:
        assert sender.theirs, seen
        return "nobody"
    if wanted != set(got):
        own_node = {name for name in wanted if side_of(name) == "0"}
        assert {*got} == own_node and place_of(sender).endswith("their Proxy"), seen
        return "own node"
    return YES


async def observe(above: str, mesh: Mesh, originals: Originals) -> dict[str, dict[str, str]]:
    """The rows of one tree."""
    tree = await Siblings(above, mesh, originals).start()
    sent = []
    for sender in tree.members.values():
        for form, destinations in FORMS.items():
            for to in destinations:
                if to != sender.position and (sender.position, to) not in ALONE:
                    codes = [
                        await sender.send(to, f"{sender.position} {to} {sync}", sync=sync) for sync in (True, False)
                    ]
                    sent.append((sender, form, to, codes))
    await tree.copies("")
    looks = {name: await member.look() for name, member in tree.members.items()}
    rows: dict[str, dict[str, set[str]]] = {place: {form: set() for form in FORMS} for place in SENDERS}
    for sender, form, to, codes in sent:
        got, posted = (
            {name: look[body] for name, look in looks.items() if look[body := f"{sender.position} {to} {sync}"]}
            for sync in (True, False)
        )
        assert got == posted and codes[1] in (0, codes[0]), (above, sender.position, to, codes, got, posted)
        rows[place_of(sender)][form].add(verdict(tree, Seen(sender, to, codes[0], got)))
    afterwards = await poisoned(tree)
    return {
        place: {form: ", ".join(sorted(cells)) for form, cells in row.items()} | {UNPOISONED: afterwards[place]}
        for place, row in rows.items()
    }


async def poisoned(tree: Siblings) -> dict[str, str]:
    """Send many messages from the root to each place, and from each place to the root."""
    mgr, cells = tree["Mgr/0"], {place: set[int]() for place in SENDERS}
    for number in range(AFTERWARDS):
        for member in tree.members.values():
            if member is not mgr:
                cells["above both"].add(await mgr.send(member.position, f"down {number}"))
                if place_of(member) != "above both":
                    cells[place_of(member)].add(await member.send("Mgr/0", f"up {number}"))
    return {place: YES if codes == {0} else str(sorted(codes)) for place, codes in cells.items()}


@pytest.mark.more
async def test_siblings(mesh: Mesh, theirs: Originals, request: pytest.FixtureRequest) -> None:
    async with asyncio.TaskGroup() as group:
        trees = {above: group.create_task(observe(above, mesh, theirs)) for above in ABOVE}
    rows = {(above, sender): row for above, tree in trees.items() for sender, row in tree.result().items()}
    wrong = [
        f"below {above}, {sender}: {column}: {cell}, expected {wanted}"
        for (above, sender), row in rows.items()
        for (column, cell), wanted in zip(row.items(), expected(above, sender).values(), strict=True)
        if cell != wanted
    ]
    assert not wrong, "\n".join(wrong)
    table = table_of(["both below", "sender", *COLUMNS], [[*key, *row.values()] for key, row in rows.items()])
    keep(BEGIN, END, table, rewrite=request.config.getoption("--rewrite-matrix"))
