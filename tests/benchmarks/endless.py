"""Endless processes for tests of the measure `training`, without torch: the module says a line, and then hangs.

`python -m tests.benchmarks.endless bench` takes the measure with a launcher of them.
"""

from __future__ import annotations

import signal
import subprocess
import sys

from benchmarks import command, requirements
from benchmarks.training import measure
from benchmarks.training.launchers import Launcher
from benchmarks.training.timeline import Patterns

ENDLESS = "tests.benchmarks.endless"


def main() -> None:
    """Be the measure, a Manager, or a launcher with a training process of a session of its own."""
    what = sys.argv[1]
    if what == "bench":
        launcher = Launcher("endless", (ENDLESS, "launcher"), Patterns("a", "b"), manager=(ENDLESS, "manager"))
        vars(measure)["LAUNCHERS"] = (launcher,)
        requirements.OF_MEASURE["training"] = {}
        sys.exit(command.run(["training"], quick=False, as_json=False, turns=1, plots=None))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("begins", flush=True)
    if what == "launcher":
        subprocess.Popen([sys.executable, "-m", ENDLESS, "training"], start_new_session=True)
    signal.sigwait({signal.SIGUSR1})


if __name__ == "__main__":
    main()
