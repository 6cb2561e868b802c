"""The process of MindIO's controller: `python -P mindio_process.py SOCKET PARENT`.

MindIO's controller may abort its process, never return from a call, or take 38 s to end. Here the Manager goes on.
The parent has the other end of the socket. Lines of JSON:

```
  parent ──▶ {"path": […]}                                       where modules are found
         ──▶ {"call": "stop_train", "number": 1, "arguments": […]}
         ◀── {"answer": 0, "number": 1}, or {"error": "…", "number": 1}
         ◀── {"report": "stop_complete", "arguments": […]}
```

Only the standard library is imported, because each module costs memory. A
report is queued, and the callback returns at once: MindIO gives up after a callback that raises, and waits for one that
blocks. This process ends with its parent: the socket is closed then. The kernel kills it where a call holds the
interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Full, Queue, SimpleQueue
from typing import Any, Final

MODULE: Final = "mindio_ttp.controller_ttp"
REPORTS: Final = ("fault_ranks", "stop_complete", "strategies", "result")
CALLS: Final = {
    "init": "tft_init_controller",
    "start": "tft_start_controller",
    "stop_train": "tft_notify_controller_stop_train",
    "on_global_rank": "tft_notify_controller_on_global_rank",
    "change_strategy": "tft_notify_controller_change_strategy",
    "dump": "tft_notify_controller_dump",
    "prepare_action": "tft_notify_controller_prepare_action",
    "destroy": "tft_destroy_controller",
}
LOGS: Final = "TTP_LOG_PATH"

SAID: Final = 256
"""Reports that wait for a parent that is stopped, at most. A round has four."""

_PR_SET_PDEATHSIG: Final = 1


def encode(message: dict[str, Any]) -> bytes:
    """A line. A dictionary among the arguments becomes `{"pairs": […]}`, since ranks are numbers."""
    plain = [{"pairs": list(each.items())} if isinstance(each, dict) else each for each in message.get("arguments", ())]
    return json.dumps({**message, "arguments": plain}, default=str).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The message of a line."""
    message: dict[str, Any] = json.loads(line)
    arguments = message["arguments"]
    message["arguments"] = [dict(each["pairs"]) if isinstance(each, dict) else each for each in arguments]
    return message


def main(number: int, parent: int) -> None:
    """Serve the parent until it closes the socket."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # of a terminal, and of a service manager: the parent ends this process
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it has ended before the kernel was asked
    os.set_inheritable(number, False)
    with socket.socket(fileno=number) as here:
        asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
        said: Queue[dict[str, Any]] = Queue(SAID)
        threading.Thread(target=_read, args=(here, asked), daemon=True).start()
        threading.Thread(target=_write, args=(here, said), daemon=True).start()
        sys.path[:] = asked.get()["path"]
        _own_logs()
        module = None
        while True:
            message = asked.get()
            try:
                module = module or _imported(said)
                answer: dict[str, Any] = {"answer": _call(module, message["call"], message["arguments"])}
            except BaseException as error:  # noqa: BLE001 - of a package of others, which may call sys.exit
                answer = {"error": f"{type(error).__name__}: {error}"}
            said.put({**answer, "number": message["number"]})


def _own_logs() -> None:
    """Have MindIO log two folders below its own: its end makes `*.log` in the folder above its logs read-only."""
    path = Path(os.environ.get(LOGS) or "logs") / "controller" / "logs"
    with contextlib.suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
        os.environ[LOGS] = str(path)


def _imported(said: Queue[dict[str, Any]]) -> Any:
    """MindIO's module, with its callbacks registered. A controller that runs may report at once."""
    module = importlib.import_module(MODULE)
    for name in REPORTS:
        if module.tft_register_mindx_callback(f"report_{name}", _reporting(name, said)):
            raise RuntimeError(f"MindIO has refused the callback report_{name}")
    return module


def _reporting(name: str, said: Queue[dict[str, Any]]) -> Callable[..., int]:
    def report(*arguments: object) -> int:
        try:
            said.put_nowait({"report": name, "arguments": list(arguments)})
        except Full:
            return 1
        return 0

    return report


def _call(module: Any, name: str, arguments: list[Any]) -> int:
    if name == "has":
        return int(hasattr(module, CALLS[arguments[0]]))
    return int(getattr(module, CALLS[name])(*arguments) or 0)


def _read(here: socket.socket, asked: SimpleQueue[dict[str, Any]]) -> None:
    with contextlib.suppress(OSError):
        for line in here.makefile("rb"):
            asked.put(decode(line))
    os._exit(0)  # without MindIO's own end, which takes up to 38 s


def _write(here: socket.socket, said: Queue[dict[str, Any]]) -> None:
    with contextlib.suppress(OSError):
        while True:
            here.sendall(encode(said.get()))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
