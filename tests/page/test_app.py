"""The answers, as an ASGI server gets them: what is in them, what is not, and to which methods."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from taskd_net.base.position import Position
from taskd_net.faces.page.app import SCRIPTS, PageApp

pytestmark = pytest.mark.oldest


@dataclass
class Answer:
    """One answer."""

    status: int
    headers: dict[str, str]
    text: str


async def ask(app: PageApp, path: str, method: str = "GET", body: bytes = b"") -> Answer:
    """Ask as uvicorn would."""
    target, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    head = sent[0]
    headers = [(name.decode(), value.decode()) for name, value in head["headers"]]
    assert len({name for name, _ in headers}) == len(headers), headers
    text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
    return Answer(head["status"], dict(headers), text)


def app_of(tree: str = '{"nodes":[]}') -> tuple[PageApp, list[str]]:
    """An application that always tells the same, and what it was asked."""
    asked: list[str] = []

    async def told(since: str) -> str:
        asked.append(since)
        return tree

    async def past(position: Position | None) -> str:
        asked.append(f"past of {position}")
        return '{"events":[]}'

    return PageApp(told, past), asked


def embedded(html: str, opening: str) -> str:
    """The content of the one element with this beginning."""
    (found,) = re.findall(re.escape(opening) + "(.*?)</", html, flags=re.DOTALL)
    return str(found)


def sha256(text: str) -> str:
    """As a policy has it."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


async def test_the_page_is_one_document_with_everything_in_it() -> None:
    app, asked = app_of('{"nodes":["</script><script>alert(1)</script>"]}')
    answer = await ask(app, "/")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert asked == ["", "past of None"]
    # Nothing is loaded from anywhere: the only addresses are the names of XML, and what is in the document itself.
    assert set(re.findall(r"https?:[^\s'\"]*", answer.text)) == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"\b(?:src|href)=\"(?!data:)", answer.text) == []
    assert re.findall(r"@import|url\(", answer.text) == []
    told = embedded(answer.text, '<script type="application/json" id="told">')
    assert json.loads(told) == {"nodes": ["</script><script>alert(1)</script>"]}


async def test_the_policy_permits_its_own_script_and_style_and_nothing_else() -> None:
    app, _ = app_of()
    answer = await ask(app, "/")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": sha256(embedded(answer.text, "<script>")),
        "style-src": sha256(embedded(answer.text, "<style>")),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert len(SCRIPTS) == 14 and len(embedded(answer.text, "<script>")) > 10_000


@pytest.mark.parametrize("path", ["/", "/tree", "/history", "/nothing"])
async def test_every_answer_says_what_it_is_and_leaves_nothing_behind(path: str) -> None:
    app, _ = app_of()
    headers = (await ask(app, path)).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert not {"set-cookie", "access-control-allow-origin", "server"} & set(headers)


async def test_a_browser_says_what_it_has() -> None:
    app, asked = app_of('{"token":"a-1"}')
    answer = await ask(app, "/tree?since=a-1&since=b-2")
    assert (answer.status, answer.headers["content-type"], answer.text) == (200, "application/json", '{"token":"a-1"}')
    await ask(app, "/tree")
    assert asked == ["b-2", ""]


async def test_a_browser_asks_for_the_past_of_all_links_or_of_a_node() -> None:
    app, asked = app_of()
    answer = await ask(app, "/history")
    assert (answer.status, answer.headers["content-type"], answer.text) == (200, "application/json", '{"events":[]}')
    await ask(app, "/history?node=Worker/1/9")
    assert asked == ["past of None", "past of Worker/1/9"]


@pytest.mark.parametrize("name", ["", "Worker/All/All", "Worker/1", "nobody", "Worker/1/9%00", "%3Cscript%3E"])
async def test_the_past_of_no_single_node_is_refused_by_its_name(name: str) -> None:
    app, asked = app_of()
    answer = await ask(app, f"/history?node={name}")
    assert (answer.status, asked) == (400, [])
    assert answer.text.startswith("node is ") and answer.text.endswith("such as Worker/1/9\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/tree", "/history"])
async def test_nothing_but_get(method: str, path: str) -> None:
    app, asked = app_of()
    answer = await ask(app, path, method, body=b"{}")
    assert (answer.status, set(answer.headers["allow"].split(", ")), asked) == (405, {"GET", "HEAD"}, [])


@pytest.mark.parametrize("path", ["/index.html", "/tree/", "//", "/../etc/passwd", "/face/page.js", "/tree%00"])
async def test_there_is_nothing_else(path: str) -> None:
    app, asked = app_of()
    assert ((await ask(app, path)).status, asked) == (404, [])
