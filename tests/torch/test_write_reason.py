"""The error file of a failed script: its form, its bounds, and the processes that write one."""

from __future__ import annotations

import json
import os
import runpy
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.torch.test_start import FAILS, FORK, PROGRAM, WRITER, Case, run, written

write_reason: Any = SimpleNamespace(**runpy.run_path(str(WRITER)))  # its package needs torch

NESTED = "import json\n\ndef load():\n    json.loads('{')\n\nload()\n"
THREAD = """
import os, threading

def fails(number):
    raise ValueError(number)

for number in (1, 2):
    thread = threading.Thread(target=fails, args=(number,))
    thread.start()
    thread.join()
{end}
"""


def failed(tmp_path: Path, source: str, *, status: int = 1, file: str = "", **more: Any) -> Path:
    """Run a script to its failure. Returns the place of its error file."""
    here = written(tmp_path, case := Case(source, **more))
    path = tmp_path / "error.json"
    assert run(here, case, PROGRAM, TORCHELASTIC_ERROR_FILE=file or str(path))[0] == status
    return path


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    """torch's part, ours, and the traceback."""
    whole = json.loads(path.read_text("ascii"))
    assert whole.keys() == {"message", "taskd_net"}
    message = whole["message"]
    assert message.keys() == {"message", "extraInfo"} and message["extraInfo"].keys() == {"py_callstack", "timestamp"}
    return message, whole["taskd_net"], message["extraInfo"]["py_callstack"]


def test_exception(tmp_path: Path) -> None:
    before = time.time_ns()
    path = failed(tmp_path, FAILS)
    message, ours, callstack = read(path)
    script = tmp_path / "here" / "train.py"
    assert message["message"] == "ValueError: boom"
    assert callstack.splitlines() == [
        "Traceback (most recent call last):",
        f'  File "{script}", line 4, in <module>',
        "    step()",
        f'  File "{script}", line 2, in step',
        "    raise ValueError('boom')",
        "ValueError: boom",
    ]
    assert before - 10**6 <= ours["at_ns"] <= time.time_ns()
    assert int(message["extraInfo"]["timestamp"]) == ours["at_ns"] // 10**9
    pid = ours.pop("pid")
    del ours["at_ns"]
    assert pid != os.getpid()
    assert ours == {"type": "ValueError", "file": str(script), "line": 2, "function": "step"}
    assert {each.name for each in tmp_path.iterdir()} == {"here", "error.json", "error.json.fault"}
    assert not path.with_name("error.json.fault").read_bytes()


@pytest.mark.parametrize(
    ("source", "status", "code", "text"),
    [
        ("import sys\nsys.exit(3)", 3, 3, "SystemExit: 3"),
        ("import sys\nsys.exit(259)", 3, 3, "SystemExit: 259"),
        ("import sys\nsys.exit('no data')", 1, 1, "SystemExit: no data"),
        ("import argparse\nargparse.ArgumentParser().parse_args(['--lr'])", 2, 2, "SystemExit: 2"),
    ],
)
def test_exit(source: str, status: int, code: int, text: str, tmp_path: Path) -> None:
    message, ours, callstack = read(failed(tmp_path, source, status=status))
    assert (ours["exit_code"], message["message"]) == (code, text)
    assert (ours["file"], ours["line"], ours["function"]) == (str(tmp_path / "here" / "train.py"), 2, "<module>")
    assert callstack.rstrip().endswith(text) and "start.py" not in callstack


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("", 0),
        ("import sys\nsys.exit()", 0),
        ("import sys\nsys.exit(256)", 0),
        ("import os\nos._exit(7)", 7),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -15),
        (FORK.format(child="raise ValueError('child')"), 0),
        (FORK.format(child="sys.exit(3)"), 0),
        ("import threading\nthreading.Thread(target=lambda: exit(5)).start()", 0),
    ],
)
def test_no_failure_of_the_script_writes_no_file(source: str, status: int, tmp_path: Path) -> None:
    path = failed(tmp_path, source, status=status)
    assert {each.name for each in tmp_path.iterdir()} == {"here", "error.json.fault"}
    assert not path.exists()


def test_deepest_frame_is_the_scripts_and_no_librarys(tmp_path: Path) -> None:
    message, ours, callstack = read(failed(tmp_path, NESTED))
    assert (Path(ours["file"]).name, ours["line"], ours["function"]) == ("train.py", 4, "load")
    assert "raw_decode" in callstack and message["message"].startswith("JSONDecodeError: Expecting property name")


def test_frame_of_a_library_where_there_is_no_other(tmp_path: Path) -> None:
    """The script is an installed module."""
    _, ours, _ = read(failed(tmp_path, "", arguments=["-m", "json.tool", "--nope"], status=2))
    assert (Path(ours["file"]).name, ours["function"]) == ("argparse.py", "exit")


@pytest.mark.parametrize(
    ("source", "status", "kind", "line"),
    [
        ("raise KeyboardInterrupt", -2, "KeyboardInterrupt", 1),
        ("class Stop(BaseException): pass\nraise Stop", 1, "Stop", 2),
        ("def f(): f()\nf()", 1, "RecursionError", 1),
        ("x = 1\ny = = 2", 1, "SyntaxError", 2),
        ("x = '\udce9'", 1, "SyntaxError", 1),
        ("class Odd(Exception):\n    def __str__(self): 1 / 0\nraise Odd", 1, "Odd", 3),
    ],
)
def test_other_failures(source: str, status: int, kind: str, line: int, tmp_path: Path) -> None:
    message, ours, callstack = read(failed(tmp_path, source, status=status))
    assert (ours["type"], ours["line"]) == (kind, line)
    assert message["message"].startswith(f"{kind}: ") and kind in callstack and "start.py" not in callstack


