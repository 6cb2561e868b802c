"""Ids of jobs: in settings, and in metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import ConfigError, NodeConfig
from taskd_net.base.job_id import JOB_ID_BYTES, attempt_id, attempt_of, escaped, job_id_of, require_job_id, unescaped

IDS = st.text(st.characters(codec="utf-8"), max_size=60).filter(lambda text: text != "none")


@pytest.mark.parametrize(
    ("own", "attempt", "expected"),
    [("41.0", 2, "41.0#2"), ("41.0", 0, "41.0"), ("41.0", None, "41.0"), ("", 2, ""), ("a#b", 10, "a#b#10")],
)
def test_attempt_of_a_job_has_an_id_of_its_own(own: str, attempt: int | None, expected: str) -> None:
    assert attempt_id(own, attempt) == expected
    assert attempt_of(expected) == (own, (attempt or 0) if own else 0)


@pytest.mark.parametrize("own", ["#1", "a#", "a#0", "a#x", "a#99999999999", "a"])
def test_other_ids_are_of_the_first_attempt(own: str) -> None:
    assert attempt_of(own) == (own, 0)


@given(IDS)
def test_every_id_passes_metadata(job: str) -> None:
    there = escaped(job)
    assert there.isascii() and there.isprintable() and " " not in there
    assert unescaped(there) == job


def test_usual_ids_are_seen_as_they_are() -> None:
    for job in ("my-job", "a_1.b~c", "default-test-7f3d9c1e-0b6a-4f0e-9f7a-1f1f0d3c5a11"):
        assert escaped(job) == job


@pytest.mark.parametrize("text", ["%", "%ff%fe", "\x00", "%C3", "a" * 10_000, "ä"])
def test_any_text_is_some_id(text: str) -> None:
    require_job_id("metadata", unescaped(text))


def test_nothing_and_torchs_none_are_no_id() -> None:
    assert [job_id_of(text) for text in (None, "", "none", "None", "j")] == ["", "", "", "None", "j"]
    assert unescaped("none") == unescaped("") == ""


@pytest.mark.parametrize("value", ["j" * (JOB_ID_BYTES + 1), "ä" * JOB_ID_BYTES, 7, "\udc80"])
def test_value_that_is_no_id(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^job_id is .*; expected a text of at most 256 bytes in UTF-8$"):
        require_job_id("job_id", value)


def test_longest_id_is_one() -> None:
    require_job_id("job_id", "ä" * (JOB_ID_BYTES // 2))
    require_job_id("job_id", None)


@pytest.mark.parametrize(
    ("job_id", "job", "name"),
    [
        (None, None, ""),
        ("a", None, "a"),
        (None, "a", "a"),
        ("a", "a", "a"),
        ("none", "a", "a"),
        ("none", None, "none"),
        ("a", "none", "a"),
    ],
)
def test_certificates_and_the_job_have_one_name(job_id: str | None, job: str | None, name: str) -> None:
    config = NodeConfig.mgr(job_id=job_id, job=job)
    assert config.job_name == config.router.job == name


def test_two_names_of_one_job_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^job is 'b', and job_id 'a'; expected one name$"):
        NodeConfig.mgr(job_id="a", job="b")
