"""A double of a training process with MindIO's processor: `python -m mindio_ttp.processor HOST PORT RANK FOLDER`.

It ignores SIGTERM and SIGINT. It tries the controller's port ten times, and never looks for another controller: after
its link has broken it trains on, unprotected. The file FOLDER/RANK has its state in words.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

TRIES: Final = 10
PAUSE_S: Final = 10.0


def main(host: str, port: int, rank: str, folder: Path) -> int:
    """Train until the controller says otherwise. Returns the exit status."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def say(state: str) -> None:
        (folder / f"{rank}.new").write_text(state)
        (folder / f"{rank}.new").rename(folder / rank)

    say("connects")
    speed = float(os.environ.get("MINDIO_SPEED", "1"))
    for _ in range(TRIES):
        try:
            link = socket.create_connection((host, port))
            break
        except OSError:
            time.sleep(PAUSE_S / speed)
    else:
        say("no controller")
        return 1
    with link, link.makefile("rw") as lines:
        lines.write(f"{rank}\n")
        lines.flush()
        try:
            for line in lines:
                match line.strip():
                    case "registered" | "continue":
                        say("trains")
                    case "stop":
                        say("stopped")
                    case "save":
                        say("saved")
                        return 0
                    case "exit":
                        say("ended")
                        return 2
        except OSError:
            pass
    say("unprotected")
    while True:
        time.sleep(60)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])))
