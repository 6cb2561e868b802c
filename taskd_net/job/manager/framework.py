"""The training framework's side of a Manager: calls of its controller, one after another, in a thread of its own."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

from taskd_net.base import limits
from taskd_net.base.vocabulary import EXIT, RESTART_ALL, START
from taskd_net.job.clusterd.codes import Code
from taskd_net.job.clusterd.controller import Controller, Ranks, Reports, carry_out
from taskd_net.job.clusterd.mindio import MindIO
from taskd_net.job.decide.job import CONTROLLER_S, Job
from taskd_net.job.decide.traffic import Call, Outcome, agent
from taskd_net.job.manager.threads import OwnThread

_STARTS: Final = (EXIT, RESTART_ALL, START)
"""Commands after which a node has new processes, or none."""


class Framework:
    """A controller at work, in the node's event loop.

    Args:
        job_id: of the Manager.
        controller: of the training framework; None for nobody.
        reports: where its reports go.
        failed: takes each call that has failed, and its error.
        log: takes the lines.
        patience: seconds for one call.
    """

    def __init__(
        self,
        job_id: str,
        controller: Controller | None,
        reports: Reports,
        failed: Callable[[Call, Exception], None],
        log: Any,
        patience: float = CONTROLLER_S,
    ) -> None:
        self._patience = patience
        self._name = f"controller of {job_id}"
        self._controller = controller
        self._reports = reports
        self._failed = failed
        self._log = log
        self._thread = OwnThread(self._name, application=True)
        self._calls: asyncio.Queue[tuple[Call, Callable[[], None]]] = asyncio.Queue()
        self._dump: asyncio.TimerHandle | None = None

    def call(self, call: Call, begun: Callable[[], None] = lambda: None) -> None:
        """Have the controller carry out a call, after those before.

        Args:
            call: it.
            begun: called when its turn has come.
        """
        if self._dump is not None:
            self._dump.cancel()
            self._dump = None
        self._calls.put_nowait((call, begun))

    def fault_seen(self, patience: float, begun: Callable[[Call], None] = lambda _: None) -> None:
        """Have MindIO write a checkpoint, once, where no call comes: it would end the training without one.

        Args:
            patience: seconds from the fault, which MindIO has reported.
            begun: called when the call's turn has come.
        """
        if isinstance(self._controller, MindIO) and self._dump is None:
            dump = Call("dump")
            queued = (dump, functools.partial(begun, dump))
            self._dump = asyncio.get_running_loop().call_later(patience, self._calls.put_nowait, queued)

    async def run(self) -> None:
        """Start the controller, and carry out its calls, until the task is cancelled. Then `close`."""
        await self._start()
        while True:
            call, begun = await self._calls.get()
            begun()
            await self._carry_out(call)

    async def close(self) -> None:
        """End the controller, unless a call hangs in it."""
        controller = self._controller
        try:
            if controller is not None and not self._thread.busy:
                await self._thread.call(controller.close, limits.HANDLER_GRACE_S)
        except Exception as error:  # noqa: BLE001 - a framework's; reported
            if self._thread.busy:
                self._log.warning("controller_killed", reason=f"it has not ended within {limits.HANDLER_GRACE_S:g} s")
            else:
                self._log.error("controller_failed", reason=repr(error), exc_info=error)
        finally:
            if controller is not None:
                controller.kill()
            self._thread.stop()

    async def serve(self) -> None:
        """Run, and close when the task is cancelled."""
        try:
            await self.run()
        finally:
            await self.close()

    async def _start(self) -> None:
        controller = self._controller
        if controller is None:
            self._log.warning("no_controller", reason="MindIO is not installed, and no other controller was given")
            return
        try:
            await self._thread.call(functools.partial(controller.start, self._reports), self._patience)
        except Exception as error:  # noqa: BLE001 - a framework's; reported
            self._log.error("controller_failed", reason=repr(error), exc_info=error)
            self._controller = None

    async def _carry_out(self, call: Call) -> None:
        work = functools.partial(carry_out, self._controller, call, self._reports)
        try:
            await self._thread.call(work, self._patience)
        except Exception as error:  # noqa: BLE001 - a framework's; reported
            if self._thread.busy:
                # A call that hangs keeps its thread; the next one gets a new thread.
                self._thread.abandon()
                self._thread = OwnThread(self._name, application=True)
            self._failed(call, error)


class Unheard(Reports):
    """The reports of a controller without ClusterD: each is one line in the log.

    Args:
        log: takes the lines.
        faulty: called at each fault.
    """

    def __init__(self, log: Any, faulty: Callable[[], object] = lambda: None) -> None:
        self._log = log
        self._faulty = faulty

    def stop_complete(self, code: int, msg: str, ranks: Ranks) -> int:
        """Nobody hears that the training has stopped."""
        return self._unheard("stop_complete")

    def strategies(self, ranks: Ranks, strategies: Iterable[str]) -> int:
        """Nobody chooses a strategy."""
        return self._unheard("strategies")

    def result(self, code: int, msg: str, ranks: Ranks, strategy: str) -> int:
        """Nobody hears of the end of a strategy."""
        return self._unheard("result")

    def fault_ranks(self, ranks: Ranks, codes: object = None) -> int:
        """Nobody hears of the fault; the Agents report it themselves."""
        self._faulty()
        return self._unheard("fault_ranks")

    def _unheard(self, report: str) -> int:
        self._log.info("controller_unheard", report=report)
        return Code.UN_REGISTRY


def without_clusterd(job_id: str, controller: Controller, log: Any, patience: float = CONTROLLER_S) -> Framework:
    """The controller of a job without ClusterD.

    MindIO writes a checkpoint at a fault of itself, unless somebody takes its reports: it waits for an order then, and
    ends the training without one. So it gets that order.

    Args:
        job_id: of the Manager.
        controller: of the training framework.
        log: takes the lines.
        patience: as for `Framework`.
    """
    loop = asyncio.get_running_loop()

    def failed(call: Call, error: Exception) -> None:
        log.error("controller_failed", call=call.name, reason=repr(error))

    def faulty() -> None:
        loop.call_soon_threadsafe(made.fault_seen, 0.0)

    made = Framework(job_id, controller, Unheard(log, faulty), failed, log, patience)
    return made


class Protection:
    """Nodes whose training processes have lost MindIO's controller, in the Manager's event loop.

    A process connects to the controller once, as it starts. So where a controller has ended without its processes (the
    Manager was killed, the controller has crashed), they train on unprotected: no order reaches them, until they are
    started again.

    Args:
        mindio: the controller.
        log: takes a line at each change.

    Attributes:
        unprotected: ranks of the nodes.
    """

    def __init__(self, mindio: MindIO, log: Any) -> None:
        self.unprotected: set[int] = set()
        self._mindio = mindio
        self._log = log

    def lose(self, job: Job) -> None:
        """The controller is lost: each node that trains is unprotected."""
        self.unprotected |= running(job)
        if self.unprotected:
            self._log.warning("training_unprotected", nodes=sorted(self.unprotected), reason=self._mindio.loss)
        else:
            self._mindio.regain()

    def carry_out(self, outcome: Outcome) -> None:
        """Commands go out. The nodes that they start again are protected."""
        if not self.unprotected:
            return
        if any(call.name == "restart" for call in outcome.calls):
            self.unprotected.clear()
        self.unprotected -= {node for node in self.unprotected if _is_started(node, outcome)}
        if not self.unprotected:
            self._mindio.regain()
            self._log.info("training_protected")


def running(job: Job) -> set[int]:
    """Nodes whose training processes run, but for those that a command on its way starts again."""
    records, outbox = job.state.records, job.state.outbox
    nodes = {rank for rank, each in records.agents.items() if each.registered} - records.asking - records.exited
    return {rank for rank in nodes if not any(outbox.has(agent(rank), code) for code in _STARTS)}


def _is_started(node: int, outcome: Outcome) -> bool:
    return any(each.to == agent(node) and each.code in _STARTS for each in outcome.commands)
