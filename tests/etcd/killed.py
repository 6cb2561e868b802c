"""A `taskd-net mgr` that kills itself in the middle of its decisions: `python -m tests.etcd.killed POINT ARGUMENTS…`.

Its points are those of `tests.manager.killed`. A Manager that stands by passes none of them.
Its host's clock differs by CLOCK_SHIFT_S seconds.
"""

from __future__ import annotations

import sys

from taskd_net.cli.group import group
from taskd_net.job.manager.etcd_keeping import EtcdKeeping
from tests.manager.killed import Points, instrument, shift_clock

if __name__ == "__main__":
    shift_clock()
    instrument(Points(int(sys.argv[1])), EtcdKeeping)
    group(sys.argv[2:])
