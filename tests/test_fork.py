"""Locks in a forked child: free, whoever held them in the parent."""

from __future__ import annotations

import ast
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import taskd_net
from taskd_net.base import fork

pytestmark = pytest.mark.oldest

CHILD_S = 10


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child. Returns its exit code; -SIGALRM if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_S)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def held_elsewhere(lock: fork.Lock) -> Iterator[None]:
    """Another thread holds it."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def take(lock: fork.Lock) -> None:
    """Take it twice, as it is re-entrant."""
    with lock, lock:
        pass


def test_lock_that_another_thread_holds_is_free_in_the_child() -> None:
    lock = fork.Lock()
    with held_elsewhere(lock):
        assert in_child(lambda: take(lock)) == 0
    take(lock)


def test_lock_that_the_forking_thread_holds_is_still_its_own_in_the_child() -> None:
    lock = fork.Lock()
    children: list[int] = []

    def fork_while_it_is_held() -> None:
        with lock:
            children.append(in_child(leave))
        take(lock)

    def leave() -> None:
        lock.__exit__(None, None, None)
        # Free now, for every thread of the child.
        thread = threading.Thread(target=take, args=(lock,))
        thread.start()
        thread.join()

    fork_while_it_is_held()
    assert children == [0]


def test_fork_waits_for_no_lock() -> None:
    """A thread that holds one may itself wait for the thread that forks."""
    lock = fork.Lock()
    with held_elsewhere(lock):
        assert in_child(lambda: None) == 0


def test_lock_excludes_other_threads() -> None:
    lock, order = fork.Lock(), list[str]()

    def second() -> None:
        take(lock)
        order.append("second")

    with held_elsewhere(lock):
        thread = threading.Thread(target=second)
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_every_lock_of_the_package_is_of_this_kind() -> None:
    """Nor does anything take one before a fork, which could wait for ever."""
    package = Path(taskd_net.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            module, _, kind = name.rpartition(".")
            if module != "asyncio" and kind in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"):
                found.append((path.relative_to(package).as_posix(), name))
            if name == "os.register_at_fork":
                assert isinstance(node, ast.Call)
                assert [keyword.arg for keyword in node.keywords] == ["after_in_child"], path
    assert {name for _, name in found} == {"fork.Lock"}
