"""Destinations of the package's log lines: a console and a file, for a process without handlers of its own.

`start` puts handlers on the logger `taskd_net` alone. An application with handlers of its own, on the root logger or on
`taskd_net`, keeps them: they get the same lines as before, the console is theirs, and the file is written beside them.
Its level on `taskd_net` stays, and holds for the file as well.

Files hold one JSON object a line; when one has grown to `limits.LOG_FILE_BYTES` it is renamed to `<name>.1`, and the
oldest of `limits.LOG_FILES` goes. Names in use: `taskd-worker-<rank>.log`, `taskd-proxy-<serverRank>.log`,
`agent-<serverRank>.log`, `manager.log`, `taskd.log`. Processes may share a file.

The environment (docs/contract.md, section 7), read by `start` where its arguments are None:

- `TASKD_LOG_PATH`: the folder of the files, made if it is missing; default `./taskd_log/`
- `TASKD_FILE_LOG_LEVEL`, `TASKD_STD_LOG_LEVEL`: DEBUG, INFO, WARNING or ERROR; default INFO
- `TASKD_LOG_STDOUT`: True or False, whether lines go to the standard output as well; default True

A line is one `write` to a descriptor, past every buffered stream. `logging` does not know the lock of such a stream: a
thread inside `flush` at a fork would leave it locked in the child for ever. The price: unflushed prints of the
application come after later log lines.
"""

from __future__ import annotations

import fcntl
import io
import json
import logging
import os
import select
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from taskd_net.base import fork, limits, standard_files
from taskd_net.base.bounded_file import open_to_write
from taskd_net.base.codes import ConfigError
from taskd_net.base.handlers import WAIT_S, Own
from taskd_net.base.logger import Event, get_logger
from taskd_net.base.standard_files import descriptor_of

PATH: Final = "TASKD_LOG_PATH"
FILE_LEVEL: Final = "TASKD_FILE_LOG_LEVEL"
STD_LEVEL: Final = "TASKD_STD_LOG_LEVEL"
STDOUT: Final = "TASKD_LOG_STDOUT"
DEFAULT_PATH: Final = "./taskd_log/"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

log: Final = get_logger()
_logger: Final = logging.getLogger("taskd_net")
# Held while handlers change: two threads that start at once must not leave the handlers of both.
_changing: Final = fork.Lock()
_handlers: list[logging.Handler] = []
_level_before = logging.NOTSET
_propagated_before = True


@dataclass(frozen=True, slots=True)
class Rendering:
    """The forms of log lines.

    Args:
        file: makes the formatter of a file.
        console: makes that of the standard output, with colors or without.
    """

    file: Callable[[], logging.Formatter]
    console: Callable[[bool], logging.Formatter]


def start(
    file_name: str | None,
    *,
    path: str | None = None,
    file_level: str | None = None,
    std_level: str | None = None,
    stdout: bool | None = None,
    rendering: Rendering | None = None,
    routine: Collection[str] = (),
) -> None:
    """Send the package's log lines to a file and to the standard output. A second start replaces the handlers.

    Args:
        file_name: the file's name, without folder; None for no file.
        path: the folder; None for `TASKD_LOG_PATH`.
        file_level: the least level that goes into the file; None for `TASKD_FILE_LOG_LEVEL`.
        std_level: the least level that goes to the standard output; None for `TASKD_STD_LOG_LEVEL`.
        stdout: whether lines go to the standard output; None for `TASKD_LOG_STDOUT`.
        rendering: the forms of the lines. Default: `PLAIN`, which imports nothing.
        routine: events that the standard output leaves out below WARNING.

    Raises:
        ConfigError: a level or a switch that is none, or a folder that cannot be written; nothing is changed then.

    Source: docs/contract.md, section 7.
    """
    handlers = _destinations(_logger, file_name, path, file_level, std_level, stdout, rendering, routine)
    with _changing:
        _remove()
        _add(handlers)


