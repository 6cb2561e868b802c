"""The Python in the documents: it compiles, its imports and names exist, and it has the described effect."""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import inspect
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import CodeType
from typing import Any, Final

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.job.agent.records import Records
from tests.agent.ranks import Rank, look_until
from tests.cli.processes import PATIENCE_S, Command, Daemon
from tests.documents.pages import PAGES, ROOT, blocks
from tests.peers.mesh import soon

pytestmark = [
    pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout"),
    pytest.mark.timeout(120),
]

GIVEN: Final = {
    "docs/reliability.md": {"Lab": "tests.faults.lab:Lab", "folder": "builtins:object"},
    "docs/status-page.md": {"node": "builtins:object"},
}
"""Names from the text around a block, with their sources."""
ALL: Final = [pytest.param(page, code, id=f"{page}:{number}") for number, (page, code) in enumerate(blocks("python"))]


def compiled(page: str, code: str) -> CodeType:
    """A block as code; `await` and `async with` are allowed at its top, as in an interactive shell."""
    made = compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(made, CodeType)
    return made


@pytest.mark.parametrize(("page", "code"), ALL)
def test_names_are_there(page: str, code: str) -> None:
    compiled(page, code)
    tree = ast.parse(code)
    known: set[str] = set(dir(builtins)) | set(GIVEN.get(page, ()))
    modules: dict[str, Any] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules |= {one.asname or one.name: importlib.import_module(one.name) for one in names}
            case ast.ImportFrom(module=str(module), names=names):
                missing = [one.name for one in names if not hasattr(importlib.import_module(module), one.name)]
                assert missing == [], module
                known |= {one.asname or one.name for one in names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                known.add(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                known.add(name)
            case _:
                pass
    known |= set(modules)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used <= known
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert hasattr(modules[node.value.id], node.attr), ast.unparse(node)


def test_the_laboratory_has_what_is_shown_of_it() -> None:
    """Check the names only, because the block takes minutes; `make faults` runs the same."""
    from tests.faults import lab

    (code,) = (code for page, code in blocks("python") if page == "docs/reliability.md")
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "lab":
            assert node.attr in inspect.getsource(lab.Lab), node.attr
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Lab":
            inspect.signature(lab.Lab).bind(*node.args, **{word.arg or "": word.value for word in node.keywords})


async def test_the_status_page_of_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = (code for page, code in blocks("python") if page == "docs/status-page.md")
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        made = eval(compiled("docs/status-page.md", code.replace(":8080", ":0")), {"node": node})  # noqa: S307
        await made
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\n", capsys.readouterr().out)


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[str]:
    """A Proxy below a Mgr."""
    async with (
        Daemon("mgr", logs=tmp_path) as mgr,
        Daemon("proxy", "--upstream", mgr.address, logs=tmp_path) as proxy,
    ):
        yield proxy.address


class Script(Command):
    """A block as a script of its own."""

    def __init__(self, path: Path, **environment: str) -> None:
        super().__init__(
            env={"PYTHONUNBUFFERED": "1", "TASKD_LOG_PATH": str(path.parent), **environment}, cwd=path.parent
        )
        self.program = (str(path),)


async def test_the_readme_of_a_service(tmp_path: Path, upstream: str) -> None:
    (code,) = (code for page, code in blocks("python") if page == "README.md" and "node.messages()" in code)
    path = tmp_path / "service.py"
    path.write_text(code.replace("127.0.0.1:9602", upstream))
    async with Script(path) as script:
        assert await script.line() == "arrived"
        async with Node(NodeConfig.agent(server_rank=7, upstream=upstream)) as sender:
            await sender.joined(PATIENCE_S)
            assert (await sender.send("hello", to="Worker/0/3")).ok
        assert await script.line() == "Agent/7 hello"


async def test_the_readme_of_a_training_script(tmp_path: Path, upstream: str) -> None:
    (code,) = (code for page, code in blocks("python") if page == "README.md" and "init_taskd_worker" in code)
    path = tmp_path / "training.py"
    path.write_text(code.replace("print(", "print(", 1) + "print('done')\n")
    async with Script(path, RANK="1", LOCAL_WORLD_SIZE="8", TASKD_NET_UPSTREAM=upstream) as script:
        said = await soon(script.rest(), PATIENCE_S)
        assert said.endswith("done\n")
        assert " [error] " not in said + script.errors
        assert await script.exit_code() == 0


def test_the_policy_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code = next(code for page, code in blocks("python") if page == "docs/faults.md")
    exec(compiled("docs/faults.md", code), {})  # noqa: S102
    steps = "stop_processes (90 s) reset_device (60 s) run_again"
    assert capsys.readouterr().out == f"RestartNPU {steps} the code is listed as RestartNPU\n"


async def test_the_device_watcher(tmp_path: Path) -> None:
    _, code = (code for page, code in blocks("python") if page == "docs/faults.md")
    (tmp_path / "faultCode.json").write_text('{"NotHandleFaultCodes": ["8C0A4E00"]}')
    job = ("--job-id", "J", "--fault-config", str(tmp_path))
    async with Daemon("mgr", *job, logs=tmp_path) as mgr:
        names: dict[str, Any] = {}
        there = compiled("docs/faults.md", code.replace("127.0.0.1:9602", mgr.address))
        await asyncio.to_thread(exec, there, names)
        assert names["ack"].ok


def test_the_marks_of_a_script(tmp_path: Path) -> None:
    (code,) = (code for page, code in blocks("python") if page == "docs/watching.md")
    script = tmp_path / "train.py"
    script.write_text(f"{code}\ninput()\n")
    records = Records()
    try:
        with Rank(records, 0, 0, str(script), PYTHONPATH=str(ROOT)):
            found = look_until(records, lambda now: now.highest == 2)
        assert (found.steps, found.samples, found.of, found.loss) == (3, 96, 1000, 16.0)
    finally:
        records.close()


def test_every_block_is_in_one_of_these() -> None:
    assert sys.executable and os.name == "posix"
    names = ("faults", "manager", "recovery", "reliability", "status-page", "watching")
    pages = {"README.md", *(f"docs/{name}.md" for name in names)}
    assert {page for page, _ in blocks("python")} == pages
