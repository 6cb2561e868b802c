"""taskd_net.job.faults.reading: every range at its bounds and one beyond, and every malformed file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskd_net.job.faults import editions, reading
from taskd_net.job.faults.editions import EDITIONS, LINK_DOWN, Edition
from taskd_net.job.faults.events import Severity
from taskd_net.job.faults.levels import FaultType, GraceTimes
from taskd_net.job.faults.reading import poll_interval, read_rules
from taskd_net.job.faults.rules import CODES_FILE, CUSTOMIZATION_FILE, DurationRule, FaultRules, Problem, RulesRefused
from tests.fault_levels.scene import CODES, L1, L2, L3, L5, files, frequency, read
from tests.fault_levels.shipped import shipped

DOCUMENTED, CURRENT = Edition.DOCUMENTED, Edition.CURRENT
CUSTOM = CUSTOMIZATION_FILE


def lines(custom: object, edition: Edition = DOCUMENTED) -> list[str]:
    """The problems of a customization, without the hint at the other edition."""
    return [str(problem) for problem in read(CODES, custom, edition)[1] if not problem.hint]


@pytest.mark.parametrize("key", ["NotHandleFaultCodes", "PreSeparateNPUCodes", "SeparateNPUCodes"])
def test_a_code_of_the_network_has_three_types_in_the_general_lists(key: str) -> None:
    rules, problems = read({key: [LINK_DOWN]}, edition=CURRENT)
    assert problems == () and rules.codes == {LINK_DOWN: EDITIONS[CURRENT].code_keys[key]}


@pytest.mark.parametrize("key", ["RestartRequestCodes", "RestartNPUCodes", "SubHealthFaultCodes"])
def test_a_code_of_the_network_in_any_other_general_list_is_not_handled(key: str) -> None:
    rules, (problem,) = read({key: [L1, "110001024"]}, edition=CURRENT)
    assert rules.codes["110001024"] is FaultType.NOT_HANDLE
    assert str(problem) == (
        f"faultCode.json: {key}[1] is 110001024, a code of the network; "
        "expected it as one of NotHandleFault, PreSeparateNPU, SeparateNPU; NotHandleFault is used"
    )


def test_a_code_of_the_network_may_have_any_list_of_the_network() -> None:
    rules, problems = read({"SubHealthFaultNetworkCodes": [LINK_DOWN]}, edition=CURRENT)
    assert problems == () and rules.codes == {LINK_DOWN: FaultType.SUB_HEALTH}


@pytest.mark.parametrize("durations", [[], [LINK_DOWN]])
def test_a_code_of_the_network_in_no_list_takes_no_new_job(durations: list[str]) -> None:
    entry = {"EventId": durations, "FaultTimeout": 10, "RecoverTimeout": 30, "FaultHandling": "SeparateNPU"}
    custom = {"FaultDuration": [entry] if durations else []}
    current, documented = read(CODES, custom, CURRENT)[0], read(CODES, None, DOCUMENTED)[0]
    assert current.type_of(LINK_DOWN, Severity.NOTICE) is FaultType.PRE_SEPARATE_NPU
    assert documented.type_of(LINK_DOWN, Severity.NOTICE) is FaultType.NOT_HANDLE  # its duration counts


def test_codes_are_the_same_where_their_numbers_are() -> None:
    rules, problems = read({"RestartNPUCodes": ["020000002", "0x00000012"]}, edition=CURRENT)
    assert problems == () and set(rules.codes) == {"20000002", "00000012"}


def test_codes_are_read_in_any_case_with_8_or_9_digits() -> None:
    rules, problems = read({"RestartNPUCodes": ["8c0a4e00", "1ABCDEF09", "0x8c03a000"]})
    assert problems == ()
    assert set(rules.codes) == {"8C0A4E00", "1ABCDEF09", "8C03A000"}


@pytest.mark.parametrize(
    "value", ["8C0A4E0", "8C0A4E00AA", "8C0A4E0G", "", " 8C0A4E00", "\uff18C0A4E00", 5, None, ["x"], {}]
)
def test_a_code_of_another_form_is_ignored_alone(value: object) -> None:
    rules, (problem,) = read({"RestartNPUCodes": [L5, value]})
    assert set(rules.codes) == {L5}
    assert (problem.file, problem.entry, problem.effect) == (CODES_FILE, "RestartNPUCodes[1]", "ignored")
    assert problem.value == repr(value) and problem.expected.startswith("8 or 9 hexadecimal digits")


@pytest.mark.parametrize(
    "order", [("NotHandleFaultCodes", "RestartNPUCodes"), ("RestartNPUCodes", "NotHandleFaultCodes")]
)
def test_of_two_levels_of_a_code_the_more_serious_counts(order: tuple[str, str]) -> None:
    rules, (problem,) = read({order[0]: ["8c0a4e00"], order[1]: ["8C0A4E00"]})
    assert rules.codes == {"8C0A4E00": FaultType.RESTART_NPU}
    assert "8C0A4E00" in problem.value and problem.effect == "RestartNPU counts"


def test_a_code_that_is_twice_in_one_list_is_no_problem() -> None:
    assert read({"RestartNPUCodes": [L5, L5]})[1] == ()


def test_keys_of_the_documented_edition() -> None:
    rules, problems = read({**CODES, "ManuallySeparateNPUCodes": [L1], "PreSeparateNPUCodes": ["AAAA0001"]})
    assert len(rules.codes) == 6
    unknown, foreign, hint = problems
    assert unknown.entry == "ManuallySeparateNPUCodes" and foreign.entry == "PreSeparateNPUCodes"
    assert unknown.value == foreign.value == "an unknown key"
    assert hint.hint and "`current`: PreSeparateNPUCodes;" in str(hint) and "fault_edition" in str(hint)


def test_keys_of_the_current_edition() -> None:
    keys = EDITIONS[CURRENT].code_keys
    codes = {key: [f"AAAA{number:04X}"] for number, key in enumerate(keys)}
    rules, problems = read(codes, edition=CURRENT)
    assert problems == () and len(rules.codes) == 12
    assert rules.codes[codes["SubHealthFaultNetworkCodes"][0]] is FaultType.SUB_HEALTH
    assert read({**codes, "ManuallySeparateNPUCodes": [L1]}, edition=CURRENT)[1][0].entry == "ManuallySeparateNPUCodes"


def test_a_doubled_key_is_named_and_the_last_one_counts() -> None:
    text = b'{"RestartNPUCodes": ["8C03A000"], "RestartNPUCodes": ["8C0A4E00"]}'
    rules, (problem,) = read_rules({CODES_FILE: text})
    assert set(rules.codes) == {"8C0A4E00"}
    assert problem.entry == "RestartNPUCodes" and problem.effect == "the last one counts"


def test_a_file_without_codes_is_named() -> None:
    rules, (problem,) = read({})
    assert rules.codes == {} and problem.effect == "every code is answered by its severity"


REFUSED: Final = {
    "no file": None,
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "null": b"null",
    "a number of another kind": b'{"RestartNPUCodes": [NaN]}',
    "a number of 5,000 digits": b'{"RestartNPUCodes": [' + b"9" * 5000 + b"]}",
    "deep": b"[" * 100_000,
    "5 MB": b'{"RestartNPUCodes": ["' + b"8" * 5_000_000 + b'"]}',
    "UTF-16": json.dumps(CODES).encode("utf-16"),
    "GBK": '{"注释配置": []}'.encode("gbk"),
    "a key without a list": b'{"RestartNPUCodes": "8C03A000"}',
    "a key with null": b'{"RestartNPUCodes": null}',
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=list(REFUSED))
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(data: bytes | None) -> None:
    with pytest.raises(RulesRefused) as refused:
        read_rules({} if data is None else {CODES_FILE: data})
    (problem,) = (each for each in refused.value.problems if each.refused)
    assert problem.file == CODES_FILE and str(refused.value) == str(problem)
    assert len(str(problem)) < 300


@pytest.mark.parametrize("data", [b"", b"[1]", b"\xff", b"nul", b" " * 2_000_000])
def test_a_customization_that_cannot_be_used_refuses_both_files(data: bytes) -> None:
    with pytest.raises(RulesRefused, match=CUSTOM):
        read_rules({**files(), CUSTOM: data})


def test_a_byte_order_mark_is_no_problem() -> None:
    assert read_rules({CODES_FILE: b"\xef\xbb\xbf" + files()[CODES_FILE]})[1] == ()


def test_without_the_file_there_are_no_rules_of_frequency_and_the_defaults_of_all_others() -> None:
    rules, problems = read()
    assert problems == () and rules.frequency == {}
    assert rules.grace == GraceTimes(90.0, 60.0)
    assert rules.duration == {LINK_DOWN: DurationRule(30, 60, FaultType.PRE_SEPARATE_NPU)}
    current = read(edition=CURRENT)[0]
    assert current.grace == GraceTimes(30.0, 150.0, 15.0) and current.duration == {}


def test_the_rules_of_no_file_are_the_defaults() -> None:
    assert FaultRules.of_no_file() == FaultRules()
    assert FaultRules.of_no_file(DOCUMENTED, 7).duration[LINK_DOWN].timeout == 7
    current = FaultRules.of_no_file(CURRENT)
    assert (current.edition, current.grace, current.duration) == (CURRENT, GraceTimes(30.0, 150.0, 15.0), {})


@pytest.mark.parametrize("section", ["GraceTolerance", "FaultFrequency", "FaultDuration"])
@pytest.mark.parametrize("value", [None, 5, "x", True, 1.5])
@pytest.mark.parametrize("edition", Edition)
def test_a_section_of_another_type_is_as_if_missing(section: str, value: object, edition: Edition) -> None:
    rules, (problem,) = read(CODES, {section: value}, edition)
    assert rules == read(CODES, None, edition)[0]
    assert (problem.file, problem.entry, problem.value) == (CUSTOM, section, repr(value))


def test_unknown_keys_are_named() -> None:
    custom = {"Grace": {}, "GraceTolerance": {"Wait": 1}, "FaultDuration": [{"EventId": LINK_DOWN, "Level": 1}]}
    found = sorted(line.partition(" is ")[0] for line in lines(custom))
    assert found == [f"{CUSTOM}: FaultDuration[0].Level", f"{CUSTOM}: Grace", f"{CUSTOM}: GraceTolerance.Wait"]


def test_problems_are_bounded() -> None:
    problems = read({"RestartNPUCodes": ["x"] * (reading.PROBLEMS + 50)})[1]
    assert len(problems) == reading.PROBLEMS + 1
    assert problems[-1].value == "a source of 51 further problems"


GRACE: Final = [
    (DOCUMENTED, "WaitFlushingCMTime", 90, 300, 90),
    (DOCUMENTED, "WaitDeviceResetTime", 60, 120, 60),
    (CURRENT, "WaitProcessReadCMTime", 5, 90, 30),
    (CURRENT, "WaitDeviceResetTime", 60, 180, 150),
    (CURRENT, "WaitFaultSelfHealingTime", 1, 30, 15),
]
FREQUENCY: Final = [
    (DOCUMENTED, "TimeWindow", 60, 864_000),
    (DOCUMENTED, "Times", 2, 100),
    (CURRENT, "TimeWindow", 60, 864_000),
    (CURRENT, "Times", 1, 100),
    (CURRENT, "ReleaseTimeWindow", 60, 2**32),
]
WRONG: Final[list[Any]] = [None, "90", 90.5, True, [], {}, 10**400, -1]


def grace(rules: FaultRules, key: str) -> float | None:
    """The time limit of a key."""
    if key == "WaitDeviceResetTime":
        return rules.grace.reset
    return rules.grace.healing if key == "WaitFaultSelfHealingTime" else rules.grace.stop


@pytest.mark.parametrize(("edition", "key", "least", "most", "default"), GRACE)
def test_a_time_of_the_grace_mode_out_of_its_range_is_the_default(
    edition: Edition, key: str, least: int, most: int, default: int
) -> None:
    for value in (least, most):
        rules, problems = read(CODES, {"GraceTolerance": {key: value}}, edition)
        assert grace(rules, key) == value and problems == ()
    for value in (least - 1, most + 1, *WRONG):
        rules, problems = read(CODES, {"GraceTolerance": {key: value}}, edition)
        assert grace(rules, key) == default
        assert str(problems[0]).startswith(f"{CUSTOM}: GraceTolerance.{key} is ")
        assert f"expected a whole number from {least} to {most}; {default} is used" in str(problems[0])
    assert grace(read(CODES, {"GraceTolerance": {}}, edition)[0], key) == default


@pytest.mark.parametrize(("edition", "key", "least", "most"), FREQUENCY)
def test_an_entry_of_frequency_with_a_number_out_of_its_range_is_ignored_alone(
    edition: Edition, key: str, least: int, most: int
) -> None:
    more = {"ReleaseTimeWindow": 60} if edition is CURRENT else {}
    good = frequency(EventId=L3, **more)["FaultFrequency"]
    for value in (least, most):
        custom = {"FaultFrequency": [*frequency(**{**more, key: value})["FaultFrequency"], *good]}
        rules, problems = read(CODES, custom, edition)
        assert set(rules.frequency) == {L2, L3} and problems == ()
    for value in (least - 1, most + 1, *WRONG):
        custom = {"FaultFrequency": [*frequency(**{**more, key: value})["FaultFrequency"], *good]}
        rules, problems = read(CODES, custom, edition)
        assert set(rules.frequency) == {L3}
        assert str(problems[0]).startswith(f"{CUSTOM}: FaultFrequency[0].{key} is ")
        assert f"a whole number from {least} to {most}; the entry is ignored" in str(problems[0])


@pytest.mark.parametrize("key", ["TimeWindow", "Times", "FaultHandling"])
def test_a_key_of_frequency_that_is_missing_is_named(key: str) -> None:
    (one,) = frequency()["FaultFrequency"]
    (line,) = lines({"FaultFrequency": [{each: value for each, value in one.items() if each != key}]})
    assert line.startswith(f"{CUSTOM}: FaultFrequency[0].{key} is missing; expected ")


def test_the_release_window_is_needed_unless_a_person_releases() -> None:
    assert "ReleaseTimeWindow is missing" in lines(frequency(), CURRENT)[0]
    rules, problems = read(CODES, frequency(FaultHandling="ManuallySeparateNPU"), CURRENT)
    assert problems == () and rules.frequency[L2].release is None
    both = frequency(FaultHandling="ManuallySeparateNPU", ReleaseTimeWindow=60)
    assert read(CODES, both, CURRENT)[0].frequency[L2].release == 60
    assert read(CODES, frequency(FaultHandling="ManuallySeparateNPU", ReleaseTimeWindow=59), CURRENT)[0].frequency == {}
    none = frequency(FaultHandling="ManuallySeparateNPU", ReleaseTimeWindow=0)
    rules, problems = read(CODES, none, CURRENT)
    assert problems == () and rules.frequency[L2].release is None
    for value in (2**32 + 1, False, "", None):
        bad = frequency(FaultHandling="ManuallySeparateNPU", ReleaseTimeWindow=value)
        assert read(CODES, bad, CURRENT)[0].frequency == {}


@pytest.mark.parametrize("edition", Edition)
@pytest.mark.parametrize("word", [each.word for each in FaultType] + ["L5", "restartNPU", None, 5])
def test_the_types_that_a_frequency_may_have(edition: Edition, word: object) -> None:
    rules, problems = read(CODES, frequency(FaultHandling=word, ReleaseTimeWindow=60), edition)
    right = word in [each.word for each in EDITIONS[edition].frequency_types]
    assert (L2 in rules.frequency) is right
    if not right:
        assert any(problem.entry == "FaultFrequency[0].FaultHandling" for problem in problems)
    assert (word in ("L5", "restartNPU", None, 5, "SubHealthFault" if edition is DOCUMENTED else "")) is not right


@pytest.mark.parametrize(
    ("value", "codes", "place"),
    [
        ("8c0a4e00", {"8C0A4E00"}, None),
        (["8C0A4E00", "8C03A000"], {"8C0A4E00", "8C03A000"}, None),
        ([], set(), "FaultFrequency[0].EventId"),
        (None, set(), "FaultFrequency[0].EventId"),
        (5, set(), "FaultFrequency[0].EventId"),
        (["8C0A4E00", 7], {"8C0A4E00"}, "FaultFrequency[0].EventId[1]"),
        ("8C0A", set(), "FaultFrequency[0].EventId"),
    ],
)
def test_event_ids(value: object, codes: set[str], place: str | None) -> None:
    rules, problems = read(CODES, frequency(EventId=value))
    assert set(rules.frequency) == codes
    assert [problem.entry for problem in problems] == ([] if place is None else [place])


def test_the_first_valid_rule_of_a_code_counts() -> None:
    entries = [frequency(Times=times)["FaultFrequency"][0] for times in (101, 5, 6)]
    rules, (first, third) = read(CODES, {"FaultFrequency": entries})
    assert rules.frequency[L2].times == 5
    assert first.entry == "FaultFrequency[0].Times"
    assert third.entry == "FaultFrequency[2].EventId" and "first rule of a code counts" in third.effect


@pytest.mark.parametrize("value", [None, 5, "x", []])
@pytest.mark.parametrize("section", ["FaultFrequency", "FaultDuration"])
def test_an_entry_that_is_no_object_is_ignored_alone(section: str, value: object) -> None:
    (line,) = lines({section: [value]})
    assert line == f"{CUSTOM}: {section}[0] is {value!r}; expected an object; ignored"


def duration(**more: object) -> dict[str, object]:
    """A customization with one rule of duration."""
    return {"FaultDuration": [{"EventId": LINK_DOWN, "FaultHandling": "PreSeparateNPU", **more}]}


@pytest.mark.parametrize(
    ("key", "least", "most", "default"), [("FaultTimeout", 1, 30, 17), ("RecoverTimeout", 1, 60, 60)]
)
def test_a_documented_duration_out_of_its_range_is_the_default(key: str, least: int, most: int, default: int) -> None:
    def seconds(value: object) -> tuple[int, list[str]]:
        rules, problems = read(CODES, duration(**{key: value}), linkdown_timeout=17)
        rule = rules.duration[LINK_DOWN]
        text = [str(problem) for problem in problems if not problem.hint]
        return (rule.timeout if key == "FaultTimeout" else rule.recovery), text

    for value in (least, most):
        assert seconds(value) == (value, [])
    for value in (least - 1, most + 1, *WRONG):
        found, (line,) = seconds(value)
        assert found == default
        assert line.startswith(f"{CUSTOM}: FaultDuration[0].{key} is ")
        assert line.endswith(f"expected a whole number from {least} to {most}; {default} is used")


@pytest.mark.parametrize("key", ["FaultTimeout", "RecoverTimeout"])
def test_a_current_duration_out_of_its_range_is_ignored(key: str) -> None:
    least, most, _ = EDITIONS[CURRENT].duration[key]
    for value in (least, most):
        rules, problems = read(CODES, duration(**{key: value}), CURRENT)
        assert LINK_DOWN in rules.duration and problems == ()
    for value in (least - 1, most + 1, *WRONG):
        rules, problems = read(CODES, duration(**{key: value}), CURRENT)
        assert rules.duration == {}
        assert f"a whole number from {least} to {most}; the entry is ignored" in str(problems[0])


def test_defaults_of_current_durations() -> None:
    custom = {"FaultDuration": [{"EventId": [LINK_DOWN, "80E01801", L5], "FaultHandling": "SeparateNPU"}]}
    rules, problems = read(CODES, custom, CURRENT)
    assert problems == ()
    assert {code: rule[:2] for code, rule in rules.duration.items()} == {
        LINK_DOWN: (20, 60),
        "80E01801": (30, 0),
        L5: (0, 0),
    }


def test_the_documented_edition_has_durations_of_one_code_only() -> None:
    rules, (problem, hint) = read(CODES, duration(EventId=[LINK_DOWN, L5]))
    assert set(rules.duration) == {LINK_DOWN}
    assert (problem.entry, problem.expected) == ("FaultDuration[0].EventId[1]", LINK_DOWN)
    assert hint.hint


@pytest.mark.parametrize("word", ["SeparateNPU", "ManuallySeparateNPU", "x", None, 3])
def test_a_documented_duration_is_always_pre_separate(word: object) -> None:
    rules, problems = read(CODES, duration(FaultHandling=word))
    assert rules.duration[LINK_DOWN].handling is FaultType.PRE_SEPARATE_NPU
    assert problems[0].entry == "FaultDuration[0].FaultHandling" and problems[0].effect == "PreSeparateNPU is used"
    entry = {"EventId": LINK_DOWN}
    assert read(CODES, {"FaultDuration": [entry]})[1] == ()


@pytest.mark.parametrize("word", [each.word for each in FaultType] + ["x", None])
def test_the_types_of_a_current_duration(word: object) -> None:
    rules, problems = read(CODES, duration(FaultHandling=word), CURRENT)
    right = word not in ("x", None, "ManuallySeparateNPU")
    assert bool(rules.duration) is right and (problems == ()) is right


def test_the_first_duration_of_a_code_counts() -> None:
    custom = {"FaultDuration": [{"EventId": LINK_DOWN, "FaultTimeout": seconds} for seconds in (5, 6)]}
    rules, (problem,) = read(CODES, custom)
    assert rules.duration[LINK_DOWN].timeout == 5 and problem.entry == "FaultDuration[1].EventId"


@pytest.mark.parametrize("edition", Edition)
def test_shipped_files_have_no_problems(edition: Edition) -> None:
    rules, problems = read_rules(shipped(edition), edition)
    assert problems == ()
    assert len(rules.codes) == (800 if edition is DOCUMENTED else 821) and len(rules.frequency) == 60


@pytest.mark.parametrize("edition", Edition)
def test_shipped_files_of_the_other_edition_say_so_in_one_line(edition: Edition) -> None:
    other = CURRENT if edition is DOCUMENTED else DOCUMENTED
    *problems, hint = read_rules(shipped(other), edition)[1]
    assert hint.hint and f"set fault_edition to `{other}`" in str(hint)
    assert not any(problem.hint for problem in problems)


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text() | st.just(10**40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
CODE: Final = st.sampled_from([L1, L2, LINK_DOWN, L5.lower()]) | st.text("0123456789abcdefX", max_size=10) | JSON


def some(keys: list[str], value: Callable[[str], st.SearchStrategy[object]]) -> st.SearchStrategy[dict[str, object]]:
    """Objects with some of these keys."""
    return st.fixed_dictionaries({}, optional={key: value(key) for key in keys})


def number(least: int, most: int) -> st.SearchStrategy[object]:
    """Numbers about a range, and anything else."""
    return st.integers(least - 1, most + 1) | JSON


TABLES: Final = list(EDITIONS.values())
KEYS: Final = sorted({key for table in TABLES for key in table.code_keys})
NUMBERS: Final = {
    key: limits
    for table in TABLES
    for section in (table.grace, table.frequency, table.duration)
    for key, limits in section.items()
}
WORDS: Final = st.sampled_from([each.word for each in FaultType]) | JSON


def entry(key: str) -> st.SearchStrategy[object]:
    """A value of a key of an entry."""
    if key == "EventId":
        return CODE | st.lists(CODE, max_size=3)
    return WORDS if key == "FaultHandling" else number(*NUMBERS[key][:2])


def entries(section: str) -> st.SearchStrategy[object]:
    """The value of a section."""
    names = {
        "GraceTolerance": ["WaitFlushingCMTime", "WaitProcessReadCMTime", "WaitDeviceResetTime"],
        "FaultFrequency": ["EventId", "TimeWindow", "Times", "ReleaseTimeWindow", "FaultHandling"],
        "FaultDuration": ["EventId", "FaultTimeout", "RecoverTimeout", "FaultHandling"],
    }[section]
    one = some(names, entry) | JSON
    return one if section == "GraceTolerance" else st.lists(one, max_size=3) | JSON


ANY_CODES: Final = some(KEYS, lambda _: st.lists(CODE, max_size=3) | JSON) | JSON
ANY_CUSTOM: Final = some(["GraceTolerance", "FaultFrequency", "FaultDuration"], entries) | JSON


@given(ANY_CODES, ANY_CUSTOM, st.sampled_from(Edition), st.binary(max_size=40), st.integers(0, 3))
@example({}, {}, CURRENT, b"\x00", 3)
def test_no_content_raises_anything_else_or_gives_rules_out_of_range(
    codes: object, custom: object, edition: Edition, garbage: bytes, way: int
) -> None:
    found = {CODES_FILE: json.dumps(codes).encode(), CUSTOM: json.dumps(custom).encode()}
    if way == 1:
        found[CODES_FILE] = garbage
    elif way == 2:
        found[CUSTOM] = found[CUSTOM][: len(garbage)] + garbage
    refused: RulesRefused | None = None
    rules, problems = FaultRules(), tuple[Problem, ...]()
    try:
        rules, problems = read_rules(found, edition)
    except RulesRefused as error:
        refused = error
    if refused is not None:
        assert sum(problem.refused for problem in refused.problems) == 1
        return
    table = EDITIONS[edition]
    for rule in rules.frequency.values():
        assert _within(rule.window, table.frequency["TimeWindow"]) and _within(rule.times, table.frequency["Times"])
        assert rule.handling in table.frequency_types
    for lasting in rules.duration.values():
        assert _within(lasting.timeout, table.duration["FaultTimeout"]) and lasting.handling in table.duration_types
        assert _within(lasting.recovery, table.duration["RecoverTimeout"])
    assert _within(rules.grace.stop, table.grace[table.stop_key])
    assert _within(rules.grace.reset, table.grace["WaitDeviceResetTime"])
    assert all(len(str(problem)) < 800 and "\n" not in str(problem) for problem in problems)


def _within(value: float, limits: editions.Range) -> bool:
    return limits.least <= value <= limits.most


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(b"30", 30), (b"3600", 3600), (b' "300"\n', 300), (b"45\r\n", 45), (None, 300)],
)
def test_poll_interval(text: bytes | None, seconds: int) -> None:
    assert poll_interval(text) == (seconds, None)


@pytest.mark.parametrize(
    "text",
    [b"29", b"3601", b"", b"x", b"300s", b"1e2", b"-30", b"30.5", b"\xff", b"9" * 10**6, "\uff13\uff10".encode()],
)
def test_a_poll_interval_out_of_its_range_is_300(text: bytes) -> None:
    seconds, problem = poll_interval(text)
    assert seconds == 300 and problem is not None
    assert str(problem).startswith("PollInterval is ") and "whole seconds from 30 to 3600; 300 is used" in str(problem)