def log_of(name: str, file_name: str) -> logging.Logger:
    """A logger beside the package's own, with a file and the standard output, as the environment says.

    Where either cannot be used, a warning of the package's logger says so, and the logger has none.

    Args:
        name: of the logger.
        file_name: as of `start`.
    """
    logger = logging.getLogger(name)
    with _changing:
        if not any(isinstance(handler, _File | _Console) for handler in logger.handlers):
            try:
                handlers = _destinations(logger, file_name)
            except ConfigError as error:
                log.warning("no_log_file", reason=str(error))
                return logger
            for handler in handlers:
                logger.addHandler(handler)
            logger.setLevel(min((handler.level for handler in handlers), default=logging.NOTSET))
    return logger


def stop() -> None:
    """Remove the handlers of `start` and close the file; nothing without `start`."""
    with _changing:
        _remove()


def wants_file() -> bool:
    """True where the environment names a folder for log files, or wants no lines on the console."""
    return bool(os.environ.get(PATH)) or os.environ.get(STDOUT, "").strip().lower() == "false"


def started() -> bool:
    """True between `start` and `stop`."""
    return bool(_handlers)


class _Console(Own, logging.StreamHandler[Any]):
    """The standard output, as long as the application has no handlers of its own.

    No thread waits long for a pipe or terminal that nobody reads: the console loses lines then, the file has them.
    """

    def __init__(self, logger: logging.Logger, level: int, rendering: Rendering, routine: Collection[str] = ()) -> None:
        super().__init__(sys.stdout)
        self._logger = logger
        self._routine = frozenset(routine)
        self._stopped = False
        self.setLevel(level)
        self.setFormatter(rendering.console(bool(getattr(sys.stdout, "isatty", bool)())))

    def filter(self, record: logging.LogRecord) -> Any:
        said = record.msg if record.levelno < logging.WARNING else None
        if isinstance(said, Event) and said.get("event") in self._routine:
            return False
        # Checked for each line, as an application may configure its logging later.
        ours = (_Console, _File, _Onward)
        own = logging.getLogger().hasHandlers() or any(not isinstance(h, ours) for h in self._logger.handlers)
        return False if own else super().filter(record)

    def emit(self, record: logging.LogRecord) -> None:
        # Checked for each line, as the application may close its stream, and its number be reused.
        descriptor = descriptor_of(self.stream)
        if descriptor is None:
            super().emit(record)
            return
        try:
            line = f"{self.format(record)}\n".encode(self.stream.encoding, "backslashreplace")
            _write(descriptor, line, 0.0 if self._stopped else WAIT_S)
            self._stopped = False
        except BlockingIOError:
            self._stopped = True
        except OSError:
            # Its disk is full, or it has no reader. The file has the line. It gets no line about this, as it logs its
            # own failures to the console, and each would wait for the other.
            return
        except Exception:  # noqa: BLE001 - as in every handler: a line that cannot be written ends nothing
            self.handleError(record)

    def flush(self) -> None:
        if descriptor_of(self.stream) is None:
            super().flush()


