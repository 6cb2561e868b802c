"""Causes of the failures of a node: files of failed processes in every form, and the last words of the launcher."""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from taskd_net.base.cause import Cause, Place, Reason
from taskd_net.base.log_budget import LogBudget
from taskd_net.job.agent.messages import Exit
from taskd_net.torch import reasons
from taskd_net.torch.reasons import Failures, Records
from tests.torch.cluster import launched
from tests.torch.test_start import AGAIN

PID = 4711
EXTRA = {"py_callstack": "Traceback\nValueError: boom", "timestamp": "1800000000"}
MESSAGE = {"message": "ValueError: boom", "extraInfo": EXTRA}
OURS = {"message": MESSAGE, "taskd_net": {"pid": PID, "at_ns": 5, "type": "ValueError", "file": "a", "line": 3}}
FILES = {
    "ours": json.dumps(OURS),
    "torchs": json.dumps({"message": MESSAGE}),
    "torchs-with-code": json.dumps({"message": {**MESSAGE, "errorCode": 3}}),
    "text": '{"message": "text", "timestamp": 5}',
    "text-without-time": '{"message": "text"}',
    "no-text": '{"message": ""}',
    "without-callstack": '{"message": {"message": "boom", "extraInfo": {"timestamp": 5}}}',
    "without-message": '{"message": {"extraInfo": {"timestamp": 5.5}}}',
    "empty": "",
    "half": json.dumps(OURS)[:40],
    "without-extra": '{"message": {"message": "boom"}}',
    "extra-is-a-list": '{"message": {"message": "boom", "extraInfo": [1]}}',
    "callstack-is-a-number": '{"message": {"message": "boom", "extraInfo": {"timestamp": 5, "py_callstack": 3}}}',
    "message-is-a-number": '{"message": {"message": 3, "extraInfo": {"timestamp": 5}}}',
    "time-is-a-word": '{"message": "text", "timestamp": "soon"}',
    "time-is-nothing": '{"message": "text", "timestamp": null}',
    "time-is-far": '{"message": "text", "timestamp": 1e30}',
    "time-is-infinite": '{"message": {"extraInfo": {"timestamp": Infinity}}}',
    "no-message": "{}",
    "list": "[1, 2]",
    "number": "3",
    "message-is-a-list": '{"message": [1]}',
    "nested": "[" * 100_000,
    "no-json": "Killed\n",
}


def torch_takes(path: Path) -> bool:
    """True if torch makes a report of a process with this error file."""
    try:
        failure = ProcessFailure(local_rank=0, pid=PID, exitcode=1, error_file=str(path))
        ChildFailedError("train.py", {0: failure})
    except Exception:  # noqa: BLE001 - any: it would end the launcher
        return False
    return True


@pytest.mark.torch_range
@pytest.mark.parametrize("name", FILES)
def test_torch_gets_the_files_that_it_can_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text(FILES[name])
    assert reasons.torch_reads(FILES[name]) == torch_takes(path)
    assert reasons.take(str(path), PID).for_torch == torch_takes(path)
    assert path.read_text() == FILES[name], "it stays"


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b'{"message": "' + (4 * 1024 * 1024) * b"x" + b'"}'])
def test_file_of_no_text_and_one_without_end(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons.log, "_budget", LogBudget())  # a whole one
    path = tmp_path / "error.json"
    path.write_bytes(content)
    assert reasons.take(str(path), PID) == Records(for_torch=False)
    assert [record.getMessage() for record in caplog.records] == [
        f"event=error_file_unreadable path={path} pid={PID} level=warning"
    ]


def test_folder_fifo_and_nothing_in_the_place_of_the_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    assert not reasons.take(str(tmp_path / "fifo"), PID).for_torch
    assert not reasons.take(str(tmp_path / "folder"), PID).for_torch
    for none in ("", os.devnull, str(tmp_path / "none")):
        assert reasons.take(none, PID) == Records()


def test_record_of_ours_is_preferred(tmp_path: Path) -> None:
    """It has the finer time, and the line of the script."""
    path = tmp_path / "error.json"
    path.write_text(FILES["torchs"])
    theirs = reasons.take(str(path), PID).failure
    assert theirs is not None and theirs.pid is None
    Path(f"{path}.own").write_text(FILES["ours"])
    ours = reasons.take(str(path), PID).failure
    assert ours is not None and (ours.at_ns, ours.place) == (5, Place("a", 3, ""))
    assert reasons.take(str(path), PID + 1).failure == theirs, "that of another process counts for nothing"
    path.write_text("half")
    assert reasons.take(str(path), PID) == Records(ours, None, False)
    path.unlink()
    assert reasons.take(str(path), PID) == Records(ours)


