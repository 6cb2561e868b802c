"""Doubles of a Manager's node, disk and logger, which write down all that passes between them and the Manager."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from taskd_net import Ack, Code, Message, NodeConfig, Position
from taskd_net.base.body import Body
from taskd_net.base.vocabulary import AFTER, INCARNATION, MEANT_FOR, RESTART_ALL, RESTART_RANKS
from taskd_net.job.decide.events import Event, FaultFiles
from taskd_net.job.decide.traffic import Call, Reply, Reset
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.keeping import Keeping
from tests.jobs.scene import words
from tests.polling import until

RESTING_TURNS = 3
"""Turns of the loop without anything to do: the end of a commit is taken in one turn after its thread is free."""

_ALWAYS = ("plugins", "rest")
"""Parts that may be in each commit."""


class Lines:
    """Lines that one process of the Manager causes; none after it was killed."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.ended = False

    def add(self, line: str) -> None:
        if not self.ended:
            self._lines.append(f"  {line}")


class Disk:
    """A state file in memory, and the number of the process that may write to it."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.full = False
        self.process = 0


class DiskStore:
    """Stands for `store.Store`."""

    def __init__(self, disk: Disk, lines: Lines) -> None:
        self.path = "state"
        self._disk = disk
        self._process = disk.process
        self._lines = lines

    def open(self) -> dict[str, str]:
        return dict(self._disk.parts)

    def write(self, parts: Mapping[str, str | None]) -> None:
        if self._process != self._disk.process:
            return  # this process was killed
        if self._disk.full:
            raise sqlite3.OperationalError("database or disk is full")
        named = [name if parts[name] is not None else f"-{name}" for name in sorted(parts) if name not in _ALWAYS]
        changed = _undated(parts.get("rest")) != _undated(self._disk.parts.get("rest")) or "plugins" in parts
        if named or changed:
            self._lines.add(f"commit {' '.join(named) or 'the rest'}")
        for name, text in parts.items():
            if text is None:
                self._disk.parts.pop(name, None)
            else:
                self._disk.parts[name] = text

    def close(self) -> None:
        """The state stays in memory."""


class MeshNode:
    """Stands for the Mgr's node. Receivers take a message at once, unless they are `away`; then no answer comes."""

    def __init__(self, lines: Lines, away: set[str], restarts: dict[str, str]) -> None:
        self.position = Position.mgr()
        self._restarts = restarts
        self.config = NodeConfig.mgr(listen="127.0.0.1:0")
        self.address = None
        router = SimpleNamespace(routes=SimpleNamespace(receivers=lambda destination: None))
        self.driver = SimpleNamespace(job_view=None, router=router)
        self.waiting = 0
        self._lines = lines
        self._away = away
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()

    def put(self, message: Message) -> None:
        """A message arrives."""
        self._inbox.put_nowait(message)

    async def receive_all(self) -> list[Message]:
        messages = [await self._inbox.get()]
        while not self._inbox.empty():
            messages.append(self._inbox.get_nowait())
        return messages

    def confirm(self, messages: Sequence[Message]) -> None:
        if messages:
            self._lines.add("Ack 0 to " + ", ".join(f"{message.src} {message.uuid}" for message in messages))

    def close_inbox(self) -> None:
        """Nobody sends any more."""

    async def send(self, body: str, *, to: str, uuid: str, **_: object) -> Ack:
        self._lines.add(f"→ {to} {_body(Body.parse(body))} ({uuid})")
        if to in self._away:
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.waiting -= 1
        if Body.parse(body).code in (RESTART_ALL, RESTART_RANKS):
            self._restarts[to] = uuid
        return Ack(uuid, Code.OK, Position.parse(to))