class _File(Own):
    """A file of JSON lines that is renamed when it is full.

    The descriptor stays the same from the first line to `close`, and is valid at every moment: a child that is forked
    in the middle of a rename writes into the full file or into the new one.

    Lines that the disk has no room for are lost. The other handlers log the first loss, and their number when there is
    room. A file that was removed is begun again, with its folder.
    """

    def __init__(self, path: Path, level: int, rendering: Rendering) -> None:
        super().__init__(level)
        self.rotates = True
        self.most = limits.LOG_FILE_BYTES
        self._lost = 0
        self._torn = False
        self._ended = False
        self._path = path
        self._file: io.FileIO | None = _appending(path)
        self.setFormatter(rendering.file())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
            if self._file is None and not self._ended:  # closed by logging.shutdown, or by logging.config
                self._file = _appending(self._path)
            if self._file is not None:
                status = os.fstat(self._file.fileno())
                if status.st_nlink == 0:
                    self._begin_again(self._file.fileno())
                elif self.rotates and 0 < status.st_size > self.most - len(line):
                    # Without room for the next file, the full one goes on.
                    with suppress(OSError):
                        self._rotate(self._file.fileno())
                self._append(self._file.fileno(), line)
        except OSError as error:
            self._lose(error)
        except Exception:  # noqa: BLE001 - as in every handler: a line that cannot be written ends nothing
            self.handleError(record)

    def end(self) -> None:
        """Close the file for good. After a `close` the next line opens it again."""
        self._ended = True
        self.close()

    def close(self) -> None:
        with self.lock or fork.Lock():
            file, self._file = self._file, None
            if file is not None:
                with suppress(OSError):  # network file systems report a lack of room here
                    file.close()
        super().close()

    def _append(self, descriptor: int, line: bytes) -> None:
        if self._torn:
            line = b"\n" + line
        left = line
        try:
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            # A torn line ends where the next one begins.
            if len(left) < len(line):
                self._torn = not line[: len(line) - len(left)].endswith(b"\n")
        if self._lost:
            count, self._lost = self._lost, 0
            log.warning("log_file_works", path=str(self._path), lost=count)

    def _lose(self, error: OSError) -> None:
        self._lost += 1
        if self._lost > 1:
            return
        reason = error.strerror or str(error)
        # To all other handlers; this one only counts it. Without another, to stderr.
        log.error("log_file_failed", path=str(self._path), reason=reason)
        if not any(isinstance(handler, _Console) for handler in _handlers) and sys.stderr is not None:
            text = f"taskd_net: {self._path} cannot be written: {reason}; log lines are lost\n"
            descriptor = descriptor_of(sys.stderr)
            with suppress(OSError, ValueError):
                if descriptor is None:
                    sys.stderr.write(text)
                else:
                    _write(descriptor, text.encode(errors="backslashreplace"), WAIT_S)

    def _begin_again(self, descriptor: int) -> None:
        """Make the file again after it was removed, with its folder."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _appending(self._path) as fresh:
            os.dup2(fresh.fileno(), descriptor, inheritable=False)
        self._torn = False

    def _rotate(self, descriptor: int) -> None:
        locked = _lock(descriptor)
        try:
            self._rename(descriptor)
            fresh = _appending(self._path)
        finally:
            # Not by closing it: a forked child may have the file, too.
            if locked:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        with fresh:
            os.dup2(fresh.fileno(), descriptor, inheritable=False)

    def _rename(self, descriptor: int) -> None:
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, limits.LOG_FILES))]
        # Missing if the next file could not be made, and another one if a process that shares the file was faster: the
        # older ones must not be rotated out then.
        if self._path.exists() and os.path.samestat(self._path.stat(), os.fstat(descriptor)):
            for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
                if newer.exists():
                    newer.replace(older)


class _Onward(logging.Handler):
    """Passes on to the application's handlers the lines that they would get without `start`.

    `start` has to lower the level of the logger; without this, that alone would fill the application's own console.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        parent = _logger.parent
        if parent is None or not parent.hasHandlers():
            return False
        if record.levelno >= (self.level or parent.getEffectiveLevel()):
            parent.callHandlers(record)
        return True


def _in_forked_child() -> None:
    """Leave rotation to the parent, which would go on writing into the renamed file."""
    for handler in _handlers:
        if isinstance(handler, _File):
            handler.rotates = False


os.register_at_fork(after_in_child=_in_forked_child)


def _add(handlers: Sequence[logging.Handler]) -> None:
    global _level_before, _propagated_before
    if not handlers:
        return
    _level_before, _propagated_before = _logger.level, _logger.propagate
    _handlers.extend(handlers)
    if _propagated_before:
        _handlers.append(_Onward(_level_before))
    if not _level_before:
        of_parent = _logger.parent.getEffectiveLevel() if _logger.parent else logging.WARNING
        _logger.setLevel(min(of_parent, *(handler.level for handler in handlers)))
    _logger.propagate = False
    for handler in _handlers:
        _logger.addHandler(handler)


def _remove() -> None:
    if not _handlers:
        return
    for handler in _handlers:
        _logger.removeHandler(handler)
        if isinstance(handler, _File):
            handler.end()
        else:
            handler.close()
    _handlers.clear()
    _logger.setLevel(_level_before)
    _logger.propagate = _propagated_before


