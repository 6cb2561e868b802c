"""torch's process group of one epoch, which any thread can break.

A collective of gloo waits outside of Python, where neither a signal nor an exception reaches it, and gloo's `abort`
does nothing in torch 2.13. `destroy_process_group` leaves gloo's sockets open while anything holds the group, such as a
DDP model, so peers of a rank that has left wait on. The end of gloo's connections ends every collective, here and at
the peers. So this module ends the connections.

It ends them in two steps, because of gloo's sends. A send waits until its peer is ready to receive. If the write then
fails, because the connection has ended, gloo forgets that someone waits for the send. So reading ends first: gloo's own
waits fail, while writes here and at the peers succeed. A copy of each socket keeps the connection, until the peers have
read everything that was on its way. Then the connection ends, and they read that.

Gloo says nothing of its sockets, but it watches all those of a device by one epoll, and the kernel tells which files an
epoll watches. While an epoch lasts, each gloo group gets devices from here, with the numbers of their epolls. A device
keeps its epoll open, so the numbers hold. The device's listener stays as it is: gloo ends the process if that fails.

The end of a gloo group waits for gloo's threads, and they may wait for the interpreter's lock to drop a collective. The
last reference of Python's gives the lock up meanwhile; that of a DDP model keeps it, so the two would wait for each
other for ever. So `EpochGroup` keeps a reference to each of its groups until `forget`, after the end of the models.

NCCL has an `abort` that works, so groups of every backend but gloo are broken by that. It drops torch's groups as well,
and may run in another thread than the one that leaves them; each of the two takes the other's work for done. Torch's
watchdog of NCCL must not end the process at a peer's loss meanwhile, see `prepare`.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import PrefixStore, ProcessGroupGloo, distributed_c10d
from torch.distributed.constants import default_pg_timeout

from taskd_net.base import fork
from taskd_net.base.codes import TaskdNetError

_FILES: Final = Path("/proc/self/fd")
_EPOLL: Final = "anon_inode:[eventpoll]"
_WATCHED: Final = re.compile(r"^tfd:\s*(\d+) .* ino:([0-9a-f]+) ", re.MULTILINE)

_LOOK: Final = timedelta(seconds=0.25)
"""Time between two looks for the end of an epoch whose ranks are not all there."""

_LAST_READS_S: Final = 0.2
"""Seconds in which a peer's thread of gloo reads the rest of a connection: it waits for a processor, and for nothing
else."""

_INTERFACES: Final = "GLOO_SOCKET_IFNAME"
"""torch's variable: network interfaces of gloo."""

_NCCL_ERRORS: Final = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
"""torch's variable: what NCCL's watchdog does at an error; 0 for nothing, else it ends the process. torch asks for 0
where groups are aborted."""

_OF_TORCHS_AGENT: Final = "1"
"""Its value in every worker, unless it was set for the launcher: torch's agent sets it."""


class EpochOver(TaskdNetError, RuntimeError):
    """The epoch has ended before this rank was in its process group."""


