"""Nodes that meet by way of the Manager: the store, the handler, and two launchers that go on by themselves."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed import TCPStore
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

from taskd_net.job.agent.messages import Meeting
from taskd_net.torch.agent import ElasticAgent
from taskd_net.torch.meeting import MeetingHandler, serve_store
from tests.manager.test_own_manager import children, command_line
from tests.torch.cluster import FAILING, SOON
from tests.torch.two_nodes import Job, await_line


def test_store_listens_at_its_address_alone() -> None:
    store, port = serve_store("127.0.0.1")
    other = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    store.set("a", "1")
    assert other.get("a") == b"1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), SOON)


def test_host_of_another_machine_is_served_everywhere() -> None:
    store, port = serve_store("192.0.2.1")
    socket.create_connection(("127.0.0.2", port), SOON).close()
    assert store.port == port


def test_rendezvous_has_taken_place() -> None:
    handler = MeetingHandler(Meeting(3, "[::1]:7001", (2, 1)), 1, "run")
    info = handler.next_rendezvous()
    place = info.bootstrap_store_info
    assert (info.rank, info.world_size, place.master_addr, place.master_port) == (1, 2, "::1", 7001)
    assert handler.use_agent_store and handler.get_run_id() == "run" and handler.shutdown()
    assert not handler.is_closed() and handler.num_nodes_waiting() == 0


def test_start_without_a_meeting_is_torchs_own_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Agent of an earlier release has come into the job."""
    met: list[tuple[object, str, int]] = []

    def rendezvous(_: object, group: Any) -> None:
        met.append((group.spec.rdzv_handler, group.spec.master_addr, group.spec.master_port))

    monkeypatch.setattr(LocalElasticAgent, "_rendezvous", rendezvous)
    monkeypatch.setattr("taskd_net.torch.agent.clean_store.meet", lambda _: None)
    torchs: Any = SimpleNamespace(get_run_id=lambda: "run")
    spec = SimpleNamespace(rdzv_handler=torchs, master_addr="h", master_port=29500, max_restarts=3)
    agent: Any = ElasticAgent.__new__(ElasticAgent)
    agent._server_rank, agent._torchs_rendezvous, agent._remaining_restarts = 0, None, 3
    for meeting in (Meeting(1, "h:7001", (1,)), Meeting(2, "h:7002", (1,)), None):
        agent.meet(meeting)
        agent._meet(SimpleNamespace(spec=spec, group_rank=0))
    assert [place for _, *place in met] == [["h", 7001], ["h", 7002], ["h", 29500]]
    assert met[-1][0] is torchs and isinstance(met[0][0], MeetingHandler)
    assert agent._remaining_restarts == 2


def test_ranks_of_nodes_with_different_numbers_of_workers() -> None:
    agent: Any = ElasticAgent.__new__(ElasticAgent)
    agent.meet(Meeting(1, "h:1", (2, 3)))
    workers = agent._assign_worker_ranks(None, 1, 2, SimpleNamespace(local_world_size=3))
    assert [(each.local_rank, each.global_rank, each.world_size) for each in workers] == [
        (0, 2, 5),
        (1, 3, 5),
        (2, 4, 5),
    ]


CARRIED_OUT = 1 + FAILING.read_text().splitlines().index("        exec(code)  # noqa: S102 - the test's own")
"""The line of that script that executes what the test says."""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job whose launchers end with the test."""
    with Job(tmp_path) as made:
        yield made


@pytest.mark.parametrize("rank", [0, 3])
def test_rank_that_is_killed_costs_a_restart_and_no_node(job: Job, rank: int) -> None:
    for node in (0, 1):
        job.start(node)
    before = job.workers(0)
    os.kill(before[rank], signal.SIGKILL)
    after = job.workers(1)
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())
    job.finish()
    assert job.statuses() == [0, 0]


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2)])
def test_nodes_with_different_numbers_of_processes_recover_together(job: Job, sizes: tuple[int, int]) -> None:
    for node, workers in enumerate(sizes):
        job.start(node, workers=workers)
    before = job.workers(0, world=3)
    os.kill(before[2], signal.SIGKILL)
    after = job.workers(1, world=3)
    assert before.keys() == after.keys() == {0, 1, 2} and not set(before.values()) & set(after.values())
    job.finish()
    assert job.statuses() == [0, 0]


def test_no_restart_is_none_and_ends_all_nodes_with_the_reason(job: Job) -> None:
    for node in (0, 1):
        job.start(node, "--max-restarts=0")
    os.kill(job.workers(0)[3], signal.SIGKILL)
    assert job.statuses() == [1, 1]
    assert all("failure 1 of node 1, which has 0 restarts" in job.out(node).read_text() for node in (0, 1))


def test_manager_that_is_killed_is_started_again_and_knows_the_round(job: Job) -> None:
    """The ranks notice nothing, and a failure afterwards is the next round's."""
    for node in (0, 1):
        job.start(node)
    before = job.workers(0)
    (manager,) = (pid for pid in children(job.launchers[0].pid) if b"--until-eof" in command_line(pid))
    os.kill(manager, signal.SIGKILL)
    await_line(job.out(0), "manager_started_again")
    assert job.workers(0) == before
    os.kill(before[3], signal.SIGKILL)
    job.workers(1)
    job.finish()
    assert job.statuses() == [0, 0]
    assert job.out(0).read_text().count("manager_ended") == 1


