"""`make soak`: random faults for some minutes, with a line of figures for each, and the sum as one JSON object.

    python -m tests.faults.soak 10

After each minute the faults are undone, the traffic ends, and every message is accounted for.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from taskd_net.net.links.registry import KINDS, best
from tests.faults.chaos import Chaos
from tests.faults.lab import Lab

MINUTE_S: Final = 60.0


def main() -> int:
    """Run the soak. Returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description="Random faults for some minutes, with everything accounted for.")
    parser.add_argument("minutes", type=float, help="how long")
    parser.add_argument("--workers", type=int, default=16, help="of the mesh, below two Proxies (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the choice of faults")
    parser.add_argument("--links", choices=list(KINDS), default=best(), help="the links (%(default)s)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    broken = soak(folder, options.minutes, options.workers, options.seed, options.links)
    if not broken:
        shutil.rmtree(folder)
    return int(broken)


def soak(folder: Path, minutes: float, workers: int, seed: int, links: str) -> bool:
    """Run the soak. Returns True if a promise was broken; then the folder keeps the logs."""
    names = [f"proxy{rank}" for rank in range(2)] + [f"worker{rank}" for rank in range(workers)]
    totals = dict.fromkeys(("sent", "acked", "delivered", "lost", "duplicated"), 0)
    broken = False
    print(f"1 Mgr, 2 Proxies, {workers} Workers; seed {seed}", flush=True)
    with Lab(folder, workers=workers, relayed=names, settings={"links": links}) as lab:
        chaos = Chaos(lab, seed)
        began = time.monotonic()
        end = began + minutes * MINUTE_S
        minute = 0
        while (now := time.monotonic()) < end:
            minute += 1
            faults = chaos.total
            try:
                lab.begin_traffic(interval=0.05, posts=True, timeout=1.0, retries=True)
                chaos.run(min(end, max(began + minute * MINUTE_S, now + 1.0)))
                lab.quiet()
                audit = lab.audit()
                lab.turn_over()
            except AssertionError as error:
                # A process that has ended by itself, is silent or unreachable, or has logged an error.
                broken = True
                print(f"  BROKEN: {error}", flush=True)
                break
            figures = {
                "sent": audit.sent,
                "acked": audit.acked,
                "delivered": audit.delivered,
                "lost": len(audit.lost),
                "duplicated": len(audit.duplicated),
            }
            for name, value in figures.items():
                totals[name] += value
            others = {
                "other codes": sum(number for code, number in audit.codes.items() if code),
                "sender killed": len(audit.orphaned),
                "inbox killed": len(audit.in_killed_inbox),
                "in two lives": len(audit.in_two_lives),
                "faults": chaos.total - faults,
            }
            line = ", ".join(f"{name} {value:,}" for name, value in (figures | others).items())
            print(f"minute {minute}: {line}", flush=True)
            if audit.broken:
                broken = True
                print(f"  BROKEN: { {promise: uuids[:10] for promise, uuids in audit.broken.items()} }", flush=True)
        took = (time.monotonic() - began) / MINUTE_S
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(chaos.counts.items()))
    print(f"{took:.1f} minutes; {kinds or 'no faults'}; {f'see {folder}' if broken else 'every promise was kept'}")
    print(json.dumps({"minutes": round(took, 2), **totals, "faults": chaos.total}), flush=True)
    return broken


if __name__ == "__main__":
    sys.exit(main())
