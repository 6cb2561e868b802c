"""A rank without torch: it steps with all others, and fails as a training of `make supervise` does.

It meets the others at MASTER_ADDR:MASTER_PORT, where `launcher.Collective` answers a byte of each with one for
all.
"""

import ctypes
import os
import signal
import socket
import sys
import time

from benchmarks.supervision.failing import done, fail, is_last, note

PAUSE_S = 0.02
CONNECT_S = 10.0
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Step until all shall succeed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    note("process")
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    step = 0
    with socket.create_connection(place, CONNECT_S) as peers:
        peers.settimeout(None)
        peers.sendall(bytes([int(os.environ["WORLD_SIZE"])]))
        while not is_last(step):
            peers.sendall(b".")
            if not peers.recv(1):
                sys.exit("a peer is lost")
            step += 1
            note("step", step)
            fail(step)
            time.sleep(PAUSE_S)
    done()


if __name__ == "__main__":
    main()
