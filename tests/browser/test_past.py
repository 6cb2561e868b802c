"""The last hour on the status page: plots that are there when it is opened, gaps, and the events of a node."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from taskd_net import Code
from taskd_net.base.position import Position
from taskd_net.faces.page import StatusPage
from taskd_net.faces.page.paces import Paces
from tests.browser.pages import DRAWN, node, shown
from tests.browser.watched import Watched
from tests.cli.processes import Command, Daemon, run
from tests.links.test_acknowledgements import cut
from tests.page.meshes import Made
from tests.page.stand import Stand
from tests.peers.direct_child import DirectChild
from tests.peers.mesh import Mesh, soon
from tests.polling import until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]

LINE = "document.querySelector('#details .plot path.one').getAttribute('d')"


def go_on(stand: Stand, seconds: float) -> None:
    """Let time pass in the mesh, with a look of the history each five seconds."""
    for _ in range(round(seconds / 5)):
        stand.made.go_on(5.0)
        stand.record()


async def points(page: Page) -> int:
    """The points of the first line of the first plot; a line that is interrupted has several beginnings."""
    d = await page.eval_on_selector("#details .plot path.one", "(one) => one.getAttribute('d')")
    return len(str(d).replace("M", "L").split("L")) - 1


async def runs(page: Page) -> int:
    """The uninterrupted pieces of that line."""
    return str(await page.eval_on_selector("#details .plot path.one", "(one) => one.getAttribute('d')")).count("M")


async def events(page: Page) -> list[str]:
    """The events of the chosen node, without their times."""
    texts = await page.eval_on_selector_all("#events li", "(items) => items.map((one) => one.innerText)")
    return [text.split(" ", 1)[1] for text in texts]


async def test_plots_are_there_when_the_page_is_opened(chromium: Browser) -> None:
    async with Stand(Made(1)) as stand, Watched(chromium) as page:
        go_on(stand, 3600.0)
        await page.goto(stand.url)
        await page.wait_for_function(DRAWN)
        assert await points(page) == 15
        await page.click("text='1 h'")
        assert await points(page) in (179, 180)
        assert "over the last hour" in str(await page.get_attribute("#details .plot", "aria-label"))
        await page.click(node("Worker/0/3"))
        await page.wait_for_function(f"() => {LINE}.length > 900")
        assert await runs(page) == 1
        assert await page.get_attribute("text='1 h'", "aria-pressed") == "true"
        await page.click("text='5 min'")
        assert await points(page) < 20


async def test_a_time_without_samples_is_a_gap(chromium: Browser) -> None:
    async with Stand(Made(1)) as stand, Watched(chromium) as page:
        go_on(stand, 600.0)
        stand.made.go_on(900.0)
        go_on(stand, 600.0)
        await page.goto(stand.url)
        await page.wait_for_function(DRAWN)
        await page.click("text='1 h'")
        assert await runs(page) == 2


async def test_own_samples_go_on_and_a_restart_of_the_mgr_is_a_gap(chromium: Browser) -> None:
    made = Made(1)
    expected = ("Failed to load resource", "failed: ")
    async with Watched(chromium, expected=expected) as page:
        async with Stand(made, pace=2.0) as stand:
            go_on(stand, 600.0)
            await page.goto(stand.url)
            await page.wait_for_function(DRAWN)
            before = await points(page)
            await page.wait_for_function(f"(before) => {LINE}.split('L').length > before + 4", arg=before)
            assert await runs(page) == 1
            port = stand.port
        await page.wait_for_selector("body.stale")
        made.go_on(60.0)
        async with Stand(made, pace=2.0, port=port, life="two"):
            await page.wait_for_selector("body:not(.stale)")
            await page.wait_for_function(f"() => ({LINE}.match(/M/g) ?? []).length === 2")


async def test_details_of_a_node_have_the_events_that_led_to_its_state(chromium: Browser) -> None:
    made = Made(1)
    async with shown(chromium, made) as (page, stand):
        await page.click(node("Worker/0/3"))
        await page.wait_for_selector("#events li")
        assert [each.split(":")[0] for each in await events(page)] == ["joined"]
        made.lose(["Worker/0/3"], ago=0.0, reason="<b>no sign of life for 60 s</b>")
        await page.wait_for_function("() => document.querySelectorAll('#events li').length === 2")
        assert (await events(page))[0] == "lost: <b>no sign of life for 60 s</b>"
        made.lose(["Proxy/0"], ago=0.0)
        await page.click(node("Worker/0/4"))
        await page.wait_for_function(
            "() => document.querySelector('#events li')?.innerText.endsWith('Proxy/0 is lost')"
        )
        assert (await events(page))[0] == "cut off: Proxy/0 is lost"
        assert stand.asked


async def test_a_page_that_is_opened_after_a_kill_shows_what_led_there(chromium: Browser, tmp_path: Path) -> None:
    """Nobody looks at the page while it happens. The samples come oftener than in use."""
    async with Mesh() as mesh:
        mgr = await mesh.mgr()
        async with StatusPage(mgr, paces=Paces(history_look=0.25, sample=0.5, history=90.0)) as status:
            async with Command("listen", "--as", "Worker/0/1", "--upstream", str(mgr.address)) as victim:
                await victim.said("ready")
                await until(lambda: _samples(status, mgr.driver.view.wall()) > 2)
                victim.signal(signal.SIGKILL)
                await until(lambda: len(_kinds(status)) == 2)
            async with Watched(chromium) as page:
                await page.goto(status.url + "#node=Worker/0/1")
                await page.wait_for_selector(node("Worker/0/1") + ".lost")
                await page.wait_for_selector("#events li")
                said = await events(page)
                assert [each.split(":")[0] for each in said] == ["lost", "joined"]
                assert said[0] != "lost" and " link, from " in said[1]
                in_flight = "#details .plot:has-text('In flight') path.one"
                assert str(await page.get_attribute(in_flight, "d")).startswith("M")
                await page.keyboard.press("Escape")
                assert await points(page) > 2
                print(f"\nopened after the kill: {said}")


async def test_details_tell_a_frozen_an_ousted_and_a_stopped_node_apart(chromium: Browser, tmp_path: Path) -> None:
    async with (
        Daemon("mgr", "--http-port", "0", logs=tmp_path) as mgr,
        Daemon("proxy", "--upstream", mgr.address, logs=tmp_path) as proxy,
        Command("listen", "--as", "Worker/0/1", "--upstream", proxy.address) as frozen,
        Command("listen", "--as", "Worker/0/2", "--upstream", proxy.address) as ousted,
        Watched(chromium) as page,
    ):
        for one in (frozen, ousted):
            await one.said("ready")
        frozen.signal(signal.SIGSTOP)
        await page.goto((await mgr.said(r"page_listening .*url=(http://127\.0\.0\.1:\d+/)"))[1])
        await page.click(node("Worker/0/2"))
        await page.wait_for_selector("#events .joined")
        assert (await run("send", "Worker/0/2", "hello", "--upstream", proxy.address))[0] == 0
        await page.wait_for_selector("#details tr:has-text('delivered') td:text-is('1')")
        async with Command("listen", "--take-over", "--as", "Worker/0/2", "--upstream", proxy.address) as newcomer:
            await newcomer.said("ready")
            await page.wait_for_selector("#events .joined_again")
            await page.wait_for_selector("#events .restarted")
            # The ousted process tries again within 5 s, so on a busy machine the two take turns, and may do so before
            # the first figures of the newcomer.
            said = [each.split(":")[0] for each in reversed(await events(page))]
            restarted = said.index("restarted")
            assert said[0] == "joined" and set(said[1:restarted]) == {"joined again"}
            assert "another process: its counters begin at 0" in (await events(page))[-1 - restarted]
        await page.click(node("Worker/0/1"))
        await page.wait_for_selector("#events .not_answering")
        # Events are asked for at the click; the state comes with the next update of the page.
        await page.wait_for_selector("#details .state:has-text('not answering since')")
        proxy.signal(signal.SIGTERM)
        await page.click(node("Proxy/0"))
        await page.wait_for_selector("#events .stopped")


async def test_details_tell_a_node_whose_network_is_cut_and_an_evicted_one_apart(chromium: Browser) -> None:
    """The kernel drops the packets to one, and the other breaks a rule of its link."""
    async with (
        Mesh() as mesh,
        StatusPage(mgr := await mesh.mgr()) as status,
        DirectChild("Worker/0/1") as unreached,
        DirectChild("Worker/0/2") as evicted,
        Watched(chromium) as page,
    ):
        for child in (unreached, evicted):
            await child.join(str(mgr.address))
        await page.goto(status.url + "#node=Worker/0/1")
        await page.wait_for_selector("#events .joined")
        assert unreached.writer is not None
        cut(unreached.writer.get_extra_info("socket"))
        sending = asyncio.create_task(mgr.send("x", to="Worker/0/1"))
        await page.wait_for_selector("#events .lost")
        reason = "the network is cut: nothing was acknowledged for 2 s"
        assert (await events(page))[0] == f"lost: {reason}"
        await page.wait_for_selector(f"#details .state:has-text('{reason}')")
        assert (await soon(sending)).code == Code.NETWORK_ACK_LOST
        await page.click(node("Worker/0/2"))
        await page.wait_for_selector("#events .joined")
        await evicted.write(bytes(1000))
        await page.wait_for_selector("#events .lost")
        assert (await events(page))[0] == "lost: beyond the bounds of the link"
        assert mesh.count("violation") == 1


def _samples(status: StatusPage, now: float) -> int:
    """The samples of the Worker: those of the whole mesh begin before it has joined."""
    series = status._recorder._history.document(now, Position.worker(0, 1))["series"]
    return sum(value is not None for value in series["in_flight"])


def _kinds(status: StatusPage) -> list[str]:
    history = status._recorder._history
    return [event.event for event in history.events.of("Worker/0/1")]
