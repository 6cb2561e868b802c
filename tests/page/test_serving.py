"""The page over sockets, in the loop of a node: what clients may do to it, and what they cannot."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from collections.abc import AsyncIterator

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from taskd_net.faces.page import StatusPage
from taskd_net.faces.side_port import PortBounds
from tests.peers.mesh import Mesh, soon

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


async def connect(page: StatusPage) -> Stream:
    """A connection to a page."""
    found = re.fullmatch(r"http://(.+):(\d+)/", page.url)
    assert found is not None
    return await asyncio.open_connection(found[1].strip("[]"), int(found[2]))


async def answer(stream: Stream, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send a request and read its answer."""
    reader, writer = stream
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(status.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def ended(stream: Stream) -> bytes:
    """Wait for the end of a connection; what came until then."""
    got = b""
    try:
        while more := await stream[0].read(65536):
            got += more
    except ConnectionError:
        pass
    stream[1].close()
    return got


def connections(page: StatusPage) -> list[H11Protocol]:
    """The server's ends."""
    assert page._port is not None
    return [end for end in page._port._server.server_state.connections if isinstance(end, H11Protocol)]


def stuck(page: StatusPage) -> bool:
    """True if there is an answer that somebody does not take."""
    return any(end.flow.write_paused for end in connections(page))


async def test_the_page_of_a_mgr_follows_what_happens(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="1x2")
    proxy = await mesh.proxy(0, mgr)
    await mesh.worker(0, 0, proxy)
    async with StatusPage(mgr) as page:
        stream = await connect(page)
        status, headers, html = await answer(stream, GET % b"/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"<title>taskd_net</title>" in html and "server" not in headers
        token = ""
        nodes: dict[str, str] = {}

        async def until(states: dict[str, str], missing: list[str]) -> None:
            nonlocal token
            still: list[str] | None = None
            async with asyncio.timeout(20):
                while (nodes, still) != (states, missing):
                    _, _, body = await answer(stream, GET % f"/tree?since={token}".encode())
                    tree = json.loads(body)
                    token = tree["token"]
                    nodes.update({node["position"]: node["state"] for node in tree["nodes"]})
                    still = still if tree["missing"] is None else [entry["position"] for entry in tree["missing"]]

        joined = dict.fromkeys(["Mgr/0", "Proxy/0", "Worker/0/0"], "joined")
        await until(joined, ["Worker/0/1"])
        await mesh.worker(0, 1, proxy)
        await until({**joined, "Worker/0/1": "joined"}, [])
        stream[1].close()


async def test_a_proxy_shows_its_own_part(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(3, mgr)
    await mesh.worker(3, 24, proxy)
    async with StatusPage(proxy, "[::1]:0") as page:
        assert page.url.startswith("http://[::1]:")
        stream = await connect(page)
        _, _, body = await answer(stream, GET % b"/tree")
        tree = json.loads(body)
        assert tree["node"] == "Proxy/3"
        assert {node["position"] for node in tree["nodes"]} == {"Proxy/3", "Worker/3/24"}
        stream[1].close()


async def test_silent_clients_are_cut_off_and_hold_up_nobody(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    async with StatusPage(mgr, bounds=PortBounds(patience=0.5)) as page:
        silent, slow = await connect(page), await connect(page)
        slow[1].write(b"GET / HTTP/1.1\r\nHo")
        assert (await worker.send("step", to="Mgr/0")).ok
        assert (await ended(silent), await ended(slow)) == (b"", b"")


async def test_who_asks_now_and_then_is_not_cut_off(mesh: Mesh) -> None:
    loop = asyncio.get_running_loop()
    async with StatusPage(await mesh.mgr(), bounds=PortBounds(patience=1.0)) as page:
        stream, begun = await connect(page), loop.time()
        while loop.time() < begun + 3.0:
            assert (await answer(stream, GET % b"/tree"))[0] == 200
        stream[1].close()


async def test_who_does_not_read_is_cut_off(mesh: Mesh) -> None:
    """The kernel's buffers would swallow some megabytes, so many requests are sent, and no answer is read."""
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    async with StatusPage(mgr, bounds=PortBounds(patience=1.0, answers_per_s=5000)) as page:
        port = int(page.url.rstrip("/").rpartition(":")[2])
        with socket.socket() as greedy:
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            greedy.connect(("127.0.0.1", port))
            greedy.setblocking(False)
            loop = asyncio.get_running_loop()

            async def ask_on() -> None:
                while True:
                    await loop.sock_sendall(greedy, (GET % b"/") * 50)
                    assert (await worker.send("step", to="Mgr/0")).ok
                    await mgr.take()

            with pytest.raises(ConnectionError):
                await soon(ask_on(), 40)


async def test_longest_silent_connection_makes_room(mesh: Mesh) -> None:
    async with StatusPage(await mesh.mgr(), bounds=PortBounds(connections=3, patience=3600.0)) as page:
        held = [await connect(page) for _ in range(3)]
        for stream in (held[1], held[2], held[0]):
            assert (await answer(stream, GET % b"/tree"))[0] == 200
        # The one that has been silent for the longest makes room.
        held.append(await connect(page))
        assert await ended(held.pop(1)) == b""
        for stream in held:
            assert (await answer(stream, GET % b"/tree"))[0] == 200
            stream[1].close()


@pytest.mark.parametrize(
    "request_bytes",
    [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000, b"\r\n" * 9 + b"\x00\r\n"],
    ids=["tls", "half a line", "endless header", "zeros"],
)
async def test_garbage_ends_a_connection_and_nothing_else(
    mesh: Mesh, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    mgr = await mesh.mgr()
    async with StatusPage(mgr) as page:
        stream = await connect(page)
        stream[1].write(request_bytes)
        got = await ended(stream)
        assert got == b"" or got.startswith(b"HTTP/1.1 400 ")
        again = await connect(page)
        assert (await answer(again, GET % b"/"))[0] == 200
        again[1].close()
    assert [record.getMessage() for record in caplog.records if record.name != "taskd_net"] == []


async def test_a_websocket_gets_the_page_instead(mesh: Mesh) -> None:
    async with StatusPage(await mesh.mgr()) as page:
        stream = await connect(page)
        upgrade = b"GET /tree HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        assert (await answer(stream, upgrade))[0] == 200
        stream[1].close()


async def test_it_ends_at_once_whoever_is_looking_and_leaves_the_signals_alone(mesh: Mesh) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with StatusPage(await mesh.mgr()) as page:
        waiting, silent = await connect(page), await connect(page)
        assert (await answer(waiting, GET % b"/"))[0] == 200
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        greedy = await connect(page)
        greedy[0]._transport.pause_reading()  # type: ignore[attr-defined]
        greedy[1].write((GET % b"/") * 100)
        # Until its answers are stuck between here and there.
        while (await answer(waiting, GET % b"/tree"))[0] == 200 and not stuck(page):
            pass
    assert not connections(page)
    assert (await ended(waiting), await ended(silent)) == (b"", b"")
    greedy[1].close()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await connect(page)
