"""Mutual TLS on every link: admission and refusal."""

from __future__ import annotations

import asyncio
import socket
import ssl
import warnings
from pathlib import Path

import grpc.aio
import pytest

from taskd_net import Position
from taskd_net.base.address import Address
from taskd_net.net.links.grpc_calls import unary_call
from taskd_net.net.tls.files import Tls
from taskd_net.net.wire import requests
from taskd_net.observe.client import AskFailed, NodeClient, ask_health
from tests.peers.certificates import Folder
from tests.peers.mesh import PATIENCE_S, Mesh, WatchedNode, both_links, soon

pytestmark = pytest.mark.timeout(180)


@both_links
@pytest.mark.both_loops
async def test_a_tree_over_tls(mesh: Mesh, certificates: Folder) -> None:
    tls = certificates.tls()
    mgr = await mesh.mgr(tls=certificates.listening())
    proxy = await mesh.proxy(0, mgr, tls=tls)
    worker = await mesh.worker(0, 3, proxy, tls=certificates.connecting())
    agent = await mesh.agent(0, proxy, tls=certificates.connecting())
    assert (await soon(worker.send("up", to="Mgr"))).ok
    assert (await soon(mgr.send("down", to=worker.position))).ok
    assert (await soon(agent.send("x" * 1_000_000, to=worker.position))).ok
    assert (await mgr.take()).body == "up"
    assert (await worker.take()).body == "down"
    assert len((await worker.take()).body) == 1_000_000


async def test_a_tree_with_tls_upwards_and_plain_text_for_the_workers_of_the_node(
    mesh: Mesh, certificates: Folder
) -> None:
    mgr = await mesh.mgr(tls=certificates.listening())
    proxy = await mesh.proxy(0, mgr, tls=certificates.connecting())
    worker = await mesh.worker(0, 0, proxy)
    assert (await soon(worker.send("up", to="Mgr"))).ok
    assert (await soon(mgr.send("down", to=worker.position))).ok


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
async def test_a_second_address_for_processes_of_the_machine(mesh: Mesh, certificates: Folder, listen: str) -> None:
    mgr = await mesh.mgr(tls=certificates.listening(), plain_listen=listen)
    assert mgr.plain_address is not None
    plain = await mesh.worker(0, 0, mgr.plain_address)
    secure = await mesh.worker(0, 1, mgr, tls=certificates.connecting())
    assert (await soon(plain.send("to TLS", to=secure.position))).ok
    assert (await soon(secure.send("to plain text", to=plain.position))).ok


@pytest.mark.parametrize(
    ("listen", "hosts", "server_name"),
    [
        ("127.0.0.1:0", ("127.0.0.1",), None),
        ("[::1]:0", ("::1",), None),
        ("localhost:0", ("localhost",), None),
        ("127.0.0.1:0", ("mgr.job.svc",), "mgr.job.svc"),
        ("127.0.0.1:0", ("*.job.svc",), "mgr.job.svc"),
    ],
)
async def test_names_and_addresses_in_the_certificate_of_a_parent(
    mesh: Mesh, certificates: Folder, listen: str, hosts: tuple[str, ...], server_name: str | None
) -> None:
    certificates.issue(hosts=hosts)
    mgr = await mesh.mgr(tls=certificates.listening(), listen=listen)
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting(server_name))
    assert (await soon(worker.send("up", to="Mgr"))).ok


@pytest.fixture
def foreign(tmp_path: Path) -> Folder:
    """Certificates of another CA that also trust the test's CA."""
    return Folder(tmp_path / "foreign")


async def stays_out(mesh: Mesh, mgr: WatchedNode, certificates: Folder, tls: Tls | None, reason: str) -> None:
    """Check that a Worker does not join and logs the reason once, and that another one is undisturbed."""
    good = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    bad = await mesh.worker(0, 1, mgr, tls=tls, join=False, backoff_max=0.06)
    await mesh.logged("join_failed", node=bad.position)
    for _ in range(20):
        assert (await soon(mgr.send("x", to=good.position))).ok
        await good.take()
    with pytest.raises(TimeoutError):
        await bad.joined(0.5)
    (failed,) = [event for event in mesh.events if event["event"] == "join_failed"]
    assert reason in failed["reason"]
    assert [child.position for child in mgr.driver.router.children.by_id.values()] == [good.position]
    assert mesh.count("upstream_lost") == 0


async def test_plain_text_to_a_tls_port(mesh: Mesh, certificates: Folder) -> None:
    mgr = await mesh.mgr(tls=certificates.listening())
    await stays_out(mesh, mgr, certificates, None, "the parent speaks TLS and this node plain text")


async def test_tls_to_a_plain_text_port(mesh: Mesh, certificates: Folder) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 1, mgr, tls=certificates.connecting(), join=False)
    await mesh.logged("join_failed", node=worker.position)
    (failed,) = [event for event in mesh.events if event["event"] == "join_failed"]
    assert "the parent speaks plain text and this node TLS" in failed["reason"]


async def test_a_certificate_of_another_authority(mesh: Mesh, certificates: Folder, foreign: Folder) -> None:
    mgr = await mesh.mgr(tls=certificates.listening())
    foreign.trust(foreign.authority, certificates.authority)
    await stays_out(mesh, mgr, certificates, foreign.connecting(), "may not accept the certificate of this node")


