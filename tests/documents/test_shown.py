"""Files and answers in the documents match the commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group
from tests.documents.pages import PAGES, blocks

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")

MISTAKES = {
    "ack_timeout is 'soon'": 'ack_timeout = "soon"\n',
    "[proxy] ack-timeout = 5": "[proxy]\nack-timeout = 5\n",
}
"""The faulty file, by a part of the shown line."""


@pytest.mark.parametrize("text", [code for _, code in blocks("toml")])
def test_files_can_be_used(text: str, tmp_path: Path) -> None:
    path = tmp_path / "taskd-net.toml"
    path.write_text(text)
    for command in ("mgr", "proxy"):
        done = CliRunner().invoke(group, ["config", command, "--config", str(path)])
        assert done.exit_code == 0, done.output
        assert f"the file {path}".removeprefix("the ") in done.output


def test_lines_about_mistakes_are_those_that_are_printed(tmp_path: Path) -> None:
    of_page = [code for page, code in blocks("") if page == "docs/configuration.md"]
    shown = [line for code in of_page for line in code.splitlines() if line.startswith("Error: ")]
    assert len(shown) == len(MISTAKES)
    for line in shown:
        (text,) = (text for said, text in MISTAKES.items() if said in line)
        path = tmp_path / "taskd-net.toml"
        path.write_text(text)
        done = CliRunner().invoke(group, ["config", "proxy", "--config", str(path)])
        assert done.exit_code == 2
        assert done.output.strip().replace(str(path), "/etc/taskd-net.toml") == line
