"""Fixtures of every test: a fresh event loop, and a failure for anything left running or open."""

import asyncio
import contextlib
import gc
import hashlib
import os
import re
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import hypothesis
import pytest
import pytest_asyncio
import uvloop

# Before any import of grpc, which reads its environment then.
import taskd_net  # noqa: F401
from tests.fork_server import ForkServer

# Seconds until closed things are gone: sockets and threads of gRPC end after close() has returned.
SETTLE_S = 3.0

# The kinds of link of a test. Neighbours have different loops.
KINDS = ("direct", "batched", "tasknet", "mixed", "memory")

# Modules about the links themselves: each kind of link runs in all of them, every time.
ABOUT_LINKS = ("tests.links.", "tests.transport.", "tests.test_lifecycle", "tests.scenarios.test_delivery")

# Modules that take a minute beside others, and folders with several such. They come first: at the end, one processor
# would wait for the last of them.
LONG = (
    *("tests/simulation/", "tests/security/test_attacks.py", "tests/cli/test_demo.py"),
    *("tests/demo/", "tests/lab/", "tests/etcd/"),
)

# A deadline per example measures the machine, not the code, as does the time for making examples. Each test has its own
# timeout.
hypothesis.settings.register_profile(
    "taskd_net", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# --hypothesis-profile=thorough: an hour, after a change to the core.
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("taskd_net"), max_examples=10_000)
hypothesis.settings.load_profile("taskd_net")


