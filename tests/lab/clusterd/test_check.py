from __future__ import annotations

from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskd_net_lab.clusterd.check import Problem, check
from taskd_net_lab.clusterd.reader import SCENARIOS, ScenarioError, parse
from taskd_net_lab.clusterd.scenario import Scenario

JOBS = "jobs: [{id: a, nodes: 2, processes: 2}]\n"


def problems(text: str) -> list[Problem]:
    found = check(text)
    assert isinstance(found, list), found
    return found


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "the file is None; expected a mapping with keys of jobs"),
        ("- 1", 1, "the file is [1]; expected a mapping"),
        ("jobs: {", 1, "no YAML: "),
        ("jobs: [", 1, "no YAML: "),
        ("[" * 5000, 1, "no YAML: nested too deeply"),
        ("steps: []", 1, "jobs is missing; expected a list"),
        ("jobs: []", 1, "jobs is []; expected a list, each item a mapping"),
        ("jobs:\n- id: 3", 2, "jobs[0].id is 3; expected a text"),
        ("jobs:\n- nodes: 3", 2, "jobs[0].id is missing; expected a text"),
        ("jobs:\n- {id: a}\n- {id: a}", 3, "jobs[1].id is 'a' again; expected another name"),
        (JOBS + "x: 1", 2, "x is unknown; expected one of jobs, waits"),
        (JOBS + "jobs: []", 2, "jobs is there twice; expected once"),
        (JOBS + "waits: {report: -1}", 2, "waits.report is -1; expected a number of seconds, at least 0"),
        (JOBS + "waits: {report: on}", 2, "waits.report is True; expected a number of seconds"),
        (JOBS + "waits: &w {report: 1}\nsteps: *w", 2, "steps is an alias; expected the value itself"),
        (JOBS + "waits: {report: 2026-13-45}", 2, "waits.report is '2026-13-45', no value of YAML"),
        (
            JOBS + "waits: {report: !!bool maybe}",
            2,
            "waits.report is 'maybe', no value of YAML: it does",
        ),
        (JOBS + "waits: {report: !!timestamp x}", 2, "waits.report is 'x', no value of YAML: it does not fit its tag"),
        (JOBS + "waits: {report: !!int ''}", 2, "waits.report is '', no value of YAML: it does not fit its tag"),
        (JOBS + "waits: {report: !x 1}", 2, "waits.report is '1', no value of YAML: it does not fit its tag !x"),
        (JOBS + "waits: {report: .nan}", 2, "waits.report is nan; expected a number of seconds"),
        (JOBS + "waits: {report: .inf}", 2, "waits.report is inf; expected a number of seconds"),
        (JOBS + '"\\uD800": 1', 2, "\\ud800 is unknown; expected one of jobs, waits"),
        ("jobs: [{id: a, nodes: 2.0}]", 1, "jobs[0].nodes is 2.0; expected a whole number from 1"),
        (JOBS + "steps:\n- fault: {ranks: [1.0]}", 3, "steps[0].fault.ranks[0] is 1.0; expected a whole number"),
        (JOBS + "steps:\n- fault: {ranks: [1], type: 1.0}", 3, "steps[0].fault.type is 1.0; expected 0 (memory)"),
        (
            JOBS + "steps:\n- signal: {type: x, timeout: 9223372036854775808}",
            3,
            "steps[0].signal.timeout is 9223372036",
        ),
        (JOBS + 'steps:\n- signal: {type: "\\uD800"}', 3, "steps[0].signal.type is '\\ud800', no value of YAML"),
        (JOBS + "? [a]\n: 1", 2, "a key in the file is no text; expected a name"),
        (
            JOBS + "outcomes: [{state: init, event: exit}]",
            2,
            "outcomes[0].event is 'exit'; expected one of start stress",
        ),
        (JOBS + "answers: [{call: Init}]", 2, "answers[0] has no single answer; expected one of code, grpc, silent"),
        (JOBS + "answers: [{call: Bye, code: 1}]", 2, "answers[0].call is 'Bye'; expected one of Init, Register"),
        (
            JOBS + "answers: [{call: SubscribeProcessManageSignal, code: 1}]",
            2,
            "answers[0].code is for a stream; expected grpc or silent",
        ),
        (JOBS + "steps:\n- {}", 3, "steps[0] has 0 actions; expected one of fault, hot_switch"),
        (JOBS + "steps:\n- {end: on, away: 1}", 3, "steps[0] has 2 actions"),
        (JOBS + "steps:\n- end: on\n  job: b", 4, "steps[0].job is 'b'; expected one of a"),
        (JOBS + "steps:\n- fault:\n    ranks:\n    - 4", 5, "steps[0].fault.ranks[0] is 4; expected a rank below 4"),
        (JOBS + "steps:\n- {fault: {ranks: [1], type: 3}}", 3, "steps[0].fault.type is 3; expected 0 (memory), 1"),
    ],
)
def test_a_problem_is_reported_with_its_line(text: str, line: int, words: str) -> None:
    found = problems(text)
    assert [problem.line for problem in found if problem.text.startswith(words)] == [line], found
    assert all(problem.text.isprintable() for problem in found), "each is one line"


