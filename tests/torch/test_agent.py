"""torch's elastic agent under the commands of a Mgr: real launchers, real workers, real sockets."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torch.cluster import PLAIN, SOON, Cluster, await_end, children, kill, lives


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Mgr, and nodes that end with the test."""
    made = Cluster(tmp_path)
    yield made
    made.close()


def faults(cluster: Cluster) -> list[int]:
    ranks: list[int] = json.loads(cluster.report(202).message)["fault_ranks"]
    return ranks


def in_place(pid: int) -> str:
    """The number of restarts in place in the environment of a rank."""
    variables = dict(each.partition("=")[::2] for each in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    return variables["TASKD_NET_RESTARTS_IN_PLACE"]


SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(1.0)
    with open("saved", "a") as file:
        file.write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
while True:
    time.sleep(0.05)
"""
"""A training that takes a second to write its checkpoint at SIGTERM."""


def test_script_of_a_shell_leaves_its_training_the_time_after_sigterm(cluster: Cluster) -> None:
    node = cluster.run("--shutdown-timeout=20", "--no-python", "sh", "-c", "python3 train.py; true", workers=1)
    (node.folder / "train.py").write_text(SAVES)
    cluster.report(201)
    cluster.command(210, "32767")
    assert node.line("attempt_0/0/stdout.log") == "begun"
    cluster.command(213, "[0]")
    assert faults(cluster) == [0]
    assert (node.folder / "saved").read_text() == "saved"


def test_graceful_exit_reaches_the_training_of_a_shell_and_leaves_it_its_time(cluster: Cluster) -> None:
    """The shell has ended long before; the Agent looks each second."""
    node = cluster.run("--no-python", "sh", "-c", "python3 train.py; true", workers=1)
    (node.folder / "train.py").write_text(SAVES.replace("1.0", "3.0"))
    cluster.report(201)
    cluster.command(210, "32767")
    assert node.line("attempt_0/0/stdout.log") == "begun"
    cluster.command(0, msg_type="GRACE_EXIT")
    assert node.status() == 143, node.said()
    assert (node.folder / "saved").read_text() == "saved"


def test_commands_for_all_and_for_single_ranks(cluster: Cluster) -> None:
    node = cluster.run(str(PLAIN))
    assert cluster.report(201).message == "32767"
    cluster.command(210, "32767")
    first = [node.pid(rank) for rank in (0, 1)]
    assert node.line("attempt_0/1/stdout.log").split()[1:] == ["1", "1", "2", "0", "pod"]

    kill(first[1])
    assert faults(cluster) == [1]
    assert lives(first[0])
    cluster.command(209, '["1"]')
    assert node.file("attempt_0/1/stdout.log.1").exists()
    second = node.pid(1)
    assert second != first[1] and node.line("attempt_0/1/stdout.log").split()[1:] == ["1", "1", "2", "0", "worker"]
    assert node.line("attempt_0/1/stdout.log.1").split()[0] == str(first[1])
    assert node.pid(0) == first[0] and lives(first[0])
    assert [in_place(pid) for pid in (first[0], second)] == ["0", "1"]

    cluster.command(213, "[0]")
    assert faults(cluster) == [0]
    assert not lives(first[0]) and lives(second)
    assert all(map(lives, children(node.process.pid))), "no zombie"
    cluster.command(208, "32766")
    third = [node.pid(rank, "attempt_1/{}/stdout.log") for rank in (0, 1)]
    assert not lives(second) and [in_place(pid) for pid in third] == ["0", "0"]
    assert node.line("attempt_1/0/stdout.log").split()[1:] == ["0", "0", "2", "1", "worker"]

    for rank in (0, 1):
        (node.folder / f"end-{rank}").write_text("0\n")
    assert node.status() == 0, node.said()
    assert not any(map(lives, third))


def test_bad_commands_leave_the_workers_alone(cluster: Cluster) -> None:
    node = cluster.start(str(PLAIN))
    pids = [node.pid(rank) for rank in (0, 1)]
    for code, message in (
        *((209, "[]"), (213, "[]")),  # nobody
        *((209, '["2", "77"]'), (213, "[2]")),  # ranks of other nodes
        *((209, "no JSON"), (209, ""), (213, '["x"]'), (208, "many")),
        *((204, ""), (299, "?")),
    ):
        cluster.command(code, message)
    assert cluster.mgr.send("no JSON", to="Agent/0", timeout=SOON).ok
    cluster.command(213, "[1]")  # commands are carried out in order
    assert faults(cluster) == [1]
    assert lives(pids[0]) and [node.pid(rank) for rank in (0, 1)] == pids
    assert node.log().count("command_failed") == 6, node.log()
    cluster.command(203)
    assert node.status() == 1


@pytest.mark.parametrize(("code", "message"), [(203, ""), (208, "-1")])
def test_agent_leaves_with_1(code: int, message: str, cluster: Cluster) -> None:
    node = cluster.start(str(PLAIN))
    workers = list(children(node.process.pid))
    cluster.command(code, message)
    assert node.status() == 1
    await_end(*workers)


def test_graceful_exit(cluster: Cluster) -> None:
    node = cluster.start(str(PLAIN))
    workers = list(children(node.process.pid))
    cluster.command(0, msg_type="GRACE_EXIT")
    assert node.status() == 143
    await_end(*workers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2])
def test_signals_are_handled_as_by_torchrun(number: signal.Signals, cluster: Cluster) -> None:
    node = cluster.start("--signals-to-handle=SIGTERM,SIGINT,SIGUSR2", str(PLAIN))
    workers = list(children(node.process.pid))
    os.kill(node.process.pid, number)
    assert node.status() == (1 if number == signal.SIGINT else 128 + number)
    assert f"{number.name} has come" in node.said()
    await_end(*workers)


LEFT_S = 3.0
"""Seconds after the end of an Agent until nothing of it is left."""

SHUTDOWN_S = 20.0
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def plain_after(preamble: str, folder: Path) -> Path:
    """A script that begins with a line of its own."""
    script = folder / "script.py"
    script.write_text(preamble + PLAIN.read_text().replace("from __future__ import annotations\n", ""))
    return script


def test_workers_that_ignore_a_signal_are_killed_after_torchruns_timeout(cluster: Cluster, tmp_path: Path) -> None:
    """The default of `--shutdown-timeout` is 30 s."""
    node = cluster.start("--shutdown-timeout=1", str(plain_after(STUBBORN, tmp_path)))
    workers = list(children(node.process.pid))
    os.kill(node.process.pid, signal.SIGTERM)
    await_end(*workers, seconds=SHUTDOWN_S)
    assert node.status() == 143


@pytest.mark.parametrize("preamble", ["", STUBBORN], ids=["workers-that-end", "workers-that-ignore-SIGTERM"])
def test_nothing_is_left_3_s_after_an_agent_was_killed(preamble: str, cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.start(str(plain_after(preamble, tmp_path)))
    below = list(children(node.process.pid))
    assert len(below) == 3  # two workers, and the guardian
    kill(node.process.pid)
    await_end(*below, seconds=LEFT_S)


def test_proxy_of_the_node_that_runs_already_is_used(cluster: Cluster) -> None:
    cluster.proxy(server_rank=0)
    node = cluster.start(str(PLAIN))
    assert "no_own_proxy" in node.log() and "held by Proxy/0" in node.log()
    for rank in (0, 1):
        (node.folder / f"end-{rank}").write_text("0\n")
    assert node.status() == 0, node.said()


def test_proxy_of_another_node_at_the_nodes_address_is_refused(cluster: Cluster) -> None:
    cluster.proxy(server_rank=7)
    node = cluster.run(str(PLAIN))
    assert node.status() == 1
    (line,) = [line for line in node.log().splitlines() if "error" in line.lower()]
    assert "Found there: Proxy/7; expected Proxy/0" in line
    assert not list(node.folder.glob("*/attempt_*"))


def test_two_nodes_start_again_after_one_was_lost(cluster: Cluster) -> None:
    near, far = (cluster.run(str(PLAIN), node=rank, nodes=2, workers=1) for rank in (0, 1))
    for rank in (0, 1):
        cluster.report(201, rank)
        cluster.command(210, "5", rank)
    assert near.line("attempt_32762/0/stdout.log").split()[1:] == ["0", "0", "2", "32762", "pod"]
    lost = far.pid(0, "attempt_32762/{}/stdout.log")
    kill(far.process.pid)
    await_end(lost)
    again = cluster.run(str(PLAIN), node=1, nodes=2, workers=1)
    cluster.command(208, "4")
    cluster.report(201, 1)
    cluster.command(210, "4", 1)
    assert near.line("attempt_32763/0/stdout.log").split()[1:] == ["0", "0", "2", "32763", "pod"]
    assert again.line("attempt_32763/0/stdout.log").split()[1:] == ["1", "0", "2", "32763", "pod"]
    (near.folder / "end-0").write_text("0\n")
    (again.folder / "end-1").write_text("0\n")
    assert (near.status(), again.status()) == (0, 0)
