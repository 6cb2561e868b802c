"""Calls that the exception of a signal handler ends at any moment: Ctrl-C, or the SignalException of torchrun."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from taskd_net import BlockingNode, NodeConfig
from tests.scenarios.test_host_process import ENDS_S, command, environment

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

INTERRUPTED = """
    import faulthandler, random, signal, sys
    from taskd_net.node import blocking
    from taskd_net.job.api import worker
    from taskd_net.node.background import shared

    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    def alarm(seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)

    faulthandler.dump_traceback_later(50, exit=True)
    signal.signal(signal.SIGALRM, interrupt)
    moments = random.Random(SEED)
    for _ in range(60):
        try:
            alarm(moments.uniform(0.0001, 0.03))
            worker.init_taskd_worker(0)
            worker.start_taskd_worker()
            worker.slot.member.node.send("x", to="Mgr", timeout=5)
            worker.destroy_taskd_worker()
            alarm(0)
        except Interrupt:
            pass
        alarm(0)
        if worker.slot.filled:  # somebody owns it
            assert worker.destroy_taskd_worker()
        assert worker.init_taskd_worker(0) and worker.start_taskd_worker()
        worker.slot.member.node.joined(20)
        assert worker.destroy_taskd_worker()
        assert not blocking.opened() and shared._loop is None
    print("works")
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_interrupted_call_leaves_nothing_behind(tmp_path: Path, seed: int) -> None:
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0", inbox=10_000)) as mgr:
        ended = subprocess.run(
            command(INTERRUPTED.replace("SEED", str(seed))),
            check=False,
            capture_output=True,
            text=True,
            timeout=ENDS_S,
            cwd=tmp_path,
            env=environment(
                RANK="0", LOCAL_WORLD_SIZE="1", TASKD_NET_UPSTREAM=mgr.address or "", TASKD_LOG_PATH=str(tmp_path)
            ),
        )
    assert (ended.returncode, ended.stdout) == (0, "works\n"), ended.stderr
