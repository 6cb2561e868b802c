"""`identity = "certificate"`: a child takes the positions that its certificate names, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, WatchedNode, soon

pytestmark = pytest.mark.timeout(180)


class Issuer:
    """Folders with certificates of one CA, one for each peer."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.mgr = Folder(root / "mgr")

    def __call__(self, name: str, *, folder: str = "") -> Folder:
        """A folder with a certificate of this name."""
        made = Folder(self._root / (folder or name.replace("/", "_").replace("*", "any")), self.mgr.authority)
        made.issue(f"taskd://j/{name}")
        return made


@pytest.fixture
def issue(tmp_path: Path) -> Issuer:
    """The CA of a test."""
    return Issuer(tmp_path)


async def certified_mgr(mesh: Mesh, issue: Issuer, **settings: Any) -> WatchedNode:
    """A Mgr that reads names."""
    return await mesh.mgr(tls=issue.mgr.listening(), identity="certificate", job="j", **settings)


async def refused(mesh: Mesh, mgr: WatchedNode, node: WatchedNode) -> None:
    """Check that a node gets 4002, and keeps trying."""
    await mesh.logged("join_failed", node=node.position)
    with pytest.raises(TimeoutError, match="4002"):
        await node.joined(0.01)
    assert mgr.driver.router.children.find(node.position) is None
    assert mgr.statistics.violations >= 1
    await soon(node.close())


@pytest.mark.parametrize("name", ["Worker/0/3", "Worker/0/*", "*/0/*", "*/*/*"])
async def test_position_that_the_certificate_names(mesh: Mesh, issue: Issuer, name: str) -> None:
    mgr = await certified_mgr(mesh, issue)
    worker = await mesh.worker(0, 3, mgr, tls=issue(name).connecting())
    assert (await soon(worker.send("x", to="Mgr"))).ok
    assert (await soon(mgr.send("x", to=worker.position))).ok
    assert mgr.statistics.violations == 0


@pytest.mark.parametrize("name", ["Worker/0/4", "Worker/1/*", "Proxy/0", "Agent/*"])
async def test_position_that_it_does_not_name(mesh: Mesh, issue: Issuer, name: str) -> None:
    mgr = await certified_mgr(mesh, issue)
    honest = await mesh.worker(0, 0, mgr, tls=issue("Worker/0/0").connecting())
    liar = await mesh.worker(0, 3, mgr, join=False, tls=issue(name).connecting())
    await refused(mesh, mgr, liar)
    assert (await soon(honest.send("x", to="Mgr"))).ok
    assert mesh.count("violation") >= 1
    assert mesh.count("child_lost") == 0


async def test_position_of_another_job(mesh: Mesh, issue: Issuer) -> None:
    mgr = await certified_mgr(mesh, issue)
    other = Folder(Path(issue.mgr.path).parent / "other", issue.mgr.authority)
    other.issue("taskd://another/Worker/0/3")
    await refused(mesh, mgr, await mesh.worker(0, 3, mgr, join=False, tls=other.connecting()))


async def test_certificate_that_names_nobody(mesh: Mesh, issue: Issuer) -> None:
    mgr = await certified_mgr(mesh, issue)
    other = Folder(Path(issue.mgr.path).parent / "other", issue.mgr.authority)
    other.issue("https://example.org/Worker/0/3")
    await refused(mesh, mgr, await mesh.worker(0, 3, mgr, join=False, tls=other.connecting()))


async def test_position_that_two_certificates_name(mesh: Mesh, issue: Issuer) -> None:
    """Two certificates of one host that name the position are two peers: the connected one keeps it."""
    mgr = await certified_mgr(mesh, issue)
    first = await mesh.worker(0, 3, mgr, tls=issue("Worker/0/3").connecting())
    second = await mesh.worker(0, 3, mgr, join=False, tls=issue("Worker/0/*").connecting())
    await mesh.logged("join_failed", node=second.position)
    assert mesh.count("child_replaced") == 0
    assert (await soon(first.send("x", to="Mgr"))).ok
    await soon(first.close())
    await soon(second.joined())


async def test_newcomer_with_the_same_certificate_wins(mesh: Mesh, issue: Issuer) -> None:
    mesh.expected_errors.add("position_taken")
    mgr = await certified_mgr(mesh, issue)
    await mesh.worker(0, 3, mgr, tls=issue("Worker/0/3").connecting())
    # A new certificate, as after a restart elsewhere: another key, the same name.
    await mesh.worker(0, 3, mgr, tls=issue("Worker/0/3", folder="again").connecting())
    assert (mesh.count("child_replaced"), mgr.statistics.violations) == (1, 0)


async def test_tree_of_certificates(mesh: Mesh, issue: Issuer) -> None:
    """A Proxy vouches for the nodes below it, which it has admitted by certificate."""
    mgr = await certified_mgr(mesh, issue)
    folder = issue("Proxy/0")
    proxy = await mesh.proxy(0, mgr, tls=folder.tls(), identity="certificate", job="j")
    worker = await mesh.worker(0, 0, proxy, tls=issue("Worker/0/0").connecting())
    assert (await soon(mgr.send("x", to=worker.position))).ok
    assert (await soon(worker.send("x", to="Mgr"))).ok
    await refused(mesh, proxy, await mesh.worker(0, 1, proxy, join=False, tls=issue("Worker/0/2").connecting()))


async def test_plain_children_of_this_machine_beside_it(mesh: Mesh, issue: Issuer) -> None:
    """The plain address shows no certificate: a local process may take a free position."""
    mgr = await certified_mgr(mesh, issue, plain_listen="127.0.0.1:0")
    assert mgr.driver.server is not None
    local = await mesh.worker(0, 0, str(mgr.driver.server.plain_address))
    remote = await mesh.worker(0, 1, mgr, tls=issue("Worker/0/1").connecting())
    assert (await soon(local.send("x", to=remote.position))).ok
    thief = await mesh.worker(0, 1, str(mgr.driver.server.plain_address), join=False)
    await mesh.logged("join_failed", node=thief.position)
    assert mesh.count("child_replaced") == 0
    assert (await soon(remote.send("x", to="Mgr"))).ok