def _destinations(
    logger: logging.Logger,
    file_name: str | None,
    path: str | None = None,
    file_level: str | None = None,
    std_level: str | None = None,
    stdout: bool | None = None,
    rendering: Rendering | None = None,
    routine: Collection[str] = (),
) -> list[logging.Handler]:
    """The handlers of a logger; arguments are those of `start`."""
    to_file = _level(file_level, "file_level", FILE_LEVEL)
    to_std = _level(std_level, "std_level", STD_LEVEL)
    wants_std, forms = _switch() if stdout is None else stdout, rendering or PLAIN
    folder, setting = (os.environ.get(PATH) or DEFAULT_PATH, PATH) if path is None else (path, "path")
    handlers: list[logging.Handler] = []
    if file_name is not None:
        handlers.append(_file(folder, setting, file_name, to_file, forms))
    if wants_std:
        handlers.append(_Console(logger, to_std, forms, routine))
    return handlers


def _file(folder: str, setting: str, file_name: str, level: int, rendering: Rendering) -> logging.Handler:
    try:
        standard_files.open_missing()
        place = Path(folder).absolute()  # the application may change its folder
        place.mkdir(parents=True, exist_ok=True)
        return _File(place / file_name, level, rendering)
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        text = f"{setting} is {folder!r}; expected a folder in which {file_name} can be written: {reason}"
        raise ConfigError(text) from None


def _lock(descriptor: int) -> bool:
    """Lock a full file against other processes that share it; False where its file system has no locks.

    Raises:
        BlockingIOError: another process is about to rotate it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _appending(path: Path) -> io.FileIO:
    """Open a file without a buffer; each write goes to its end, whoever else writes into it."""
    return io.FileIO(open_to_write(path), "ab")


def _write(descriptor: int, line: bytes, seconds: float) -> None:
    """Write a line, in one call as a rule.

    Args:
        descriptor: of a standard file.
        line: the bytes.
        seconds: to wait for room, before each part of a long line.

    Raises:
        OSError: nobody reads there, or the disk is full. A part of the line may be written.
    """
    while line:
        if not standard_files.has_room(descriptor, seconds):
            raise BlockingIOError
        # A pipe with room has it for so many bytes.
        line = line[os.write(descriptor, line[: select.PIPE_BUF]) :]


class _Plain(logging.Formatter):
    """The lines of this package, and those that others write to its logger, in one form. Imports nothing.

    Args:
        form: makes a line of a time and the fields.
    """

    def __init__(self, form: Callable[[str, Event], str]) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return self._form(at, record.msg if isinstance(record.msg, Event) else self._foreign(record))

    def _foreign(self, record: logging.LogRecord) -> Event:
        fields = Event(event=record.getMessage(), level=record.levelname.lower())
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack_info"] = record.stack_info
        return fields


def _json(at: str, fields: Event) -> str:
    return json.dumps({"timestamp": at, **fields}, default=str, ensure_ascii=False)


def _line(at: str, fields: Event) -> str:
    """Time, level, event, the other fields as logfmt, and a traceback below."""
    rest = Event(fields)
    level, exception = rest.pop("level", ""), rest.pop("exception", None)
    line = f"{at} [{level}] {fields.get('event')}{rest.rest()}"
    return line if exception is None else f"{line}\n{exception}"


PLAIN: Final = Rendering(file=lambda: _Plain(_json), console=lambda _: _Plain(_line))
"""JSON in files, one line with the fields as logfmt on a console: the forms inside an application's process."""


def _level(given: str | None, argument: str, variable: str) -> int:
    value, setting = (os.environ.get(variable) or "INFO", variable) if given is None else (given, argument)
    name = str(value).strip().upper()
    if name not in LEVELS:
        raise ConfigError(f"{setting} is {value!r}; expected one of {', '.join(LEVELS)}")
    level: int = getattr(logging, name)
    return level


def _switch() -> bool:
    value = os.environ.get(STDOUT) or "True"
    if value.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{STDOUT} is {value!r}; expected True or False")
    return value.strip().lower() == "true"
