"""The direct kind of link: the offer, the greeting, its bounds, and the way back to it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskd_net import NodeConfig
from taskd_net.base.codes import ConfigError
from taskd_net.net.links import direct_acceptor, direct_kind
from taskd_net.net.links.direct import KEY
from taskd_net.net.links.direct_acceptor import GREETINGS_PER_ADDRESS, DirectAcceptor
from taskd_net.net.links.kind import Way
from taskd_net.net.links.peer import Metadata
from taskd_net.net.wire.socket_frames import VERSION, FrameKind, Greeting, write_frame, write_greeting
from tests.peers import mesh_state
from tests.peers.certificates import Folder
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.ports import free_address

pytestmark = pytest.mark.timeout(60)

GREETING = write_greeting(Greeting(b"?" * 32, False))


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes that offer direct links."""
    async with Mesh("direct") as mesh:
        yield mesh


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> list[Metadata]:
    """The offers of the parents."""
    made: list[Metadata] = []
    offer = DirectAcceptor.offer

    def noted(*arguments: object) -> Metadata:
        made.append(offer(*arguments))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(DirectAcceptor, "offer", noted)
    return made


def read(offer: Metadata) -> tuple[int, bytes]:
    """The port and the token."""
    ((key, value),) = offer
    assert key == KEY
    _, port, token = value.split()
    return int(port), bytes.fromhex(token)


async def port_of(node: WatchedNode) -> int:
    """The port of a parent's direct links."""
    assert node.address is not None
    ours = [sock for acceptor in node.driver.server._acceptors if (sock := getattr(acceptor, "_listeners", None))]  # type: ignore[union-attr]
    return int(ours[0][0].getsockname()[1])


