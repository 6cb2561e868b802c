"""Handlers of an application that raise, block, and call the package."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from taskd_net import BlockingNode, NodeConfig, NodeTimeout
from taskd_net.base import handlers
from taskd_net.base.logger import get_logger
from taskd_net.job.api import destroy_taskd_worker, init_taskd_worker, send_to_manager

SOON = 10.0

pytestmark = pytest.mark.timeout(180)


@contextmanager
def handler(emit: Callable[[logging.LogRecord], None]) -> Iterator[list[str]]:
    """A handler of the application. Yields its lines."""
    lines: list[str] = []

    class Theirs(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            emit(record)

    theirs, logger = Theirs(logging.INFO), logging.getLogger("taskd_net")
    level = logger.level
    logger.addHandler(theirs)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(theirs)
        logger.setLevel(level)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Worker without a mesh, whose variables are set."""
    folder = tmp_path_factory.mktemp("logs")
    for name, value in {"RANK": "0", "LOCAL_WORLD_SIZE": "1", "TASKD_NET_UPSTREAM": "127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TASKD_LOG_PATH", str(folder))
    monkeypatch.setenv("TASKD_LOG_STDOUT", "False")
    logger = logging.getLogger("taskd_net")
    level = logger.level
    yield
    destroy_taskd_worker()
    # The Worker has put back the level that it found, which may be that of `handler`.
    logger.setLevel(level)


def test_handler_that_reports_over_the_mesh_gets_no_line_about_that(worker: None) -> None:
    outcomes: list[bool] = []

    def emit(record: logging.LogRecord) -> None:
        outcomes.append(send_to_manager(0, "STATUS", record.getMessage(), timeout=0.2))

    with handler(emit) as lines:
        assert send_to_manager(0, "STATUS") is False  # there is no Worker: one line
        assert (len(lines), outcomes) == (1, [False])
        assert init_taskd_worker(0)
        assert send_to_manager(0, "STATUS", timeout=0.5) is False
        assert destroy_taskd_worker()
    assert not any(outcomes)


def test_handler_that_raises_ends_no_call(worker: None, capfd: pytest.CaptureFixture[str]) -> None:
    def emit(_: logging.LogRecord) -> None:
        raise LookupError("of the application")

    with handler(emit) as lines:
        assert send_to_manager(0, "STATUS") is False
        assert init_taskd_worker(0)
        assert send_to_manager(0, "STATUS", timeout=0.3) is False
    assert lines and "of the application" in capfd.readouterr().err


def test_filter_that_raises_ends_no_call(worker: None) -> None:
    def refuse(_: logging.LogRecord) -> bool:
        raise LookupError("of the application")

    logger = logging.getLogger("taskd_net")
    logger.addFilter(refuse)
    try:
        assert send_to_manager(0, "STATUS") is False
    finally:
        logger.removeFilter(refuse)


def test_handler_that_blocks_stops_no_node() -> None:
    go_on = threading.Event()

    def emit(_: logging.LogRecord) -> None:
        go_on.wait(SOON)

    with handler(emit) as lines, BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        try:
            assert mgr.send("x", to="Mgr", timeout=SOON).ok
            assert mgr.receive(SOON).body == "x"
            assert not go_on.is_set()
        finally:
            go_on.set()
    assert lines[0].startswith("event=listening")


def test_handler_that_waits_for_the_node_whose_line_it_gets_is_answered() -> None:
    """Its lock is held by the thread that waits for the node's, which has a line for it."""
    reasons: list[str] = []
    with BlockingNode(NodeConfig.worker(server_rank=0, rank=0, upstream="127.0.0.1:1")) as node:

        def emit(record: logging.LogRecord) -> None:
            if record.getMessage().startswith("event=own"):
                node.run(other)
                with pytest.raises(NodeTimeout):
                    node.joined(0.1)
                reasons.append("answered")

        async def other(_: object) -> None:
            get_logger().warning("of_the_node")

        with handler(emit) as lines:
            get_logger().warning("own")
            wait_for(lines, "event=of_the_node")
    assert reasons == ["answered"]


def test_lines_of_a_node_are_there_when_its_call_returns() -> None:
    with handler(lambda _: None) as lines, BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")):
        wait_for(lines, "event=listening")
    assert handlers.WAIT_S < 1.0


def wait_for(lines: list[str], begin: str) -> None:
    """Wait until a handler has a line."""
    over = threading.Event()
    for _ in range(1000):
        if any(line.startswith(begin) for line in lines):
            return
        over.wait(0.01)
    raise AssertionError(lines)
