"""The wall clock jumps: of the package's decisions, none depends on it."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

import taskd_net
from tests.faults.conftest import Form
from tests.faults.figures import Figures
from tests.faults.lab import Lab

pytestmark = pytest.mark.timeout(200)

HOUR_S = 3600.0

WALL_CLOCK = {"time", "time_ns", "gmtime", "localtime", "ctime", "now", "utcnow", "today", "fromtimestamp"}
ALLOWED = {
    "node/sending.py": {"time_ns"},  # createTime (docs/contract.md, section 2)
    "base/logs.py": {"fromtimestamp"},  # the time in a log line
    "base/host_clock.py": {"time"},  # times for readers, and those of a job: they move with a step of the clock
    "observe/service.py": {"time_ns"},  # the node's time, as an answer
    "observe/identify.py": {"time_ns"},  # the request for it
    "job/keep/leader.py": {"time"},  # the begin of a term, for readers
    "cli/rendering.py": {"fromtimestamp"},  # the time in a log line
    "cli/phrases.py": {"localtime"},  # the time of a decision, for readers
    "cli/faults/mesh.py": {"time"},  # the time of a fault that a person reports now
    "cli/faults/simulate.py": {"fromtimestamp"},  # the time of a decision, for readers
    # The age of a file by its change time, which is the wall clock's. A wrong age reads the file once more or less.
    "job/profiling_switch.py": {"time"},
    # the validity of certificates
    "cli/authority.py": {"now"},
    "cli/doctor/tls_files.py": {"now"},
    "net/tls/certificates.py": {"now"},
    # The time of a fault's report, which TaskD's Mgr reads.
    "job/agent/agent.py": {"time"},
    "job/manager/evidence.py": {"gmtime"},  # the name of a file, for people
    "job/api/watcher.py": {"time"},  # the time of a device's fault, where its reporter gives none
    # torch's health check and its watchdog give the last progress in seconds since the epoch.
    "torch/agent.py": {"time"},
    "torch/context.py": {"time_ns"},  # the times of failures and of SIGTERMs, compared with those of the processes
    "torch/health.py": {"time"},
    "torch/launch.py": {"time_ns"},  # the time of a signal, compared with those of failures
    "torch/start.py": {"time"},  # the time of a failure, for readers and for a comparison of ranks
}


def test_steps(lab: Lab, form: Form, figures: Figures) -> None:
    lab.begin_traffic(interval=0.05)
    time.sleep(0.5)
    since = time.monotonic()
    for step in (HOUR_S, -HOUR_S, -HOUR_S, HOUR_S):
        lab.together("step_clock", seconds=step)
        time.sleep(5.0 if form.long else 0.3)
    # One node alone, so that the others' time is an hour off for it.
    lab.together("step_clock", [lab.mgr], seconds=HOUR_S)
    time.sleep(5.0 if form.long else 0.3)
    until = time.monotonic()
    lab.quiet()
    attempts = list(lab.ledger().attempts(since, until))
    assert attempts and {attempt.code for _, attempt in attempts} == {0}
    assert not any("_lost" in line for member in lab.members for line in member.log().splitlines())
    lab.together("step_clock", [lab.mgr], seconds=-HOUR_S)
    figures.add("clock", "messages:", len(attempts))
    figures.add("clock", "failed or sent again:", 0, at_most=0)
    figures.add("clock", "slowest", max(attempt.ended - attempt.began for _, attempt in attempts), "s")


def test_nobody_looks_at_it() -> None:
    root = Path(taskd_net.__file__).parent
    found: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        names = found.setdefault(path.relative_to(root).as_posix(), set())
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                # `loop.time()` is the monotonic clock.
                case ast.Attribute(ast.Name("time" | "datetime" | "date"), name) if name in WALL_CLOCK:
                    names.add(name)
                case ast.ImportFrom("time", imported):
                    names.update({alias.name for alias in imported} & WALL_CLOCK)
    assert {path: names for path, names in found.items() if names} == ALLOWED
