"""The appearance of the status page in a real browser."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from axe_playwright_python.async_playwright import Axe
from PIL import Image, ImageChops
from playwright.async_api import Browser, Page

from taskd_net.observe.job_view import JobView
from tests.browser.pages import node, shown
from tests.browser.watched import WIDE
from tests.observe.jobs import WHOLE
from tests.page.meshes import Made, of_size

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "status-page"
PHONE = (400, 860)
WALL = (2560, 1300)


async def shot(page: Page) -> bytes:
    """A picture of the page, in few colours."""
    picture = Image.open(io.BytesIO(await page.screenshot()))
    small = io.BytesIO()
    picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        small, "PNG", optimize=True
    )
    return small.getvalue()


@pytest.mark.parametrize(
    ("name", "nodes", "scheme", "chosen", "job", "size"),
    [
        ("3-light", 3, "light", None, None, WIDE),
        ("64-light", 64, "light", "Worker/1/12", None, WIDE),
        ("64-dark", 64, "dark", "Worker/1/12", None, WIDE),
        ("64-phone", 64, "light", None, None, PHONE),
        ("job-light", 64, "light", None, WHOLE, WIDE),
        ("512-dark", 512, "dark", None, None, WIDE),
        ("512-light", 512, "light", None, None, WIDE),
        ("2000-light", 2000, "light", None, None, WIDE),
    ],
)
async def test_pictures(
    chromium: Browser,
    request: pytest.FixtureRequest,
    name: str,
    nodes: int,
    scheme: str,
    chosen: str | None,
    job: JobView | None,
    size: tuple[int, int],
) -> None:
    """Write the pictures to docs/ with --rewrite-pictures; else check those there beside what the page shows now."""
    made, expected = of_size(nodes)
    async with shown(chromium, made, expected, scheme=scheme, pace=2.0, nap=0.0, job=job, size=size) as (page, _):
        if chosen is not None:
            await page.click(node(chosen))
            await page.mouse.move(5, 500)
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 21, 27)"}[scheme]
        if request.config.getoption("--rewrite-pictures"):
            await page.wait_for_function(
                "() => document.querySelectorAll('.plot .one')[0].getAttribute('d').length > 400"
            )
            PICTURES.mkdir(exist_ok=True)
            (PICTURES / f"{name}.png").write_bytes(await shot(page))
            return
        states = {state for state in SEEN if await page.query_selector(f"#tree .node.{state}")}
        now = Image.open(io.BytesIO(await shot(page))).convert("RGB")
        kept = Image.open(PICTURES / f"{name}.png").convert("RGB")
        for picture in (now, kept):
            assert picture.size == size
            colours = {colour: number for number, colour in picture.getcolors(1 << 24) or []}
            # A picture of a page is neither of one colour nor of noise.
            assert 40 < len(colours) <= 256
            wanted = {"ground": rgb(ground), **{state: rgb(SEEN[state][scheme]) for state in states}}
            shares = {what: share(colours, colour) for what, colour in wanted.items()}
            assert 0.2 < shares["ground"] < 0.95, shares
            assert all(found > 0.0 for found in shares.values()), shares
        # Times and rates differ, the picture of the tree does not.
        same = ImageChops.difference(now, kept).convert("L").point([255 * (level < 40) for level in range(256)])
        alike = same.histogram()[255] / (size[0] * size[1])
        print(f"\n{name}: {alike:.1%} of the pixels are those of the picture in docs/")
        assert alike > 0.95


SEEN: Final = {
    "joined": {"light": "rgb(168, 197, 224)", "dark": "rgb(47, 90, 132)"},
    "lost": {"light": "rgb(200, 50, 28)", "dark": "rgb(255, 111, 87)"},
    "cut_off": {"light": "rgb(242, 179, 44)", "dark": "rgb(232, 177, 61)"},
}
"""The colours that fill the cells of some states."""


def rgb(text: str) -> tuple[int, ...]:
    """A colour of a style sheet."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def share(colours: Mapping[tuple[int, ...] | float, int], wanted: tuple[int, ...]) -> float:
    """The share of the pixels with a colour, or one so near that nobody sees a difference: the palette has 256."""
    near = [
        number
        for colour, number in colours.items()
        if isinstance(colour, tuple) and all(abs(one - other) <= 12 for one, other in zip(colour, wanted, strict=True))
    ]
    return sum(near) / sum(colours.values())


