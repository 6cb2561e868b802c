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

from taskd_net import BlockingNode, Node, NodeConfig

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
ENDS_S = 60.0
"""Seconds for a script that imports the package, on a busy machine."""


def command(script: str, *options: str) -> list[str]:
    """The command of a script of an application."""
    return [sys.executable, *options, "-c", textwrap.dedent(script)]


def environment(**variables: str) -> dict[str, str]:
    """Variables of the tests, without a log on the standard output."""
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
from taskd_net.net.links.flushes import flushes

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


NOBODY = 61_000
"""The first of the users of these tests. Each has one: the limit counts all processes of a user."""

LIMITED = """
    import os, resource, sys
    import taskd_net
    from taskd_net import destroy_taskd_worker, init_taskd_worker, send_to_manager, start_taskd_worker

    taskd_net.base.logs.start(None, stdout=True)
    own, (before, most) = len(os.listdir("/proc/self/task")), resource.getrlimit(resource.RLIMIT_NPROC)
    for room in map(int, sys.argv[1:]):
        resource.setrlimit(resource.RLIMIT_NPROC, (own + room, most))
        print("init", init_taskd_worker(0), flush=True)
    # A limit that is raised again leaves nothing behind.
    resource.setrlimit(resource.RLIMIT_NPROC, (before, most))
    print("then", init_taskd_worker(0), start_taskd_worker(), send_to_manager(0, "STATUS", timeout=30.0))
    print("end", destroy_taskd_worker())
"""


def as_nobody(user: int) -> list[str]:
    """Run a command as another user, who may read the tree of the tests, and has no right to exceed limits."""
    rights = "-all,+dac_read_search"
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
            f"--inh-caps={rights}", f"--ambient-caps={rights}"]  # fmt: skip


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@needs_root
def test_process_at_its_limit_of_threads_is_told_so_and_joins_when_there_is_room(tmp_path: Path) -> None:
    """gRPC ends a process in which it cannot start a thread."""
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        mgr.beside(_accept_all)
        ended = subprocess.run(
            [*as_nobody(NOBODY), *command(LIMITED), *map(str, range(8))],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(TASKD_NET_UPSTREAM=mgr.address or "", RANK="0", LOCAL_WORLD_SIZE="1"),
            timeout=ENDS_S,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if "no_log_file" not in line]
    said = [line for line in lines if not line.startswith("20")]
    assert said == ["init False"] * 8 + ["then True True True", "end True"]
    assert sum("can start" in line or "cannot start" in line for line in lines) == 8, lines


LOSES_ITS_PARENT = """
    import os, resource, sys, time
    from taskd_net import BlockingNode, NodeConfig

    with BlockingNode(NodeConfig.worker(server_rank=0, rank=0, upstream=sys.argv[1])) as node:
        node.joined(30)
        own, since = 0, time.monotonic()
        while time.monotonic() < since + 5.0:  # gRPC's threads end; how many stay depends on its release
            if own != (own := len(os.listdir("/proc/self/task"))):
                since = time.monotonic()
            time.sleep(0.1)
        _, most = resource.getrlimit(resource.RLIMIT_NPROC)
        resource.setrlimit(resource.RLIMIT_NPROC, (own + 1, most))
        print("joined", flush=True)
        sys.stdin.readline()
        try:
            node.joined(3)
            while node.is_joined:
                pass
            node.joined(3)
        except TimeoutError as error:
            print(error, flush=True)
"""


