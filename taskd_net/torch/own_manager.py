"""The Manager that `taskd-net run --mgr` starts, in a process of its own."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import NO_ID
from taskd_net.base.untrusted import shown
from taskd_net.base.vocabulary import JOB
from taskd_net.job.arguments import MGR_PORT_SET, joined, secured
from taskd_net.job.manager.config import STATE_FILE
from taskd_net.job.node_proxy import identified
from taskd_net.torch.guardian import Guardian, ended

MGR_END_S: Final = 10.0
"""Seconds that the Manager has to drain and end after the job."""

HOLDER_S: Final = 2.0
"""Seconds for each answer of another process, which has the address of the Mgr."""

AGAIN_S: Final = 0.2
"""Seconds between two looks at that address."""


@contextmanager
def own_manager(size: str, job_id: str, *, restarts_itself: bool) -> Iterator[None]:
    """The Manager of the job, at `POD_IP` or `MASTER_ADDR` and the port of the environment.

    Args:
        size: of the job, as `--expect` has it.
        job_id: empty for none.
        restarts_itself: it restarts processes, and no platform does.

    Raises:
        ConfigError: the Mgr of another job has its address.
    """
    host = os.environ.get("POD_IP") or os.environ["MASTER_ADDR"]
    listen = joined(host, "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET)
    await_free(Address.parse(listen), job_id)
    command = [sys.executable, "-m", "taskd_net.cli", "mgr", "--listen", listen, "--expect", size]
    command += ["--job-id", job_id or NO_ID]
    with ExitStack() as stack:
        if restarts_itself:
            command += ["--restarts", JOB]
        if not os.environ.get("TASKD_NET_STATE"):
            # Another run, perhaps with the same id, is another job.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="taskd-net-"))
            command += ["--state", str(Path(folder) / STATE_FILE)]
        guardian = stack.enter_context(Guardian())
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        guardian.guard(process.pid)
        try:
            yield
        finally:
            process.terminate()
            if ended(process, MGR_END_S):
                guardian.release(process.pid)


def await_free(listen: Address, job_id: str, seconds: float = MGR_END_S) -> None:
    """Wait until nobody listens at the address of the Mgr.

    A Mgr of this job may be about to end: its launcher was killed, and started again.

    Args:
        listen: the address.
        job_id: the job of the Mgr; empty for none.
        seconds: the time at most.

    Raises:
        ConfigError: the Mgr of another job listens there, or one that does not end.
    """
    give_up_at = time.monotonic() + seconds
    while _in_use(listen):
        found = identified(listen, secured({}, listens=False, connects=True), HOLDER_S)
        other = found.about is not None and found.about.job_id != job_id
        if other or time.monotonic() >= give_up_at:
            holder = found.kind.value if found.about is None else str(found.about)
            of_job = f" of job {shown(job_id)}" if job_id else ""
            text = f"the Mgr{of_job} cannot listen on {listen}, where {holder} listens"
            raise ConfigError(f"{text}: give this job another --job-id or --mgr-port")
        time.sleep(AGAIN_S)


def _in_use(listen: Address) -> bool:
    """True if another process listens at an address. Other reasons against it are the Mgr's to tell."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen(1)
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False