async def answer_to(port: int, data: bytes, *, pause: float = 0.0) -> bytes:
    """All the words of a parent to somebody who writes this, until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        if pause:
            for byte in data:
                writer.write(bytes([byte]))
                await asyncio.sleep(pause)
        else:
            writer.write(data)
        return await soon(reader.read())
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def test_nodes_join_over_it_with_a_token_of_their_own(mesh: Mesh, offers: list[Metadata]) -> None:
    mgr = await mesh.mgr()
    for rank in range(3):
        await mesh.worker(0, rank, mgr)
    assert mesh.count("joined", link="direct") == mesh.count("child_joined", link="direct") == 3
    assert len({read(offer)[1] for offer in offers}) == 3
    assert len({read(offer)[0] for offer in offers}) == 1


async def test_node_without_the_port_offers_nothing(mesh: Mesh, offers: list[Metadata]) -> None:
    mgr = await mesh.mgr(direct_listen="off")
    worker = await mesh.worker(0, 0, mgr)
    assert offers == [()]
    assert mesh.count("joined", node=worker.position, link="batched") == 1


async def test_child_that_wants_none_takes_the_batched_link(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr, links="batched")
    assert mesh.count("joined", link="batched") == 1


async def test_fixed_port_and_one_that_is_taken(mesh: Mesh, offers: list[Metadata]) -> None:
    address = free_address()
    mgr = await mesh.mgr(direct_listen=address)
    await mesh.worker(0, 0, mgr)
    assert read(offers[0])[0] == int(address.rpartition(":")[2])
    with pytest.raises(ConfigError, match=r"direct_listen is .* cannot be bound"):
        await mesh.start(NodeConfig.mgr(listen="127.0.0.1:0", direct_listen=address))


async def test_ipv6(mesh: Mesh) -> None:
    mgr = await mesh.mgr(listen="[::1]:0", direct_listen="[::1]:0")
    worker = await mesh.worker(0, 0, mgr)
    assert mesh.count("joined", link="direct") == 1
    assert (await soon(mgr.send("x", to=worker.position))).ok


async def test_host_by_name(mesh: Mesh) -> None:
    mgr = await mesh.mgr(listen="localhost:0", direct_listen="localhost:0")
    await mesh.worker(0, 0, mgr)
    assert mesh.count("joined", link="direct") == 1


@pytest.fixture
async def silent(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[socket.socket]:
    """A port that answers nobody, as behind a firewall that drops packets; parents offer it."""
    full = [socket.socket() for _ in range(3)]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for other in full:
            other.setblocking(False)
        # The kernel accepts one for a listener without a line, and drops the others.
        await soon(asyncio.get_running_loop().sock_connect(full[0], listener.getsockname()))
        for other in full[1:]:
            other.connect_ex(listener.getsockname())
        offer = DirectAcceptor.offer
        port = listener.getsockname()[1]

        def moved(acceptor: DirectAcceptor, *arguments: object) -> Metadata:
            offered = offer(acceptor, *arguments)  # type: ignore[arg-type]
            said = ((key, value.split()) for key, value in offered)
            return tuple((key, f"{version} {port} {token}") for key, (version, _, token) in said)

        monkeypatch.setattr(DirectAcceptor, "offer", moved)
        yield listener
        for other in full:
            other.close()


async def test_firewall_costs_a_join_50_ms_and_the_link_moves_when_it_opens(
    mesh: Mesh, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh.let(better_link=0.1, connect=0.1)
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    assert mesh.count("link_unreachable", node=proxy.position, link="direct") == 1
    assert mesh.count("joined", node=proxy.position, link="batched") == 1
    worker = await mesh.worker(0, 0, mgr)
    # The firewall opens: what is offered from now on is the parent's own port.
    monkeypatch.undo()
    monkeypatch.setattr(direct_kind.Direct, "answers", _yes)
    sent = 0
    while mesh.count("moved", link="direct") < 2:
        assert (await soon(mgr.send(str(sent), to=worker.position))).ok
        assert (await worker.take()).body == str(sent)
        sent += 1
    assert mesh.count("child_moved", link="direct") == 2
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == 0
    assert mesh.count("link_unreachable", node=proxy.position) == 1
    assert [echo.link async for echo in mgr.trace(worker.position)] == ["direct"]
    assert [echo.link async for echo in worker.trace("Mgr")] == ["direct"]


@pytest.fixture
def reports_at_once(mesh: Mesh) -> None:
    """Report figures at once."""
    mesh.let(figures=0.05)


@pytest.mark.usefixtures("reports_at_once")
async def test_every_link_says_why_it_is_of_no_better_kind(mesh: Mesh, silent: socket.socket) -> None:
    mgr = await mesh.mgr()
    await mesh.proxy(0, mgr)
    closed = await mesh.proxy(1, mgr, direct_listen="off")
    await mesh.worker(1, 0, closed)
    await mesh.worker(1, 1, closed, links="tasknet")
    oldest = await mesh.proxy(2, mgr, links="tasknet")
    await mesh.worker(2, 0, oldest)
    async with RawChild("Worker/0/2") as foreign:
        await foreign.join(mgr.address or "")
        known = {"Proxy/0", "Worker/1/0", "Worker/1/1", "Worker/2/0", "Worker/0/2"}
        nodes = await mesh_state.until(mgr, lambda now: all(now.get(node, {}).get("link_reason") for node in known))
    port = f"127.0.0.1:{silent.getsockname()[1]}"
    assert nodes["Proxy/0"]["link_reason"] == f"port {port} does not answer, tried again every minute"
    assert nodes["Worker/1/0"]["link_reason"] == "the parent offers no direct link"
    # The reason against the kind that it would have liked best, not against the next one.
    assert nodes["Worker/2/0"]["link_reason"] == "the parent offers no direct link"
    assert nodes["Worker/1/1"]["link_reason"] == "this node is configured for tasknet links at best"
    assert nodes["Worker/0/2"]["link_reason"] == "a foreign node: it knows the four calls alone"


@pytest.mark.usefixtures("reports_at_once")
async def test_link_of_the_best_kind_needs_no_reason(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    nodes = await mesh_state.until(mgr, lambda now: now["Worker/0/0"]["inbox"])
    assert (nodes["Worker/0/0"]["link"], nodes["Worker/0/0"]["link_reason"]) == ("direct", None)


async def _yes(*_: object) -> bool:
    return True


async def test_port_that_stays_shut_is_logged_once(
    mesh: Mesh, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh.let(better_link=0.05, connect=0.02)
    looks = asyncio.Semaphore(0)
    found: list[bool] = []
    answers = direct_kind.Direct.answers

    async def looked(kind: direct_kind.Direct, way: Way) -> bool:
        found.append(answered := await answers(kind, way))
        looks.release()
        return answered

    monkeypatch.setattr(direct_kind.Direct, "answers", looked)
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for _ in range(3):
        await soon(looks.acquire())
    assert not any(found)
    assert mesh.count("link_unreachable") == 1
    assert (await soon(worker.send("x", to="Mgr"))).ok


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GREETING, id="wrong token"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="of the web"),
        pytest.param(struct.pack("<IB", 0xFFFF_FFFF, FrameKind.GREETING), id="4 GiB"),
        pytest.param(write_frame(FrameKind.BATCH, b"x" * 1000), id="no greeting"),
        pytest.param(write_frame(FrameKind.GREETING, GREETING[5:-1]), id="too short"),
    ],
)
async def test_stranger_is_hung_up_on_without_a_word_and_logged_once(mesh: Mesh, data: bytes) -> None:
    mgr = await mesh.mgr()
    port = await port_of(mgr)
    for _ in range(3):
        assert await answer_to(port, data) == b""
    assert mesh.count("violation") == 1
    assert mgr.statistics.violations == 1
    worker = await mesh.worker(0, 0, mgr)
    assert mesh.count("joined", node=worker.position, link="direct") == 1


async def test_greeting_of_an_earlier_version_is_refused_in_words(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    earlier = bytearray(GREETING)
    earlier[len(write_frame(FrameKind.GREETING)) + len(b"taskd-net direct")] = VERSION - 1
    assert await answer_to(await port_of(mgr), bytes(earlier)) == b""
    await mesh.logged("violation", detail=f"a direct link: the greeting is of version {VERSION - 1}, not {VERSION}")


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
async def test_offer_of_another_version_leads_to_the_batched_link(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Frames that one end does not know would end the link, and each one that follows."""
    offer = DirectAcceptor.offer

    def of_another(acceptor: DirectAcceptor, *arguments: object) -> Metadata:
        offered = offer(acceptor, *arguments)  # type: ignore[arg-type]
        return tuple((key, f"{version} {value.partition(' ')[2]}") for key, value in offered)

    monkeypatch.setattr(DirectAcceptor, "offer", of_another)
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert mesh.count("joined", node=worker.position, link="batched") == 1
    assert (await soon(worker.send("up", to="Mgr"))).ok
    assert (await soon(mgr.send("down", to=worker.position))).ok
    assert mesh.count("upstream_lost") == mesh.count("violation") == 0