@needs_root
def test_process_at_its_limit_that_loses_its_parent_lives(tmp_path: Path) -> None:
    """gRPC's threads have ended with the channel that the direct link has replaced; a join starts them again."""
    with proxy(tmp_path) as parent:
        assert parent.stdout is not None
        address = parent.stdout.readline().strip()
        with subprocess.Popen(
            [*as_nobody(NOBODY + 1), *command(LOSES_ITS_PARENT), address],
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
    assert training.returncode == 0, complaints
    assert "more threads; expected" in said


async def _accept_all(node: Node) -> None:
    async for _ in node.messages():
        pass


PRINTS = """
    import os, sys
    import taskd_net
    from taskd_net import BlockingNode, NodeConfig, destroy_taskd_worker, init_taskd_worker, start_taskd_worker

    def own(text):
        for number in (1, 2):
            try:
                os.write(number, text)
            except OSError:
                pass

    if sys.argv[1] == "node":
        with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
            assert node.send("x", to="Mgr").ok and node.receive(30).body == "x"
            own(b"a print of the application\\n")
    else:
        assert init_taskd_worker(0)
        own(b"a print of the application\\n")
        assert start_taskd_worker()
        if sys.argv[1] == "destroyed":
            assert destroy_taskd_worker()
    open(sys.argv[2], "w").write("end")
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("kind", ["node", "destroyed", "left open"])
def test_process_without_a_standard_file_ends_well_and_its_log_has_no_print(
    tmp_path: Path, closed: str, kind: str
) -> None:
    end = tmp_path / "end"
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        mgr.beside(_accept_all)
        ended = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *command(PRINTS), kind, str(end)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(
                TASKD_NET_UPSTREAM=mgr.address or "", RANK="0", LOCAL_WORLD_SIZE="1", TASKD_LOG_PATH=str(tmp_path)
            ),
            timeout=ENDS_S,
            check=False,
        )
    assert (ended.returncode, end.read_text()) == (0, "end"), ended.stderr
    log = tmp_path / "taskd-worker-0.log"
    assert not log.exists() or "application" not in log.read_text()


REPEATED = """
import multiprocessing, sys
import taskd_net
from taskd_net import BlockingNode, NodeConfig, NodeError, destroy_taskd_worker, init_taskd_worker, register_handler

print(f"{__name__} init", init_taskd_worker(0), flush=True)
print(f"{__name__} handler", register_handler(700, print), flush=True)
try:
    BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start().close()
except NodeError as error:
    print(f"{__name__} node", error, flush=True)

def work():
    print("child init", init_taskd_worker(1), destroy_taskd_worker(), flush=True)

if __name__ == "__main__":
    destroy_taskd_worker()
    child = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    child.start()
    child.join()
    print("exit", child.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_child_that_imports_the_main_module_again_is_told_of_the_guard(tmp_path: Path, method: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(REPEATED)
    ended = subprocess.run(
        [sys.executable, str(script), method],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(TASKD_NET_UPSTREAM="127.0.0.1:1", RANK="0", LOCAL_WORLD_SIZE="2"),
        timeout=ENDS_S,
        check=False,
    )
    guard = 'if __name__ == "__main__":'
    lines = ended.stdout.splitlines()
    assert lines[:2] == ["__main__ init True", "__main__ handler True"]
    assert lines[2:4] == ["__mp_main__ init False", "__mp_main__ handler True"], ended.stderr
    assert lines[4].startswith("__mp_main__ node") and guard in lines[4]
    assert lines[5:] == ["child init True True", "exit 0"], ended.stderr
    assert sum("call=init_taskd_worker" in line and "__name__ ==" in line for line in ended.stderr.splitlines()) == 1


STARTS = """
import asyncio
import taskd_net
from taskd_net import *

async def main():
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        async with Node(NodeConfig.worker(server_rank=0, rank=0, upstream=mgr.address)) as worker:
            await worker.joined(30)
            assert (await worker.send("x", to="Mgr")).ok

asyncio.run(main())
print("ended")
"""


@pytest.mark.parametrize("options", [("-bb",), ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")])
def test_interpreter_that_is_strict_with_texts(tmp_path: Path, options: tuple[str, ...]) -> None:
    ended = subprocess.run(
        command(STARTS, *options), capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=ENDS_S,
        check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended.stderr


GEVENT = """
    import sys, types
    sys.modules["gevent"] = types.ModuleType("gevent")
    monkey = sys.modules["gevent.monkey"] = types.ModuleType("gevent.monkey")
    monkey.is_module_patched = lambda name: name == sys.argv[1]
    import taskd_net
    from taskd_net import BlockingNode, NodeConfig, NodeError, init_taskd_worker
    print(init_taskd_worker(0))
    try:
        BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start().close()
        print("started")
    except NodeError as error:
        print("refused")
"""


@pytest.mark.parametrize(("patched", "said"), [("threading", "False\nrefused\n"), ("time", "True\nstarted\n")])
def test_process_of_gevent_is_refused_in_one_line(tmp_path: Path, patched: str, said: str) -> None:
    ended = subprocess.run(
        [*command(GEVENT), patched],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(TASKD_NET_UPSTREAM="127.0.0.1:1", RANK="0", LOCAL_WORLD_SIZE="1"),
        timeout=ENDS_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, said), ended.stderr
    assert ended.stderr.count("gevent has replaced") == (patched == "threading")


def run(script: str, folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script of an application to its end, as rank 0 of one."""
    defaults = {"RANK": "0", "LOCAL_WORLD_SIZE": "1", "TASKD_NET_UPSTREAM": "127.0.0.1:1"}
    return subprocess.run(
        command(script, *options), capture_output=True, text=True, cwd=folder,
        env=environment(**{**defaults, **variables}), timeout=ENDS_S, check=False,
    )  # fmt: skip


UNREAD = """
    import os, sys
    from taskd_net import *

    _, unread = os.pipe()
    os.set_blocking(unread, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(unread, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(unread, True)
    kept = os.dup(1)
    os.dup2(unread, 1)
    os.dup2(unread, 2)
    if os.environ["KIND"] == "call":
        said = [init_taskd_worker(0), start_taskd_worker(), send_to_manager(1, "S", timeout=30.0),
                register_handler(None, 1), destroy_taskd_worker()]
    else:  # warnings go to stderr, where nothing is configured
        with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
            node.run(refuses)
            said = node.send("x", to="Mgr").ok
    os.write(kept, f"{said}".encode())
"""


@pytest.mark.parametrize("kind", ["call", "node"])
def test_standard_output_that_nobody_reads_holds_nothing_up(tmp_path: Path, kind: str) -> None:
    """The reader of a launcher's pipe may have stopped. The node's thread, and with it each call, waited for it."""
    script = UNREAD.replace(
        "    _, unread",
        "    async def refuses(node):\n        for number in range(3):\n"
        '            node.driver.log.warning("a_line", number=number)\n\n    _, unread',
    )
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        mgr.beside(_accept_all)
        ended = run(
            script, tmp_path, KIND=kind, TASKD_LOG_STDOUT="True", TASKD_NET_UPSTREAM=mgr.address or ""
        )  # fmt: skip
    expected = "[True, True, True, False, True]" if kind == "call" else "True"
    assert (ended.returncode, ended.stdout) == (0, expected), ended.stderr


DRAWS = """
    import random
    from taskd_net import *

    random.seed(0)
    before = random.getstate()
    init_taskd_worker(0), start_taskd_worker()
    print(send_to_manager(1, "S", timeout=1.0), destroy_taskd_worker(), random.getstate() == before)
"""


def test_random_numbers_of_the_application_are_its_own(tmp_path: Path) -> None:
    """A training that seeds `random` is repeatable, also while its node tries again to join."""
    ended = run(DRAWS, tmp_path)
    assert ended.stdout == "False True True\n", ended.stderr


CONFIGURES = """
    import logging, logging.config, os, sys
    from taskd_net import *

    init_taskd_worker(0)
    if os.environ["KIND"] == "dictConfig":
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    else:
        logging.shutdown()
    register_handler(None, 1)
    destroy_taskd_worker()
"""


@pytest.mark.parametrize("kind", ["dictConfig", "shutdown"])
def test_log_file_goes_on_after_the_application_configures_its_logging(tmp_path: Path, kind: str) -> None:
    ended = run(CONFIGURES, tmp_path, "-X", "dev", KIND=kind, TASKD_LOG_PATH=str(tmp_path / "log"))
    log = (tmp_path / "log" / "taskd-worker-0.log").read_text()
    assert '"call": "register_handler"' in log, ended.stderr
    assert "ResourceWarning" not in ended.stderr


MOVES = """
    import os
    import taskd_net.base.limits
    taskd_net.base.limits.LOG_FILE_BYTES = 2000
    from taskd_net import *

    init_taskd_worker(0)
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    for number in range(30):
        register_handler(None, number)
    destroy_taskd_worker()
    print(os.listdir("."))
"""


def test_log_file_rotates_after_the_application_has_changed_its_folder(tmp_path: Path) -> None:
    ended = run(MOVES, tmp_path, TASKD_LOG_PATH="log")
    assert ended.stdout == "[]\n", ended.stderr
    assert (tmp_path / "log" / "taskd-worker-0.log.1").exists()


FILES = """
    import os, resource
    from taskd_net import *

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    filler = []
    while not filler or filler[-1] < 60:
        filler.append(os.open("/dev/null", os.O_RDONLY))
    refused = 0
    for room in range(40):
        resource.setrlimit(resource.RLIMIT_NOFILE, (61 + room, most))
        joins = init_taskd_worker(0)
        destroy_taskd_worker()
        try:
            BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start().close()
        except NodeError as error:
            assert "more files; expected" in str(error) and not joins or room > 8, error
            refused += 1
    print(refused > 8, joins)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(init_taskd_worker(0), start_taskd_worker(), send_to_manager(1, "S", timeout=30.0), destroy_taskd_worker())
"""


def test_process_at_its_limit_of_files_is_told_so_and_joins_when_there_is_room(tmp_path: Path) -> None:
    """libuv ends a process in which it can open no descriptor for a loop."""
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        mgr.beside(_accept_all)
        ended = run(FILES, tmp_path, TASKD_NET_UPSTREAM=mgr.address or "")
    assert (ended.returncode, ended.stdout) == (0, "True True\nTrue True True True\n"), ended.stderr


LAST = """
    from taskd_net import *

    class Kept:
        def __del__(self):
            print(init_taskd_worker(0), destroy_taskd_worker(), flush=True)

    kept = Kept()
"""


def test_call_while_the_interpreter_ends_is_refused(tmp_path: Path) -> None:
    """A thread that is started so late never runs, and its start waits for it."""
    ended = run(LAST, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "False False\n"), ended.stderr
