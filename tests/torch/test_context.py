"""Processes of a node's ranks: one ends, stops and starts without the others."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, Std

from taskd_net.job.agent.memory import MemoryKills
from taskd_net.torch.context import NoCommand, RankContext, start_processes
from taskd_net.torch.guardian import Guardian
from taskd_net.torch.reasons import Failures

SOON = 20.0
TERM = 10.0

Start = Callable[..., RankContext]


@pytest.fixture
def failures() -> Failures:
    """The failures of the ranks."""
    return Failures()


@pytest.fixture
def logs(tmp_path: Path) -> DefaultLogsSpecs:
    """Log files of one run, in the test's folder."""
    return DefaultLogsSpecs(log_dir=str(tmp_path), redirects=Std.ALL)


@pytest.fixture
def start(logs: DefaultLogsSpecs, failures: Failures) -> Iterator[Start]:
    """Start shells as local ranks; they end with the test."""
    made: list[RankContext] = []
    with Guardian() as guardian:

        def started(*scripts: str, attempt: int = 0, specs: DefaultLogsSpecs = logs, **more: Any) -> RankContext:
            environment = {"TORCHELASTIC_RUN_ID": "run", "TORCHELASTIC_RESTART_COUNT": str(attempt)}
            context = start_processes(
                guardian,
                failures,
                name="trainer",
                entrypoint="/bin/sh",
                args={rank: ("-c", script) for rank, script in enumerate(scripts)},
                envs={rank: {**environment, "LOCAL_RANK": str(rank)} for rank in range(len(scripts))},
                logs_specs=specs,
                **more,
            )
            made.append(context)
            return context

        yield started
        for context in made:
            context.close()


def ended(context: RankContext, *ranks: int) -> None:
    """Wait until these ranks have ended."""
    for rank in ranks:
        descriptor = os.pidfd_open(context.pids()[rank])
        assert select.select([descriptor], [], [], SOON)[0], rank
        os.close(descriptor)


def files(specs: DefaultLogsSpecs, name: str) -> str:
    """The content of a file of the run."""
    return (Path(specs._run_log_dir or "") / name).read_text()


def until_written(specs: DefaultLogsSpecs, name: str) -> None:
    """Wait until a process has written to its file."""
    path = Path(specs._run_log_dir or "") / name
    while not path.exists() or not path.read_text():
        select.select([], [], [], 0.01)


def test_rank_that_fails_leaves_the_others_alone(start: Start, logs: DefaultLogsSpecs) -> None:
    context = start("echo first life; exit 3", "sleep 1000")
    before = context.pids()
    ended(context, 0)
    for _ in range(2):
        result = context.wait(0)
        assert {rank: (failure.exitcode, failure.pid) for rank, failure in result.failures.items()} == {
            0: (3, before[0])
        }
    assert context.pids() == before

    context.args[0] = ("-c", "echo second life")
    assert context.restart_ranks([0], TERM) == {0: context.pids()[0]}
    assert context.pids()[0] != before[0] and context.pids()[1] == before[1]
    ended(context, 0)
    assert context.wait(0) is None
    assert files(logs, "attempt_0/0/stdout.log.1") == "first life\n"
    assert files(logs, "attempt_0/0/stdout.log") == "second life\n"
    context.stop_ranks([1], TERM)
    assert [failure.exitcode for failure in context.wait(0).failures.values()] == [-signal.SIGTERM]
    context.args[1] = ("-c", "exit 0")
    context.restart_ranks([1], TERM)
    ended(context, 1)
    result = context.wait(0)
    assert result.return_values == {0: None, 1: None} and not result.is_failed()


def test_two_failures_at_once_are_both_seen(start: Start) -> None:
    context = start("exit 3", "sleep 1000", "exit 4")
    ended(context, 0, 2)
    assert sorted(context.wait(0).failures) == [0, 2]
    context.restart_ranks([0, 2], TERM)
    ended(context, 0, 2)
    assert sorted(context.wait(0).failures) == [0, 2]


def test_end_of_a_rank_is_that_of_its_session(start: Start, logs: DefaultLogsSpecs) -> None:
    """A data loader does not outlive the training process that was killed."""
    context = start("sleep 1000 & echo $!; wait")
    until_written(logs, "attempt_0/0/stdout.log")
    loader = os.pidfd_open(int(files(logs, "attempt_0/0/stdout.log")))
    os.kill(context.pids()[0], signal.SIGKILL)
    ended(context, 0)
    assert context.wait(0).failures[0].exitcode == -signal.SIGKILL
    assert select.select([loader], [], [], SOON)[0]
    os.close(loader)


