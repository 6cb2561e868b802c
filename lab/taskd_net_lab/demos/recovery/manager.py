"""The program of the demo's Mgr: a Manager that subscribes to ClusterD, with a double of a training framework."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import uvloop

from taskd_net import Node, NodeConfig
from taskd_net.base import logs
from taskd_net.job.clusterd import ClusterdError, HandlerController, Reports
from taskd_net.job.clusterd.controller import Handler
from taskd_net.job.decide.traffic import Call
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.observe.job_view import SUBSCRIBED
from taskd_net_lab.demos.job.manager import say, tell_registered
from taskd_net_lab.demos.job.terms import BEGAN, COMMAND
from taskd_net_lab.demos.job.witness import Witness

SAYS: Final = "DEMO_RECOVERY_SAYS"
"""Variable with the framework's codes, other than 0, as a JSON object: by strategy, or by action."""

OFFERS: Final = "DEMO_RECOVERY_OFFERS"
"""Variable with the strategies that the framework reports, with commas."""

WATCHES: Final = "DEMO_RECOVERY_WATCHES"
"""Variable, `on` for a framework that reports dead processes."""

DIED: Final = "died"
"""The framework asks this before it reports dead processes."""

ISOLATED: Final = "isolated"
"""The framework asks this before it reports that the job runs without the isolated ranks."""

AWAY: Final = "away"
"""The Manager has seen the end of its stream of signals."""

REPORTED: Final = "reported"
"""A report of the framework has come to its end."""

LOOK_S: Final = 0.05

INTERVAL_MS: Final = 1000
"""The longest interval of TaskD's: a Worker under stress test counts as hung after 30 s, and not after 3 s, which a
busy machine may take from it."""


class _Controller(HandlerController):
    """Handlers, and a function that gets the reports at the start."""

    def __init__(self, started: Callable[[Reports], None], handlers: Mapping[str, Handler]) -> None:
        super().__init__(handlers)
        self._started = started

    def start(self, reports: Reports) -> None:
        super().start(reports)
        self._started(reports)


class TrainingDouble:
    """The double: it reports success, or the code that the scenario has for it, when the controller lets it.

    Args:
        witness: the connection to the controller of the demo.
    """

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._says: dict[str, list[int]] = json.loads(os.environ.get(SAYS, "{}"))
        self._offers = os.environ.get(OFFERS, "retry,recover,downgrade,dump,exit").split(",")
        self._reports: Reports | None = None
        self.controller = _Controller(
            self._start,
            {
                "stop_train": self._stop,
                "pause_train": self._stop,
                "on_global_rank": self._choose,
                "change_strategy": self._change,
                "save_and_exit": self._save,
                "hot switch": self._prepare,
                "stop switch": self._prepare,
            },
        )

    def _start(self, reports: Reports) -> None:
        self._reports = reports

    def _saw(self, text: str) -> int:
        self._witness.say(COMMAND, text=text)
        self._witness.ask(text)
        codes = self._says.get(text)
        return codes.pop(0) if codes else 0

    def _report(self, report: Callable[[], int]) -> None:
        try:
            report()
        finally:
            self._witness.say(REPORTED)

    def _stop(self, call: Call, reports: Reports) -> None:
        code = self._saw(call.text)
        self._report(lambda: reports.stop_complete(code, "", call.ranks))

    def _choose(self, call: Call, reports: Reports) -> None:
        self._saw(f"ranks {' '.join(map(str, sorted(call.ranks)))}")
        self._report(lambda: reports.strategies(call.ranks, self._offers))

    def _change(self, call: Call, reports: Reports) -> None:
        code = self._saw(call.text)
        self._report(lambda: reports.result(code, "", {2: 1, 3: 1} if code == 201 else {}, call.text))
        if code == 201:
            self._witness.ask(ISOLATED)
            self._report(lambda: reports.result(0, "", {}, call.text))

    def _save(self, _: Call, reports: Reports) -> None:
        code = self._saw("save")
        self._report(lambda: reports.result(code, "", {}, "dump"))

    def _prepare(self, call: Call, reports: Reports) -> None:
        self._saw(call.text)
        if call.text == "hot switch":
            self._report(lambda: reports.strategies(call.ranks, ["migration"]))

    async def watch(self, manager: Manager) -> None:
        """Report processes that have died, once each, as a framework does that sees them go."""
        before: set[int] = set()
        while True:
            agents = manager.job.state.records.agents.values()
            ranks = {rank for agent in agents if agent.fault is not None for rank in agent.fault.ranks}
            if ranks - before:
                await asyncio.to_thread(self._died, ranks - before)
            before = ranks
            await asyncio.sleep(LOOK_S)

    def _died(self, ranks: Iterable[int]) -> None:
        self._witness.ask(DIED)
        reports = self._reports
        assert reports is not None
        with contextlib.suppress(ClusterdError):  # ClusterD is away: it hears of the fault from the platform
            self._report(lambda: reports.fault_ranks(dict.fromkeys(ranks, 1)))


async def tell_away(manager: Manager) -> None:
    """Tell the controller of each end of the stream of signals."""
    before = ""
    while True:
        state = manager.view().clusterd.state
        if state != before == SUBSCRIBED:
            say("ClusterD", AWAY)
        before = state
        await asyncio.sleep(LOOK_S)


async def _run(listen: str, config: ManagerConfig) -> None:
    framework = TrainingDouble(Witness("Framework"))
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with (
        Node(NodeConfig.mgr(listen=listen, confirms=True)) as node,
        Manager(node, config, framework=framework.controller) as manager,
    ):
        say("Mgr", BEGAN)
        tasks = [asyncio.create_task(tell_registered(node, manager)), asyncio.create_task(tell_away(manager))]
        if os.environ.get(WATCHES) == "on":
            tasks.append(asyncio.create_task(framework.watch(manager)))
        await stdin.read()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def main() -> None:
    """Run the Mgr until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m taskd_net_lab.demos.recovery.manager", description=main.__doc__)
    parser.add_argument("--listen", required=True, help="host:port")
    parser.add_argument("--clusterd", required=True, help="host:port of ClusterD")
    parser.add_argument("--state", required=True, help="the state file")
    parser.add_argument("--reset-file", required=True, help="the file with RetryTime")
    parser.add_argument("--faults", help="a JSON object with settings for faults of devices")
    args = parser.parse_args()
    logs.start("manager.log", stdout=False)
    config = ManagerConfig(
        job_id="demo",
        nodes=2,
        processes_per_node=2,
        fault_recover="on",
        clusterd_addr=args.clusterd,
        state=args.state,
        reset_file=args.reset_file,
        process_interval=INTERVAL_MS,
        **json.loads(args.faults or "{}"),
    )
    uvloop.run(_run(args.listen, config))


if __name__ == "__main__":
    main()
