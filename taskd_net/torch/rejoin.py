"""`rejoin`: the training function of a rank, in one epoch after another of one process (`job.decide.epochs`).

```
  NEW ──┐                                 ┌─ it returns ─▶ FINISHED
        ├─ 302 ─▶ join ─▶ RUNNING: train_fn
  LEFT ─┘   ▲                             └─ a peer is gone, or 303 ─▶ leave ─▶ LEFT
            └───────────────────────────────────────────────────────────────┘
```
"""

from __future__ import annotations

import gc
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore

from taskd_net.base.codes import ArgumentTypeError, TaskdNetError
from taskd_net.base.logger import late_logger
from taskd_net.base.untrusted import natural, shown
from taskd_net.base.vocabulary import EPOCH_BEGIN, EPOCH_END, REASON, STORE
from taskd_net.base.waiting import HANDLER_LATE_S
from taskd_net.job import arguments
from taskd_net.job.api.worker import (
    destroy_taskd_worker,
    init_taskd_worker,
    register_handler,
    send_to_manager,
    slot,
    start_taskd_worker,
)
from taskd_net.job.decide import epochs
from taskd_net.job.decide.epochs import Part
from taskd_net.job.exchange import REGISTER_EVERY_S
from taskd_net.job.worker.worker import Command
from taskd_net.observe.job_view import SHOWN_CHARS
from taskd_net.torch import seam
from taskd_net.torch.epoch_group import EpochGroup, EpochOver, lost_a_peer, prepare

T = TypeVar("T")

log: Final = late_logger()

START: Final = "start"
"""The reason of a first epoch."""

STORE_S: Final = 60.0
"""Seconds for the connection to the store of an epoch: the Manager waits as long for all ranks to join."""

_STORE_CALL: Final = timedelta(minutes=5)
"""Time for a call of a store: torch's default."""

_MOST: Final = 2**31 - 1
_PORT_MOST: Final = 65_535

_failed: Final[list[EpochGroup]] = []
"""Groups of epochs that an error of the function has ended. Its traceback holds the models, for as long as the caller
likes, and they must not be the last to hold a group; so these stay until the process ends."""


class CannotRejoin(TaskdNetError):
    """`rejoin` cannot begin; the text says why."""