def test_record_of_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    Path(f"{path}.thread").write_text(FILES["ours"])
    thread = reasons.take(str(path), PID).thread
    assert thread is not None and thread.kind == "ValueError"
    assert reasons.take(str(path), PID + 1) == Records()


def add(failures: Failures, records: Records | None = None, **more: Any) -> Cause:
    """A failure of rank 3."""
    given: dict[str, Any] = {
        "rank": 3,
        "node": 1,
        "pid": PID,
        "status": 1,
        "error_file": "",
        "stderr_file": "",
        "noticed_ns": 100,
        "asked_ns": None,
    }
    return failures.add(records or Records(), **(given | more))


def test_cause_has_the_time_of_the_record_or_of_the_look() -> None:
    failures = Failures()
    cause = add(failures)
    assert (cause.rank, cause.node, cause.host, cause.pid) == (3, 1, socket.gethostname(), PID)
    assert (cause.code, cause.signal, cause.at_ns, cause.asked) == (1, "", 100, False)
    assert add(failures, Records(Reason(at_ns=50))).at_ns == 50
    assert add(failures, Records(Reason())).at_ns == 100


@pytest.mark.parametrize(
    ("status", "name"), [(-9, "SIGKILL"), (-11, "SIGSEGV"), (-(signal.SIGRTMIN + 3), f"signal {signal.SIGRTMIN + 3}")]
)
def test_signals_have_names(status: int, name: str) -> None:
    cause = add(Failures(), status=status)
    assert (cause.code, cause.signal) == (0, name)


def test_end_that_the_agent_asked_for_is_no_failure() -> None:
    """A record that is older than the Agent's SIGTERM is one of a failure, such as of a process that ends slowly."""
    failures = Failures()
    assert add(failures, status=-15, asked_ns=60).asked
    assert failures.words() == []
    assert add(failures, Records(Reason(at_ns=61)), asked_ns=60).asked
    slow = add(failures, Records(Reason(at_ns=59, message="boom", exit_code=65)), status=-15, asked_ns=60)
    assert (slow.asked, slow.code, slow.signal) == (False, 65, "")
    assert failures.words()[-1] == "boom"
    failures.forget([3, 4])
    assert failures.words() == [] and not failures.has(3, PID)


def test_stack_counts_where_the_process_itself_ended_by_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    Path(f"{path}.fault").write_text("Fatal Python error: Segmentation fault\n")
    for status, message in ((-11, "Fatal Python error: Segmentation fault"), (-9, None), (1, None)):
        reason = add(Failures(), status=status, error_file=str(path)).reason
        assert (reason and reason.message) == message
    for none in ("", os.devnull, str(tmp_path / "none")):
        assert add(Failures(), status=-11, error_file=none).reason is None
    record = Reason(message="boom")
    assert add(Failures(), Records(record), status=-6, error_file=str(path)).reason == record


def test_last_lines_of_a_process_without_a_record(tmp_path: Path) -> None:
    path = tmp_path / "stderr.log"
    path.write_bytes(b"x" * 5000 + b"".join(b"\nline %d" % number for number in range(12)) + b"\n\xff")
    told = "\n".join([*(f"line {number}" for number in range(3, 12)), "\\xff"])
    assert add(Failures(), status=-9, stderr_file=str(path)).last_lines == told
    assert add(Failures(), Records(Reason(message="boom")), stderr_file=str(path)).last_lines == ""
    for none in ("", os.devnull, str(tmp_path / "none"), str(tmp_path)):
        assert add(Failures(), stderr_file=none).last_lines == ""


ENDED = "taskd-net run: the job has ended: failure 1 of node 0, which has 0 restarts"
"""The first one of the last words, with `--max-restarts=0`."""

TOGETHER = """
import os, sys, time
from pathlib import Path

def step():
    Path("failed").touch()
    {guilty}

if os.environ["RANK"] == "1":
    step()
while not Path("failed").exists():
    time.sleep(0.01)
{victim}
time.sleep(1000)
"""


def test_last_words_are_those_of_the_job() -> None:
    """The Manager says them: its first failure may be another node's."""
    failures = Failures()
    failures.ended = Exit("no restart is left")
    assert failures.words() == ["the job has ended: no restart is left"]
    own = add(failures, Records(Reason(message="own, and whole")))
    assert failures.words()[1:] == [
        f"rank 3 failed: exit code 1 (node 1, host {own.host}, pid {PID})",
        "own, and whole",
    ]
    there = Cause(5, 2, "far", 8, 0, "SIGKILL", 5)
    failures.ended = Exit("", there, (3,))
    first = "rank 5 failed first: ended by SIGKILL (node 2, host far, pid 8)"
    assert failures.words() == [first, "ranks that failed after it: 3"]
    failures.ended = Exit("\x1b[0m", replace(own, reason=Reason(message="own, cut")))
    assert failures.words()[0].isprintable() and failures.words()[-1] == "own, and whole"


