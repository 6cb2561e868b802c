"""docs/diagnosis.md shows the output of the commands.

`pytest tests/cli/test_diagnosis.py --rewrite-diagnosis` runs them and writes their output into the document anew.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.cli.processes import Command, Daemon, run
from tests.peers.child import RawChild
from tests.ports import free_address

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "diagnosis.md"

pytestmark = [
    pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout"),
    pytest.mark.timeout(120),
]

_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


class Hanging(Command):
    """A Worker that is there and does nothing."""

    program = ("-m", "tests.cli.hanging")


def _unmeasured(text: str) -> str:
    """Without what is another number each time; which of two clocks is ahead is no more than that, either."""
    return re.sub(r"behind|ahead of", "off", re.sub(r"\d+\.\d+(?= ms| s\b|,)", "#", text))


async def _shown(commands: list[str], addresses: Mapping[str, str], *, rewrite: bool) -> str:
    """The commands with their output, with the document's addresses in the place of the real ones.

    Unless it is for the document, they wait for longer: a hop has 95 % of what its sender waits, and a busy Proxy needs
    more than 5 % of two seconds to answer before the Mgr gives it up.
    """
    shown = ""
    for command in commands:
        arguments = shlex.split(command if rewrite else command.replace("--timeout 2", "--timeout 6"))[1:]
        for told, real in addresses.items():
            arguments = [real if argument == told else argument for argument in arguments]
        _, output, errors = await run(*arguments, env={"TASKD_NET_AT": addresses["127.0.0.1:9601"]})
        assert not errors, (command, errors)
        for told, real in addresses.items():
            output = output.replace(real, told)
            output = output.replace(f":{real.rpartition(':')[2]}'", f":{told.rpartition(':')[2]}'")
        shown += f"$ {command}\n{output}"
    return shown


async def test_document_shows_what_the_commands_print(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    text = DOCUMENT.read_text()
    async with AsyncExitStack() as stack:
        mgr = await stack.enter_async_context(Daemon("mgr", logs=tmp_path))
        proxies = []
        for rank, links in enumerate(("direct", "tasknet")):
            arguments = ("--upstream", mgr.address, "--server-rank", rank, "--links", links)
            proxies.append(await stack.enter_async_context(Daemon("proxy", *arguments, logs=tmp_path)))
        for server, rank in ((0, 0), (1, 8)):
            command = Command("listen", "--as", f"Worker/{server}/{rank}", "--upstream", proxies[server].address)
            worker = await stack.enter_async_context(command)
            await worker.said(" ready, upstream ")
        hanging = await stack.enter_async_context(Hanging("Worker/0/1", proxies[0].address))
        assert await hanging.line() == "hangs"
        foreign = await stack.enter_async_context(RawChild("Worker/1/9"))
        await foreign.join(proxies[1].address)
        addresses = {
            "127.0.0.1:9601": mgr.address,
            "127.0.0.1:9602": proxies[0].address,
            "127.0.0.1:9699": free_address(),
        }
        blocks, rewrite = {}, bool(pytestconfig.getoption("--rewrite-diagnosis"))
        for block in _BLOCK.findall(text):
            commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
            blocks[block] = await _shown(commands, addresses, rewrite=rewrite)
        assert foreign.received.empty()
    assert len(blocks) == 7
    if pytestconfig.getoption("--rewrite-diagnosis"):
        DOCUMENT.write_text(_BLOCK.sub(lambda found: blocks[found[0]], text))
        return
    for told, printed in blocks.items():
        assert _unmeasured(told) == _unmeasured(printed)
