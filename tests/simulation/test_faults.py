"""The contract's promises hold under any faults of links and nodes, and any order of the network.

`--hypothesis-profile=thorough` looks a hundred times longer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.strategies import DataObject

from taskd_net.base.codes import Code
from taskd_net.base.position import Destination, Position, Role
from taskd_net.core.frame import Frame
from taskd_net.core.router import RouterConfig
from taskd_net.core.uuids import split
from tests.simulation.mesh import Mesh, Node, Sent
from tests.simulation.trees import DEPTH, destinations, receivers, trees

# Nothing here waits: how long it computes is the machine's affair.
pytestmark = pytest.mark.timeout(600)

EPSILON = 1e-6
"""Seconds that adding up floating-point times may cost."""

ROOMY = RouterConfig()
TIGHT = RouterConfig(inbox=1, dedup_window=6, link_messages=3, link_bytes=200)


class Faults(RuleBasedStateMachine):
    """Nodes send, links break, time passes; the network goes on step by step, where hypothesis points."""

    mesh: Mesh
    sent: list[Sent]

    @initialize(data=st.data(), config=st.sampled_from([ROOMY, TIGHT]), joined=st.booleans())
    def make(self, data: DataObject, config: RouterConfig, joined: bool) -> None:
        self.config = config
        tree = data.draw(trees(), label="tree")
        batched = data.draw(st.sets(st.sampled_from(list(tree))), label="children with a batched link")
        numbered = data.draw(st.sets(st.sampled_from(list(tree))), label="children with numbers on it")
        self.mesh = Mesh(
            tree,
            config=lambda _: config,
            batched=lambda position: position in batched,
            numbered=lambda position: position in numbered,
        )
        self.mesh.crossings = Counter()
        self.mesh.sending = self.note
        self.mesh.delivered = self.note_delivery
        self.sent = []
        self.attempts: dict[str, list[Sent]] = defaultdict(list)
        # Received uuids: ever, and in this life in order.
        self.got: set[tuple[str, Position]] = set()
        self.open: list[Sent] = []
        # The receivers of a message that have been in the mesh all the time since it was first sent.
        self.owed: dict[str, set[Node]] = {}
        self.moved_at = 0
        if joined:
            self.mesh.settle(1.0)
            self.mesh.check_idle()

    def note_delivery(self, node: Node, frame: Frame) -> None:
        uuid = frame.uuid
        assert uuid != "lie", f"{node} got a message that {frame.src} never sent"
        before = node.received[:-1]
        remembered = before if split(uuid) else [seen for seen in before if seen.src == frame.src]
        window = remembered if split(uuid) else remembered[-self.config.dedup_window :]
        assert uuid not in {seen.uuid for seen in window}, f"{node} got {uuid} twice"
        self.got.add((uuid, node.position))
        assert frame.dst.matches(node.position), f"{node} got what is for {frame.dst}"
        attempts = self.attempts.get(uuid, ())
        if len(attempts) == 1 and attempts[0].dst.unicast and attempts[0].ack is not None:
            assert attempts[0].ack.code in (Code.OK, Code.NETWORK_ACK_LOST), f"{uuid} arrived after {attempts[0].ack}"

    @rule(
        data=st.data(),
        sync=st.booleans(),
        timeout=st.sampled_from([0.005, 1.0, 3.0, 40.0]),
        size=st.sampled_from([0, 120]),
    )
    def send(self, data: DataObject, sync: bool, timeout: float, size: int) -> None:
        sender = self.pick(data, is_running)
        dst = data.draw(destinations(self.mesh.tree), label="destination")
        self.mesh.send(sender, dst, sync=sync, timeout=timeout, size=size)

    @rule(chance=st.randoms(use_true_random=True), events=st.integers(2, 30))
    def traffic(self, chance: Random, events: int) -> None:
        """Let a lot happen at once: what a fault meets is mostly somewhere between two nodes."""
        everybody = [Position(role, "All", "All") for role in Role]
        for _ in range(events):
            running = [node for node in self.mesh.nodes.values() if node.running]
            again = [sent for sent in self.sent[-8:] if sent.sender.incarnation == sent.incarnation]
            lanes = self.mesh.lanes()
            weights = {"send": 6, "step": 14, "again": 2, "take": 2, "wait": 1, "restart": 0.5, "blip": 0.5}
            match chance.choices(list(weights), list(weights.values()))[0]:
                case "send" if running:
                    dst = chance.choice([*self.mesh.tree, *everybody])
                    timeout, sync = chance.choice([0.005, 1.0, 3.0, 40.0]), chance.random() < 0.6
                    self.mesh.send(chance.choice(running), dst, sync=sync, timeout=timeout)
                case "step" if lanes:
                    self.mesh.step(chance.choice(lanes))
                    self.forgive()
                case "again" if again:
                    old = chance.choice(again)
                    self.mesh.send(old.sender, old.dst.position, sync=chance.random() < 0.5, uuid=old.uuid)
                case "take" if running:
                    self.mesh.take(chance.choice(running), chance.choice([1, None]))
                case "restart" if running:
                    node = chance.choice(running)
                    self.mesh.crash(node)
                    self.mesh.start(node)
                    self.forgive()
                case "blip" if children := [node for node in running if is_child(node) and not node.cut]:
                    node = chance.choice(children)
                    self.mesh.cut(node)
                    self.mesh.heal(node)
                    self.forgive()
                case "wait":
                    self.mesh.advance(chance.choice([0.004, 0.011]))

    @rule(data=st.data())
    def lie(self, data: DataObject) -> None:
        """A leaf sends as somebody else, and announces somebody else: nobody gets it, and no route changes."""
        liar = self.pick(data, lambda node: is_leaf(node) and node.session is not None and node.session.parent_up)
        victim = data.draw(st.sampled_from([p for p in self.mesh.tree if p != liar.position]), label="victim")
        dst = Destination.of(data.draw(destinations(self.mesh.tree), label="destination of the lie"))
        self.mesh.forge(liar, Frame("lie", data.draw(st.booleans()), victim, dst, b"lie"), victim)

    @rule(data=st.data())
    def send_again(self, data: DataObject) -> None:
        alive = [sent for sent in self.sent if sent.sender.running and sent.sender.incarnation == sent.incarnation]
        assume(alive)
        old = data.draw(st.sampled_from(alive), label="again")
        # Also in the other kind: a post that was given up is sent once more, and now its delivery is awaited.
        sync = data.draw(st.booleans(), label="sync")
        self.mesh.send(old.sender, old.dst.position, sync=sync, uuid=old.uuid)

    @rule(data=st.data(), messages=st.sampled_from([1, None]))
    def take(self, data: DataObject, messages: int | None) -> None:
        self.mesh.take(self.pick(data, lambda node: bool(node.inbox)), messages)

    @rule(order=st.randoms(use_true_random=True), steps=st.integers(1, 20))
    def go_on(self, order: Random, steps: int) -> None:
        for _ in range(steps):
            if lanes := self.mesh.lanes():
                self.mesh.step(order.choice(lanes))
                self.forgive()

    @rule()
    def run(self) -> None:
        self.mesh.run()

    @rule(seconds=st.sampled_from([0.001, 0.011, 1.0, 3.0, 11.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.mesh.advance(seconds)

    @rule(seconds=st.sampled_from([0.5, 11.0, 31.0]))
    def settle(self, seconds: float) -> None:
        self.mesh.settle(seconds)

    @rule(data=st.data())
    def cut(self, data: DataObject) -> None:
        self.mesh.cut(self.pick(data, is_child))
        self.forgive()

    @rule(data=st.data())
    def heal(self, data: DataObject) -> None:
        self.mesh.heal(self.pick(data, is_child))

    @rule(data=st.data(), crash=st.booleans())
    def end(self, data: DataObject, crash: bool) -> None:
        node = self.pick(data, is_running)
        if crash:
            self.mesh.crash(node)
        else:
            self.mesh.stop(node)
        self.forgive()

    @rule(data=st.data())
    def start(self, data: DataObject) -> None:
        self.mesh.start(self.pick(data, lambda node: not node.running))

    @rule(data=st.data())
    def move(self, data: DataObject) -> None:
        node = self.pick(data, is_child)
        above = [other for other in self.mesh.nodes.values() if may_be_below(node, other)]
        parent = data.draw(st.sampled_from(above), label="new parent")
        if node.running:
            self.mesh.crash(node)
        self.mesh.moved = True
        self.mesh.start(node, parent)
        self.moved_at = self.mesh.clock()
        self.forgive()

    @invariant()
    def routers_agree_with_themselves(self) -> None:
        self.mesh.check()

    @invariant()
    def a_message_crosses_a_link_once(self) -> None:
        assert self.mesh.crossings is not None
        for (data, *edge), times in self.mesh.crossings.items():
            # A message that was on its way when its sender's branch moved may meet that branch again in its new place.
            assert times == 1 or int(data.split(b"#")[1].rstrip(b".")) < self.moved_at, f"{data!r} crossed {edge} again"

    @invariant()
    def answers_are_in_time_and_true(self) -> None:
        still = []
        for sent in self.open:
            if sent.ack is None:
                assert sent.abandoned or self.mesh.now < sent.deadline + EPSILON, f"{sent.uuid} was never answered"
                if not sent.abandoned:
                    still.append(sent)
                continue
            assert sent.answered_at <= sent.deadline + EPSILON
            self.check_answer(sent)
        self.open = still

    def check_answer(self, sent: Sent) -> None:
        assert sent.ack is not None
        code = sent.ack.code
        got = {position for uuid, position in self.got if uuid == sent.uuid}
        if sent.sync and code == Code.OK:
            if sent.dst.unicast:
                assert sent.dst.position in got, f"{sent.uuid} to {sent.dst} is said to have arrived"
            left_out = {node for node in self.owed[sent.uuid] if node.position not in got}
            assert not left_out, f"{sent.uuid} to {sent.dst} is said to have arrived; {left_out} have not got it"
        if sent.dst.unicast and code not in (Code.OK, Code.NETWORK_ACK_LOST) and len(self.attempts[sent.uuid]) == 1:
            assert not got, f"{sent.uuid} was answered with {code} and arrived"

    @invariant()
    def order_is_kept(self) -> None:
        for node in self.mesh.nodes.values():
            latest: dict[tuple[Position, Position, int], int] = {}
            for frame in node.received:
                (sent, *more) = self.attempts[frame.uuid]
                if more:
                    continue  # it may have got here by its second attempt
                flow = (frame.src, frame.dst.position, sent.incarnation)
                if sent.ack is not None and sent.ack.code == Code.OK:
                    assert latest.get(flow, -1) < sent.answer_order, f"{node} got {sent.uuid} after a later message"
                latest[flow] = max(latest.get(flow, -1), sent.order)

    def teardown(self) -> None:
        if not hasattr(self, "mesh"):
            return
        mesh = self.mesh
        for node in mesh.nodes.values():
            if not node.running:
                mesh.start(node)
            mesh.heal(node)
        for _ in range(3):
            for node in mesh.nodes.values():
                mesh.take(node)
            mesh.settle(45.0)
        self.answers_are_in_time_and_true()
        for node in mesh.nodes.values():
            mesh.take(node)
        mesh.check()
        mesh.check_idle()
        assert not self.open
        # And it works again: everybody reaches everybody.
        for node in mesh.nodes.values():
            for to in mesh.nodes.values():
                sent = mesh.send(node, to.position)
                mesh.run()
                assert sent.ack is not None and sent.ack.code == Code.OK, (node, to, sent.ack)
                mesh.take(to)

    def note(self, sent: Sent) -> None:
        self.sent.append(sent)
        self.open.append(sent)
        self.attempts[sent.uuid].append(sent)
        to = receivers(self.mesh.tree, sent.sender.position, sent.dst)
        self.owed.setdefault(sent.uuid, {node for node in map(self.mesh.nodes.__getitem__, to) if node.in_mesh})

    def forgive(self) -> None:
        for nodes in self.owed.values():
            nodes -= {node for node in nodes if not node.in_mesh}

    def pick(self, data: DataObject, which: Callable[[Node], bool]) -> Node:
        nodes = [node for node in self.mesh.nodes.values() if which(node)]
        assume(nodes)
        return data.draw(st.sampled_from(nodes), label="node")


def is_running(node: Node) -> bool:
    return node.running


def is_child(node: Node) -> bool:
    return node.parent is not None


def is_leaf(node: Node) -> bool:
    return Role(node.position.role).is_leaf


def may_be_below(node: Node, other: Node) -> bool:
    """True if a node may become a child of the other one: no leaf's child, nor its own, nor below the depth limit."""
    above: Node | None = other
    while above is not None and above is not node:
        above = above.parent
    return above is None and not Role(other.position.role).is_leaf and other.depth + height(node) < DEPTH


def height(node: Node) -> int:
    return max((1 + height(child) for child in node.children), default=0)


class FewFaults(Faults):
    """The same with fewer examples, for `make test`."""


TestFaults = pytest.mark.more(Faults.TestCase)
TestFaults.settings = settings(stateful_step_count=40, report_multiple_bugs=False)
TestFewFaults = FewFaults.TestCase
TestFewFaults.settings = settings(TestFaults.settings, max_examples=30)
