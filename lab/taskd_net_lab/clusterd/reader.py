"""The reader of scenario files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from taskd_net.base.bounded_file import read_file
from taskd_net.base.codes import ConfigError
from taskd_net_lab.clusterd.check import Problem, check
from taskd_net_lab.clusterd.course import SECONDS, Wait
from taskd_net_lab.clusterd.messages import Signal
from taskd_net_lab.clusterd.round import OTHER, Job
from taskd_net_lab.clusterd.scenario import (
    Action,
    Away,
    Change,
    End,
    Fault,
    HotSwitch,
    Orders,
    Profiling,
    Scenario,
    Scripted,
    Step,
    StressTest,
    SwitchCards,
)
from taskd_net_lab.clusterd.table import Event, State

SCENARIOS: Final = Path(__file__).with_name("scenarios")
"""The scenarios of this package: one for each flow of recovery, `NAME.yaml`."""

FILE_BYTES: Final = 1024 * 1024
FILE_S: Final = 5.0


class ScenarioError(ConfigError):
    """A scenario that cannot be played. Each line of the text is a problem: file, line, value and expectation."""


def load(path: str | Path, speed: float = 1.0) -> Scenario:
    """Read a scenario from a file.

    Args:
        path: of the file.
        speed: divides the times of the real ClusterD that the scenario does not set.

    Raises:
        ScenarioError: with every problem.
        OSError: the file cannot be read.
    """
    try:
        text = read_file(path, FILE_BYTES, FILE_S).data.decode()
    except ValueError as error:
        raise _wrong(str(path), [Problem(1, f"not readable as a text: {error}")]) from None
    return parse(text, str(path), speed)


def parse(text: str, path: str = "scenario", speed: float = 1.0) -> Scenario:
    """Read a scenario from a YAML text.

    Args:
        text: the text.
        path: for the texts of problems.
        speed: divides the times of the real ClusterD that the scenario does not set.

    Raises:
        ScenarioError: with every problem.
    """
    checked = check(text)
    if isinstance(checked, list):
        raise _wrong(path, checked)
    jobs = tuple(_job(job) for job in checked["jobs"])
    outcomes: dict[State, tuple[Event, ...]] = {}
    for each in checked.get("outcomes", ()):
        state = State(each["state"])
        outcomes[state] = (*outcomes.get(state, ()), Event(each["event"]))
    return Scenario(
        jobs,
        {**{wait: seconds / speed for wait, seconds in SECONDS.items()}, **_waits(checked)},
        outcomes,
        tuple(_answer(each) for each in checked.get("answers", ())),
        tuple(_step(each, jobs[0].job_id) for each in checked.get("steps", ())),
    )


def _wrong(path: str, problems: Sequence[Problem]) -> ScenarioError:
    return ScenarioError("\n".join(f"{path}:{problem.line}: {problem.text}" for problem in problems))


def _job(given: Mapping[str, Any]) -> Job:
    fields: dict[str, Any] = {key: value for key, value in given.items() if key not in ("id", "strategies")}
    return Job(given["id"], tuple(given.get("strategies", ("exit",))), **fields)


def _answer(given: Mapping[str, Any]) -> Scripted:
    return Scripted(**{"since" if key == "from" else key: value for key, value in given.items()})


def _step(given: Mapping[str, Any], job: str) -> Step:
    (name,) = given.keys() & _ACTIONS.keys()
    return Step(_ACTIONS[name](given[name]), given.get("job", job), given.get("when", ""), float(given.get("wait", 0)))


def _waits(given: Mapping[str, Any]) -> dict[Wait, float]:
    return {Wait(name): float(value) for name, value in given.get("waits", {}).items()}


def _change(given: Mapping[str, Any]) -> Change:
    settings = {key: value for key, value in given.items() if key != "waits"}
    return Change(
        {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}, _waits(given)
    )


def _ranks(given: Mapping[str, Any]) -> dict[int, int]:
    return dict.fromkeys(map(int, given["ranks"]), given.get("type", OTHER))


def _switch(given: Mapping[str, Any]) -> SwitchCards:
    return SwitchCards(tuple(given["ranks"]), (given.get("backup", True),) * len(given["ranks"]))


def _orders(given: Mapping[str, Any]) -> Orders:
    signal = Signal(
        given.get("uuid", ""),
        given["type"],
        tuple(given.get("actions", ())),
        dict.fromkeys(given.get("ranks", ()), given.get("fault", OTHER)),
        given.get("strategy", ""),
        given.get("timeout", 0),
        tuple(given.get("nodes", ())),
        given.get("extra", ""),
    )
    return Orders(signal, given.get("count", 1))


_ACTIONS: Final[Mapping[str, Callable[[Any], Action]]] = {
    "fault": lambda given: Fault(_ranks(given), given.get("in_place", True), given.get("pre_exit", False)),
    "hot_switch": lambda given: HotSwitch(_ranks(given)),
    "switch_cards": _switch,
    "stress_test": lambda given: StressTest(dict.fromkeys(given["ranks"], tuple(given.get("ops", (0,))))),
    "profiling": Profiling,
    "signal": _orders,
    "change": _change,
    "away": lambda seconds: Away(float(seconds)),
    "end": lambda _: End(),
}