@pytest.mark.parametrize("node", [0, 1])
def test_launcher_that_is_killed_and_started_again_takes_part(job: Job, node: int) -> None:
    """With that of node 0 its Manager ends, too; the ranks of the other node notice nothing."""
    for each in (0, 1):
        job.start(each)
    job.workers(0)
    job.launchers[node].kill()
    job.launchers[node].wait(SOON)
    job.start(node)
    job.workers(1)
    job.finish()
    assert job.statuses() == [0, 0]


def test_every_launcher_ends_with_the_first_failure_of_the_job_and_nothing_after_it(job: Job) -> None:
    """Rank 3 of node 1 raises, and takes a second to die. Rank 0 fails meanwhile, because its peer is gone."""
    for node in (0, 1):
        job.start(node, "--max-restarts=0", script=FAILING)
    job.workers(0)
    job.fail(3, "import atexit, time; atexit.register(time.sleep, 1); open('gone', 'w'); raise ValueError('boom')")
    lost = "RuntimeError('[/gloo/transport/tcp/pair.cc:1] Connection closed by peer')"
    job.fail(0, f"import os\nif os.path.exists('gone'): raise {lost}")
    assert job.statuses() == [1, 1]
    for node in (0, 1):
        ended, first, others, place, *traceback = job.last_words(node)
        assert ended == "the job has ended: failure 1 of node 1, which has 0 restarts"
        assert first.startswith("rank 3 failed first: exit code 1 (node 1, host ") and others.endswith(" it: 0")
        assert place == f"at {FAILING}, line {CARRIED_OUT}, in step"
        assert traceback[0] == "Traceback (most recent call last):" and traceback[-1] == "ValueError: boom"


def test_same_bug_ends_the_job_at_its_second_start(job: Job) -> None:
    for node in (0, 1):
        job.start(node, script=FAILING)
    job.workers(0)
    job.fail(3, "raise ValueError('boom')")
    assert job.statuses() == [65, 65]
    reason = f"the job has ended: the same failure twice in a row: ValueError at {FAILING}, line {CARRIED_OUT}"
    assert [job.last_words(node)[0] for node in (0, 1)] == [reason, reason]
    said = job.out(0).read_text()
    assert said.count("event=restarted_after") + said.count("restarted_after round=2") == 1


def test_exit_code_65_ends_the_job_at_once(job: Job) -> None:
    for node in (0, 1):
        job.start(node, script=FAILING)
    job.workers(0)
    job.fail(1, "raise SystemExit(65)")
    assert job.statuses() == [65, 65]
    reason = "the job has ended: rank 1 has ended with 65, so it is not to be started again"
    for node in (0, 1):
        first, second, *_ = job.last_words(node)
        assert first == reason and second.startswith("rank 1 failed: exit code 65 (node 0, ")


ENDS_ITS_GROUP = """
import atexit, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank, sum_ = dist.get_rank(), torch.ones(1)

def step(number):
    if (number, rank) == (3, 3):
        atexit.register(time.sleep, 3)
        raise ValueError("boom")
    dist.all_reduce(sum_)

try:
    for number in range(100_000):
        step(number)
        time.sleep(0.01)
finally:
    dist.destroy_process_group()
"""
"""A rank ends its process group and raises, which its peers see at once. It is gone three seconds later."""


def test_peers_of_torch_that_fail_before_the_guilty_one_is_gone_are_its_victims(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ENDS_ITS_GROUP)
    for node in (0, 1):
        job.start(node, "--max-restarts=0", script=script)
    assert job.statuses() == [1, 1]
    for node in (0, 1):
        ended, first, others, place, *_, last = job.last_words(node)
        assert ended == "the job has ended: failure 1 of node 1, which has 0 restarts"
        assert first.startswith("rank 3 failed first: exit code 1 (node 1, host ")
        named, _, ranks = others.partition(": ")
        assert named == "ranks that failed after it" and set(ranks.split(", ")) <= {"0", "1", "2"}
        assert place == f"at {script}, line 11, in step" and last == "ValueError: boom"
