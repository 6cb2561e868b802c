"""Names in certificates: what they may look like, and whom they entitle to what."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.position import Position
from taskd_net.core.certificate_name import CertificateName, parse_all

MGR, PROXY, AGENT, WORKER = Position.mgr(), Position.proxy(3), Position.agent(3), Position.worker(3, 27)


@pytest.mark.parametrize(
    ("uri", "covered"),
    [
        ("taskd://job/Mgr/0", {MGR}),
        ("taskd://job/Proxy/3", {PROXY}),
        ("taskd://job/Proxy/*", {PROXY}),
        ("taskd://*/Agent/3", {AGENT}),
        ("taskd://job/Worker/3/27", {WORKER}),
        ("taskd://job/Worker/3/*", {WORKER}),
        ("taskd://job/Worker/*/27", {WORKER}),
        ("taskd://job/*/3", {PROXY, AGENT}),
        ("taskd://job/*/3/*", {PROXY, AGENT, WORKER}),
        ("taskd://*/*/*/*", {MGR, PROXY, AGENT, WORKER}),
        ("taskd://other/*/*/*", set()),
        ("taskd://job/Worker/4/27", set()),
        ("taskd://job/Worker/3/28", set()),
        ("taskd://job/Agent/03", set()),
    ],
)
def test_a_name_covers_what_it_says(uri: str, covered: set[Position]) -> None:
    name = CertificateName.parse(uri)
    assert {position for position in (MGR, PROXY, AGENT, WORKER) if name.covers("job", position)} == covered
    assert str(name) == uri


def test_the_process_rank_of_others_than_workers_does_not_count() -> None:
    assert CertificateName.parse("taskd://job/Proxy/3").covers("job", Position("Proxy", "3", "1700000000"))


@pytest.mark.parametrize(
    ("uri", "wrong"),
    [
        ("spiffe://job/Proxy/3", "not a name of a node"),
        ("taskd://job/Proxy", "not a name of a node"),
        ("taskd://job/Worker/3/27/1", "not a name of a node"),
        ("taskd:///Proxy/3", "the job ''"),
        ("taskd://a job/Proxy/3", "the job 'a job'"),
        ("taskd://job/proxy/3", "the role 'proxy'"),
        ("taskd://job//3", "the role ''"),
        ("taskd://job/Proxy/All", "the rank 'All'"),
        ("taskd://job/Worker/3/-1", "the rank '-1'"),
        ("taskd://job/Worker/3/", "the rank ''"),
        ("taskd://job/Worker/٣/1", "the rank '٣'"),
        ("taskd://job/Worker/3\n/1", "the rank '3\\n'"),
        ("taskd://job/Worker/3", "ends with its processRank"),
        ("taskd://job/Agent/3/*", "only Workers"),
    ],
)
def test_what_is_no_name_is_refused_with_what_is_wrong(uri: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        CertificateName.parse(uri)


@given(st.text(max_size=40) | st.text(max_size=20).map("taskd://job/".__add__))
def test_any_text_is_a_name_or_a_value_error(text: str) -> None:
    try:
        name = CertificateName.parse(text)
    except ValueError:
        return
    assert CertificateName.parse(str(name)) == name


def test_other_uris_of_a_certificate_are_left_out() -> None:
    good = "taskd://j/Agent/1"
    assert parse_all([good, "https://example.org", "taskd://j/Boss/1"]) == (CertificateName.parse(good),)
