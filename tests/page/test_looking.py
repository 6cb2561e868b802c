"""Looks at the mesh: one for all browsers, with pauses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from taskd_net.faces.page.looking import Looking
from taskd_net.faces.page.paces import Paces
from tests.peers.mesh import Mesh, WatchedNode

pytestmark = pytest.mark.oldest


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


def counted(node: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """An entry for each look of a node from now on."""
    looks: list[None] = []
    look = node.driver.view.look

    def note() -> None:
        looks.append(None)
        look()

    monkeypatch.setattr(node.driver.view, "look", note)
    return looks


async def test_one_look_serves_all_who_ask(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    looks = counted(mgr, monkeypatch)
    looking = Looking(mgr, paces=Paces(look=3600.0))
    answers = [json.loads(answer) for answer in await asyncio.gather(*(looking.answer("") for _ in range(8)))]
    assert {answer["token"] for answer in answers} == {answers[0]["token"]}
    assert (len(looks), answers[0]["ask_again"]) == (1, 3600.0)
    await looking.close()


async def test_answer_names_the_address_of_the_metrics(mesh: Mesh) -> None:
    looking = Looking(await mesh.mgr())
    assert json.loads(await looking.answer(""))["metrics"] is None
    looking.metrics = "127.0.0.1:9090"
    assert json.loads(await looking.answer(""))["metrics"] == "127.0.0.1:9090"
    await looking.close()


async def test_answer_has_the_nodes_that_are_strained_at_its_look(mesh: Mesh) -> None:
    strained: dict[str, float] = {}
    looking = Looking(await mesh.mgr(), strained, Paces(look=0.0, load=1e9))
    assert json.loads(await looking.answer(""))["strained"] == {}
    strained["Worker/0/3"] = 12.3456
    assert json.loads(await looking.answer(""))["strained"] == {"Worker/0/3": 12.346}
    await looking.close()


async def test_next_look_comes_after_the_pause(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    looks = counted(mgr, monkeypatch)
    looking = Looking(mgr, paces=Paces(look=0.0))
    for _ in range(3):
        await looking.answer("")
        looking._next = 0.0  # the pause is over
    assert len(looks) == 3
    looking._next = mgr.driver.now() + 3600.0
    await looking.answer("")
    assert len(looks) == 3
    await looking.close()


async def test_look_under_way_ends_when_the_page_closes(mesh: Mesh) -> None:
    looking = Looking(await mesh.mgr())
    asking = asyncio.create_task(looking.answer(""))
    await asyncio.sleep(0)  # it begins
    look = looking._look
    assert look is not None
    await looking.close()
    assert look.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await asking