class EpochGroup:
    """The process groups of one epoch: torch's default group, and all others that are made until it is left."""

    def __init__(self) -> None:
        self._changing = fork.Lock()
        self._over = threading.Event()
        self._broken = threading.Event()
        self._devices: list[Any] = []
        self._epolls: list[int] = []
        self._groups: list[Any] = []

    @property
    def over(self) -> bool:
        """True once it has been broken or left."""
        return self._over.is_set()

    @contextmanager
    def joined(self, store: PrefixStore, rank: int, world: int, **arguments: Any) -> Iterator[None]:
        """Join torch's default group, and leave it at the end of the block.

        Args:
            store: empty, and the same for all ranks.
            rank: of this process.
            world: number of ranks.
            arguments: further ones of `init_process_group`.

        Raises:
            EpochOver: the epoch has ended, and its ranks will not all come.
            DistError, RuntimeError: a rank has gone since.
        """
        original = ProcessGroupGloo.__init__

        @wraps(original)
        def make(
            group: Any, store: Any, rank: int, size: int, timeout: Any = default_pg_timeout, **more: object
        ) -> None:
            options, epolls = self._options(timeout, **more) if isinstance(timeout, timedelta) else (timeout, [])
            self._await_all(store, size)
            original(group, store, rank, size, options)
            self._groups.append(group)
            self._take(epolls)

        ProcessGroupGloo.__init__ = make
        try:
            self._await_all(store, world)
            dist.init_process_group(store=store, rank=rank, world_size=world, **arguments)
            yield
            if not self.over:
                _leave(dist.destroy_process_group)
        finally:
            ProcessGroupGloo.__init__ = original
            self.abort()
            _leave(dist.destroy_process_group)
            self._devices.clear()

    def abort(self) -> None:
        """Break every group, from any thread: collectives fail here and at the peers. Idempotent.

        It returns when all groups are broken, after 0.2 s with gloo, also where another thread has begun with that:
        that thread must not drop torch's groups when those of the next epoch are there.
        """
        with self._changing:
            first = not self.over
            self._over.set()
        if not first:
            self._broken.wait()
            return
        connections: list[socket.socket] = []
        try:
            for epoll in self._epolls:  # no other comes: it is over
                connections += _end_reading(epoll)
            _abort_others()
        finally:
            _end(connections)
            self._broken.set()

    def forget(self) -> None:
        """Let the groups go, after `joined`, when the models of the epoch are gone. Idempotent."""
        self._groups.clear()

    def _await_all(self, store: PrefixStore, world: int) -> None:
        """Wait until every rank of a group is about to join.

        Joining itself cannot be ended from outside, and would wait for a rank that has left the epoch before.
        """
        if store.add("arrived", 1) == world:
            store.set("complete", "")
        while True:
            try:
                store.wait(["complete"], _LOOK)  # the store tells at once
                return
            except dist.DistStoreError:
                # A store that has gone raises DistNetworkError.
                if self.over:
                    raise EpochOver("the epoch has ended before all ranks were there") from None

    def _options(self, timeout: timedelta, **more: object) -> tuple[Any, list[int]]:
        """Options of a gloo group, as torch makes them, and the epolls of its devices.

        Args:
            timeout: of the group.
            more: further ones, by name: `enable_reconfigure` from torch 2.14 on.
        """
        devices: list[Any] = []
        epolls: list[int] = []
        with self._changing:
            if self.over:
                raise EpochOver("the epoch has ended; no group can be made in it")
            for create in _creators():
                # No thread of Python runs meanwhile.
                before = _epolls()
                devices.append(create())
                epolls += sorted(_epolls() - before)
            self._devices += devices
        options = ProcessGroupGloo._Options()
        options._devices, options._threads, options._timeout = devices, 2 * len(devices), timeout
        for name, value in more.items():
            setattr(options, name, value)
        return options, epolls

    def _take(self, epolls: list[int]) -> None:
        """Have the end of the epoch break a group that is whole now.

        Half of its connections, broken before, would leave other ranks in the making of it.
        """
        with self._changing:
            over = self.over
            if not over:
                self._epolls += epolls
        if over:
            _end([each for epoll in epolls for each in _end_reading(epoll)])
            raise EpochOver("the epoch has ended while a group was made in it")


def prepare() -> None:
    """Have NCCL's watchdog leave errors to this package, unless the user has chosen another way of it."""
    if os.environ.get(_NCCL_ERRORS, _OF_TORCHS_AGENT) == _OF_TORCHS_AGENT:
        os.environ[_NCCL_ERRORS] = "0"


def _abort_others() -> None:
    """Abort the groups of other backends than gloo, whose `abort` does nothing."""

    def abort() -> None:
        if set(re.split("[:,]", dist.get_backend_config())[1::2]) - {"gloo"}:
            distributed_c10d._abort_process_group()

    _leave(abort)


def _leave(way: Callable[[], object]) -> None:
    """Leave torch's groups in one way; do nothing where another thread has done so by another one."""
    try:
        if dist.is_initialized():
            way()
    except (AssertionError, LookupError, RuntimeError, ValueError):  # torch's, for groups that are gone meanwhile
        if dist.is_initialized():
            raise


def lost_a_peer(error: BaseException) -> bool:
    """True for the error of a collective that has lost a peer, also as the cause of another error.

    torch has no class for those of gloo, whose texts begin with the place in gloo's source.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, dist.DistError | EpochOver) or (isinstance(seen, RuntimeError) and "/gloo/" in str(seen)):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _creators() -> list[Any]:
    """Functions that make the devices of a gloo group, as torch chooses them."""
    names = os.environ.get(_INTERFACES, "")
    if not names:
        return [ProcessGroupGloo.create_default_device]
    return [partial(ProcessGroupGloo.create_device, interface=name) for name in names.split(",")]


def _epolls() -> set[int]:
    """The epolls of this process."""
    found = set()
    for file in _FILES.iterdir():
        with suppress(FileNotFoundError):
            if str(file.readlink()) == _EPOLL:
                found.add(int(file.name))
    return found


def _end_reading(epoll: int) -> list[socket.socket]:
    """End the reading of connections that an epoll watches. Returns copies of them."""
    copies = []
    for number, inode in _WATCHED.findall(Path(f"/proc/self/fdinfo/{epoll}").read_text()):
        try:
            copy = os.dup(int(number))
        except OSError:  # gloo has closed it
            continue
        status = os.fstat(copy)
        if status.st_ino != int(inode, 16) or not stat.S_ISSOCK(status.st_mode):
            os.close(copy)  # a pipe of gloo's, or another file that has taken the number since
            continue
        connection = socket.socket(fileno=copy)
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            connection.close()
            continue
        with suppress(OSError):  # the peer has ended it
            connection.shutdown(socket.SHUT_RD)
        copies.append(connection)
    return copies


def _end(connections: list[socket.socket]) -> None:
    """End connections, after the last reads of the peers."""
    if connections:
        time.sleep(_LAST_READS_S)
    for connection in connections:
        with connection, suppress(OSError):  # the peer has ended it
            connection.shutdown(socket.SHUT_RDWR)
