"""Recovery under ClusterD with two Managers, whose leader is killed or ended at each stage of a round."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from taskd_net_lab.demos.job.evidence import Seen
from taskd_net_lab.demos.job.run import problems
from taskd_net_lab.demos.job.scenarios import Scenario
from taskd_net_lab.demos.job.stage import PATIENCE_S, Missed
from taskd_net_lab.demos.job.terms import BEGAN, ENDED
from taskd_net_lab.demos.recovery.flows import RECOVER, RETRY, Flow
from taskd_net_lab.demos.recovery.kills import MGR, RESTARTS, expected, kill_at_each_stage
from taskd_net_lab.demos.recovery.stage import RecoveryStage
from tests.etcd.server import ETCD, WHY_NOT, Member

pytestmark = [pytest.mark.skipif(ETCD is None, reason=WHY_NOT), pytest.mark.timeout(600)]


class FailoverStage(RecoveryStage):
    """A stage with two Mgrs at two addresses. The one that ends is started again, and stands by.

    Attributes:
        number: the signal that the leader gets.
    """

    number = signal.SIGKILL

    def __init__(self, **variables: str) -> None:
        super().__init__(RESTARTS, PATIENCE_S, **variables)
        self._hosts = [self.host, self.host.rpartition(".")[0] + ".255"]
        self._etcd = Member("etcd", self.folder / "etcd", host=self.host)
        self._leads = self._signalled = self._terms = 0

    async def start_mgr(self) -> None:
        """Start both at first. Later wait until the other one leads, and start the one that has ended."""
        before = self.evidence.count("Mgr", BEGAN)
        if not before:
            await self._etcd.start(f"etcd={self._etcd.peers}")
            await self._etcd.ready()
            await self._start(0)
            await self.until(lambda seen: seen.count("Mgr", BEGAN) > before, "the first Mgr leads")
            await self._start(1)
            return
        await self.until(lambda seen: seen.count("Mgr", BEGAN) > before, "the other Mgr leads")
        ended, self._leads = self._leads, 1 - self._leads
        pid = self._signalled
        await self.until(lambda seen: any(e.what == ENDED and e.pid == pid for e in seen.seen), "the leader ends")
        await self._start(ended)

    async def _start(self, which: int) -> None:
        state = f"etcd://{self._etcd.address}/taskd/J"
        arguments = (f"{self._hosts[which]}:9601", f"{self.host}:8899", state)
        root = str(Path(__file__).parents[2])
        await self.start(f"{MGR}/{which}", "tests.etcd.recovery_mgr", *arguments, PYTHONPATH=root)

    async def launch(self, node: int, restarts: int | None = None) -> None:
        """Start a launcher that knows both addresses."""
        host, self.host = self.host, ",".join(self._hosts)
        proxy = f"{host}:{9610 + node}"
        left = str(self._restarts if restarts is None else restarts)
        arguments = ["--upstream", f"{self.host}:9601", "--listen", proxy, "--restarts", left]
        self.host = host
        await self.start(
            f"Agent/{node}", "taskd_net_lab.demos.job.launcher", str(node), *arguments, TASKD_NET_UPSTREAM=proxy
        )

    async def kill(self, who: str) -> None:
        """Give the leader its signal."""
        if who != MGR:
            await super().kill(who)
            return
        self._signalled = pid = self.evidence.pid(MGR)
        self._terms = self.evidence.count(MGR, BEGAN)
        os.kill(pid, self.number)  # its end is not awaited: one that ends in good order lets the other lead before

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)  # type: ignore[arg-type]
        await self._etcd.kill()


class EndStage(FailoverStage):
    """The leader ends in good order, and what its framework was about to report is not reported any more."""

    number = signal.SIGTERM

    def release(self) -> None:
        """Let processes report, but for the leader that ends."""
        if self.evidence.count(MGR, BEGAN) == self._terms:
            self.hold("")
            self._holding.clear()
        super().release()


@pytest.mark.long
@pytest.mark.parametrize("stage", [FailoverStage, EndStage])
@pytest.mark.parametrize("flow", [RECOVER, RETRY], ids=lambda flow: flow.name)
async def test_standby_goes_on_with_a_round_whose_leader_goes(flow: Flow, stage: type[FailoverStage]) -> None:
    missed = ""
    async with stage(**flow.variables) as running:
        try:
            await kill_at_each_stage(flow, MGR)(running)
            await running.settle()
        except Missed as error:
            missed = str(error)
        seen = list(running.evidence.seen)
    assert not missed, missed
    scenario = Scenario(flow.name, "", kill_at_each_stage(flow, MGR), expected(flow, MGR))
    assert problems(scenario, [*as_killed(seen)]) == ()


def as_killed(seen: list[Seen]) -> list[Seen]:
    """The evidence without what differs from a Mgr that is killed: how each leader has ended, and that it stands by."""
    found = [each for each in seen if not each.who.startswith(f"{MGR}/")]
    terms = [place for place, each in enumerate(found) if (each.who, each.what) == (MGR, BEGAN)]
    kept: list[Seen] = []
    for place, each in enumerate(found):
        if place in terms and place != terms[0]:
            kept.append(Seen(MGR, ENDED, -terms.index(place), -9))
        kept.append(replace(each, pid=-1 - terms.index(place)) if place in terms else each)
    return kept
