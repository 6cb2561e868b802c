"""The scenarios of the package, and variants of them, in memory: their orders, and the transitions that none walks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from taskd_net_lab.clusterd.messages import Queue, Report, Stream
from taskd_net_lab.clusterd.reader import SCENARIOS, load
from taskd_net_lab.clusterd.scenario import Fault, Step
from taskd_net_lab.clusterd.table import Event, State, rows
from tests.lab.clusterd.client import Row, Said, play, scenario

ORDERS: Final = {
    "retry": "stop_train, on_global_rank, retry",
    "recover": "stop_train, on_global_rank, recover",
    "recover-in-place": "stop_train, on_global_rank, recover",
    "dump": "stop_train, on_global_rank, dump, exit, exit",
    "exit": "stop_train, on_global_rank, exit, exit",
    "save-and-exit": "save_and_exit, exit, exit",
    "downgrade-upgrade": "stop_train, on_global_rank, downgrade, fault_nodes_exit, upgrade",
    "hot-switch": "hot switch, new pod running, migration",
    "hot-switch-timeout": "hot switch, stop switch",
    "switch-cards": "pause_train, switch, continue",
    "stress-test": "pause_train, pause_start_agent, stress, continue_start_agent, stop_train, on_global_rank, recover",
    "pre-exit": "pre exit process, stop_train, on_global_rank, recover",
    "pause-start-agent": "pauseStartAgent, continueStartAgent",
    "kill-master": "stop_train, killMaster",
    "switched-on-later": "stop_train, on_global_rank, recover",
}
FAULTY: Final[Said] = {"stress": [Report(Queue.STRESSED, tested={1: ("2",)})]}


def status(code: int, *isolate: int) -> Report:
    return Report(Queue.STATUS, code, isolate=isolate)


@pytest.mark.parametrize("name", ORDERS)
def test_orders(name: str) -> None:
    played = play(scenario(name), FAULTY if name == "stress-test" else None)
    assert ", ".join(played.orders) == ORDERS[name]
    assert set(played.answers) <= {0}
    assert all(state == "init" for state in played.states[-1:])


def test_each_scenario_of_the_package_is_played() -> None:
    assert {path.stem for path in SCENARIOS.glob("*.yaml")} == {*ORDERS, "killed-at-each-stage"}


def test_a_kill_at_each_stage_is_followed_by_a_whole_recovery() -> None:
    orders = ", ".join(play(scenario("killed-at-each-stage")).orders)
    assert orders.endswith(ORDERS["recover"])


@dataclass(frozen=True)
class Variant:
    """A scenario of the package with another client, or with other outcomes of the platform."""

    name: str
    said: Said = field(default_factory=dict)
    outcomes: tuple[tuple[str, str], ...] = ()
    streams: tuple[Stream, ...] = tuple(Stream)
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        said = [f"{name}-{report and report.code}" for name, (report,) in self.said.items()]
        return ", ".join((self.name, *said, *map(": ".join, self.outcomes)))


NONE: Final[Said] = {}
ONLY_SIGNALS: Final = (Stream.SIGNALS,)

VARIANTS: Final = (
    Variant("retry", {"retry": [status(405)]}),
    Variant("retry", {"retry": [status(406)]}),
    Variant("retry", {"retry": [status(499)]}),
    Variant("retry", {"retry": [None]}),
    Variant("recover", {"recover": [status(499)]}),
    Variant("recover", {"recover": [None]}),
    Variant("recover", {"stop_train": [Report(Queue.STOPPED, 404)]}),
    Variant("recover", {"stop_train": [None]}),
    Variant("recover", {"on_global_rank": [None]}),
    Variant("save-and-exit", {"save_and_exit": [None]}),
    Variant("downgrade-upgrade", {"downgrade": [status(499)]}),
    Variant("downgrade-upgrade", {"downgrade": [None]}),
    Variant("downgrade-upgrade", {"fault_nodes_exit": [None]}),
    Variant("downgrade-upgrade", {"fault_nodes_exit": [status(499)]}),
    Variant("downgrade-upgrade", {"upgrade": [None]}),
    Variant("downgrade-upgrade", {"upgrade": [status(499)]}),
    Variant("switch-cards", {"pause_train": [Report(Queue.STOPPED, 499)]}),
    Variant("switch-cards", {"pause_train": [None]}),
    Variant("switch-cards", {"switch": [Report(Queue.SWITCHED, done=False)]}),
    Variant("switch-cards", {"switch": [status(406)]}),
    Variant("switch-cards", {"switch": [status(1)]}),
    Variant("switch-cards", {"continue": [status(499)]}),
    Variant("switch-cards", {"continue": [None]}),
    Variant("switch-cards", NONE, streams=ONLY_SIGNALS),
    Variant("stress-test"),
    Variant("stress-test", FAULTY),
    Variant("stress-test", {"stress": [None]}),
    Variant("stress-test", {"continue": [status(499)]}),
    Variant("stress-test", NONE, streams=ONLY_SIGNALS),
    Variant("hot-switch", {"new pod running": [Report(Queue.STRATEGIES, strategies=("exit",))]}),
    Variant("hot-switch", {"new pod running": [None]}),
    Variant("hot-switch", {"migration": [status(406)]}),
    Variant("hot-switch", {"migration": [None]}),
    *(
        Variant(name, NONE, ((state, event), *further))
        for name, state, event, *further in (
            ("retry", "notify decided strategy", "wait hccl routing convergence fail"),
            ("recover", "notify decided strategy", "wait rank table ready timeout"),
            ("recover", "notify decided strategy", "notify fail"),
            ("recover", "notify wait fault flushing", "wait plat strategy timeout"),
            ("recover", "notify wait fault flushing", "notify fail"),
            ("recover", "notify stop train", "notify fail"),
            ("recover", "notify global fault", "notify fail"),
            ("recover", "notify global fault", "write confirm fault or wait result fault timeout"),
            ("recover", "wait report process recover status", "schedule timeout"),
            ("recover", "wait report process recover status", "clear config map fault fail"),
            ("save-and-exit", "notify dump", "notify fail"),
            ("exit", "listen schedule result", "schedule timeout"),
            ("exit", "notify restart all process", "notify fail"),
            ("exit", "fault clear", "clear config map fault fail"),
            ("exit", "fault retry", "change process scheduling mode pause error"),
            ("exit", "fault retry", "change process scheduling mode enable error"),
            ("exit", "fault retry", "schedule timeout"),
            ("downgrade-upgrade", "check report scale in isolate ranks", "notify fail"),
            ("downgrade-upgrade", "scale in running", "notify fail"),
            ("downgrade-upgrade", "scale in running", "finish"),
            ("switch-cards", "notify pause train", "notify fail"),
            ("switch-cards", "notify continue train", "notify fail"),
            ("switch-cards", "wait switch nic finished", "report timeout"),
            ("hot-switch", "notify prepare hot switch", "notify fail"),
            ("hot-switch", "wait notify pod running result", "notify fail"),
            ("hot-switch-timeout", "wait notify pod failed result", "notify fail"),
            ("hot-switch", "wait notify restart train result", "notify fail"),
            ("hot-switch", "notify stop job", "notify fail", ("wait report pause result", "exit")),
        )
    ),
    Variant(
        "recover",
        {"recover": [None]},
        (("wait report process recover status", "need try scale in strategy"),),
    ),
    Variant(
        "recover",
        {"recover": [None]},
        (
            ("wait report process recover status", "need try scale in strategy"),
            ("notify scale in strategy", "notify fail"),
        ),
    ),
    Variant("downgrade-upgrade", steps=(Step(Fault({1: 1}), "demo", "scale in running"),)),
)

UNWALKED: Final[set[Row]] = set()
"""Transitions that no scenario walks."""


def played_rows(variant: Variant) -> list[Row]:
    given = scenario(variant.name)
    outcomes = dict(given.outcomes)
    for state, event in variant.outcomes:
        outcomes[State(state)] = (*outcomes.get(State(state), ()), Event(event))
    steps = (*given.steps[:-1], *variant.steps, given.steps[-1])
    return play(replace(given, outcomes=outcomes, steps=steps), variant.said, variant.streams).rows


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_each_variant_returns_to_init(variant: Variant) -> None:
    assert played_rows(variant)[-1][2] == "init"


def test_transitions_that_no_scenario_walks() -> None:
    walked = {row for path in SCENARIOS.glob("*.yaml") for row in play(load(path)).rows}
    for variant in VARIANTS:
        walked.update(played_rows(variant))
    assert set(rows()) - walked == UNWALKED