async def test_silent_and_slow_strangers_have_their_time(mesh: Mesh) -> None:
    mesh.let(greeting=0.2)
    mgr = await mesh.mgr()
    port = await port_of(mgr)
    assert await answer_to(port, b"") == b""
    assert await answer_to(port, GREETING[:20], pause=0.02) == b""


async def test_connections_that_have_not_greeted_are_bounded(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    port = await port_of(mgr)
    open_ = [await asyncio.open_connection("127.0.0.1", port) for _ in range(GREETINGS_PER_ADDRESS)]
    assert await answer_to(port, b"") == b""
    await mesh.logged("violation")
    for _, writer in open_:
        writer.transport.abort()
    # Their places are free again.
    await mesh.worker(0, 0, mgr)
    await mesh.until(lambda: mesh.count("child_joined") == 1)


@pytest.mark.parametrize("turns", range(4))
async def test_connection_that_comes_with_the_end_is_closed(mesh: Mesh, turns: int) -> None:
    """One was accepted and forgotten, and stayed open until the next garbage collection."""
    mgr = await mesh.mgr()
    with socket.create_connection(("127.0.0.1", await port_of(mgr))) as stranger:
        for _ in range(turns):
            await asyncio.sleep(0)
        await soon(mgr.close())
        gc.collect()
        stranger.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""


async def test_want_of_descriptors_is_a_pause(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.EMFILE, "Too many open files")]
    accept = socket.socket.accept

    def refuse(listener: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", refuse)
    worker = await mesh.worker(0, 0, await mesh.mgr())
    assert mesh.count("joined", node=worker.position, link="direct") == 1
    assert mesh.count("accept_failed", reason="[Errno 24] Too many open files") == 2


async def test_token_is_good_once(mesh: Mesh, offers: list[Metadata]) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    port, token = read(offers[0])
    assert await answer_to(port, write_greeting(Greeting(token, False))) == b""
    assert (await soon(mgr.send("x", to=worker.position))).ok
    assert mesh.count("upstream_lost") == 0


async def test_token_ends_with_its_registration(mesh: Mesh, offers: list[Metadata]) -> None:
    mgr = await mesh.mgr(registration_hold=0.1, grace=0.1)
    await mesh.worker(0, 0, mgr, links="batched")
    port, token = read(offers[0])
    await soon(mesh.nodes[1].close())
    await mesh.logged("child_forgotten")
    assert await answer_to(port, write_greeting(Greeting(token, False))) == b""
    await mesh.logged("violation")


async def test_no_token_is_in_a_log(mesh: Mesh, offers: list[Metadata], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    _, token = read(offers[0])
    await answer_to(await port_of(mgr), write_greeting(Greeting(token, False)))
    assert token.hex() not in caplog.text
    assert repr(token) not in caplog.text


async def test_tls_of_both_ends(mesh: Mesh, tmp_path: Path) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    assert mesh.count("joined", node=worker.position, link="direct") == 1
    assert (await soon(mgr.send("x" * 3_000_000, to=worker.position))).ok
    assert await answer_to(await port_of(mgr), GREETING) != GREETING  # in plain text: no more than an alert of TLS


def unusable(*_: object) -> ssl.SSLContext:
    """A context of files that gRPC takes, and this library of TLS does not."""
    raise ssl.SSLError("key too small")


async def test_files_matter_to_the_parent_only_where_it_has_the_port(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskd_net.net.tls.rotation.server_context", unusable)
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(direct_listen="off", tls=certificates.listening())
    await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    assert mesh.count("joined", link="batched") == 1
    with pytest.raises(ConfigError, match=r"direct_listen is .* cannot be used: .*key too small"):
        await mesh.mgr(direct_listen="127.0.0.1:0", tls=certificates.listening())


async def test_files_that_become_unusable_refuse_connections_and_not_the_join(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    monkeypatch.setattr("taskd_net.net.tls.rotation.server_context", unusable)
    mgr.driver.server.sockets.context.__self__._server_context = None  # type: ignore[union-attr]
    await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    assert mesh.count("joined", link="batched") == 1


async def test_child_whose_files_are_unusable_takes_the_batched_link(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskd_net.net.tls.rotation.client_context", unusable)
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    assert mesh.count("joined", link="batched") == mesh.count("link_unreachable", link="direct") == 1


async def test_port_on_a_host_that_is_none(mesh: Mesh) -> None:
    with pytest.raises(ConfigError, match=r"direct_listen is .* is no host"):
        await mesh.mgr(direct_listen="no.such.host.invalid:0")


async def test_child_in_plain_text_beside_tls_is_offered_none(
    mesh: Mesh, tmp_path: Path, offers: list[Metadata]
) -> None:
    mgr = await mesh.mgr(tls=Folder(tmp_path).listening(), plain_listen="127.0.0.1:0")
    await mesh.worker(0, 0, mgr.plain_address or "")
    assert offers == [()]
    assert mesh.count("joined", link="batched") == 1


async def test_another_certificate_than_at_register_is_refused(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token of another node comes without its certificate."""
    monkeypatch.setattr(direct_acceptor, "names_of", lambda _: frozenset({"another"}))
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    assert mesh.count("joined", link="batched") == 1
    await mesh.logged("violation")
