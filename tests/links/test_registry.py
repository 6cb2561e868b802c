"""The registry, and a kind of link that is added to it: one module, of which no file of the package knows."""

import ast
from pathlib import Path

import pytest

import taskd_net
from taskd_net import ConfigError, NodeConfig
from taskd_net.net.links import registry
from tests.links import memory
from tests.peers.mesh import Mesh, soon

PACKAGE = Path(taskd_net.__file__).parent


def test_preferred_kind_comes_first_and_the_one_that_every_peer_knows_last() -> None:
    assert [kind.name for kind in registry.usable("direct")] == ["direct", "batched", "tasknet"]
    assert [kind.name for kind in registry.usable("batched")] == ["batched", "tasknet"]
    assert [kind.name for kind in registry.usable("tasknet")] == ["tasknet"]
    assert registry.plain().name == "tasknet"


def test_each_kind_has_its_own_answer_to_a_probe() -> None:
    with memory.registered():
        for kind in registry.usable("memory"):
            assert registry.probed(kind.probed) is kind
    assert registry.probed(0) is registry.probed(5002) is None


def test_setting_takes_the_kinds_of_the_registry() -> None:
    with pytest.raises(ConfigError, match="links is 'memory'; expected 'direct' or 'batched' or 'tasknet'"):
        NodeConfig.mgr(links="memory")
    with memory.registered():
        assert NodeConfig.mgr(links="memory").links == "memory"


async def test_trace_and_the_state_of_the_mesh_name_an_added_kind() -> None:
    async with Mesh("memory") as mesh:
        mgr = await mesh.mgr()
        proxy = await mesh.proxy(0, mgr)
        worker = await mesh.worker(0, 0, proxy, links="batched")
        echoes = [echo async for echo in mgr.trace(worker.position)]
        assert [(str(echo.src), echo.link) for echo in echoes] == [("Proxy/0", "memory"), ("Worker/0/0", "batched")]

        def links() -> dict[str, str]:
            return {str(position): status.link for position, status in mgr.mesh().nodes}

        await mesh.until(lambda: mesh.count("joined") == 2)
        assert links()["Proxy/0"] == "memory"
        assert (await soon(worker.send("x", to="Mgr"))).ok


@pytest.mark.parametrize("room", ["core", "transport", "observe", "cli", "page", "api"])
def test_no_room_above_or_below_the_links_names_a_kind(room: str) -> None:
    """In the code itself; names in docstrings and help are for people."""
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in {*registry.KINDS, "memory"}, path
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.Name | ast.Attribute):
                names.append(node.id if isinstance(node, ast.Name) else node.attr)
            assert not {"BatchedLink", "DirectLink", "TracedLink", "ToChild", "ToParent"} & set(names), path
