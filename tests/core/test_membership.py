"""The job of a node: whose children it takes, and whose id it takes itself."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code, Refusal
from taskd_net.core.identity import Credentials
from taskd_net.core.membership import Membership, OtherJob
from taskd_net.core.ready import Announce, EndStream, Forgot, Joined, Kind, Reason
from taskd_net.core.router import RouterConfig
from tests.core.driven import Driven
from tests.core.routers import Caller, add_child, at, everybody, joined

LONG = "j" * 300


def node(position: str, job: str = "") -> Driven:
    """A node of a job that has not joined."""
    return Driven(at(position), upstream=position != "Mgr", config=RouterConfig(job=job))


@pytest.mark.parametrize(
    ("own", "other", "excluded"),
    [("a", "a", False), ("a", "b", True), ("a", "", False), ("", "b", False), ("", "", False), ("a", "A", True)],
)
def test_only_two_different_ids_exclude_each_other(own: str, other: str, excluded: bool) -> None:
    assert Membership(own).excludes(other) == excluded


def test_id_is_taken_once() -> None:
    member = Membership("")
    assert [member.take(each) for each in ("", "a", "a", "b")] == [False, True, False, False]
    assert member.job_id == "a"
    assert not Membership("own").take("a")


def test_child_of_another_job_is_refused_with_both_ids() -> None:
    mgr = node("Mgr", "a")
    with pytest.raises(OtherJob, match=r"^Proxy/0 is of job 'b', and this node of job 'a'$") as refused:
        mgr.register(0.0, at("Proxy/0"), job_id="b")
    assert refused.value.code == Code.CLIENT_ERR and not mgr.children
    for position, said in (("Proxy/0", "a"), ("Proxy/1", "")):
        assert mgr.register(0.0, at(position), job_id=said).job_id == said


def test_long_id_is_cut_in_the_refusal() -> None:
    with pytest.raises(OtherJob) as refused:
        node("Mgr", "a").register(0.0, at("Proxy/0"), job_id=LONG)
    assert len(str(refused.value)) < 200


def test_node_of_another_job_changes_nothing_for_the_node_in_its_position() -> None:
    mgr = node("Mgr", "a")
    link = add_child(mgr, "Proxy/0", "Worker/0/0")
    with pytest.raises(OtherJob):
        mgr.register(1.0, at("Proxy/0"), None, Credentials("10.0.0.9"), job_id="b")
    assert link.up and link.epoch == 1 and link.credentials.host != "10.0.0.9"


@pytest.mark.parametrize("nothing", ["", "none"])
def test_node_without_an_id_takes_any_child_and_its_parents_id(nothing: str) -> None:
    proxy = node("Proxy/0", nothing)
    worker = proxy.register(0.0, at("Worker/0/0"), job_id="a")
    assert proxy.link_up(0.0, worker, "Worker/0/0") == []
    proxy.upstream_up(0.0, "up", at("Mgr"), job_id="a")
    assert proxy.core.membership.job_id == "a" and worker.up
    with pytest.raises(Refusal, match="of job 'b'"):
        proxy.register(0.0, at("Worker/0/1"), job_id="b")


def test_id_is_kept_below_another_parent() -> None:
    proxy = node("Proxy/0")
    for parents in ("a", "", "b"):
        proxy.upstream_up(0.0, "up", at("Mgr"), job_id=parents)
        proxy.upstream_down(0.0, "up", [])
    assert proxy.core.membership.job_id == "a"


def test_children_of_other_jobs_go_when_the_node_takes_an_id() -> None:
    """They came while it had none. Those of its own job, and those that say none, stay."""
    proxy = node("Proxy/0")
    links = {said: proxy.register(0.0, at(f"Worker/0/{rank}"), job_id=said) for rank, said in enumerate(("a", "b", ""))}
    streams = {"a": "stream of a", "b": "stream of b", "": "stream of nobody"}
    for said, link in links.items():
        proxy.link_up(0.0, link, streams[said])
    actions = proxy.upstream_up(1.0, "up", at("Mgr"), withdraws=True, told=True, job_id="a")
    assert actions == [EndStream(streams["b"], Reason.OTHER_JOB)]
    proxy.announce_all(Caller(), "announces")
    assert Joined(True) in proxy.announce_answered("up", 0, at("Mgr"))
    proxy.link_down(1.0, links["b"], streams["b"], [])
    gone = proxy.tick(1.0)
    assert Forgot(links["b"].id, at("Worker/0/1"), 1) in gone, "there is no time of grace for it"
    assert Announce(Kind.WITHDRAW, everybody("Worker/0/1")) in gone
    assert links["a"].up and links[""].up


def test_announcement_under_way_keeps_no_child_of_another_job() -> None:
    """It waits until the node has joined, which is when the node learns its job."""
    proxy = node("Proxy/0")
    link = proxy.register(0.0, at("Worker/0/0"), job_id="b")
    proxy.link_up(0.0, link, "s")
    proxy.announced(0.0, link, Kind.ADD, everybody("Worker/0/0"), Caller(), "announces", patience=30.0)
    assert link.announcing
    proxy.upstream_up(1.0, "up", at("Mgr"), withdraws=True, told=True, job_id="a")
    proxy.link_down(1.0, link, "s", [])
    assert Forgot(link.id, at("Worker/0/0"), 1) in proxy.tick(1.0)


def test_registration_of_another_job_ends_when_the_node_takes_an_id() -> None:
    proxy = node("Proxy/0")
    waiting = proxy.register(0.0, at("Worker/0/0"), job_id="b")
    proxy.upstream_up(1.0, "up", at("Mgr"), job_id="a")
    assert proxy.tick(1.0) == [Forgot(waiting.id, at("Worker/0/0"), 1)]


def test_member_without_its_stream_keeps_its_grace() -> None:
    proxy = joined("Proxy/0", job="a")
    link = proxy.register(0.0, at("Worker/0/0"), job_id="a")
    proxy.link_up(0.0, link, "s")
    proxy.link_down(1.0, link, "s", [])
    assert not [each for each in proxy.tick(2.0) if isinstance(each, Forgot)]
