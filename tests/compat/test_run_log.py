"""TaskD's log object, each time in a process of its own: an import makes it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from taskd_net.base.limits import LOG_FILES
from tests.compat.environment import with_compat

pytestmark = pytest.mark.oldest

BEGIN = "import logging\nfrom taskd.python.utils.log import run_log\n"


def logged(code: str, folder: Path, variables: Mapping[str, str] = {}, before: str = "") -> tuple[str, str]:
    """Run code with the log object. Returns its stdout and stderr."""
    kept = {name: value for name, value in with_compat().items() if not name.startswith("TASKD_")}
    command, env = [sys.executable, "-c", before + BEGIN + code], {**kept, **variables}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, done.stderr


def lines(path: Path) -> list[tuple[object, object]]:
    """The lines of a log file, as level and text."""
    return [(line["level"], line["event"]) for line in map(json.loads, path.read_text().splitlines())]


CALLS = "run_log.debug('a'); run_log.info('rank %d of %s', 3, 'x'); run_log.warning('c'); run_log.error('d')"


def test_lines_are_in_the_file_and_on_the_standard_output(tmp_path: Path) -> None:
    said, errors = logged(f"assert isinstance(run_log, logging.Logger); {CALLS}", tmp_path)
    assert lines(tmp_path / "taskd_log" / "taskd.log") == [("info", "rank 3 of x"), ("warning", "c"), ("error", "d")]
    assert "rank 3 of x" in said and len(said.splitlines()) == 3 and errors == ""


def test_variables(tmp_path: Path) -> None:
    names = ("TASKD_LOG_PATH", "TASKD_FILE_LOG_LEVEL", "TASKD_STD_LOG_LEVEL")
    said, _ = logged(CALLS, tmp_path, dict(zip(names, (str(tmp_path / "x" / "y"), "debug", "ERROR"), strict=True)))
    assert len(lines(tmp_path / "x" / "y" / "taskd.log")) == 4
    assert len(said.splitlines()) == 1 and "d" in said
    said, errors = logged(CALLS, tmp_path, {"TASKD_LOG_STDOUT": "False", "TASKD_FILE_LOG_LEVEL": "WARNING"})
    assert lines(tmp_path / "taskd_log" / "taskd.log") == [("warning", "c"), ("error", "d")]
    assert (said, errors) == ("", "")


def test_traceback_is_in_the_file(tmp_path: Path) -> None:
    logged("try:\n  1/0\nexcept ZeroDivisionError:\n  run_log.exception('failed')", tmp_path)
    assert "ZeroDivisionError" in (tmp_path / "taskd_log" / "taskd.log").read_text()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TASKD_LOG_PATH": "/dev/null/x"}, "TASKD_LOG_PATH is '/dev/null/x'; expected a folder"),
        ({"TASKD_FILE_LOG_LEVEL": "LOUD"}, "TASKD_FILE_LOG_LEVEL is 'LOUD'; expected one of DEBUG"),
    ],
)
def test_variable_that_is_invalid_is_one_warning(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    _, errors = logged("run_log.info('a')", tmp_path, variables)
    assert said in errors and len(errors.splitlines()) == 1


def test_console_of_the_application_is_its_own(tmp_path: Path) -> None:
    before = "import logging, sys; logging.basicConfig(stream=sys.stdout, format='own %(message)s', level='INFO')\n"
    said, _ = logged(CALLS, tmp_path, before=before)
    assert said.splitlines() == ["own rank 3 of x", "own c", "own d"]
    assert len(lines(tmp_path / "taskd_log" / "taskd.log")) == 3


def test_file_of_many_processes(tmp_path: Path) -> None:
    """Each of them rotates the file, and every line is in one of the files that stay."""
    code = (
        "import sys\n(file,) = run_log.handlers\nfile.most = 40_000\n"
        "for number in range(300): run_log.info(f'{sys.argv[1]} {number}')"
    )
    variables = {**with_compat(), "TASKD_LOG_PATH": str(tmp_path), "TASKD_LOG_STDOUT": "False"}
    processes = [
        subprocess.Popen([sys.executable, "-c", BEGIN + code, str(number)], env=variables) for number in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    files = list(tmp_path.iterdir())
    assert 1 < len(files) < LOG_FILES, "none has gone"
    found = [event for path in files for _, event in lines(path)]
    assert sorted(map(str, found)) == sorted(f"{writer} {number}" for writer in range(3) for number in range(300))
