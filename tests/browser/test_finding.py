"""Finding one's way on the status page: search, addresses, the legend, and the first words where nobody has joined."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page

from tests.browser.pages import DRAWN, node, shown
from tests.browser.watched import Watched
from tests.page.meshes import Made, of_size
from tests.page.stand import Stand

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]


async def bright(page: Page) -> set[str]:
    """The positions that are not pale."""
    found = await page.evaluate(
        "[...document.querySelectorAll('#tree [data-position]:not(.pale)')].map((one) => one.dataset.position)"
    )
    return set(found)


async def drawn(page: Page) -> set[str]:
    """The positions in the picture."""
    found = await page.evaluate(
        "[...document.querySelectorAll('#tree [data-position]')].map((one) => one.dataset.position)"
    )
    return set(found)


async def address(page: Page) -> str:
    """The address that somebody would copy."""
    text: str = await page.evaluate("location.href")
    return text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9", {"Worker/1/9"}),
        ("worker 9", {"Worker/1/9"}),
        ("WORKER/1/9", {"Worker/1/9"}),
        ("node 2 agent", {"Agent/2"}),
        ("lost", {"Worker/2/19"}),
        ("never seen", {"Worker/4/37", "Worker/4/38", "Worker/4/39"}),
        ("no such word", set()),
        ("10.0.0.2", {"Proxy/0"}),
    ],
)
async def test_search_leaves_the_found_ones_and_pale_those_above_them(
    chromium: Browser, text: str, found: set[str]
) -> None:
    made, expected = of_size(64)
    async with shown(chromium, made, expected) as (page, _):
        all_of_them = await bright(page)
        assert len(all_of_them) > 60
        await page.keyboard.press("/")
        await page.keyboard.type(text)
        assert await bright(page) == found
        above = {f"Proxy/{position.split('/')[1]}" for position in found} | {"Mgr/0"}
        assert await drawn(page) == found | above
        assert await page.inner_text("#found") == f"{len(found)} of {len(all_of_them)}"
        await page.keyboard.press("Escape")
        assert await bright(page) == await drawn(page) == all_of_them
        assert await page.inner_text("#found") == ""


@pytest.mark.parametrize(("text", "most"), [("node 17", 14), ("lost", 30), ("0.1.0", 2000)])
async def test_search_makes_the_found_ones_of_many_larger(chromium: Browser, text: str, most: int) -> None:
    made, expected = of_size(2000)
    async with shown(chromium, made, expected) as (page, _):
        before = await _size_of_a_cell(page)
        took = await page.evaluate(
            """(text) => {
              const began = performance.now();
              document.getElementById('find').value = text;
              document.getElementById('find').dispatchEvent(new Event('input'));
              document.getElementById('tree').getBoundingClientRect();
              return performance.now() - began;
            }""",
            text,
        )
        print(f"\n{text!r} among 2,000 nodes: drawn again in {took:.0f} ms")
        assert 2 < len(await drawn(page)) <= most
        assert (await _size_of_a_cell(page) > before) == (most < 1000)


async def _size_of_a_cell(page: Page) -> float:
    """The width of the narrowest cell on the screen, in pixels."""
    size = await page.evaluate(
        "Math.min(...[...document.querySelectorAll('#tree .shape')].map((one) => one.getBoundingClientRect().width))"
    )
    return float(size)


async def test_chosen_node_stays_in_the_picture_and_any_other_can_be_chosen(chromium: Browser) -> None:
    made, expected = of_size(64)
    async with shown(chromium, made, expected) as (page, _):
        await page.click(node("Worker/1/9"))
        await page.fill("#find", "node 0 agent")
        assert await drawn(page) == {"Mgr/0", "Proxy/0", "Agent/0", "Proxy/1", "Worker/1/9"}
        assert await bright(page) == {"Agent/0"}
        # Its state is counted at the top, wherever it is.
        await page.click("#counts [data-state=lost]")
        assert await page.inner_text("#who") == "Worker 19"
        assert await drawn(page) == {"Mgr/0", "Proxy/0", "Agent/0", "Proxy/2", "Worker/2/19"}
        share = await page.text_content(node("Proxy/2") + " .share")
        assert share == "8/9"


async def test_search_follows_the_states(chromium: Browser) -> None:
    made = Made(2)
    async with shown(chromium, made) as (page, _):
        await page.fill("#find", "lost")
        assert await bright(page) == set()
        made.lose(["Worker/1/9"])
        await page.wait_for_selector(node("Worker/1/9") + ".lost:not(.pale)")
        assert await bright(page) == {"Worker/1/9"}


async def test_enter_goes_from_one_found_node_to_the_next(chromium: Browser) -> None:
    async with shown(chromium, Made(2)) as (page, _):
        await page.fill("#find", "agent")
        chosen = []
        for key in ("Enter", "Enter", "Enter", "Shift+Enter"):
            await page.press("#find", key)
            chosen.append(await page.inner_text("#who"))
        assert chosen == ["Agent 0", "Agent 1", "Agent 0", "Agent 1"]
        # The letters belong to the search, not to the picture.
        await page.fill("#find", "")
        await page.type("#find", "n0n+?")
        assert (await page.input_value("#find"), await page.inner_text("#who")) == ("n0n+?", "Agent 1")


async def test_address_names_what_is_seen_and_leads_there_again(chromium: Browser) -> None:
    made, expected = of_size(64)
    async with shown(chromium, made, expected) as (page, stand):
        assert await address(page) == stand.url
        await page.click(node("Worker/2/19"))
        await page.fill("#find", "node 2")
        assert await address(page) == stand.url + "#node=Worker/2/19&find=node+2"
        async with Watched(chromium) as other:
            await other.goto(await address(page))
            await other.wait_for_function(DRAWN)
            assert await other.inner_text("#who") == "Worker 19"
            assert await bright(other) == await bright(page)
            await other.goto(stand.url + "#node=Worker/1/9")
            await other.wait_for_function("() => document.getElementById('who').textContent === 'Worker 9'")
            assert await other.input_value("#find") == ""
        await page.fill("#find", "")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Escape")
        assert await address(page) == stand.url


async def test_address_of_an_unknown_node_is_said(chromium: Browser) -> None:
    async with Stand(Made(1)) as stand, Watched(chromium) as page:
        await page.goto(stand.url + "#node=Worker/7/99")
        await page.wait_for_function(DRAWN)
        assert "Worker/7/99, which the address names, is not known here." in await page.inner_text("#details")
        await page.click(node("Worker/0/3"))
        await page.keyboard.press("Escape")
        assert "Worker/7/99" not in await page.inner_text("#details")


async def test_legend_has_each_state_in_words(chromium: Browser) -> None:
    async with shown(chromium, Made(1)) as (page, _):
        await page.keyboard.press("?")
        words = await page.inner_text("#legend")
        states = await page.eval_on_selector_all(
            "#counts li", "(items) => items.map((one) => one.innerText.split(' ').slice(1).join(' '))"
        )
        assert len(states) == 9
        for state in states:
            assert state in words
        assert "its stream is gone; its place is kept for the grace time" in words
        await page.keyboard.press("Escape")
        assert not await page.is_visible("#legend")
        await page.click("#help")
        assert await page.is_visible("#legend")
        await page.click("#legend button")
        assert not await page.is_visible("#legend")


@pytest.mark.parametrize(
    ("listen", "said", "expected"),
    [("10.0.0.7:9601", "10.0.0.7:9601", ""), ("0.0.0.0:9601", "127.0.0.1:9601", "1x8"), ("", "HOST:PORT", "")],
)
async def test_empty_mesh_tells_the_next_command(chromium: Browser, listen: str, said: str, expected: str) -> None:
    made = Made(0).listen_on("Mgr/0", listen)
    async with shown(chromium, made, expected) as (page, _):
        words = await page.inner_text("#empty")
        assert words == (
            f"Nobody has joined yet. On each node, with its rank: taskd-net proxy --upstream {said} --server-rank 0"
        )
        made.nodes |= Made(1).nodes
        await page.wait_for_selector(node("Worker/0/7") + ".joined")
        assert not await page.is_visible("#empty")


async def test_details_lead_to_the_commands_the_metrics_and_the_document_that_look_closer(chromium: Browser) -> None:
    made = Made(1).listen_on("Mgr/0", "10.0.0.7:9601")
    async with shown(chromium, made) as (page, stand):
        await page.click(node("Worker/0/3"))
        words = await page.inner_text("#details")
        for name in ("trace", "ping"):
            assert f"taskd-net {name} Worker/0/3 --at 10.0.0.7:9601" in words
        assert 'Metrics: taskd_net_node{position="Proxy/0"} in Prometheus' in words
        assert "Document: docs/status.md#states" in words
        made.lose(["Worker/0/3"])
        await page.wait_for_function(
            "() => document.getElementById('details').innerText.includes('docs/status-page.md#reasons-of-a-loss')"
        )
        await page.click(node("Mgr/0"))
        assert "Metrics: none; Mgr/0 serves them with --metrics-port 9090" in await page.inner_text("#details")
    served = Stand(made, metrics="0.0.0.0:9090", documents="https://docs.example/net")
    async with served as stand, Watched(chromium) as page:
        await page.goto(stand.url + "#node=Mgr/0")
        await page.wait_for_function(DRAWN)
        links = await page.eval_on_selector_all("#details a", "(all) => all.map((one) => one.href)")
        assert links == ["http://127.0.0.1:9090/metrics", "https://docs.example/net/status.html#states"]


async def test_node_is_strained_once_messages_have_waited_for_10_s(chromium: Browser) -> None:
    """One look on a busy mesh always finds some that wait."""
    made = Made(1).fill(["Worker/0/3"])
    async with shown(chromium, made) as (page, _):
        assert await page.query_selector(node("Worker/0/3") + ".joined")
        await _go_on(page, made, 9.0)
        assert await page.query_selector(node("Worker/0/3") + ".joined")
        await _go_on(page, made, 1.0)
        assert await page.query_selector(node("Worker/0/3") + ".strained")
        made.empty(["Worker/0/3"])
        await page.wait_for_selector(node("Worker/0/3") + ".joined")
        made.fill(["Worker/0/3"])
        await _go_on(page, made, 9.0)
        assert await page.query_selector(node("Worker/0/3") + ".joined")


async def test_strain_that_began_before_the_page_was_opened_is_there_at_once(chromium: Browser) -> None:
    made = Made(1).fill(["Worker/0/3"])
    async with Stand(made) as stand, Watched(chromium) as page:
        for _ in range(4):
            stand.record()
            made.go_on(5.0)
        await page.goto(stand.url + "#node=Worker/0/3")
        await page.wait_for_function(DRAWN)
        assert await page.query_selector(node("Worker/0/3") + ".strained")
        assert await page.inner_text("#details .state") == ("joined, but messages wait for it since 22:13:20, 20 s ago")


async def _go_on(page: Page, made: Made, seconds: float) -> None:
    """Let time pass in the mesh, and wait until the page shows it."""
    before = await page.inner_text("#connection")
    made.go_on(seconds)
    await page.wait_for_function("(before) => document.getElementById('connection').innerText !== before", arg=before)