def rejoin(train_fn: Callable[[int, str], T], *, backend: str | None = None, timeout: timedelta | None = None) -> T:
    """Run the training function of this rank; run it again in this process when another rank was replaced.

    Under a Manager with `--in-place` it waits until the Manager has all ranks, joins torch's default process group, and
    calls the function. When a peer dies, or at the Manager's order, it leaves the group, reports that to the Manager,
    and begins again, under a new prefix of the agents' store. That may be another store than before, where node 0 was
    lost and has come back: `MASTER_ADDR` and `MASTER_PORT` follow it. Without such a Manager the function runs once.

    The function loads its state itself, from a checkpoint or by `broadcast` from a survivor, and makes everything that
    belongs to a process group anew: models of DDP, further groups. It lets errors of collectives pass.

    Args:
        train_fn: called with the number of the epoch, from 1, and the reason of its beginning, in words.
        backend: of torch's `init_process_group`.
        timeout: of torch's `init_process_group`: the longest that a collective may take. Default: 30 minutes with gloo.
            It also ends a collective of which gloo hears nothing more.

    Returns:
        The result of the function's last call.

    Raises:
        ArgumentTypeError: `train_fn` cannot be called.
        CannotRejoin: there is a process group, the agents have no store, this process cannot become a Worker, or the
            Manager of a job without a platform has been away for longer than its `--node-timeout` between two epochs.
        UnsupportedTorch: the installed torch has not been checked.
        ConfigError: a variable of the launcher is missing.
        Exception: of the function, if neither a lost peer nor the Manager has ended the epoch.
    """
    if not callable(train_fn):
        raise ArgumentTypeError(f"train_fn is {shown(train_fn)}; expected a function")
    if dist.is_initialized():
        raise CannotRejoin("there is a process group; expected none, because rejoin makes it")
    join: dict[str, Any] = {"backend": backend} | ({} if timeout is None else {"timeout": timeout})
    if os.environ.get(arguments.IN_PLACE) != "on":
        dist.init_process_group(**join)
        result = train_fn(1, START)
        if dist.is_initialized():
            dist.destroy_process_group()
        return result
    seam.check()
    prepare()
    rank, world, local = (arguments.rank_of_environment(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise CannotRejoin("TORCHELASTIC_USE_AGENT_STORE is not True; in place needs the store of the agents")
    stores = _Stores(os.environ.get("MASTER_ADDR", ""), arguments.rank_of_environment("MASTER_PORT"))
    patience = arguments.seconds_of_environment(arguments.MGR_PATIENCE, math.inf)
    with _commanded() as commands, _worker(rank):
        _report(Part(epochs.NEW, 0, world, local))
        while True:
            epoch = commands.get(patience)
            try:
                store = PrefixStore(epoch.prefix, stores.connect(epoch))
                with epoch.group.joined(store, rank, world, **join):
                    _report(Part(epochs.RUNNING, epoch.number, world, local), epoch.reason)
                    log.info("epoch_joined", epoch=epoch.number, reason=epoch.reason)
                    result = train_fn(epoch.number, epoch.reason)
                if not epoch.ended:
                    gc.collect()  # models that the function has left behind
                    epoch.group.forget()
                    _report(Part(epochs.FINISHED, epoch.number, world, local))
                    return result
                reason = epochs.ENDED
            except Exception as error:
                if not (epoch.ended or lost_a_peer(error)):
                    _failed.append(epoch.group)
                    raise
                reason = epochs.ENDED if epoch.ended else str(error).partition("\n")[0][:SHOWN_CHARS]
            gc.collect()
            epoch.group.forget()
            log.info("epoch_left", epoch=epoch.number, reason=reason)
            _report(Part(epochs.LEFT, epoch.number, world, local), reason)


@dataclass(slots=True)
class _Epoch:
    """An epoch that this rank was called to.

    Args:
        number: of the epoch.
        prefix: of its keys in the store.
        reason: of its beginning.
        store: address of the store, `HOST:PORT`; empty for that of the epoch before.
        group: its process groups.
        ended: the Manager has ended it.
    """

    number: int
    prefix: str
    reason: str
    store: str = ""
    group: EpochGroup = field(default_factory=EpochGroup)
    ended: bool = False

    def end(self) -> None:
        """End it, from any thread."""
        self.ended = True
        self.group.abort()


class _Stores:
    """The connection to the agents' store.

    Args:
        host, port: of the store at the start.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._store: TCPStore | None = None

    def connect(self, epoch: _Epoch) -> TCPStore:
        """Connect to the store of an epoch, unless that is so already.

        torch's call blocks signals, and waits for minutes where nobody answers, so a thread of its own makes it.

        Raises:
            EpochOver: the epoch has ended, or the store does not answer.
        """
        host, _, port = epoch.store.rpartition(":")
        number = natural(port, _PORT_MOST)
        address = self._address if number is None else (host.strip("[]"), number)
        if self._store is not None and address == self._address:
            return self._store
        name = f"{shown(address[0])}:{address[1]}"
        answers: SimpleQueue[TCPStore | Exception] = SimpleQueue()

        def connect() -> None:
            try:
                limit = timedelta(seconds=STORE_S)
                store = TCPStore(*address, is_master=False, wait_for_workers=False, timeout=limit)
                store.set_timeout(_STORE_CALL)
                answers.put(store)
            except Exception as error:  # noqa: BLE001 - any of torch's ends the epoch
                answers.put(error)

        threading.Thread(target=connect, name="connects-store", daemon=True).start()
        give_up_at = time.monotonic() + STORE_S
        while not epoch.ended and time.monotonic() < give_up_at:
            with suppress(Empty):
                answer = answers.get(timeout=HANDLER_LATE_S)
                if isinstance(answer, Exception):
                    raise EpochOver(f"no store at {name}: {shown(str(answer))}") from answer
                self._address, self._store = address, answer
                os.environ |= {"MASTER_ADDR": address[0], "MASTER_PORT": str(address[1])}
                return answer
        raise EpochOver(f"the store at {name} has not answered")


class _Commands:
    """The Manager's commands. One thread handles them, one after another; the training waits for epochs."""

    def __init__(self) -> None:
        self._called: SimpleQueue[_Epoch] = SimpleQueue()
        self._last = _Epoch(0, "", "")

    def get(self, patience: float) -> _Epoch:
        """Wait for the next epoch.

        Args:
            patience: seconds for which the Manager may be away.

        Raises:
            CannotRejoin: it has been away for longer.
        """
        give_up_at = time.monotonic() + patience
        while True:
            with suppress(Empty):
                return self._called.get(timeout=HANDLER_LATE_S)
            if slot.filled and slot.member.node.is_joined:
                give_up_at = time.monotonic() + patience
            elif time.monotonic() >= give_up_at:
                raise CannotRejoin(f"the Manager has been away for {patience:g} s, and no epoch can begin without it")

    def begin(self, command: Command) -> None:
        """302: an epoch begins. It ends an earlier one; one that is no later is a repetition."""
        number = natural(command.message, _MOST)
        if number is None:
            log.warning("epoch_unreadable", message=shown(command.message), uuid=command.uuid)
        elif number > self._last.number:
            self._last.end()
            extension = command.extension or {}
            prefix = f"taskd-net/epoch-{number}-{command.uuid}"
            self._last = _Epoch(number, prefix, extension.get(REASON, ""), extension.get(STORE, ""))
            self._called.put(self._last)

    def end(self, command: Command) -> None:
        """303: an epoch ends."""
        if command.message == str(self._last.number):
            self._last.end()


@contextmanager
def _commanded() -> Iterator[_Commands]:
    """Take the Manager's commands about epochs."""
    commands = _Commands()
    for code, handler in ((EPOCH_BEGIN, commands.begin), (EPOCH_END, commands.end)):
        register_handler(code, handler)
    try:
        yield commands
    finally:
        for code in (EPOCH_BEGIN, EPOCH_END):
            register_handler(code, None)


@contextmanager
def _worker(rank: int) -> Iterator[None]:
    """Be a Worker of the mesh: the script's own, or one for this block. After an error it lives on."""
    ours = not slot.filled
    if ours and not (init_taskd_worker(rank) and start_taskd_worker()):
        raise CannotRejoin("this process cannot become a Worker; the log says why")
    yield
    if ours:
        destroy_taskd_worker()


def _report(part: Part, reason: str = "") -> None:
    """Tell the Manager, in the background; the Worker repeats it after each of its registrations."""
    body = part.report(reason)
    timeout = REGISTER_EVERY_S
    send_to_manager(body.code, body.msg_type, body.message, body.extension, timeout=timeout, wait=False)