def test_rank_that_does_not_end_is_killed(start: Start, logs: DefaultLogsSpecs) -> None:
    context = start("trap '' TERM; echo; while :; do sleep 1; done", "echo; sleep 1000")
    for rank in (0, 1):
        until_written(logs, f"attempt_0/{rank}/stdout.log")
    os.kill(context.pids()[1], signal.SIGSTOP)  # it is woken, and SIGTERM is enough
    context.stop_ranks([0, 1], 0.2)
    failures = context.wait(0).failures
    assert [failures[rank].exitcode for rank in (0, 1)] == [-signal.SIGKILL, -signal.SIGTERM]


def test_failures_of_an_earlier_process_stay_beside_the_new_ones_name(start: Start, logs: DefaultLogsSpecs) -> None:
    """A reason that is read after a death is that of the process that died. An empty file of no stack says nothing."""
    ends = ("", ".own", ".thread", ".fault")
    written = "".join(f"echo old > $TORCHELASTIC_ERROR_FILE{end}; " for end in ends[:3])
    context = start(f"{written} : > $TORCHELASTIC_ERROR_FILE.fault; exit 3")
    ended(context, 0)
    context.args[0] = ("-c", "sleep 1000")
    context.restart_ranks([0], TERM)
    folder = Path(logs._run_log_dir or "") / "attempt_0" / "0"
    assert {path.name for path in folder.glob("error.json*")} == {f"error.json{end}.1" for end in ends[:3]}


RECORD = '{"message": {"message": "boom", "extraInfo": {"timestamp": 5}}, "taskd_net": {"pid": %d, "at_ns": 5}}'


def test_failures_are_taken_in_with_the_records_of_the_processes(start: Start, failures: Failures) -> None:
    record = f"printf '{RECORD}' $$ > $TORCHELASTIC_ERROR_FILE"
    context = start("sleep 1000", f"{record}; exit 3", "kill -9 $$")
    ended(context, 1, 2)
    context.wait(0)
    pids = context.pids()
    assert failures.words()[:2] == [
        f"rank 1 failed first: exit code 3 (node 0, host {socket.gethostname()}, pid {pids[1]})",
        "ranks that failed after it: 2",
    ]
    assert failures.words()[-1] == "boom"
    context.args[1] = ("-c", "sleep 1000")
    context.restart_ranks([1], TERM)
    assert failures.words() == [f"rank 2 failed: ended by SIGKILL (node 0, host {socket.gethostname()}, pid {pids[2]})"]
    context.restart_ranks([2], TERM)
    ended(context, 2)
    context.wait(0)
    context.close()
    assert failures.words()[0].startswith("rank 2 failed: "), "the Agent ended the others"


def test_process_that_ends_slowly_has_failed_by_itself(
    start: Start, logs: DefaultLogsSpecs, failures: Failures
) -> None:
    """Its record is older than the Agent's SIGTERM; and one that had died before is not asked either."""
    context = start(f"printf '{RECORD}' $$ > $TORCHELASTIC_ERROR_FILE; echo; sleep 1000", "kill -9 $$")
    until_written(logs, "attempt_0/0/stdout.log")
    ended(context, 1)
    context.close()
    lines = failures.words()
    assert lines[0].startswith("rank 0 failed first: exit code 1 (") and "failed after it: 1" in lines[1]


def test_start_of_all_ranks_forgets_their_failures(start: Start, failures: Failures) -> None:
    context = start("exit 3")
    ended(context, 0)
    context.wait(0)
    assert failures.words()
    start("sleep 1000", attempt=1)
    assert failures.words() == []