def test_script_that_cannot_be_read(tmp_path: Path) -> None:
    message, ours, callstack = read(failed(tmp_path, "", arguments=["nope.py"], status=2))
    assert ours["type"] == "FileNotFoundError" and "nope.py" in message["message"]
    assert callstack.strip() == message["message"]


def test_modules_of_the_script_are_in_nobodys_way(tmp_path: Path) -> None:
    modules = dict.fromkeys(("traceback.py", "json.py", "time.py"), "1 / 0")
    message, ours, callstack = read(failed(tmp_path, FAILS, files=modules))
    assert message["message"] == "ValueError: boom" and ours["function"] == "step"
    assert callstack.count("train.py") == 2 and "in step" in callstack


def test_file_of_torchs_record_stays(tmp_path: Path) -> None:
    first = "import os\nwith open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w') as file:\n    file.write('theirs')\n"
    path = failed(tmp_path, first + "raise ValueError('ours')")
    assert path.read_text() == "theirs"
    assert read(path.with_name("error.json.own"))[0]["message"] == "ValueError: ours"


@pytest.mark.parametrize(("end", "status"), [("os._exit(5)", 5), ("raise KeyError(3)", 1), ("", 0)])
def test_first_failure_of_a_thread_is_kept_beside(end: str, status: int, tmp_path: Path) -> None:
    path = failed(tmp_path, THREAD.format(end=end), status=status)
    message, ours, callstack = read(path.with_name("error.json.thread"))
    assert message["message"] == "ValueError: 1" and ours["function"] == "fails" and "start.py" not in callstack
    assert path.exists() == (status == 1)


def test_failure_of_a_thread_where_threading_was_imported_before(tmp_path: Path) -> None:
    """A module that Python itself imports at its start may import it."""
    path = failed(
        tmp_path,
        THREAD.format(end=""),
        status=0,
        files={"usercustomize.py": "", "sitecustomize.py": "import threading"},
        variables={"PYTHONPATH": "."},
    )
    assert read(path.with_name("error.json.thread"))[0]["message"] == "ValueError: 1"


@pytest.mark.parametrize(
    ("variables", "kept"), [({}, True), ({"PYTHONFAULTHANDLER": "1"}, False)], ids=["ours", "enabled-before"]
)
def test_stack_at_a_signal(variables: dict[str, str], kept: bool, tmp_path: Path) -> None:
    source = "import os\n\ndef crash():\n    os.abort()\n\ncrash()\n"
    path = failed(tmp_path, source, status=-6, variables=variables)
    fault = path.with_name("error.json.fault")
    assert fault.exists() == kept and not path.exists()
    if kept:
        assert fault.read_text().startswith("Fatal Python error: Aborted") and "line 4 in crash" in fault.read_text()


def test_long_texts_are_cut(tmp_path: Path) -> None:
    source = "def step():\n    raise ValueError('begin' + 100_000 * '\u00e9' + 'end')\n\nstep()\n"
    path = failed(tmp_path, source)
    message, _, callstack = read(path)
    most = write_reason.HEAD_BYTES + write_reason.TAIL_BYTES
    assert most <= len(callstack.encode()) <= most + 50
    assert (
        callstack.startswith("Traceback") and callstack.endswith("\u00e9end\n") and " bytes left out ...]" in callstack
    )
    assert message["message"].startswith("ValueError: begin") and len(message["message"].encode()) < 1100


@pytest.mark.parametrize(
    "file",
    ["nowhere/error.json", "\x7f" + 300 * "x", "/dev/null", "/proc/version"],
    ids=["gone", "long", "null", "proc"],
)
def test_file_that_cannot_be_written_changes_nothing(file: str, tmp_path: Path) -> None:
    here = written(tmp_path, case := Case(FAILS))
    assert run(here, case, PROGRAM, TORCHELASTIC_ERROR_FILE=file) == run(here, case)


def test_file_of_a_relative_name_is_where_the_process_began(tmp_path: Path) -> None:
    read(failed(tmp_path, "import os\nos.chdir('/')\n" + FAILS, file="../error.json"))


@pytest.mark.parametrize(
    "value", ["", "plain", '"\\\n\x00\x7f', "\u00e9\u20ac", "\U0001f600", {}, {"a": {"b": 2**70, "\n": ""}}, -1, True]
)
def test_json(value: object) -> None:
    assert json.loads(write_reason.json(value)) == value
    assert write_reason.json(value).isascii()


@pytest.mark.parametrize(
    ("text", "head", "tail", "expected"),
    [
        ("abcdef", 3, 3, "abcdef"),
        ("abcdefg", 3, 3, "abc\n[... 1 bytes left out ...]\nefg"),
        ("abcdefg", 3, 0, "abc\n[... 4 bytes left out ...]\n"),
        ("abcdefg", 0, 3, "\n[... 4 bytes left out ...]\nefg"),
        ("\u00e9\u00e9\u00e9\u00e9", 3, 3, "\u00e9\n[... 2 bytes left out ...]\n\u00e9"),
        ("\udce9", 9, 9, "\\udce9"),
    ],
)
def test_bounded(text: str, head: int, tail: int, expected: str) -> None:
    assert write_reason.bounded(text, head, tail) == expected


def test_frames_without_a_traceback() -> None:
    assert write_reason.place(ValueError(), None) == ("", 0, "")
    assert write_reason.place(SyntaxError("x", ("a.py", 3, 1, "")), None) == ("a.py", 3, "")
