"""`--http-port`: the daemons with a status page."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.cli.processes import Daemon, run

pytestmark = pytest.mark.timeout(180)


def get(url: str) -> tuple[int, str]:
    """The answer of a URL."""
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - the page's own, of http
        return answer.status, answer.read().decode()


async def test_a_daemon_serves_its_page_and_ends_with_it_open(tmp_path: Path) -> None:
    async with Daemon("mgr", "--http-port", "0", "--expect", "1x1", logs=tmp_path) as mgr:
        url = (await mgr.said(r"page_listening\s+.*url=(http://127\.0\.0\.1:\d+/)"))[1]
        status, html = await asyncio.to_thread(get, url)
        assert status == 200 and html.startswith("<!doctype html>")
        assert '"missing":[{"position":"Proxy/0","why":"never_seen","since":null}' in html
        port = url.rstrip("/").rpartition(":")[2]
        _, writer = await asyncio.open_connection("127.0.0.1", int(port))
        taken = await run("mgr", "--listen", "127.0.0.1:0", "--http-port", port, "--log-path", str(tmp_path / "2"))
        assert taken[0] == 1
        assert "cannot listen there: Address already in use (from --http-port)" in taken[2]
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0
        writer.close()


async def test_page_leads_to_the_metrics_of_its_daemon_and_to_the_documents(tmp_path: Path) -> None:
    documents = "https://docs.example/net/"
    async with Daemon("mgr", "--http-port", "0", "--metrics-port", "0", "--docs-url", documents, logs=tmp_path) as mgr:
        metrics = (await mgr.said(r"metrics_listening\s+.*address=(127\.0\.0\.1:\d+)"))[1]
        url = (await mgr.said(r"page_listening\s+.*url=(http://127\.0\.0\.1:\d+/)"))[1]
        _, tree = await asyncio.to_thread(get, url + "tree")
        assert json.loads(tree)["metrics"] == metrics
        assert json.loads(tree)["documents"] == "https://docs.example/net"
        status, text = await asyncio.to_thread(get, f"http://{metrics}/metrics")
        assert status == 200 and 'taskd_net_node{position="Mgr/0"' in text


async def test_address_of_documents_that_is_none_is_refused(tmp_path: Path) -> None:
    wrong = ("--http-port", "0", "--docs-url", "docs")
    code, _, errors = await run("mgr", "--listen", "127.0.0.1:0", *wrong, "--log-path", str(tmp_path))
    assert code == 1
    assert "docs_url is 'docs'; expected http://HOST/PATH or https://HOST/PATH (from --docs-url)" in errors


async def test_the_page_may_be_elsewhere_and_is_off_by_default(tmp_path: Path) -> None:
    async with Daemon("mgr", logs=tmp_path, env={"TASKD_NET_HTTP_PORT": "[::1]:0"}) as mgr:
        await mgr.said(r"page_listening\s+.*url=http://\[::1\]:\d+/")
    async with Daemon("mgr", logs=tmp_path) as mgr:
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0
        assert "page_listening" not in mgr.errors
