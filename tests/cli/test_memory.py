"""Freed memory of a daemon serves the next large message: the kernel clears no page again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net import Code
from taskd_net.base.limits import MESSAGE_BYTES
from tests.cli.processes import Command
from tests.peers.child import RawChild

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other allocators"),
]

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def nowhere() -> Iterator[int]:
    """An output that nobody reads."""
    with Path(os.devnull).open("wb") as file:
        yield file.fileno()


def faults(pid: int) -> int:
    """Pages that the kernel has given to a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


async def test_large_messages_use_the_same_memory(nowhere: int) -> None:
    """A copy of a message has 2,000 pages, and a node makes several of each."""
    mgr = Command("mgr", "--listen", "127.0.0.1:0", "--log-std-level", "INFO", stdout=nowhere, executed=True)
    async with mgr, RawChild("Worker/0/0") as child:
        listening = await mgr.said(r"listening.*?(127\.0\.0\.1:\d+)")
        await child.join(listening[1])
        assert mgr._process is not None

        async def send(times: int) -> None:
            for _ in range(times):
                assert (await child.send("Worker/9/9", "x" * (MESSAGE_BYTES - 1000))).code == Code.NO_ROUTE

        await send(5)
        before = faults(mgr._process.pid)
        await send(5)
        assert (faults(mgr._process.pid) - before) * PAGE < 5 * MESSAGE_BYTES


@pytest.mark.parametrize(
    ("variables", "kept"),
    [
        ({}, True),
        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, False),
    ],
)
def test_allocator_of_the_user_stays(variables: dict[str, str], kept: bool) -> None:
    program = "from taskd_net.cli.memory import keep_freed_memory; print(keep_freed_memory())"
    environment = {"PATH": os.environ["PATH"], **variables}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout == f"{kept}\n"


def test_start_is_left_out_of_later_collections() -> None:
    program = (
        "import gc; from taskd_net.cli import daemon; before = len(gc.get_objects()); "
        "daemon.leave_start_uncollected(); print(gc.get_freeze_count() > 10_000, len(gc.get_objects()) < before / 10)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "True True\n"
