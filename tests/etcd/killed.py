"""A `taskd-net mgr` that kills itself in the middle of its decisions: `python -m tests.etcd.killed POINT ARGUMENTS…`.

Its points are those of `tests.manager.killed`. A Manager that stands by passes none of them.
"""

from __future__ import annotations

import sys

from taskd_net.cli.group import group
from taskd_net.manager.etcd_keeping import EtcdKeeping
from tests.manager.killed import Points, instrument

if __name__ == "__main__":
    instrument(Points(int(sys.argv[1])), EtcdKeeping)
    group(sys.argv[2:])
