"""A launcher without torch: it has the Manager of a job, says when that is ready, and lives until its input ends.

Its arguments are the size of the job and its id.
"""

from __future__ import annotations

import sys

from taskd_net import TaskdNetError
from taskd_net.base import logs
from taskd_net.job.own_manager import own_manager


def main(size: str, job_id: str) -> None:
    """Be the launcher."""
    logs.start(None, stdout=True)
    try:
        with own_manager(size, job_id, restarts_itself=True):
            print("ready", flush=True)
            sys.stdin.read()
    except TaskdNetError as error:
        sys.exit(f"launcher: {error}")
    finally:
        logs.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