def test_environment_and_numbers_of_a_restarted_rank_are_torchs(
    start: Start, logs: DefaultLogsSpecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESTART_FAULT_PROCESS_TYPE", "pod")
    script = (
        "echo $LOCAL_RANK $RESTART_FAULT_PROCESS_TYPE $TORCHELASTIC_ERROR_FILE; echo old > $TORCHELASTIC_ERROR_FILE"
    )
    context = start("sleep 1000", f"{script}; sleep 1000")
    until_written(logs, "attempt_0/1/error.json")
    monkeypatch.setenv("RESTART_FAULT_PROCESS_TYPE", "worker")
    context.restart_ranks([1], TERM)
    until_written(logs, "attempt_0/1/stdout.log")
    error = f"{logs._run_log_dir}/attempt_0/1/error.json"
    assert files(logs, "attempt_0/1/stdout.log.1") == f"1 pod {error}\n"
    assert files(logs, "attempt_0/1/stdout.log") == f"1 worker {error}\n"
    assert files(logs, "attempt_0/1/error.json.1") == "old\n"
    assert context.subprocess_handlers[1].local_rank_id == 1


def test_attempt_whose_number_comes_again_deletes_nothing(start: Start, logs: DefaultLogsSpecs) -> None:
    for text, attempt in (("one", 0), ("two", 1), ("three", 1), ("four", 1)):
        context = start(f"echo {text}", attempt=attempt)
        ended(context, 0)
        assert context.wait(0)
    attempts = [path.name for path in Path(logs._run_log_dir or "").iterdir()]
    found = {name: files(logs, f"{name}/0/stdout.log").strip() for name in attempts}
    assert found == {"attempt_0": "one", "attempt_1.1": "two", "attempt_1.2": "three", "attempt_1": "four"}


def test_lines_of_both_lives_are_copied_to_the_console(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = DefaultLogsSpecs(log_dir=str(tmp_path), redirects=Std.OUT, tee=Std.ALL)
    context = start(
        "echo first; echo wrong >&2; exit 1",
        "echo other",
        specs=specs,
        log_line_prefixes={0: "[a] ", 1: "[b] "},
        duplicate_stdout_filters=["fir", "sec"],
        duplicate_stderr_filters=["wrong"],
    )
    ended(context, 0, 1)
    assert context.wait(0).failures.keys() == {0}
    context.args[0] = ("-c", "echo second; echo unseen")
    context.restart_ranks([0], TERM)
    ended(context, 0)
    assert not context.wait(0).is_failed()
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()) == ["[a] first", "[a] second", "[a] unseen", "[b] other"]
    assert said.err == "[a] wrong\n"
    assert files(specs, "attempt_0/filtered_stdout.log") == "[a] first\n[a] second\n"
    assert files(specs, "attempt_0/filtered_stderr.log") == "[a] wrong\n"


def test_runs_without_log_files(start: Start) -> None:
    context = start("exit 1", specs=DefaultLogsSpecs(log_dir=os.devnull))
    ended(context, 0)
    assert context.wait(0).is_failed()
    context.args[0] = ("-c", "exit 0")
    context.restart_ranks([0], TERM)
    ended(context, 0)
    assert not context.wait(0).is_failed()


def test_functions_are_refused(logs: DefaultLogsSpecs) -> None:
    def train() -> None:
        """A training."""

    with Guardian() as guardian, pytest.raises(NoCommand, match=r"the Python function .*train; expected a command"):
        start_processes(guardian, Failures(), name="trainer", entrypoint=train, args={}, envs={}, logs_specs=logs)


# torch leaves the log files of a process open that it could not start.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_command_that_cannot_be_started_leaves_nothing(logs: DefaultLogsSpecs) -> None:
    with Guardian() as guardian, pytest.raises(FileNotFoundError):
        start_processes(
            guardian, Failures(), name="trainer", entrypoint="/nowhere", args={0: ()}, envs={0: {}}, logs_specs=logs
        )


@pytest.mark.parametrize("kills", [0, 1])
def test_kill_for_want_of_memory(
    kills: int, start: Start, failures: Failures, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The files of the kernel are the test's; the cgroups of a process are its own."""
    counters = [tmp_path / "memory.events", tmp_path / "memory" / "memory.oom_control"]
    (tmp_path / "memory").mkdir()
    for file in counters:
        file.write_text("oom_kill 5\n")
    monkeypatch.setattr("taskd_net.torch.context.MemoryKills", partial(MemoryKills, cgroups=tmp_path))
    context = start("sleep 1000", "sleep 1000")
    for file in counters:
        file.write_text(f"oom_kill {5 + kills}\n")
    os.kill(context.pids()[1], signal.SIGKILL)
    ended(context, 1)
    assert context.wait(0) is not None
    assert failures.first is not None
    assert (failures.first.signal, failures.first.out_of_memory) == ("SIGKILL", bool(kills))
