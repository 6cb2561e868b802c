"""`taskd-net mgr` in little address space: it serves, or ends with one line of error."""

import signal
import subprocess
import sys

import pytest

# Too little for the interpreter with its modules, for the threads of gRPC, for those of the command, and enough.
KIB = (120_000, 200_000, 256_000, 300_000, 350_000, 400_000, 1_000_000)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kib", KIB)
def test_mgr_in_little_address_space_serves_or_ends_with_one_line(kib: int) -> None:
    command = f"ulimit -v {kib}; exec {sys.executable!r} -m taskd_net.cli mgr --listen 127.0.0.1:0"
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as mgr:
        try:
            assert mgr.stdout is not None
            if mgr.stdout.readline():
                mgr.send_signal(signal.SIGINT)
            _, said = mgr.communicate(timeout=60)
        finally:
            mgr.kill()
    if mgr.returncode not in (0, 130):
        *logged, line = said.decode().splitlines()
        assert mgr.returncode == 1
        assert line.startswith("Error: ")
        assert not any("Traceback" in each for each in logged)
