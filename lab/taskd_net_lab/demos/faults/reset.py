"""The program that resets a device in the demo: it tells the controller, which lets it go on, or fails."""

from __future__ import annotations

import os
import sys

from taskd_net_lab.demos.faults.terms import RESET_FAILS
from taskd_net_lab.demos.job.terms import RESET
from taskd_net_lab.demos.job.witness import Witness


def main() -> None:
    """Reset a device: `python -m taskd_net_lab.demos.faults.reset NODE NAME`."""
    node, name = sys.argv[1:]
    Witness(f"Device/{node}").say(RESET, text=f"{node}/{name}")
    if os.environ.get(RESET_FAILS):
        sys.exit("the device does not answer")


if __name__ == "__main__":
    main()
