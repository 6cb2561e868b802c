"""`taskd-net simulate` as a process, with few nodes."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import urllib.request

import pytest
from click.testing import CliRunner

from taskd_net_lab.crowd import positions
from taskd_net_lab.simulate import simulate
from tests.cli.processes import Command

pytestmark = pytest.mark.timeout(120)


def test_nodes_are_a_mgr_and_whole_nodes_of_the_job_and_the_rest() -> None:
    assert [str(each) for each in positions(3)] == ["Mgr/0", "Proxy/0", "Agent/0"]
    many = positions(512)
    assert len(set(many)) == 512
    assert [str(each) for each in many[-2:]] == ["Worker/50/407", "Proxy/51"]


async def test_a_mesh_is_there_with_its_page_and_something_happens_until_ctrl_c() -> None:
    arguments = ("--nodes", 13, "--http-port", 0, "--listen", "127.0.0.1:0", "--pause", 0.2)
    async with Command("simulate", *arguments) as command:
        url = (await command.said(r"13 nodes are starting in this process: (http://127\.0\.0\.1:\d+/)"))[1]
        await command.said(r"13 nodes have joined after \d+\.\d s")
        await command.said(r"taskd-net tree --at 127\.0\.0\.1:\d+")
        for words in ("lost, as if", "strained", "started again", "with all below it cut off"):
            while words not in await command.line():
                pass
        tree = json.loads(await asyncio.to_thread(get, url + "tree"))
        assert tree["summary"]["nodes"] == 13
        assert tree["expected"] == {"nodes": 1, "processes": 8}
        command.signal(signal.SIGINT)
        assert await command.exit_code() == 0
        assert command.errors.splitlines()[-1] == "Every node has ended."
        assert "event=" not in command.errors


def get(url: str) -> bytes:
    """The body of an answer."""
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - the page's own, of http
        return bytes(answer.read())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--nodes", "2"], "2 is not in the range"), (["--http-port", "x"], "'x'"), (["--listen", "nowhere"], "nowhere")],
)
def test_wrong_arguments_are_named(arguments: list[str], words: str) -> None:
    level = logging.getLogger("taskd_net").level
    result = CliRunner().invoke(simulate, arguments)
    assert logging.getLogger("taskd_net").level == level
    assert result.exit_code in (1, 2)
    assert words in result.output
