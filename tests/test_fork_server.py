"""A forked process is like an executed one, and where it would not be, it is executed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Command, Daemon
from tests.fork_server import ROOT, forked

PLAIN = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONFAULTHANDLER": "1", "SOME": "thing"}
PATIENCE_S = 60.0


def likeness(end: str, *, fork: bool, **options: Any) -> tuple[int, Any, str, str]:
    """Run `tests.likeness`. Returns its exit code, what it tells, its echo and its errors."""
    command = [sys.executable, "-m", "tests.likeness", end, "a b"]
    options = {"env": PLAIN, "cwd": ROOT, "input": "é\n", "capture_output": True, "encoding": "utf-8", **options}
    with forked() if fork else contextlib.nullcontext():
        done = subprocess.run(command, timeout=PATIENCE_S, check=False, **options)
    first, _, echo = done.stdout.partition("\n")
    return done.returncode, json.loads(first), echo, done.stderr


def of_server(pid: int) -> bool:
    """True if the process has the command line of the server."""
    return b"tests.fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes()


def was_forked(**options: Any) -> bool:
    """True if the server starts it."""
    command = options.pop("command", [sys.executable, "-m", "tests.likeness", "0"])
    plain: dict[str, Any] = {"env": PLAIN, "cwd": ROOT, "stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with forked(), subprocess.Popen(command, **plain | options) as process:
        return of_server(process.pid)


@pytest.mark.parametrize(
    "options",
    [{}, {"start_new_session": True}, {"process_group": 0}, {"cwd": "/"}, {"env": {**PLAIN, "PYTHONFAULTHANDLER": ""}}],
    ids=str,
)
def test_process_has_all_from_its_starter(options: dict[str, Any], tmp_path: Path) -> None:
    (code, told, echo, errors), (code_2, told_2, echo_2, errors_2) = (
        likeness("3", fork=fork, **options) for fork in (False, True)
    )
    assert told.pop("random") != told_2.pop("random")
    assert told_2 == told
    assert told["parent"] == os.getpid()
    assert (code_2, echo_2, errors_2) == (code, echo, errors) == (3, "é\n", "the end\n")


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [("0", 0, "the end"), ("raise", 1, "RuntimeError: raise"), ("pthread_kill", -signal.SIGTERM, "the end")],
)
def test_ends_and_what_is_said_then(end: str, code: int, last: str) -> None:
    """`pthread_kill` finds the thread by the C library's number for it, which is the server's if it is not set."""
    for fork in (False, True):
        found, _, _, errors = likeness(end, fork=fork)
        assert (found, errors.splitlines()[-1]) == (code, last)


def test_fault_tells_the_stacks() -> None:
    for fork in (False, True):
        code, _, _, errors = likeness("abort", fork=fork)
        assert code == -signal.SIGABRT
        assert re.search(r'^the end\nFatal Python error: Aborted\n\n(.*\n)+  File ".*/likeness.py"', errors)


def test_processes_have_random_numbers_of_their_own() -> None:
    told = [likeness("0", fork=True)[1]["random"] for _ in range(2)]
    assert all(ours != theirs for ours, theirs in zip(*told, strict=True))


@pytest.mark.parametrize(
    ("forks", "options"),
    [
        (True, {}),
        (True, {"cwd": "/", "start_new_session": True}),
        (False, {"env": {**PLAIN, "PYTHONPATH": "/elsewhere"}}),
        (False, {"env": {**PLAIN, "PYTHONMALLOC": "malloc"}}),
        (False, {"env": {**PLAIN, "GRPC_VERBOSITY": "INFO"}}),
        (False, {"env": {**PLAIN, "MALLOC_ARENA_MAX": "1"}}),
        (False, {"env": {**PLAIN, "TZ": "UTC"}}),
        (False, {"env": None}),
        (False, {"umask": 0o22}),
        (False, {"command": [sys.executable, "-X", "dev", "-m", "tests.likeness", "0"]}),
        (False, {"command": ["env", sys.executable, "-m", "tests.likeness", "0"]}),
        (False, {"command": [sys.executable, "-m", "platform"]}),
    ],
    ids=str,
)
def test_python_is_executed_where_its_start_could_make_a_difference(forks: bool, options: dict[str, Any]) -> None:
    assert was_forked(**options) == forks


def test_nothing_is_forked_outside_of_the_context() -> None:
    command = [sys.executable, "-m", "tests.likeness", "0"]
    null = subprocess.DEVNULL
    with subprocess.Popen(command, env=PLAIN, cwd=ROOT, stdin=null, stdout=null) as process:
        assert not of_server(process.pid)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("send", "--help"),
        ("send", "--upstream", "127.0.0.1:1", "--timeout", "0.1", "--rank", "3", "Mgr/0", "x"),
        ("health", "127.0.0.1:1"),
        ("proxy", "--listen", "nonsense"),
        ("no-such-command",),
    ],
    ids=" ".join,
)
async def test_commands_say_the_same(arguments: tuple[str, ...]) -> None:
    found = []
    for executed in (True, False):
        async with Command(*arguments, executed=executed) as command:
            output = await command.rest()
            found.append((await command.exit_code(), output, command.errors))
    assert found[1] == found[0]


async def test_daemons_end_alike(tmp_path: Path) -> None:
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)):
        for executed in (True, False):
            async with Daemon("mgr", logs=tmp_path, executed=executed) as mgr:
                assert of_server(mgr.pid) is not executed
                mgr.signal(number)
                assert (await mgr.rest(), await mgr.exit_code()) == ("", code)