def test_end_that_no_manager_has_asked_for_is_the_last_line() -> None:
    failures = Failures()
    failures.left = "the Manager has been away for 15 s"
    said = ["this node has ended: the Manager has been away for 15 s"]
    assert failures.words() == said
    add(failures)
    assert failures.words()[0].startswith("rank 3 failed") and failures.words()[-1:] == said


def test_failures_that_follow_from_a_signal_are_no_reason() -> None:
    failures = Failures()
    add(failures)
    assert failures.words(before_ns=101, number="SIGTERM")
    assert failures.words(before_ns=100, number="SIGTERM") == []
    failures = Failures()
    add(failures, status=-signal.SIGTERM)
    assert failures.words(before_ns=101, number="SIGTERM") == []
    assert failures.words(before_ns=101, number="SIGINT")


@pytest.mark.torch_range
@pytest.mark.parametrize(
    ("guilty", "end", "more"),
    [
        ("raise ValueError('boom')", "exit code 1", ["Traceback (most recent call last):", "ValueError: boom"]),
        ("sys.exit('no data')", "exit code 1", ["SystemExit: no data"]),
        ("os.kill(os.getpid(), 9)", "ended by SIGKILL", []),
        ("os.abort()", "ended by SIGABRT", ["Fatal Python error: Aborted"]),
        ("os._exit(7)", "exit code 7", ["it left no reason, such as after os._exit; see its standard error"]),
        (
            "print('out of', 'luck', file=sys.stderr, flush=True); os._exit(7)",
            "exit code 7",
            ["the last lines of its standard error:", "out of luck"],
        ),
    ],
    ids=["exception", "exit", "killed", "abort", "exit-at-once", "exit-with-a-line"],
)
def test_last_words_of_the_launcher(guilty: str, end: str, more: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TOGETHER.format(guilty=guilty, victim=""))
    done = launched(tmp_path, "--max-restarts=0", "--redirects=3", "train.py", workers=2)
    assert done.returncode == 1
    _, found, last = done.stderr.rpartition(f"{ENDED}\nrank ")
    first, *rest = last.splitlines()
    assert found and first.startswith(f"1 failed: {end} (node 0, host {socket.gethostname()}, pid ")
    assert all(line in rest for line in more) and bool(rest) == bool(more)
    assert done.stderr.count("\nValueError: boom\n") == ("boom" in guilty), "once"


def test_victims_are_named_after_the_first(tmp_path: Path) -> None:
    """Rank 0 fails first by the clock, because its peer is gone; rank 1 takes a second to end."""
    guilty = "import atexit; atexit.register(time.sleep, 1); raise ValueError('boom')"
    victim = "raise RuntimeError('[/gloo/transport/tcp/pair.cc:1] Connection closed by peer')"
    (tmp_path / "train.py").write_text(TOGETHER.format(guilty=guilty, victim=victim))
    done = launched(tmp_path, "--max-restarts=0", "--redirects=3", "train.py", workers=2)
    _, _, last = done.stderr.rpartition("taskd-net run: ")
    ended, *lines = last.splitlines()
    assert f"taskd-net run: {ended}" == ENDED
    assert lines[0].startswith("rank 1 failed first: ") and lines[1] == "ranks that failed after it: 0"
    assert lines[2] == f"at {tmp_path / 'train.py'}, line 7, in step" and lines[-1] == "ValueError: boom"


@pytest.mark.parametrize("name", ["half", "empty", "without-extra", "no-json"])
def test_file_that_torch_cannot_read_does_not_end_the_launcher(name: str, tmp_path: Path) -> None:
    """`@record` writes in place, so a process that is killed then leaves half a file."""
    (tmp_path / "content").write_text(FILES[name])
    copies = "import os, shutil\nshutil.copy('content', os.environ['TORCHELASTIC_ERROR_FILE'])\nos.kill(os.getpid(), 9)"
    (tmp_path / "train.py").write_text(copies)
    done = launched(tmp_path, "--max-restarts=0", "train.py")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "error_file_unreadable" in "".join(path.read_text() for path in (tmp_path / "log").glob("*.log"))
    *_, ended, last = [line for line in done.stderr.splitlines() if line != "boom"]
    assert ended == ENDED and last.startswith("rank 0 failed: ended by SIGKILL")


def test_success_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(AGAIN.format("1", "[sys.executable, *sys.argv, 'again']"))
    done = launched(tmp_path, "train.py")
    assert done.returncode == 0 and "taskd-net run:" not in done.stderr
