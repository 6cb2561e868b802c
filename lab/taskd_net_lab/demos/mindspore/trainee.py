"""A training script without a framework: it waits for the controller's signals. It imports nothing of this package.

A process leaves a file in the folder of its argument when it begins: `began-ROLE-RANK-PID`. Role and rank are those of
msrun's variables. A worker ends with 0 on SIGUSR1 and with 1 on SIGUSR2. On SIGTERM it leaves the file `asked-RANK-PID`
and ends with 0. Every process ends with the one that started it.
"""

import os
import signal
import sys
from pathlib import Path

NUMBERS = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM}


def main(folder: Path, parent: int) -> int:
    """Wait for a signal, and return the exit status."""
    role, rank = os.environ["MS_ROLE"], os.environ["RANK_ID"]
    signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    (folder / f"began-{role}-{rank}-{os.getpid()}").touch()
    while os.getppid() == parent:
        told = signal.sigtimedwait(NUMBERS, 0.5)
        if told is None:
            continue
        if told.si_signo == signal.SIGTERM and role == "MS_WORKER":
            (folder / f"asked-{rank}-{os.getpid()}").touch()
        return int(told.si_signo == signal.SIGUSR2)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), os.getppid()))
