"""Arguments of `taskd-net run`: each wrong one is one line, and nothing has started."""

from __future__ import annotations

import argparse

import pytest

from taskd_net.job import run_arguments


def parser() -> argparse.ArgumentParser:
    """A stand-in for torchrun's, with the arguments that are checked."""
    made = argparse.ArgumentParser()
    made.add_argument("--nnodes", default="1:1")
    made.add_argument("--nproc-per-node", default="1")
    for name in ("--node-rank", "--max-restarts"):
        made.add_argument(name, type=int, default=0)
    made.add_argument("--master-port", type=int)
    made.add_argument("--master-addr")
    for name, value in (("--rdzv-backend", "static"), ("--rdzv-endpoint", ""), ("--rdzv-id", "none")):
        made.add_argument(name, default=value)
    for name in ("--standalone", "--run-path", "--no-python"):
        made.add_argument(name, action="store_true")
    made.add_argument("training_script")
    return made


def parse(*arguments: str) -> argparse.Namespace:
    return run_arguments.parse(parser(), int, [*arguments, "train.py"], "here")


PORT = "expected a port, 1 to 65535"
SECONDS = "expected a number of seconds, 1 to 86400"
PERIOD = "expected a number of seconds, 0 to 86400"
NODES = "expected a number of nodes, 1 to 65536, such as 2"
ALONE = "--standalone for one node"
ENDPOINT = "expected HOST:PORT, such as 10.0.0.7:29400"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nnodes=0"], f"--nnodes is '0'; {NODES}"),
        (["--nnodes=-1"], f"--nnodes is '-1'; {NODES}"),
        (["--nnodes=two"], f"--nnodes is 'two'; {NODES}"),
        (["--nnodes=3:2"], f"--nnodes is '3:2'; {NODES}"),
        (["--nnodes=0:2"], f"--nnodes is '0:2'; {NODES}"),
        (["--nnodes=1:2:3"], f"--nnodes is '1:2:3'; {NODES}"),
        (["--nnodes=2", "--node-rank=5"], "--node-rank is 5; expected 0 to 1, as --nnodes is 2"),
        (["--nnodes=2", "--node-rank=-1"], "--node-rank is -1; expected 0 to 1, as --nnodes is 2"),
        (["--node-rank=1"], "--node-rank is 1; expected 0, as --nnodes is 1"),
        (["--node-rank=x"], "argument --node-rank: invalid int value: 'x'"),
        (["--nproc-per-node=0"], "--nproc-per-node is '0', 0 processes; expected 1 to 65536"),
        (["--nproc-per-node=some"], "--nproc-per-node is 'some': invalid literal for int() with base 10: 'some'"),
        (["--max-restarts=-1"], "--max-restarts is -1; expected 0 or more"),
        (["--master-port=65536"], f"--master-port is 65536; {PORT}"),
        (["--nnodes=2", "--node-rank=0", "--master-port=0"], f"--master-port is 0; {PORT}"),
        (["--mgr-port=0"], f"--mgr-port is '0'; {PORT}"),
        (["--mgr-port=x"], f"--mgr-port is 'x'; {PORT}"),
        (["--node-timeout=x"], f"--node-timeout is 'x'; {SECONDS}"),
        (["--node-timeout=0.5"], f"--node-timeout is '0.5'; {SECONDS}"),
        (["--node-timeout=86401"], f"--node-timeout is '86401'; {SECONDS}"),
        (["--node-timeout=nan"], f"--node-timeout is 'nan'; {SECONDS}"),
        (["--hang-timeout=x"], f"--hang-timeout is 'x'; {PERIOD}"),
        (["--hang-timeout=-1"], f"--hang-timeout is '-1'; {PERIOD}"),
        (["--hang-timeout=nan"], f"--hang-timeout is 'nan'; {PERIOD}"),
        (["--on-hang=kill"], "--on-hang is 'kill'; expected report, guilty or all"),
        (["--rdzv-endpoint=host:x"], f"--rdzv-endpoint is 'host:x'; {ENDPOINT}"),
        (["--rdzv-endpoint=host:70000"], f"--rdzv-endpoint is 'host:70000'; {ENDPOINT}"),
        (["--rdzv-endpoint=::1:29400"], f"--rdzv-endpoint is '::1:29400'; {ENDPOINT}"),
        (["--rdzv-endpoint=a b:1"], f"--rdzv-endpoint is 'a b:1'; {ENDPOINT}"),
        (
            ["--nnodes=2", "--rdzv-backend=etcd"],
            "--rdzv-backend is 'etcd' with 2 nodes; expected static or c10d: the nodes meet by way of the Manager",
        ),
        (
            ["--nnodes=2", "--rdzv-backend=c10d"],
            "--rdzv-endpoint is missing beside --rdzv-backend c10d; expected HOST:PORT",
        ),
        (
            ["--nnodes=2"],
            f"--nnodes is 2, and the node rank is missing: give --node-rank or TASKD_NET_NODE_RANK, or {ALONE}",
        ),
        (["--nnodes=2", "--standalone"], "--standalone with --nnodes 2; expected one node"),
        (["--run-path"], "--run-path runs the script as a Python function; expected a command, such as a script"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_argument_is_one_line_and_status_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(*arguments)
    assert ended.value.code == 2 and capsys.readouterr().err == f"taskd-net run: {said}\n"


@pytest.mark.parametrize("host", ["host:9601", "$(X)", "a b"])
@pytest.mark.parametrize("show", [[], ["--show-launcher"]])
def test_first_host_of_no_use_is_refused_by_its_source_also_where_the_place_is_shown(
    host: str, show: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [] if show else ["train.py"]
    sized = [*show, "--nnodes=2", "--node-rank=1"]
    said = f"is '{host}'; expected a host name or an IP address"
    for name, arguments in (("--master-addr", [*sized, f"--master-addr={host}"]), ("MASTER_ADDR", show)):
        if name == "MASTER_ADDR":
            monkeypatch.setenv("MASTER_ADDR", host)
        with pytest.raises(SystemExit) as error:
            run_arguments.parse(parser(), int, arguments + script, "here")
        assert error.value.code == 2 and capsys.readouterr().err.startswith(f"taskd-net run: {name} {said}")
    monkeypatch.setenv("TASKD_NET_MASTER_ADDR", host)
    with pytest.raises(SystemExit):
        run_arguments.parse(parser(), int, sized + script, "here")
    assert capsys.readouterr().err.startswith(f"taskd-net run: TASKD_NET_MASTER_ADDR {said}")


def test_script_that_is_missing_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_arguments.parse(parser(), int, [])
    assert capsys.readouterr().err == "taskd-net run: the following arguments are required: training_script\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.7:29400", ("10.0.0.7", 29400)),
        ("node-0", ("node-0", None)),
        ("[::1]:29400", ("::1", 29400)),
        ("[::1]", ("::1", None)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_endpoint_has_a_host_and_perhaps_a_port(text: str, expected: tuple[str, int | None]) -> None:
    assert run_arguments.endpoint(text) == expected


@pytest.mark.parametrize(("most", "expected"), [([], None), (["--max-restarts=0"], 0), (["--max-restarts=3"], 3)])
def test_number_of_restarts_is_none_where_nobody_has_said_it(most: list[str], expected: int | None) -> None:
    assert parse(*most).max_restarts == expected


@pytest.mark.parametrize(
    ("arguments", "rank"),
    [
        (["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1"], None),
        (["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1", "--node-rank=1"], 1),
        (["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"], 0),
    ],
)
def test_manager_gives_the_rank_where_torchrun_would(arguments: list[str], rank: int | None) -> None:
    assert parse(*arguments).node_rank == rank


def test_good_arguments_pass() -> None:
    args = parse("--nnodes=2", "--node-rank=1", "--master-port=29500", "--mgr-port=9601", "--job-id=a")
    assert (args.nodes, args.node_rank, args.mgr_port, args.job_id) == (2, 1, "9601", "a")
    assert parse("--master-port=0").nodes == 1 and parse("--nnodes=1:3", "--node-rank=0").nodes == 3


def test_flag_for_the_wait_has_precedence_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKD_NET_NODE_TIMEOUT", raising=False)
    assert parse().node_timeout is None
    monkeypatch.setenv("TASKD_NET_NODE_TIMEOUT", "60")
    assert parse().node_timeout == 60.0 and parse("--node-timeout=90.5").node_timeout == 90.5


def test_flags_for_hangs_have_precedence_over_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TASKD_NET_HANG_TIMEOUT", "TASKD_NET_ON_HANG"):
        monkeypatch.delenv(name, raising=False)
    assert (parse().hang_timeout, parse().on_hang) == (None, None)
    monkeypatch.setenv("TASKD_NET_HANG_TIMEOUT", "60")
    monkeypatch.setenv("TASKD_NET_ON_HANG", "guilty")
    assert (parse().hang_timeout, parse().on_hang) == (60.0, "guilty")
    given = parse("--hang-timeout=0", "--on-hang=all")
    assert (given.hang_timeout, given.on_hang) == (0.0, "all")