async def test_a_parent_of_another_authority(mesh: Mesh, certificates: Folder, foreign: Folder) -> None:
    mgr = await mesh.mgr(tls=certificates.listening())
    await stays_out(mesh, mgr, certificates, foreign.connecting(), "the parent's certificate is refused: ")


async def test_a_parent_of_another_name(mesh: Mesh, certificates: Folder) -> None:
    mgr = await mesh.mgr(tls=certificates.listening())
    wrong = certificates.connecting("somebody.else")
    await stays_out(mesh, mgr, certificates, wrong, "it does not name 'somebody.else'")


async def test_no_certificate_at_all(mesh: Mesh, certificates: Folder) -> None:
    mgr = await mesh.mgr(tls=certificates.listening())
    credentials = grpc.ssl_channel_credentials(Path(certificates.ca).read_bytes())  # noqa: ASYNC240
    async with grpc.aio.secure_channel(str(mgr.address), credentials) as channel:
        call = unary_call(channel, "Register")
        request = requests.write_register("u", Position.worker(0, 0))
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call(request, timeout=PATIENCE_S)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not mgr.driver.router.children.by_id


@pytest.mark.parametrize("days", [(-2, -1), (1, 2)])
async def test_certificates_that_are_not_valid_now(
    mesh: Mesh, certificates: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: tuple[float, float]
) -> None:
    """A node does not start with them; a running or a foreign one may still hold them."""
    mgr = await mesh.mgr(tls=certificates.listening())
    old = Folder(tmp_path / "old", certificates.authority)
    old.issue(days=days)
    monkeypatch.setattr("taskd_net.net.tls.certificates._check_dates", lambda *_: None)
    await stays_out(mesh, mgr, certificates, old.connecting(), "may not accept the certificate of this node")
    parent = await mesh.mgr(tls=old.listening())
    worker = await mesh.worker(0, 2, parent, tls=certificates.connecting(), join=False)
    await mesh.logged("join_failed", node=worker.position)
    assert "the parent's certificate is refused: " in mesh.events[-1]["reason"]


@both_links
async def test_parent_with_the_certificate_of_a_leaf(
    mesh: Mesh, certificates: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Worker that listens and has been given host names is still no parent: its certificate is for clients alone."""
    leaf = Folder(tmp_path / "leaf", certificates.authority)
    leaf.issue("taskd://*/Worker/0/3", parent=False)
    monkeypatch.setattr("taskd_net.net.tls.certificates._check_purpose", lambda *_: None)
    impostor = await mesh.mgr(tls=leaf.listening())
    child = await mesh.worker(0, 2, impostor, tls=certificates.connecting(), join=False)
    await mesh.logged("join_failed", node=child.position)
    assert "it is not for servers (extended key usage)" in mesh.events[-1]["reason"]
    assert not impostor.driver.router.children.by_id
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 3, mgr, tls=leaf.connecting())
    assert (await soon(worker.send("up", to="Mgr"))).ok


def speaks(address: str, files: Folder, version: ssl.TLSVersion) -> str | None:
    """Connect with one version of TLS alone. Returns it, if the server accepts."""
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.crt, files.key)
    context.set_alpn_protocols(["h2"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    if version < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")  # or this side refuses
    host, _, port = address.rpartition(":")
    try:
        with (
            socket.create_connection((host, int(port)), PATIENCE_S) as connection,
            context.wrap_socket(connection, server_hostname=host) as secure,
        ):
            # Only data from the server proves that it accepted our certificate: in TLS 1.3 the client finishes first.
            return secure.version() if secure.recv(9) else None
    except ssl.SSLError:
        return None


@pytest.mark.oldest
async def test_tls_1_2_and_1_3_and_nothing_older(mesh: Mesh, certificates: Folder, tmp_path: Path) -> None:
    address = str((await mesh.mgr(tls=certificates.listening())).address)
    versions = (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    spoken = [await asyncio.to_thread(speaks, address, certificates, version) for version in versions]
    assert spoken == [None, "TLSv1.2", "TLSv1.3"]
    foreign = Folder(tmp_path / "foreign")
    foreign.trust(certificates.authority)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        assert await asyncio.to_thread(speaks, address, foreign, version) is None


async def test_the_state_of_the_mesh_and_health_are_told_over_tls(mesh: Mesh, certificates: Folder) -> None:
    mgr = await mesh.mgr(tls=certificates.listening())
    proxy = await mesh.proxy(0, mgr, tls=certificates.tls())
    await mesh.worker(0, 0, proxy, tls=certificates.connecting())
    address = Address.parse(str(mgr.address))
    known: set[str] = set()
    async with NodeClient(address, PATIENCE_S, certificates.connecting()) as asker, asyncio.timeout(PATIENCE_S):
        while known != {"Mgr/0", "Proxy/0", "Worker/0/0"}:
            # Each answer comes over the network, which takes most of the time.
            known = {str(position) for position, _ in (await asker.mesh()).nodes}
    assert await ask_health(address, "", PATIENCE_S, certificates.connecting()) == "SERVING"
    async with NodeClient(address, PATIENCE_S) as plain:
        with pytest.raises(AskFailed, match="no node answers"):
            await plain.mesh()