async def test_light_and_dark_differ_in_every_colour_of_a_state(chromium: Browser) -> None:
    made, expected = of_size(64)
    pictures = []
    for scheme in ("light", "dark"):
        async with shown(chromium, made, expected, scheme=scheme) as (page, _):
            pictures.append(Image.open(io.BytesIO(await page.screenshot())).convert("RGB"))
    assert ImageChops.difference(*pictures).getbbox() is not None


@pytest.mark.parametrize("nodes", [64, 512, 2000])
async def test_no_third_of_a_wide_window_is_empty(chromium: Browser, nodes: int) -> None:
    made, expected = of_size(nodes)
    async with shown(chromium, made, expected, size=WALL) as (page, _):
        wide, high, scrolls = await page.evaluate(
            """(() => {
              const scroll = document.getElementById('scroll');
              const style = getComputedStyle(scroll);
              const rest = (one, other) => parseFloat(style[one]) + parseFloat(style[other]);
              const picture = document.getElementById('cells').getBoundingClientRect();
              return [
                picture.width / (scroll.clientWidth - rest('paddingLeft', 'paddingRight')),
                picture.height / (scroll.clientHeight - rest('paddingTop', 'paddingBottom')),
                scroll.scrollHeight > scroll.clientHeight || scroll.scrollWidth > scroll.clientWidth,
              ];
            })()"""
        )
        print(f"\n{nodes} nodes at {WALL[0]} px: {wide:.0%} of the width, {high:.0%} of the height")
        assert min(wide, high) > 2 / 3 and not scrolls


@pytest.mark.parametrize("nodes", [3, 64, 512])
async def test_phone_has_everything_in_one_column(chromium: Browser, nodes: int) -> None:
    made, expected = of_size(nodes)
    async with shown(chromium, made, expected, size=PHONE, job=WHOLE) as (page, _):
        beyond = await page.evaluate(
            """[...document.querySelectorAll('header *, #missing *, footer *, #cells *, #details *')]
              .filter((one) => !one.closest('[hidden]') && one.getBoundingClientRect().right > innerWidth)
              .map((one) => one.outerHTML.slice(0, 80))"""
        )
        assert beyond == []
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        high = await page.evaluate("document.getElementById('cells').getBoundingClientRect().height")
        assert 100 < high < 0.75 * PHONE[1]
        await page.click(node("Worker/0/0"))
        await page.wait_for_function("() => document.getElementById('who').getBoundingClientRect().top < 100")
        await page.click("text=close")
        assert await page.evaluate("document.getElementById('tree').getBoundingClientRect().bottom <= innerHeight")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_accessibility_has_no_violation(chromium: Browser, scheme: str) -> None:
    """Every rule of axe, for the whole mesh, a node in trouble, a search, the legend, a phone and an empty mesh."""
    made, expected = of_size(64)
    async with shown(chromium, made, expected, scheme=scheme, job=WHOLE) as (page, _):
        found = {"mesh": await violations(page)}
        await page.click(node("Worker/2/19"))
        found["details"] = await violations(page)
        await page.fill("#find", "node 2")
        found["search"] = await violations(page)
        await page.click("#help")
        found["legend"] = await violations(page)
    async with shown(chromium, made, expected, scheme=scheme, size=PHONE) as (page, _):
        found["phone"] = await violations(page)
    async with shown(chromium, Made(0), scheme=scheme) as (page, _):
        found["empty"] = await violations(page)
    assert found == {where: [] for where in found}


async def violations(page: Page) -> list[str]:
    """The broken rules, each with the first element that breaks it."""
    results = await Axe().run(page)
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in results.response["violations"]]