# A shell without job control starts what is in the background with these two ignored, and processes inherit that: then
# Ctrl-C ends no process of a test.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that rewrite the tests' records."""
    parser.addoption("--rewrite-golden", action="store_true", help="write the transcripts in golden/ again")
    parser.addoption("--rewrite-matrix", action="store_true", help="write the table in docs/interop.md anew")
    parser.addoption("--rewrite-diagnosis", action="store_true", help="write the outputs in docs/diagnosis.md anew")
    parser.addoption("--rewrite-hour", action="store_true", help="write the transcript in docs/first-hour.md anew")
    text = "write what was measured into docs/reliability.md and docs/high-availability.md"
    parser.addoption("--write-figures", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to measure a module by its name: coverage would import the package, and forget it again.

    Two imports of grpc in one process share its C part alone, and tests of TLS fail.
    """
    by_name = [name for name in config.getoption("cov_source", None) or () if str(name).startswith("taskd_net.")]
    if by_name:
        raise pytest.UsageError(f"--cov takes taskd_net or folders of it such as taskd_net/core, not {by_name[0]}")


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the loops of a test: asyncio's, and with the mark `both_loops` also uvloop's."""
    if item.get_closest_marker("both_loops"):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave combinations of link, loop and scenario to `make matrix` whose pairs other tests have, or to `make more`.

    Modules about links have each kind of them, direct ones with both loops and each other kind with one, which changes
    from test to test, or both where it stands alone. Elsewhere the kind of the tests is left out, and each other kind
    has one loop: in one half of the scenarios direct links have asyncio's and batched ones uvloop's, in the other half
    it is the other way round. Where direct links stand alone they have both. `make more` has those over batched links
    and over the four calls whose scenario has direct ones, too: a mixed mesh has all three.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    kinds: defaultdict[str, set[object]] = defaultdict(set)
    for item in items:
        if not item.get_closest_marker("matrix"):
            kinds[_scenario(item)].add(_kind(item))
    for item in items:
        kind, scenario = _kind(item), _scenario(item)
        if kind not in KINDS:
            continue
        about_links = scenario.startswith(ABOUT_LINKS)
        loop = re.search(r"\[(asyncio|uvloop)", item.name) if item.get_closest_marker("both_loops") else None
        has_both = kind == "direct" and (about_links or "batched" not in kinds[scenario])
        has_both |= about_links and kinds[scenario] == {kind}
        # The kinds take turns, beginning anywhere.
        turn = hashlib.sha256(scenario.encode()).digest()[0] + KINDS.index(kind)
        other_loop = not has_both and loop is not None and loop[1] != ("asyncio", "uvloop")[turn % 2]
        if other_loop or (kind == "memory" and not about_links):
            item.add_marker("matrix")
        elif kind in ("batched", "tasknet") and "direct" in kinds[scenario] and not about_links:
            item.add_marker("more")


def _kind(item: pytest.Item) -> object:
    """The kind of link that a test chooses by a parameter, or None."""
    assert isinstance(item, pytest.Function)
    return item.callspec.params.get("mesh") if hasattr(item, "callspec") else None


def _scenario(item: pytest.Item) -> str:
    """The name of a test without its parameters."""
    assert isinstance(item, pytest.Function)
    return f"{item.module.__name__}.{item.originalname}"


@pytest.fixture(scope="session", autouse=True)
def grpc_running() -> None:
    """Start the process-wide parts of gRPC and uvloop, so that no single test is blamed for them.

    grpc.aio stops its poller with the last channel or server. Holding it open keeps thread and sockets
    constant; it takes one loop after another, as long as no two of them live at once.
    """
    import grpc.aio

    async def touch_grpc() -> None:
        async with grpc.aio.insecure_channel("127.0.0.1:9"):
            server = grpc.aio.server()
            server.add_insecure_port("127.0.0.1:0")
            await server.start()
            await server.stop(None)

    grpc.aio.init_grpc_aio()
    for new_loop in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(touch_grpc())
    # Tests collect garbage to find unawaited coroutines; older objects need no repeated search.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def fork_server(request: pytest.FixtureRequest) -> Iterator[None]:
    """Begin the processes of `with forked()` with their imports done, unless their figures go into a document."""
    with contextlib.nullcontext() if request.config.getoption("write_figures") else ForkServer():
        yield


def _open_files() -> dict[str, str]:
    """Return the open files by descriptor; none where the system does not tell."""
    found = {}
    # Before and after each of thousands of tests: paths as objects would cost several seconds.
    try:
        numbers = os.listdir("/proc/self/fd")  # noqa: PTH208
    except FileNotFoundError:
        return {}
    for number in numbers:
        try:
            target = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
        except FileNotFoundError:
            continue
        # gRPC's own threads come and go with these; a forgotten loop shows by its socket pair.
        if not target.startswith(("anon_inode:[eventfd", "anon_inode:[eventpoll")):
            found[number] = target
    return found


def _kinds(files: dict[str, str]) -> Counter[str]:
    """Count open files by kind, because another one may replace a process-wide socket."""
    return Counter(re.sub(r":\[\d+\]$", "", target) for target in files.values())


def _threads() -> set[threading.Thread]:
    """Return the running Python threads, without the stand-ins for gRPC's own, which never end."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}


@pytest.fixture(autouse=True)
def no_leaked_threads_or_files(grpc_running: None) -> Iterator[None]:
    """Fail a test that leaves threads or open files behind.

    Set up first and checked last, when the test's other fixtures and its loop are closed. A fixture that is
    shared by several tests and holds either must be requested by argument, not in the middle of a test.
    """
    threads, files = _threads(), _open_files()
    yield
    give_up_at = time.monotonic() + SETTLE_S
    while True:
        new_threads = _threads() - threads
        now_open = _open_files()
        more = _kinds(now_open) - _kinds(files)
        if not new_threads and not more:
            return
        if time.monotonic() > give_up_at:
            break
        gc.collect()
        time.sleep(0.01)
    new_files = {fd: target for fd, target in now_open.items() if files.get(fd) != target}
    names = sorted(thread.name for thread in new_threads)
    pytest.fail(f"left behind: threads {names}, files {new_files}", pytrace=False)


@pytest.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    """Fail a test whose loop still runs tasks when everything that the test opened is closed."""
    yield
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=SETTLE_S)
    if tasks:
        pytest.fail("left behind: " + ", ".join(sorted(map(repr, tasks))), pytrace=False)


@pytest.fixture(autouse=True)
def no_leaks(no_leaked_threads_or_files: None, request: pytest.FixtureRequest) -> None:
    """Add the check for tasks to asynchronous tests, before their own fixtures so that it runs after them."""
    if pytest_asyncio.is_async_test(request.node):
        request.getfixturevalue("no_leaked_tasks")
