"""`make fuzz`: atheris on each target, then garbage on the port of a node. Findings go into tests/fuzz/found/.

    python -m tests.fuzz.run --minutes 10

The exit code is 0 only without findings. A finding becomes a regression test when its file moves to
`corpus/<target>/`, where `test_targets.py` plays it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
CORPUS: Final = HERE / "corpus"
FOUND: Final = HERE / "found"
GARBAGE: Final = "garbage"
LEAST_S: Final = 5.0
MEMORY_MB: Final = 2048
"""Allowed memory of a target: its own caches are bounded, so more would be growth."""


def target_names() -> list[str]:
    """The targets, without an import of the tested code, which is instrumented in another process."""
    return sorted(folder.name for folder in CORPUS.iterdir())


def fuzz(name: str, seconds: float) -> bool:
    """Fuzz one target in a process of its own. Returns whether it was clean."""
    FOUND.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as grown:
        command = [sys.executable, "-m", "tests.fuzz.run", "--child", name, "--seconds", str(int(seconds)), grown]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        inputs = len(list(Path(grown).iterdir()))
    said = done.stderr + done.stdout
    executions = re.findall(r"stat::number_of_executed_units:\s*(\d+)", said)
    coverage = re.findall(r"cov: (\d+) ft: (\d+)", said)
    peak = re.findall(r"stat::peak_rss_mb:\s*(\d+)", said)
    clean = done.returncode == 0
    cov, features = coverage[-1] if coverage else ("?", "?")
    print(
        f"{name:14} {'clean' if clean else 'FOUND'}  {executions[-1] if executions else '?':>9} executions  "
        f"{cov:>5} branches  {features:>5} features  {inputs:>4} inputs  {peak[-1] if peak else '?':>4} MB",
        flush=True,
    )
    if not clean:
        print(said[-6000:], file=sys.stderr)
    return clean


def throw_garbage(seconds: float) -> bool:
    """Send garbage to a node. Returns True if it held."""
    from tests.fuzz.garbage import Siege
    from tests.peers.mesh import Mesh
    from tests.security.bystander.pair import Bystanders

    seed = int.from_bytes(os.urandom(4))

    async def besiege() -> Siege:
        async with Mesh() as mesh:
            mgr = await mesh.mgr(grace=0.5, registration_hold=0.5, ack_timeout=30.0)
            async with await Bystanders.beside(mesh, mgr) as bystanders:
                siege = Siege(mesh, bystanders, seed)
                until = asyncio.get_running_loop().time() + seconds
                while asyncio.get_running_loop().time() < until:
                    await siege.lay(100)
                return siege

    try:
        siege = asyncio.run(besiege())
    except Exception:  # noqa: BLE001 - whatever it is, it was found
        print(f"{GARBAGE:14} FOUND  seed {seed}", flush=True)
        traceback.print_exc()
        return False
    print(
        f"{GARBAGE:14} clean  {siege.connections:>9} connections  {siege.growth // 2**20:>4} MB more than at first",
        flush=True,
    )
    return True


def child(name: str, seconds: int, grown: str) -> None:
    """The process in which the package is instrumented."""
    import atheris

    with atheris.instrument_imports(include=["taskd_net"]):
        from tests.fuzz.targets import TARGETS

    flags = [f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", "-timeout=20", "-max_len=4096"]
    flags += [f"-artifact_prefix={FOUND}/{name}-", "-print_final_stats=1", "-verbosity=1"]
    atheris.Setup([sys.argv[0], *flags, grown, str(CORPUS / name)], TARGETS[name])
    atheris.Fuzz()


def main() -> None:
    """Parse the arguments, split the time, and run everything."""
    parser = argparse.ArgumentParser(description="Fuzz the package.")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together")
    parser.add_argument("--only", nargs="*", help="these targets")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, help=argparse.SUPPRESS)
    parser.add_argument("grown", nargs="?", help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.child:
        child(said.child, said.seconds, said.grown)
        return
    known = [*target_names(), GARBAGE]
    names = said.only or known
    if set(names) - set(known):
        parser.error(f"the targets are {', '.join(known)}")
    share = max(LEAST_S, said.minutes * 60 / len(names))
    outcomes = [throw_garbage(share) if name == GARBAGE else fuzz(name, share) for name in names]
    sys.exit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()