def test_names_that_cannot_be_read_are_not_the_same_name() -> None:
    assert [problem.line for problem in problems("jobs:\n- {id: !!bool x}\n- {id: !!bool x}")] == [2, 3]


@pytest.mark.parametrize("value", ["!!bool maybe", "2026-13-45", "*a"])
def test_a_value_that_cannot_be_read_is_one_problem(value: str) -> None:
    assert len(problems(f"jobs: [{{id: &a a}}]\nwaits: {{report: {value}}}")) == 1


def test_every_problem_is_reported_at_once() -> None:
    text = """\
jobs:
  - {id: a}
steps:
  - when: nowhere
    end: on
  - fault: {ranks: [7]}
  - end: off
outcomes:
  - {state: init, event: exit}
"""
    assert [problem.line for problem in problems(text)] == [4, 6, 7, 9]


def test_a_wrong_value_hides_no_other_problem() -> None:
    text = """\
jobs:
  - {id: a, nodes: two}
  - {id: a}
  - {id: [1], processes: 2}
steps:
  - {when: nowhere, job: b}
  - {job: a, fault: {ranks: [9], type: 7}}
  - {job: [1], fault: {ranks: [1]}}
  - 7
answers:
  - {call: Init, code: x, grpc: UNAVAILABLE}
  - {code: 3}
outcomes:
  - {state: init}
"""
    assert [(each.line, each.text.partition(" ")[0]) for each in problems(text)] == [
        (2, "jobs[0].nodes"),
        (3, "jobs[1].id"),
        (4, "jobs[2].id"),
        (6, "steps[0]"),
        (6, "steps[0].job"),
        (6, "steps[0].when"),
        (7, "steps[1].fault.ranks[0]"),
        (7, "steps[1].fault.type"),
        (8, "steps[2].job"),
        (9, "steps[3]"),
        (11, "answers[0]"),
        (11, "answers[0].code"),
        (12, "answers[1].call"),
        (14, "outcomes[0].event"),
    ]


@pytest.mark.parametrize("text", ["jobs: [{nodes: 2}]", "jobs: [7]", "jobs: 7", "jobs: [{id: a}]\nsteps: 7"])
def test_jobs_without_a_name_or_steps_without_a_list_are_problems_alone(text: str) -> None:
    assert problems(text + ("" if "steps" in text else "\nsteps: [{end: on}, {fault: {ranks: [3]}}]"))


LINES: Final = sorted({line for path in SCENARIOS.glob("*.yaml") for line in path.read_text().splitlines()})
WORDS: Final = (
    *("", "-1", "0", "1.5", "2.0", ".nan", "1e999", "9" * 40, "on", "~", "[]", "{}", "[1, x]", "{a: 1}", "*a", "&a 1"),
    *("!!bool x", "!!int ''", "!x 1", "2026-13-45", '"\\uD800"', '"\\0"', "<<: 1", "jobs:", "init", "- a", "'", "%"),
)
LINE: Final = st.tuples(st.sampled_from(LINES), st.integers(0, 60), st.sampled_from(WORDS))
"""A line of the package's scenarios, and a word at a place in it."""


@given(st.lists(LINE, max_size=12))
@example([("jobs:", 0, ""), ("  - {id: demo, nodes: 2, processes: 2, strategies: [retry]}", 19, "2.0")])
def test_any_file_is_a_scenario_or_has_problems_with_their_lines(lines: list[tuple[str, int, str]]) -> None:
    text = "\n".join(line[:place] + word + line[place:] for line, place, word in lines)
    try:
        assert isinstance(parse(text, "file"), Scenario)
    except ScenarioError as error:
        for problem in str(error).splitlines():
            name, line, words = problem.split(":", 2)
            assert name == "file"
            assert 1 <= int(line) <= max(len(text.splitlines()) + 1, 1), problem
            assert words.isprintable()
