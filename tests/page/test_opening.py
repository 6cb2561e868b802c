"""A status page from its opening to its end."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import AsyncIterator

import pytest

from taskd_net import ConfigError
from taskd_net.faces.page import StatusPage
from tests.peers.mesh import Mesh

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


async def test_an_address_that_cannot_be_had_is_said(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"^http_port is 127\.0\.0\.1:{port}; .*in use"):
            await StatusPage(mgr, f"127.0.0.1:{port}").__aenter__()
    with pytest.raises(ConfigError, match=r"^http_port is 192\.0\.2\.1:1; "):
        await StatusPage(mgr, "192.0.2.1:1").__aenter__()
    with pytest.raises(ConfigError, match=r"^http_port is 'x'"):
        StatusPage(mgr, "x")


@pytest.mark.parametrize("url", ["docs", "javascript:alert(1)", "http:///net", "ftp://docs/net", " https://docs"])
async def test_address_of_documents_is_one_of_the_web(mesh: Mesh, url: str) -> None:
    page = StatusPage(await mesh.mgr())
    with pytest.raises(ConfigError, match=rf"^docs_url is '{re.escape(url)}'; expected http://HOST/PATH or https://"):
        page.lead_to_documents(url)


async def test_without_the_extra_it_says_what_to_install(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    for name in [name for name in sys.modules if name.split(".")[0] == "starlette"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.delitem(sys.modules, "taskd_net.faces.page.app", raising=False)
    with pytest.raises(ConfigError, match=r"^http_port is 127\.0\.0\.1:0; .*pip install 'taskd-net\[page\]'"):
        await StatusPage(mgr).__aenter__()


async def test_url_names_the_port_that_was_bound(mesh: Mesh) -> None:
    page = StatusPage(await mesh.mgr())
    assert page.url == ""
    async with page:
        host, _, port = page.url.removeprefix("http://").removesuffix("/").partition(":")
        socket.create_connection((host, int(port))).close()
