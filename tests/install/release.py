"""The last steps of `make release-check`: the wheels in a clean environment of each Python that is installed.

Each Python from 3.11 on that runs gets an environment of its own. There it imports the packages, with warnings as
errors, and runs `taskd-net demo`. It imports the standard library alone, and exits with 0, or with a line for each
Python that fails. Environments are made in a folder that ends with the script.

    python -I release.py build/release
    python -I release.py --python 12       the path of Python 3.12; exit code 1 where it is not installed
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MINORS = (11, 12, 13)
"""Minor versions of Python 3 with a classifier."""
STEP_S = 300
"""Seconds for one step, pip's included."""
PROBE = "import sys; print(sys.version_info[1])"
IMPORTS = (
    "import taskd_net, taskd, mindx_elastic, taskd_net_lab; taskd_net.Node, taskd_net.init_taskd_worker, taskd_net.Tls"
)


def minor_of(python: str) -> int | None:
    """The minor version of a Python; None for one that does not run, such as a launcher without its version."""
    try:
        said = subprocess.run([python, "-I", "-c", PROBE], capture_output=True, text=True, check=True, timeout=STEP_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return int(said.stdout)


def pythons() -> dict[int, str]:
    """The Pythons of this machine by minor version: those of PATH first, then those of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found: dict[int, str] = {}
    for minor in MINORS:
        named = (shutil.which(f"python3.{minor}"), *sorted(map(str, root.glob(f"versions/3.{minor}.*/bin/python3"))))
        for python in named:
            if python is not None and minor_of(python) == minor:
                found.setdefault(minor, python)
    return found


def run(*words: str | Path) -> str:
    """Run a command, and return its output; its end with another code than 0 is an error with both outputs."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=STEP_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tried(python: str, wheels: list[Path], folder: Path) -> None:
    """Install the wheels with the extra `cli`, import their packages, and run the demo."""
    run(python, "-m", "venv", folder)
    own, *others = wheels
    pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "-q", "-q", f"{own}[cli]", *others)
    run(*pip, "check")
    run(folder / "bin" / "python", "-I", "-W", "error", "-c", IMPORTS)
    report = json.loads(run(folder / "bin" / "taskd-net", "demo", "--json"))
    if report["joined"] != report["expected"]:
        raise RuntimeError(f"taskd-net demo: {report['joined']} of {report['expected']} nodes have joined")
    run(folder / "bin" / "taskd-net", "clusterd-sim", "--help")


def main() -> int:
    """Try all Pythons, or find one. Returns the exit code."""
    if sys.argv[1] == "--python":
        found = pythons().get(int(sys.argv[2]), "")
        print(found, end="")
        return 0 if found else 1
    built = Path(sys.argv[1]).resolve()
    (own,), (compat,), (lab,) = (list(built.glob(f"taskd_net{name}-*.whl")) for name in ("", "_compat", "_lab"))
    there, failed = pythons(), 0
    for minor in MINORS:
        if minor not in there:
            print(f"Python 3.{minor}: not tried, because it is not installed here", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                tried(there[minor], [own, compat, lab], Path(folder) / "venv")
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"Python 3.{minor}: {error}", file=sys.stderr, flush=True)
            else:
                print(f"Python 3.{minor}: installed, imported, and the demo ran", flush=True)
    return 1 if failed or not there else 0


if __name__ == "__main__":
    sys.exit(main())
