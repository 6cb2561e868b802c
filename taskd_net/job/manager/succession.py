"""The turns of a job's Managers, as one process has them: a standby until it leads, and again after another has led.

A job has as many such processes as its operator likes, and one of them leads (`taskd_net.job.keep.leader`). A term is
one `Manager`, which begins with the state in etcd and is dropped at its end. The node stays: while it stands by, it
refuses children (`Node.stand_by`), so that they are with the Manager that decides.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final, Self

from taskd_net.base.codes import ConfigError, NodeClosed
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.state import NewerRelease
from taskd_net.job.keep.client import EtcdError
from taskd_net.job.keep.leader import Leader, clock
from taskd_net.job.manager.config import ManagerConfig
from taskd_net.job.manager.kept import leader_of
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.job.manager.outlook import LeaderStep, Outlook
from taskd_net.job.manager.runtime import Manager
from taskd_net.node.node import Node

REPLACED: Final = "standby: another Manager leads"


class Succession:
    """The Manager of a job, while this process leads.

    Use it as `async with Succession(node, config) as succession`, in place of `Manager`. With the state in a file there
    is one term, from start to close. With the state in etcd the node had better begin with `standby`.

    Args:
        node: the Mgr.
        config: the settings.
        limits: times and sizes of each `Manager`.
        more: further arguments of each `Manager`.

    Attributes:
        manager: of the present term, also while it begins; None while this process stands by.
    """

    def __init__(
        self, node: Node, config: ManagerConfig, *, limits: ManagerLimits = ManagerLimits(), **more: Any
    ) -> None:
        self._node = node
        self._config = config.rooted()
        self._limits = limits
        self._more = {"limits": limits} | more
        self._log = get_logger(node=str(node.position), job=config.job_id or "")
        self.manager: Manager | None = None
        self._resigned = asyncio.Event()
        self._turns: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def leads(self) -> bool:
        """True during a term, once its Manager has begun to decide."""
        return self.manager is not None and self.manager.started

    async def start(self) -> Self:
        """Lead if nobody does, else stand by.

        Raises:
            ConfigError: as `Manager.start`; that another Manager leads is none.
            NodeClosed: it was closed meanwhile.
        """
        if not self._config.in_etcd:
            self.manager = Manager(self._node, self._config, **self._more)
            await self.manager.start()
            return self
        leader = self._candidate()
        try:
            holder = await leader.begin(self._config.job_id or "")
            if self._closing:
                raise NodeClosed("the Manager was closed while it started")
            if holder is None:
                await self._lead(leader)
            else:
                self._stand_by(holder)
        except BaseException:
            await leader.close()
            raise
        self._turns = asyncio.create_task(self._take_turns(leader), name=f"turns of {self._config.job_id}")
        return self

    async def close(self) -> None:
        """End the term, and the wait for the next one. Idempotent."""
        self._closing = True
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.cancel()
            await asyncio.wait([turns])
        manager, self.manager = self.manager, None
        if manager is not None:
            await manager.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _candidate(self) -> Leader:
        return leader_of(self._config, self._node, self._log, self._limits.etcd)

    async def _take_turns(self, leader: Leader) -> None:
        while True:
            pause = 0.0
            try:
                if self.manager is None:
                    await self._claim(leader)
                    await self._lead(leader)
                assert self.manager is not None
                if await self._term(leader):
                    pause = self._limits.etcd.yields_s
                await self.manager.close()
                self.manager = None
            except Exception as error:  # noqa: BLE001 - logged
                # A standby never gives up. Another one may be able to lead: this one is not the first to ask again.
                known = isinstance(error, ConfigError)
                self._log.error("lead_failed", reason=str(error) if known else repr(error), exc_info=not known)
                pause = self._limits.etcd.lease_s
            finally:
                if self.manager is None:
                    await leader.close()
            await asyncio.sleep(pause)
            leader = self._candidate()

    async def _claim(self, leader: Leader) -> None:
        """Wait until this process leads."""
        yields: float | None = None
        while True:
            try:
                holder = await (leader.claim() if yields is None else leader.holder())
                if holder is not None:
                    self._stand_by(holder)
                elif yields is None:
                    return
                if yields is not None and clock() >= yields:
                    yields = None
                    self._log.info("standby_sees_etcd")
            except NewerRelease as error:
                text = f"standby of a newer release: {error}"
                if self._node.standby != text:
                    self._log.error("standby_cannot_lead", reason=str(error))
                    self._node.stand_by(text)
            except EtcdError as error:
                if yields is None:
                    self._log.warning("standby_without_etcd", reason=str(error))
                # The Manager that has led goes on after an outage of all of etcd: the children are with it.
                yields = clock() + self._limits.etcd.yields_s
            await asyncio.sleep(self._limits.etcd.look_s)

    async def _lead(self, leader: Leader) -> None:
        """Begin a term.

        Raises:
            ConfigError: the state cannot be read.
        """
        self._resigned.clear()
        self.manager = Manager(self._node, self._config, leader=leader, resigned=self._resign, **self._more)
        try:
            await self.manager.start()
        except BaseException:
            self.manager = None
            raise
        if not self._resigned.is_set():
            self._node.stand_by("")

    async def _term(self, leader: Leader) -> bool:
        """Wait for the end of the term. Returns whether this process ends it itself (`Outlook`)."""
        outlook = Outlook(self._limits.unsure_s, self._limits.alone_s)
        while not self._resigned.is_set():
            step, seconds = outlook.look(
                clock(), children=bool(self._node.driver.links), decides=leader.decides(), lost=leader.lost.is_set()
            )
            match step:
                case LeaderStep.RESIGN:
                    self._log.warning("leader_without_children", seconds=round(seconds))
                    self._node.stand_by("standby: no child reaches this Manager")
                    return True
                case LeaderStep.STAND_BY:
                    self._node.stand_by(REPLACED)  # the Manager may still wait for a commit
                case LeaderStep.SEND_ELSEWHERE:
                    self._log.warning("children_sent_elsewhere", seconds=round(seconds))
                    self._node.send_elsewhere()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.etcd.look_s):
                    await self._resigned.wait()
        return False

    def _resign(self) -> None:
        """Another Manager leads: send the children there at once."""
        self._node.stand_by(REPLACED)
        self._resigned.set()

    def _stand_by(self, holder: str) -> None:
        text = f"standby of {holder}"
        if self._node.standby != text:
            self._log.info("stands_by", leader=holder)
            self._node.stand_by(text)
