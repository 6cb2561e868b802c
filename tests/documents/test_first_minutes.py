"""The first five minutes of README.md: its lines in its order, with other addresses, lead to what it shows."""

from __future__ import annotations

import re
import signal
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.cli import processes
from tests.cli.processes import PATIENCE_S
from tests.documents.pages import PAGES, Command, parsed
from tests.documents.pages import ROOT as CHECKOUT
from tests.polling import asked_until

pytestmark = [
    pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout"),
    pytest.mark.timeout(180),
]

README: Final = (CHECKOUT / "README.md").read_text()
SECTION: Final = README.partition("\n## The first five minutes\n")[2].partition("\n## ")[0]
BLOCKS: Final = re.findall(r"(?ms)^```(sh|text)\n(.*?)^```$", SECTION)


def steps() -> list[Command]:
    """The commands, apart from the set-up."""
    lines = [line for language, code in BLOCKS if language == "sh" for line in code.splitlines()]
    found = [command for line in lines for command in parsed("README.md", line, shown=True)]
    return [command for command in found if command.words[0] == "taskd-net" or "examples/" in command.text]


def shown() -> list[str]:
    """The outputs, line by line."""
    return [line for language, code in BLOCKS if language == "text" for line in code.splitlines()]


class Script(processes.Command):
    """A line that runs Python."""

    def __init__(self, command: Command, folder: Path, **env: str) -> None:
        super().__init__(env={**env, **command.variables, "PYTHONUNBUFFERED": "1"}, cwd=folder)
        self.program = (str(CHECKOUT / command.words[1]), *command.words[2:])


def test_section_has_the_steps_of_the_test() -> None:
    kinds = [command.words[1] for command in steps()]
    assert kinds == ["mgr", "proxy", "examples/train.py", "examples/train.py", "tree", "send", "tree", "send"]
    assert [command.variables.get("RANK") for command in steps()[2:4]] == ["0", "1"]
    assert "http://127.0.0.1:8080/" in SECTION and "--http-port 8080" in steps()[0].text


async def test_each_step_does_what_the_section_says(tmp_path: Path) -> None:
    mgr, proxy, zero, one, tree, command, tree_again, refused = steps()
    whole, nobody_missing, answer, missing, why = shown()
    logs = {"TASKD_LOG_PATH": str(tmp_path)}
    anywhere = {**logs, "TASKD_NET_LISTEN": "127.0.0.1:0"}

    async def said(step: Command, *expected: str) -> tuple[int, str]:
        """Repeat a command until it prints this: joins and losses take their time."""
        last = (0, "")

        async def once() -> bool:
            nonlocal last
            code, output, _ = await processes.run(*step.words[1:], env=environment)
            last = (code, output)
            return all(text in output for text in expected)

        assert await asked_until(once, PATIENCE_S), (step.text, expected, last)
        return last

    async with AsyncExitStack() as running:
        words = ["0" if word == "8080" else word for word in mgr.words[1:]]
        root = await running.enter_async_context(processes.Command(*words, env=anywhere))
        at = (await root.line()).rpartition(" ")[2]
        page = (await root.said(r"page_listening.*?(http://[\d.:]+)"))[1]
        hop = await running.enter_async_context(
            processes.Command(*proxy.words[1:], env={**anywhere, "TASKD_NET_UPSTREAM": at})
        )
        upstream = (await hop.line()).partition("listening on ")[2].partition(",")[0]
        environment = {**logs, "TASKD_NET_AT": at, "TASKD_NET_UPSTREAM": upstream}
        first = await running.enter_async_context(Script(zero, tmp_path, **environment))
        second = await running.enter_async_context(Script(one, tmp_path, **environment))
        assert (await said(tree, whole, nobody_missing))[0] == 0
        with urllib.request.urlopen(page, timeout=PATIENCE_S) as answered:  # noqa: ASYNC210, S310 - of the Mgr above
            assert answered.status == 200

        assert (await said(command, answer))[0] == 0
        while not (line := await first.line()).startswith("checkpoint, asked for by Agent/"):
            assert line, first.errors
        while '\\"SAVED\\"' not in (line := await root.line()):
            assert line, root.errors

        second.signal(signal.SIGINT)
        await second.exit_code()
        second.errors = ""  # Python's own words for Ctrl-C
        assert (await said(tree_again, missing))[0] == 1
        assert (await said(refused, why))[0] == 1

        back = await running.enter_async_context(Script(one, tmp_path, **environment))
        assert (await said(tree, whole, nobody_missing))[0] == 0
        assert back.errors == "" or "Traceback" not in back.errors
