"""The program that writes the error file of a failed process, in torch's form with a part of ours.

`start.py` reads it at a failure. It imports nothing of this package, and its syntax is that of Python 3.6. It writes
its JSON itself, because a script may have a module `json` of its own.
"""

import os

TYPE_CHECKING = False  # `typing` costs half of Python's own start
if TYPE_CHECKING:
    from types import TracebackType

HEAD_BYTES = 4 * 1024
"""Bytes that are kept of the beginning of a long traceback: its outer frames."""

TAIL_BYTES = 12 * 1024
"""Bytes that are kept of its end: the inner frames, and the error."""

TEXT_BYTES = 1024
"""Bytes of any other text. The error's own one ends the traceback, too."""


def write(file: str, beside: str, error: BaseException, traceback: "TracebackType | None", at: float) -> None:
    """Write the file whole, or not at all. One of torch's `@record` stays, and ours goes beside it.

    Args:
        file: the process's error file.
        beside: end of the name of a further file, which keeps its first failure.
        error: the failure.
        traceback: its part in the script.
        at: its time, in seconds since the epoch.
    """
    path = file + (beside or (".own" if os.path.exists(file) else ""))
    if os.path.exists(path):
        return
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="ascii") as opened:
        opened.write(reason(error, traceback, at))
    os.replace(new, path)


def reason(error: BaseException, traceback: "TracebackType | None", at: float) -> str:
    """The content of the file."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - of the script
        text = "<no text>"
    said = f"{kind}: {text}"
    file, line, function = place(error, traceback)
    ours = {
        "pid": os.getpid(),
        "at_ns": int(at * 1e9),
        "type": bounded(kind, TEXT_BYTES, 0),
        "file": bounded(file, 0, TEXT_BYTES),
        "line": line,
        "function": bounded(function, TEXT_BYTES, 0),
    }
    if isinstance(error, SystemExit):
        ours["exit_code"] = error.code & 0xFF if isinstance(error.code, int) else 1
    message = {
        "message": bounded(said, TEXT_BYTES, 0),
        "extraInfo": {
            "py_callstack": bounded(callstack(error, traceback) or said, HEAD_BYTES, TAIL_BYTES),
            "timestamp": str(int(at)),
        },
    }
    return json({"message": message, "taskd_net": ours})


def callstack(error: BaseException, traceback: "TracebackType | None") -> str:
    """The traceback in Python's words; in fewer ones if Python's module fails."""
    try:
        from traceback import format_exception

        return "".join(format_exception(type(error), error, traceback))
    except Exception:  # noqa: BLE001 - the module may be the script's, and so is the text of the error
        return "".join(f'  File "{file}", line {line}, in {name}\n' for file, line, name in frames(traceback))


def place(error: BaseException, traceback: "TracebackType | None") -> "tuple[str, int, str]":
    """The deepest frame of the script: file, line, function. Frames of installed packages are no script's."""
    known = frames(traceback)
    library = os.path.dirname(os.__file__) + os.sep
    for file, line, function in reversed(known):
        installed = f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file
        if not (installed or file.startswith((library, "<"))):
            return file, line, function
    if known:
        return known[-1]
    if isinstance(error, SyntaxError):
        return str(error.filename or ""), error.lineno or 0, ""
    return "", 0, ""


def frames(traceback: "TracebackType | None") -> "list[tuple[str, int, str]]":
    """The frames of a traceback, the outermost first: file, line, function."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found.append((code.co_filename, traceback.tb_lineno or 0, code.co_name))
        traceback = traceback.tb_next
    return found


def bounded(text: str, head: int, tail: int) -> str:
    """A text with its first and last bytes, as of UTF-8."""
    data = text.encode("utf-8", "backslashreplace")
    left_out = len(data) - head - tail
    if left_out <= 0:
        return data.decode()
    parts = data[:head], data[len(data) - tail :]
    return f"\n[... {left_out} bytes left out ...]\n".join(part.decode("utf-8", "ignore") for part in parts)


def json(value: object) -> str:
    """A value in JSON, in ASCII."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json(name)}: {json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, int):
        return str(int(value))
    units = str(value).encode("utf-16-be")
    codes = [256 * units[at] + units[at + 1] for at in range(0, len(units), 2)]
    plain = {code: chr(code) for code in range(32, 127) if chr(code) not in '"\\'}
    return '"' + "".join(plain.get(code, f"\\u{code:04x}") for code in codes) + '"'
