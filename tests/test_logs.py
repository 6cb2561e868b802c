"""The targets of log lines: an application's own logging stays alone, and a file holds its levels."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.logging import LogCaptureHandler

from taskd_net import ConfigError
from taskd_net.base import limits, logs
from taskd_net.base.logger import get_logger

pytestmark = pytest.mark.oldest

LOGGER = logging.getLogger("taskd_net")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A process without handlers of its own, and no variable set."""
    # pytest puts its handlers on anew for each phase of a test, so it is not enough to take them off here.
    for logger in (logging.getLogger(), LOGGER):
        monkeypatch.setattr(logger, "handlers", NoneOfPytest())
    monkeypatch.chdir(tmp_path)
    for variable in (logs.PATH, logs.FILE_LEVEL, logs.STD_LEVEL, logs.STDOUT):
        monkeypatch.delenv(variable, raising=False)
    yield
    logs.stop()
    assert (LOGGER.handlers, LOGGER.level, LOGGER.propagate) == ([], logging.NOTSET, True)


class NoneOfPytest(list[logging.Handler]):
    """The handlers of a logger that pytest's do not get into."""

    def append(self, handler: logging.Handler) -> None:
        if not isinstance(handler, LogCaptureHandler):
            super().append(handler)


def lines(path: Path) -> list[dict[str, object]]:
    """The lines of a log file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


class Collected(logging.Handler):
    """A handler of the application's own."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def test_same_event_on_the_console_and_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.start("taskd-worker-3.log")
    get_logger(node="Worker/0/3").info("upstream_lost", reason="the stream ended", code=5002)
    LOGGER.warning("plain %s", "text")
    out = capsys.readouterr().out
    assert "upstream_lost" in out and "the stream ended" in out and "\x1b" not in out and "plain text" in out
    first, second = lines(tmp_path / "taskd_log" / "taskd-worker-3.log")
    assert str(first.pop("timestamp")).endswith("+00:00")
    expected = {"event": "upstream_lost", "level": "info", "node": "Worker/0/3", "reason": "the stream ended"}
    assert first == {**expected, "code": 5002}
    assert (second["event"], second["level"]) == ("plain text", "warning")


def test_routine_is_in_the_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.start("taskd.log", routine={"joined", "lost"})
    log = get_logger()
    log.info("joined")
    log.warning("lost")
    log.info("started")
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["lost", "started"]
    assert [line["event"] for line in lines(tmp_path / "taskd_log" / "taskd.log")] == ["joined", "lost", "started"]


def test_traceback_is_in_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.start("x.log")
    try:
        raise ValueError("broken")
    except ValueError:
        get_logger().exception("request_failed")
        LOGGER.exception("of the %s", "application", stack_info=True)
    assert capsys.readouterr().out.count("ValueError: broken") == 2
    ours, other = lines(tmp_path / "taskd_log" / "x.log")
    assert "ValueError: broken" in str(ours["exception"]) and "ValueError: broken" in str(other["exception"])
    assert other["event"] == "of the application" and "test_logs.py" in str(other["stack_info"])


def test_settings_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(logs.PATH, str(tmp_path / "a" / "b"))
    monkeypatch.setenv(logs.FILE_LEVEL, "debug")
    monkeypatch.setenv(logs.STD_LEVEL, "ERROR")
    logs.start("x.log")
    log = get_logger()
    log.debug("seen_by_the_file")
    log.error("seen_by_both")
    assert [line["event"] for line in lines(tmp_path / "a" / "b" / "x.log")] == ["seen_by_the_file", "seen_by_both"]
    out = capsys.readouterr().out
    assert "seen_by_both" in out and "seen_by_the_file" not in out
    monkeypatch.setenv(logs.STDOUT, "False")
    logs.start(None)
    assert not logs.started()
    log.error("seen_by_nobody")
    assert capsys.readouterr().out == ""


