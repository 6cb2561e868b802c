"""Causes of the ends of training processes: the forms of their files, the first failure, and its words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from taskd_net.base.cause import (
    TOLD_HEAD_CHARS,
    TOLD_TAIL_CHARS,
    Cause,
    Place,
    Reason,
    first,
    read_cause,
    read_reason,
    read_stack,
    summary,
    words,
    write_cause,
)

AT = 1_800_000_000_123_456_789
OURS = {
    "message": {
        "message": "ValueError: boom",
        "extraInfo": {"py_callstack": "Traceback\n  line\nValueError: boom\n", "timestamp": "1800000000"},
    },
    "taskd_net": {"pid": 7, "at_ns": AT, "type": "ValueError", "file": "/a/train.py", "line": 3, "function": "step"},
}
TORCHS = {"message": OURS["message"]}


def test_file_of_ours() -> None:
    assert read_reason(json.dumps(OURS)) == Reason(
        kind="ValueError",
        message="ValueError: boom",
        traceback="Traceback\n  line\nValueError: boom\n",
        place=Place("/a/train.py", 3, "step"),
        at_ns=AT,
        pid=7,
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            TORCHS,
            Reason(
                "ValueError", "ValueError: boom", "Traceback\n  line\nValueError: boom\n", None, 1_800_000_000 * 10**9
            ),
        ),
        (
            {"message": {"message": "a: b", "extraInfo": {"timestamp": 5}, "errorCode": 3}},
            Reason("a", "a: b", at_ns=5 * 10**9),
        ),
        ({"message": "text", "timestamp": "5"}, Reason("", "text", "text", at_ns=5 * 10**9)),
        ({"message": "text"}, Reason("", "text", "text")),
        ({"message": {}, "taskd_net": {"exit_code": 65}}, Reason(exit_code=65)),
        ({"message": {"message": "no type: b"}}, Reason("", "no type: b")),
        ({"message": {}}, Reason()),
        ({"message": {"message": 3, "extraInfo": []}, "taskd_net": 4}, Reason()),
        (
            {
                "message": {"message": "a", "extraInfo": {"py_callstack": 1, "timestamp": "\u00b2"}},
                "taskd_net": {"pid": True, "at_ns": -1, "type": None, "file": "x", "line": 2**70, "function": []},
            },
            Reason("a", "a"),
        ),
        ({"message": {"message": "a"}, "taskd_net": {"file": "", "line": 3}}, Reason("a", "a")),
        ({"message": "a", "timestamp": 1.5}, Reason("", "a", "a")),
        ({"message": "a", "timestamp": "9" * 30}, Reason("", "a", "a")),
    ],
)
def test_other_forms(value: object, expected: Reason) -> None:
    assert read_reason(json.dumps(value)) == expected


@pytest.mark.parametrize(
    "text",
    ["", "{", json.dumps(OURS)[:-1], "[]", "3", "{}", '{"message": null}', '{"message": []}', "[" * 5000, "9" * 5000],
)
def test_half_and_foreign_files(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|Expecting|Exceeds|nested") as caught:
        read_reason(text)
    assert len(str(caught.value)) < 1000


def test_long_texts_are_cut() -> None:
    callstack = "begin" + 100_000 * "x" + "end"
    value = {"message": {"message": 5000 * "y", "extraInfo": {"py_callstack": callstack}}}
    reason = read_reason(json.dumps(value))
    assert reason.traceback.startswith("beginx") and reason.traceback.endswith("xend")
    assert len(reason.traceback) < 4096 + 12288 + 60 and "83624 characters left out" in reason.traceback
    assert len(reason.message) < 1100


def test_texts_can_be_written() -> None:
    reason = read_reason('{"message": {"message": "\\ud800", "extraInfo": {"py_callstack": "\\udfff"}}}')
    assert (reason.message, reason.traceback) == ("\\ud800", "\\udfff")


def test_stack_at_a_signal() -> None:
    text = 'Fatal Python error: Aborted\n\nCurrent thread 0x7f:\n  File "/a.py", line 4 in crash\n'
    assert read_stack(text) == Reason(
        message="Fatal Python error: Aborted", traceback=text, place=Place("/a.py", 4, "crash")
    )
    assert read_stack(" \n") is None
    assert read_stack("Fatal\n") == Reason(message="Fatal", traceback="Fatal\n")


CAUSE = Cause(rank=1, node=0, host="h", pid=7, code=1, signal="", at_ns=AT, reason=read_reason(json.dumps(OURS)))
GLOO = "RuntimeError: [../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:39184"


def lost(traceback: str) -> Cause:
    """A rank that fails after the others, by this traceback."""
    return replace(CAUSE, rank=0, at_ns=AT - 5, reason=Reason(traceback=traceback))


@pytest.mark.parametrize(
    ("traceback", "expected"),
    [
        (f"Traceback\n  x\n{GLOO}", True),
        ("torch.distributed.DistBackendError: NCCL error", True),
        ("DistNetworkError: closed", True),
        (f"{GLOO}\n\nDuring handling of the above exception, another exception occurred:\n\nValueError: x", True),
        ("RuntimeError: boom", False),
        (f"  {GLOO}", False),
        ("Distant: x", False),
    ],
)
def test_rank_that_has_lost_a_peer(traceback: str, expected: bool) -> None:
    assert lost(traceback).lost_peer == expected
    assert first([lost(traceback), CAUSE]) == (CAUSE if expected else lost(traceback))


def test_first_failure() -> None:
    later, asked = replace(CAUSE, rank=2, at_ns=AT + 1), replace(CAUSE, rank=3, at_ns=AT - 1, asked=True)
    killed = replace(CAUSE, rank=4, at_ns=AT - 2, code=0, signal="SIGKILL", reason=None)
    assert not killed.lost_peer
    assert first([]) is None and first([asked]) is None
    assert first([asked, later, CAUSE]) == CAUSE
    assert first([later, lost(GLOO)]) == later
    assert first([lost(GLOO)]) == lost(GLOO), "its peer is at another node"
    assert first([later, CAUSE, killed]) == killed
    assert first([replace(later, at_ns=AT), CAUSE]) == CAUSE, "the lower rank of the same time"


def test_words() -> None:
    assert words(CAUSE) == [
        "rank 1 failed: exit code 1 (node 0, host h, pid 7)",
        "at /a/train.py, line 3, in step",
        "Traceback",
        "  line",
        "ValueError: boom",
    ]
    assert words(CAUSE, [3, 2])[:2] == [
        "rank 1 failed first: exit code 1 (node 0, host h, pid 7)",
        "ranks that failed after it: 2, 3",
    ]
    killed = replace(CAUSE, code=0, signal="SIGKILL", reason=None)
    assert words(killed) == ["rank 1 failed: ended by SIGKILL (node 0, host h, pid 7)"]
    assert words(replace(killed, out_of_memory=True)) == [
        "rank 1 failed: ended by SIGKILL: out of memory, by its cgroup's count (node 0, host h, pid 7)"
    ]
    silent = replace(CAUSE, code=7, reason=None, thread=Reason(message="KeyError: 1"))
    assert words(silent) == [
        "rank 1 failed: exit code 7 (node 0, host h, pid 7)",
        "it left no reason, such as after os._exit; see its standard error",
        "before that, an exception ended a thread of it:",
        "KeyError: 1",
    ]
    assert words(replace(silent, thread=None, last_lines="a\nb\x1b"))[1:] == [
        "the last lines of its standard error:",
        "a",
        "b\\u001b",
    ]
    of_a_file = replace(CAUSE, reason=Reason(message="SyntaxError: x", place=Place("a.py", 3, "")))
    assert words(of_a_file)[1:] == ["at a.py, line 3", "SyntaxError: x"]
    assert words(replace(CAUSE, reason=Reason(message="text")))[1:] == ["text"]
    assert words(replace(CAUSE, host="\x1b[0m"))[0].isprintable()


@pytest.mark.parametrize(
    "cause",
    [
        CAUSE,
        Cause(),
        Cause(3, 1, "h", 7, 0, "SIGKILL", AT, asked=True),
        Cause(3, 1, "h", 7, 0, "SIGKILL", AT, out_of_memory=True),
        Cause(3, 1, "h", 7, 7, last_lines="a\nb"),
        replace(CAUSE, thread=Reason("KeyError", "KeyError: 1", "Traceback", None, AT, 7)),
    ],
)
def test_cause_comes_out_as_it_went_in(cause: Cause) -> None:
    assert read_cause(write_cause(cause)) == cause


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"rank": -1}', '{"rank": true}', '{"rank": "3"}', "[" * 5000])
def test_text_that_is_no_cause(text: str) -> None:
    assert read_cause(text) is None


def test_cause_of_another_release() -> None:
    text = json.dumps(
        {"rank": 3, "node": "x", "host": 4, "reason": {"kind": 5, "place": [1], "at_ns": -1}, "thread": 2, "more": {}}
    )
    assert read_cause(text) == Cause(3, reason=Reason())


def test_cause_of_any_length_is_cut() -> None:
    cause = read_cause(json.dumps({"rank": 1, "host": 9000 * "h", "reason": {"traceback": 90_000 * "t"}}))
    assert cause is not None and cause.reason is not None
    assert len(cause.host) < 1100 and len(cause.reason.traceback) < 4096 + 12288 + 60
    told = replace(cause, thread=Reason("KeyError")).told
    assert told.reason is not None and told.thread is None
    assert len(told.reason.traceback) < TOLD_HEAD_CHARS + TOLD_TAIL_CHARS + 60
    assert cause.brief.reason == Reason() and Cause().told == Cause().brief == Cause()


def test_cause_in_one_line() -> None:
    assert summary(CAUSE) == "rank 1 of node 0: exit code 1: ValueError: boom at /a/train.py, line 3"
    assert summary(replace(CAUSE, code=0, signal="SIGKILL", reason=None)) == "rank 1 of node 0: ended by SIGKILL"
    long = replace(CAUSE, reason=Reason("", "two\nlines"))
    assert summary(long) == "rank 1 of node 0: exit code 1: two"
    assert summary(replace(CAUSE, reason=Reason("KeyError"))) == "rank 1 of node 0: exit code 1: KeyError"
    assert summary(replace(CAUSE, reason=Reason(message="\x1b[0m"))).isprintable()


def test_agent_that_does_not_say_how() -> None:
    assert words(Cause(3, 1)) == ["rank 3 failed: its Agent does not say how (node 1)"]


STORE = "torch.distributed.DistStoreError: wait timeout after 300000ms"
IN_USE = "OSError: [Errno 98] Address already in use"


@pytest.mark.parametrize(
    ("cause", "likeness"),
    [
        (CAUSE, "ValueError at /a/train.py, line 3"),
        (replace(CAUSE, code=0, signal="SIGSEGV"), ""),
        (lost(GLOO), ""),
        (lost(STORE), ""),
        (lost(IN_USE), ""),
        (lost("RuntimeError: The server socket has failed to listen on port 29500: EADDRINUSE"), ""),
        (replace(CAUSE, reason=None, code=3), "exit code 3"),
        (replace(CAUSE, reason=Reason("SystemExit", place=Place("a", 1, "")), code=3), "exit code 3"),
        (replace(CAUSE, reason=Reason("KeyError")), "exit code 1"),
        (Cause(), ""),
    ],
)
def test_likeness_of_a_failure(cause: Cause, likeness: str) -> None:
    assert cause.likeness == likeness