class Log:
    """Stands for the logger: warnings and errors become lines."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def info(self, event: str, **_: object) -> None:
        """Left out."""

    def warning(self, event: str, **_: object) -> None:
        self._lines.add(f"WARNING {event}")

    def error(self, event: str, **_: object) -> None:
        self._lines.add(f"ERROR {event}")


class Shell:
    """A Manager between doubles. Each process of it has the state that the one before has committed.

    Args:
        monkeypatch: puts the doubles into the Manager's modules.
        config: of the Manager.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, config: ManagerConfig) -> None:
        self.lines: list[str] = []
        self.away: set[str] = set()
        self.restarts: dict[str, str] = {}
        """The uuid of the last 208 or 209 that each Agent's process has taken."""
        self.disk = Disk()
        self.signals: asyncio.Queue[Event] = asyncio.Queue()
        self.resets: asyncio.Queue[bool] = asyncio.Queue()
        self.manager: Manager
        self.node: MeshNode
        self._config = config
        self._messages = 0
        self._heard = Lines(self.lines)
        monkeypatch.setattr("taskd_net.job.manager.keeping.Store", lambda *_: DiskStore(self.disk, self._heard))
        monkeypatch.setattr("taskd_net.job.manager.runtime.get_logger", lambda **_: Log(self._heard))

    def say(self, text: str) -> None:
        """A heading for what follows."""
        self.lines += ["", f"# {text}"] if self.lines else [f"# {text}"]

    async def start(self) -> None:
        """A process of the Manager begins."""
        self._heard = heard = Lines(self.lines)
        self.disk.process += 1
        self.node = MeshNode(heard, self.away, self.restarts)

        def controller(call: Call) -> None:
            heard.add(f"controller {call.name} {call.text}".rstrip())

        def reply(answer: Reply) -> bool:
            heard.add(f"clusterd {answer.rpc} {answer.result} ({answer.uuid})")
            return True

        async def on_reset(reset: Reset) -> bool:
            heard.add(f"reset {reset.device} {list(reset.ranks)} ({reset.uuid})")
            return await self.resets.get()

        with_clusterd = {"signals": self.signals, "reply": reply} if self._config.clusterd else {}
        node: Any = self.node
        self.manager = Manager(
            node,
            self._config,
            controller=controller,
            on_reset=on_reset,
            **with_clusterd,  # type: ignore[arg-type]
        )
        await self.manager.start()
        await self.rest()

    async def kill(self) -> None:
        """The process ends where it stands: nothing of it is stored, sent or answered any more."""
        self._heard.add("killed with -9")
        self._heard.ended = True
        self.disk.process += 1
        await self.manager.close()

    def report(self, src: str, msg_type: str, code: int, message: str = "", **extension: str) -> None:
        """A message of an Agent or a Worker arrives."""
        self._messages += 1
        body = Body(msg_type, code, message, extension)
        uuid, position = f"m{self._messages}", Position.parse(src)
        self.lines.append(f"{src} {_body(body)} ({uuid})")
        self.node.put(Message(uuid, "default", True, position, Position.mgr(), 0, body.to_json()))

    def fault(self, rank: int, *ranks: int) -> None:
        """An Agent reports failed ranks."""
        message = json.dumps({"fault_ranks": list(ranks), "restart_times": -1})
        after = self.restarts.get(f"Agent/{rank}")
        self.report(f"Agent/{rank}", "STATUS", 202, message, **({AFTER: after} if after else {}))

    def begin(self, rank: int, process: str) -> None:
        """A new process of an Agent of this package registers, and asks for the go."""
        self.restarts.pop(f"Agent/{rank}", None)
        self.report(f"Agent/{rank}", "REGISTER", 0, Incarnation=process)
        self.report(f"Agent/{rank}", "STATUS", 201, "3")

    def signal(self, event: Event) -> None:
        """ClusterD says something."""
        self.lines.append(words(event))
        self.signals.put_nowait(event)

    def files(self, files: Mapping[str, str]) -> None:
        """The files with the rules for faults of devices are there."""
        self.lines.append(f"files {', '.join(files)}")
        self.manager._take(FaultFiles(files))

    def reset_ends(self, done: bool) -> None:
        """The reset under way comes to its end."""
        self.lines.append("the device is back" if done else "the device is not back")
        self.resets.put_nowait(done)

    def retry_time(self, value: int) -> None:
        """The platform's file has another RetryTime."""
        self.lines.append(f"RetryTime {value}")
        self.manager._retried(value)

    async def rest(self) -> None:
        """Wait until the Manager has nothing to do that time does not bring."""
        turns = 0

        def rests() -> bool:
            nonlocal turns
            turns = turns + 1 if self._rests() else 0
            return turns >= RESTING_TURNS

        await until(rests, pause=0)

    def store_again(self) -> None:
        """The pause after a failed commit is over."""
        assert isinstance(self.manager._keeping, Keeping)
        self.manager._keeping.again = 0.0
        self.manager._changed.set()

    def transcript(self) -> str:
        """Everything so far, with `u` for the first process's uuids, `v` for the second's."""
        text = "\n".join(self.lines) + "\n"
        seeds = dict.fromkeys(re.findall(r"\b[0-9a-f]{16}(?=-\d)", text))
        for name, seed in zip("uvw", seeds, strict=False):
            text = text.replace(seed, name)
        return text

    def _rests(self) -> bool:
        manager, keeping = self.manager, self.manager._keeping
        assert isinstance(keeping, Keeping)
        busy = not self.resets.empty() or keeping._thread.busy or manager._changed.is_set() or not self.signals.empty()
        waits = manager.job.wake > manager._now() + 1.0 and len(manager._dispatch._sending) == self.node.waiting
        return waits and not busy and not manager._unconfirmed and self.node._inbox.empty()


def _undated(rest: str | None) -> object:
    """The part `rest` without the times of the last tick. One in which nothing was due comes before an Ack or after."""
    read: Any = json.loads(rest or "null")
    if read:
        for name in ("now", "ticked", "dirty"):
            read["state"].pop(name)
    return read


def _body(body: Body) -> str:
    extension = {key: value for key, value in body.extension.items() if key not in (INCARNATION, MEANT_FOR)}
    details = json.dumps(extension) if extension else ""
    return " ".join(filter(None, (body.msg_type, str(body.code), body.message, details)))
