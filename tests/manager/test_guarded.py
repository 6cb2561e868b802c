"""Users' plugins at work: the example, and those that hang or raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.guarded import FAILURES, Guarded
from tests.manager.cluster import agent, leaves, managed, worker
from tests.polling import until

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"

FAULTY = """
import threading
from dataclasses import dataclass, field
from taskd_net.job.decide.plugins import Plugin, Progress

forever = threading.Event()

@dataclass
class Seen:
    calls: list[int] = field(default_factory=list)

class Faulty(Plugin[Seen]):
    name = "Faulty"
    streams = {STREAMS}

    def __init__(self):
        super().__init__(Seen())

    def wants(self, snapshot):
        return self.streams if snapshot.records.agents else ()

    def step(self, stream, snapshot):
        {STEP}
"""


def write(folder: Path, step: str, streams: str = "{'Own': None}") -> ManagerConfig:
    """A folder with one plugin."""
    folder.joinpath("faulty.py").write_text(FAULTY.replace("{STEP}", step).replace("{STREAMS}", streams))
    # A call that returns has time for that on a busy machine.
    seconds = 0.1 if "forever" in step else 10.0
    return ManagerConfig(job_id="J", plugins=str(folder), plugin_timeout=seconds)


def let_go(guarded: Guarded) -> None:
    """Let the threads end that hang in the plugin."""
    guarded._loaded.plugin.wants.__globals__["forever"].set()


async def test_the_example_greets_the_workers() -> None:
    config = ManagerConfig(job_id="J", plugins=str(EXAMPLES))
    async with managed(config) as (node, manager), leaves(node, worker(0, 0), worker(0, 1)) as (zero, one):
        await zero.report("REGISTER", 101)
        for each in (zero, one):
            assert (await each.command()).message == "1 of us"
        await one.report("REGISTER", 101)
        greeting = await one.command()
        assert (greeting.code, greeting.message) == (9001, "2 of us")
        greeter = manager.job.plugins[-1]
        await until(lambda: manager.view().decisions[-1].acknowledged)
        assert (greeter.state, manager.view().decisions[-1].plugin) == ({"workers": 2}, "Greeter")
        assert manager.view().counters.plugin_failures == {}


@pytest.mark.parametrize(
    ("step", "trace"),
    [
        ("forever.wait()", "forever.wait()"),
        ("raise KeyError(7)", "Traceback"),
        ("raise KeyboardInterrupt", "it has raised KeyboardInterrupt"),
        ("raise TimeoutError('no answer from a service')", "no answer from a service"),
        ("raise StopIteration(7)", "it has raised StopIteration: 7"),
        ("raise type('Unprintable', (BaseException,), {'__str__': None})", "it has raised Unprintable"),
        ("self.state.calls = [float('nan')]; return Progress.HOLD", "JSON compliant"),
        ("self.send('Agent/0', 209); return Progress.HOLD", "expected a whole number in a 208"),
        ("self.state.calls = object(); return Progress.HOLD", "TypeError"),
        ("self.state.calls = ['a text']; return Progress.HOLD", "state.calls is 'a text'; expected int"),
    ],
)
async def test_plugin_that_hangs_or_raises_is_reported_and_then_off(
    tmp_path: Path, step: str, trace: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = write(tmp_path, step)
    async with managed(config) as (node, manager), leaves(node, agent(0), agent(1)) as (zero, one):
        await zero.register()
        await until(lambda: sum(manager.view().counters.plugin_failures.values()))
        # The others do not notice.
        assert (await zero.command()).code == 210
        guarded = manager.job.plugins[-1]
        assert isinstance(guarded, Guarded)
        await until(lambda: guarded.off)
        assert manager.view().plugins_off == ("Faulty",)
        assert manager.view().counters.plugin_failures == {"Faulty": FAILURES}
        await one.register()
        assert (await one.command()).code == 210
        await until(lambda: manager.job.wake == float("inf"))
        stream = manager.job.state.streams["Own"]
        assert (stream.owner, manager.view().counters.plugin_failures["Faulty"]) == ("", FAILURES)
        let_go(guarded)
    lines = [record.getMessage() for record in caplog.records]
    failed = [line for line in lines if "event=plugin_failed " in line]
    assert len(failed) == FAILURES and all(trace in line for line in failed)
    assert sum("event=plugin_off " in line for line in lines) == 1


async def test_plugin_that_fails_on_a_common_stream_gives_it_to_the_others(tmp_path: Path) -> None:
    config = write(tmp_path, "forever.wait()", "{'ResumeTrainingAfterFaultStream': 0}")
    async with managed(config) as (node, manager), leaves(node, agent(0), agent(1)) as (zero, one):
        for each in (zero, one):
            await each.register()
            assert (await each.command()).code == 210
        await one.fault(3)
        assert (await one.command()).code == 203
        assert (await zero.command()).code == 208
        await until(lambda: manager.view().counters.plugin_failures)
        guarded = manager.job.plugins[-1]
        assert isinstance(guarded, Guarded)
        let_go(guarded)


async def test_state_of_a_plugin_survives(tmp_path: Path) -> None:
    config = ManagerConfig(job_id="J", plugins=str(EXAMPLES), state=str(tmp_path / "state"))
    for workers in (1, 2):
        ranks = (worker(0, rank) for rank in range(workers))
        async with managed(config) as (node, manager), leaves(node, *ranks) as (*_, last):
            await last.report("REGISTER", 101)
            assert (await last.command()).message == f"{workers} of us"
            await until(lambda: manager.view().decisions[-1].acknowledged)