def test_arguments_go_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.PATH, "/dev/null/x")
    monkeypatch.setenv(logs.FILE_LEVEL, "LOUD")
    logs.start("x.log", path=str(tmp_path), file_level="WARNING", std_level="INFO", stdout=False)
    get_logger().info("too_little")
    get_logger().warning("enough")
    assert [line["event"] for line in lines(tmp_path / "x.log")] == ["enough"]


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        (logs.FILE_LEVEL, "LOUD", "TASKD_FILE_LOG_LEVEL is 'LOUD'; expected one of DEBUG, INFO, WARNING, ERROR"),
        (logs.STD_LEVEL, "20", "TASKD_STD_LOG_LEVEL is '20'; expected one of DEBUG, INFO, WARNING, ERROR"),
        (logs.STDOUT, "maybe", "TASKD_LOG_STDOUT is 'maybe'; expected True or False"),
        (logs.PATH, "/dev/null/x", "TASKD_LOG_PATH is '/dev/null/x'; expected a folder in which x.log can be"),
    ],
)
def test_setting_that_cannot_be_used(
    variable: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logs.start("before.log", path=str(tmp_path), stdout=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as raised:
        logs.start("x.log")
    assert str(raised.value).startswith(expected)
    get_logger().info("still_there")
    assert [line["event"] for line in lines(tmp_path / "before.log")] == ["still_there"]


def test_starting_again_replaces_the_handlers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.start("first.log", path=str(tmp_path))
    logs.start("second.log", path=str(tmp_path))
    get_logger().info("once")
    assert lines(tmp_path / "first.log") == [] and len(lines(tmp_path / "second.log")) == 1
    assert capsys.readouterr().out.count("once") == 1


def test_application_with_handlers_keeps_its_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its handlers see what they saw before, as logfmt, though the file wants more; our console is silent."""
    own = Collected()
    logging.getLogger().addHandler(own)
    logs.start("x.log", path=str(tmp_path), file_level="DEBUG")
    log = get_logger(node="Mgr/0")
    log.info("below_its_level")
    log.warning("of_its_level", reason="a b")
    assert own.texts == ['event=of_its_level node=Mgr/0 reason="a b" level=warning']
    assert len(lines(tmp_path / "x.log")) == 2
    assert capsys.readouterr().out == ""


def test_application_that_configures_its_logging_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.start("x.log", path=str(tmp_path))
    get_logger().warning("before")
    stream = io.StringIO()
    logging.basicConfig(stream=stream, level=logging.INFO)
    get_logger().info("after")
    assert "before" in (out := capsys.readouterr().out) and "after" not in out
    assert "event=after" in stream.getvalue() and "before" not in stream.getvalue()


def test_handler_and_level_on_our_logger_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Collected()
    LOGGER.addHandler(own)
    LOGGER.setLevel(logging.ERROR)
    try:
        logs.start("x.log", path=str(tmp_path))
        get_logger().warning("not_wanted")
        get_logger().error("wanted")
        assert own.texts == ["event=wanted level=error"] and len(lines(tmp_path / "x.log")) == 1
        assert capsys.readouterr().out == ""
        logs.stop()
        assert (LOGGER.handlers, LOGGER.level) == ([own], logging.ERROR)
    finally:
        LOGGER.removeHandler(own)
        LOGGER.setLevel(logging.NOTSET)


def test_without_start_nothing_is_added() -> None:
    code = (
        "import logging, taskd_net.base.logs; from taskd_net.base.logger import get_logger; get_logger().info('quiet');"
        "assert not logging.getLogger('taskd_net').handlers and not logging.getLogger().handlers"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


def start_small(folder: Path, most: int) -> None:
    """Begin to log into files of so many bytes at most."""
    logs.start("x.log", path=str(folder), stdout=False)
    (file,) = (handler for handler in logs._handlers if isinstance(handler, logs._File))
    assert file.most == limits.LOG_FILE_BYTES
    file.most = most


def test_files_are_bounded(tmp_path: Path) -> None:
    start_small(tmp_path, 2000)
    for number in range(200):
        get_logger().info("state_changed", number=number)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["x.log", "x.log.1", "x.log.2", "x.log.3", "x.log.4"] and len(files) == limits.LOG_FILES
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    assert lines(tmp_path / "x.log")[-1]["number"] == 199


def test_forked_child_renames_no_file(tmp_path: Path) -> None:
    start_small(tmp_path, 1000)
    child = os.fork()
    if child == 0:
        for _ in range(30):
            get_logger().info("of_the_child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.log"]
    assert len(lines(tmp_path / "x.log")) == 30


def test_line_on_the_console_goes_past_the_buffer_of_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock may be held when a child is forked, so that none of our threads may ever be in it."""
    out = tmp_path / "out"
    with out.open("w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        logs.start(None)
        print("not yet flushed")
        get_logger().info("umlaut_ä")
        assert "umlaut_\\xe4" in out.read_text() and "not yet flushed" not in out.read_text()
    # Its number may be another file's from here on.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    before = out.read_text()
    with (tmp_path / "another").open("w"):
        get_logger().info("lost")
    assert out.read_text() == before and (tmp_path / "another").read_text() == ""


def test_file_that_cannot_be_written_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log").symlink_to("/dev/full")
    logs.start("x.log", path=str(tmp_path), stdout=False)
    get_logger().info("lost")
    assert "No space left on device" in capsys.readouterr().err


def fork_while_threads_log(folder: Path, count: int, timeout: float) -> None:
    """Run `tests.forked_logs`; every child has to log its line and to end."""
    command = [sys.executable, "-m", "tests.forked_logs", str(folder), str(count)]
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    forks = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = forks.communicate(timeout=timeout)[1]
    finally:
        forks.kill()
        forks.wait()
    assert forks.returncode == 0, said
    assert json.loads(said) == {"children": count, "troubles": []}
    # Whole lines, of parent and children, though the files were renamed meanwhile.
    assert len(list(folder.iterdir())) > 1
    assert all(lines(path) for path in folder.iterdir() if path.stat().st_size)


@pytest.mark.timeout(120)
def test_forked_children_log_while_threads_of_the_parent_do(tmp_path: Path) -> None:
    fork_while_threads_log(tmp_path, 300, timeout=100)


@pytest.mark.long
@pytest.mark.timeout(1900)
def test_20_000_forked_children_log_while_threads_of_the_parent_do(tmp_path: Path) -> None:
    fork_while_threads_log(tmp_path, 20_000, timeout=1800)


FULL_DISK = """
import json, os, resource, sys
from pathlib import Path
from taskd_net.base import limits
from taskd_net.base import logs
from taskd_net.base.logger import get_logger

limits.LOG_FILE_BYTES = 3000
limits.LOG_PEER_LINES = 100
logs.start("x.log", path=sys.argv[1], stdout=sys.argv[2] == "True")
log = get_logger()
for number in range(40):
    log.info("before", number=number)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[1], "x.log").stat().st_size + 40, hard))
for number in range(100):
    log.info("meanwhile", number=number)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.info("after")
logs.stop()
"""


@pytest.mark.parametrize("stdout", [True, False])
def test_disk_without_room_is_said_once_and_again_when_it_has_room(tmp_path: Path, stdout: bool) -> None:
    """A limit on the size of files stands for the disk: a write goes in half, then fails, for any user."""
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(stdout)], capture_output=True, text=True, check=True
    )
    said = run.stdout if stdout else run.stderr
    assert run.stderr.count("\n") == (0 if stdout else 1)
    assert said.count("File too large") == 1
    if stdout:
        assert said.count("log_file_failed") == said.count("log_file_works") == 1
    names = ["x.log", *(f"x.log.{number}" for number in range(1, limits.LOG_FILES))]
    texts = [(tmp_path / name).read_text().splitlines() for name in names if (tmp_path / name).exists()]
    whole, torn = [], []
    for line in [line for text in reversed(texts) for line in text]:
        try:
            whole.append(json.loads(line))
        except ValueError:
            torn.append(line)
    assert [len(line) for line in torn] == [40]
    assert [line["number"] for line in whole if line["event"] == "before"] == list(range(40))
    assert not any(line["event"] == "meanwhile" for line in whole)
    (works,) = [line for line in whole if line["event"] == "log_file_works"]
    # The line of the package about the failure counts as well.
    assert works["lost"] == 100 + 1
    assert whole[-2]["event"] == "after"


def test_file_on_a_full_device_ends_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log").symlink_to("/dev/full")
    logs.start("x.log", path=str(tmp_path), stdout=False)
    for _ in range(5):
        get_logger().info("into_the_void")
    logs.stop()
    assert capfd.readouterr().err.splitlines() == [
        f"taskd_net: {tmp_path}/x.log cannot be written: No space left on device; log lines are lost"
    ]


@pytest.mark.parametrize("stdout", [True, False])
def test_removed_folder_that_cannot_be_made_again_is_said_once(
    tmp_path: Path, stdout: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    logs.start("x.log", path=str(folder), stdout=stdout)
    shutil.rmtree(folder)
    folder.write_text("in its place")
    for _ in range(3):
        get_logger().info("meanwhile")
    folder.unlink()
    get_logger().info("after")
    logs.stop()
    said = capfd.readouterr()
    assert (said.out if stdout else said.err).count("File exists") == 1
    found = lines(folder / "x.log")
    assert [line["event"] for line in found] == ["after", "log_file_works"] and found[-1]["lost"] == 4


@pytest.mark.parametrize("read", [False, True])
def test_fifo_is_no_log_file(tmp_path: Path, read: bool) -> None:
    """Without a reader its opening waited without end, and with one each line while the reader was busy."""
    os.mkfifo(tmp_path / "x.log")
    reader = os.open(tmp_path / "x.log", os.O_RDONLY | os.O_NONBLOCK) if read else None
    with pytest.raises(ConfigError, match="can be written: it is a FIFO or a socket"):
        logs.start("x.log", path=str(tmp_path), stdout=False)
    if reader is not None:
        os.close(reader)


def test_console_on_a_full_device_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        logs.start("x.log", path=str(tmp_path))
        for _ in range(5):
            get_logger().info("said")
        logs.stop()
    assert len(lines(tmp_path / "x.log")) == 5
