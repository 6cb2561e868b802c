"""A library in the process of an application: its signals, limits and standard files are the application's."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskd_net import BlockingNode, NodeConfig

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
ENDS_S = 60.0
"""Seconds for a script that imports the package, on a busy machine."""


def command(script: str, *options: str) -> list[str]:
    """The command of a script of an application."""
    return [sys.executable, *options, "-c", textwrap.dedent(script)]


def environment(**variables: str) -> dict[str, str]:
    """Those of the tests, without a log on the standard output."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "TASKD_LOG_STDOUT": "False", **variables}


@contextmanager
def proxy(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A Proxy in a process that can be killed; its `args` end with its address."""
    script = """
        import sys
        from taskd_net import BlockingNode, NodeConfig
        mgr = BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start()
        proxy = BlockingNode(NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=mgr.address)).start()
        proxy.joined(30)
        print(proxy.address, flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        command(script),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(TASKD_LOG_PATH=str(folder)),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


OUTLIVES_PROXY = """
import asyncio, os, signal, sys
import uvloop
from taskd_net import BlockingNode, Node, NodeConfig
from taskd_net.links.flushes import flushes

config = NodeConfig.worker(server_rank=0, rank=0, upstream=sys.argv[1])

async def outlive(node):
    print("joined", flush=True)
    sys.stdin.readline()
    # The loop has no turn in which it sees the end of the Proxy before it writes.
    post = node.post("to a socket that is gone", to="Mgr")
    post.send(None)
    flushes().flush()
    post.close()

def blocking():
    with BlockingNode(config) as node:
        node.joined(30)
        node.run(outlive)

async def in_loop():
    async with Node(config) as node:
        await node.joined(30)
        await outlive(node)

signal.signal(signal.SIGPIPE, DISPOSITION)
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
RUN
assert before == signal.pthread_sigmask(signal.SIG_BLOCK, ())
print("lives", flush=True)
"""


@pytest.mark.parametrize("disposition", ["signal.SIG_DFL", "lambda *_: os._exit(3)"])
@pytest.mark.parametrize("run", ["blocking()", "asyncio.run(in_loop())", "uvloop.run(in_loop())"])
def test_dead_proxy_is_no_sigpipe_for_the_application(tmp_path: Path, run: str, disposition: str) -> None:
    script = OUTLIVES_PROXY.replace("RUN", run).replace("DISPOSITION", disposition)
    with proxy(tmp_path) as parent:
        assert parent.stdout is not None
        address = parent.stdout.readline().strip()
        with subprocess.Popen(
            [*command(script), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment(),
        ) as training:
            assert training.stdout is not None
            assert training.stdout.readline() == "joined\n"
            parent.kill()
            parent.wait()
            said, complaints = training.communicate("go on\n", ENDS_S)
    assert (training.returncode, said) == (0, "lives\n"), complaints


WAITS_FOR_A_SIGNAL = """
    import os, signal, sys
    from taskd_net import BlockingNode, NodeConfig

    with BlockingNode(NodeConfig.worker(server_rank=0, rank=0, upstream=sys.argv[1])) as node:
        node.joined(30)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        os.kill(os.getpid(), signal.SIGUSR1)
        print(signal.sigwait({signal.SIGUSR1}).name)
"""


def test_signal_that_the_application_waits_for_is_its_own(tmp_path: Path) -> None:
    """Another thread that does not block it would get it, and its default ends the process."""
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        ended = subprocess.run(
            [*command(WAITS_FOR_A_SIGNAL), mgr.address or ""],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(),
            timeout=ENDS_S,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, "SIGUSR1\n"), ended.stderr
