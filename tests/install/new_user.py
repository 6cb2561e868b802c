"""The steps of a new user, and of one who comes from TaskD, with the wheels alone: `make install-test`.

The Python of a clean environment runs it, with the wheel and no extra. It installs the extra `cli` and the wheels of
the import packages and of the lab itself. It works in an empty folder, with copies of README.md and the examples from
the checkout, and imports the standard library alone. It exits with 0 on success, else with a line or a traceback, and
always ends its processes.

    python -I new_user.py dist      the folder of the three wheels
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Self

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SOON_S = 20.0
"""Seconds for one step."""
ALL_S = 120
"""Seconds for all steps without pip's; some 20 s on two idle cores."""
OWN_IP = f"127.{os.getpid() >> 16 & 127}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"
"""A loopback address for each run, because the Manager's port is fixed."""


FROM_TASKD = (
    "import taskd; taskd.__version__",
    "import mindx_elastic; mindx_elastic.__version__",
    "from taskd.api import init_taskd_manager, start_taskd_manager",
    "from taskd.api.taskd_worker_api import init_taskd_worker, start_taskd_worker, destroy_taskd_worker",
    "from taskd.api.taskd_agent_api import init_taskd_agent, start_taskd_agent, register_func",
    "from taskd.api.taskd_proxy_api import init_taskd_proxy, destroy_taskd_proxy",
    "from taskd.api.taskd_manager_api import init_taskd_manager, start_taskd_manager",
    "from taskd.python.toolkit.recover_module.recover_manager import DLRecoverManager, init_grpc_client",
    "from taskd.python.toolkit.recover_module.recover_manager import report_stop_complete, report_recover_strategy",
    "from taskd.python.toolkit.recover_module.recover_manager import report_recover_status, report_process_fault",
    "from taskd.python.toolkit.recover_module.pb import recover_pb2, recover_pb2_grpc",
    "from taskd.python.framework.agent.ms_mgr.msrun_plugin import MSRunPlugin; MSRunPlugin()",
    "from taskd.python.utils.log import run_log; run_log.info('rank 3')",
    "from taskd.python.utils.validator import *; assert FileValidator('x').check_file_size().get_value() is None",
    "from mindx_elastic.recover_manager import DLRecoverManager, report_process_fault, report_stop_complete",
)
"""Imports of TaskD's and Elastic-Agent's references, but for those that need torch."""


class User:
    """A user in a folder, with a shell and the activated environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Unbuffered, to see each line at once.
        self.env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "PYTHONUNBUFFERED": "1"}

    def runs(self, line: str, *, code: int = 0, env: Mapping[str, str] | None = None) -> tuple[str, str]:
        """Run a command to its end, with this exit code. Returns its stdout and stderr."""
        done = subprocess.run(
            shlex.split(line),
            check=False,
            cwd=self.folder,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=SOON_S,
        )
        assert done.returncode == code, f"{line}: ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout, done.stderr

    def starts(self, line: str, env: Mapping[str, str] | None = None) -> Running:
        """Start a command."""
        return Running(line, self.folder, {**self.env, **(env or {})})

    def sends(self, to: str, body: str, upstream: str) -> None:
        """Send until it arrives, because the receiver may still be joining."""
        give_up_at = time.monotonic() + SOON_S
        line = ["taskd-net", "send", to, body, "--upstream", upstream]
        while subprocess.run(line, check=False, env=self.env, capture_output=True, timeout=SOON_S).returncode != 0:
            assert time.monotonic() < give_up_at, f"{to} is never there"


class Running:
    """A process, which ends with its context.

    Args:
        line: its command.
        folder: its working directory.
        env: all of its environment.
        patience: seconds until it says or does an expected thing.
    """

    def __init__(self, line: str, folder: Path, env: Mapping[str, str], patience: float = SOON_S) -> None:
        self.line = line
        self._patience = patience
        self.seen = ""
        self._process = subprocess.Popen(
            shlex.split(line), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(self._patience)
        self._reader.join(self._patience)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def says(self, pattern: str) -> re.Match[str]:
        """Read its output until a line with this pattern."""
        give_up_at = time.monotonic() + self._patience
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, give_up_at - time.monotonic()))
            except queue.Empty:
                line = ""
            assert line, f"{self.line}: never said {pattern!r}\n{self.seen}"
            if found := re.search(pattern, line):
                return found

    def ends(self, number: signal.Signals | None = None, code: int | None = 0) -> None:
        """Wait for its end, after an optional signal, with this exit code."""
        if number is not None:
            self._process.send_signal(number)
        ended = self._process.wait(self._patience)
        self._reader.join(self._patience)
        assert code is None or ended == code, f"{self.line}: ended with {ended}\n{self.seen}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen += line
            self._lines.put(line)
        self._lines.put("")


def pip(*words: str | Path) -> None:
    """Run pip, as the user does."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words), "-q", "-q"]
    subprocess.run(command, check=True)


def free_address() -> str:
    """A free address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print a step and its duration."""
    began = time.monotonic()
    yield
    print(f"ok: {name}, {time.monotonic() - began:.1f} s", flush=True)


def fenced(language: str) -> list[str]:
    """The code blocks of README.md of a language; "" for those without one."""
    readme = (CHECKOUT / "README.md").read_text()
    return [code for named, code in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", readme) if named == language]


def wheel_has_what_it_should(wheel: Path) -> None:
    """The wheel has the types' marker, the proto files and the command, and the package alone."""
    names = zipfile.ZipFile(wheel).namelist()
    needed = {"taskd_net/py.typed", "taskd_net/proto/tasknet.proto", "taskd_net/proto/link.proto"}
    assert needed <= set(names), names
    tops = {name.partition("/")[0] for name in names}
    assert len(tops) == 2 and any(top.endswith(".dist-info") for top in tops), tops
    assert not any(name.startswith("tests/") or "/test" in name for name in names), names
    require_licence(wheel)


def require_licence(wheel: Path) -> None:
    """The wheel has the text of the licence, and names it in its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        info = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")).rpartition("/")[0]
        assert archive.read(f"{info}/licenses/LICENSE") == (CHECKOUT / "LICENSE").read_bytes(), wheel
        metadata = archive.read(f"{info}/METADATA").decode().splitlines()
    assert {"License-Expression: Apache-2.0", "License-File: LICENSE"} <= set(metadata), metadata


def package_works_without_the_extra(user: User) -> None:
    """A training script needs no command line; a call of it prints the needed extra."""
    code = "import taskd_net; print(taskd_net.__file__, taskd_net.Node, taskd_net.init_taskd_worker)"
    said, _ = user.runs(f'python -c "{code}"')
    assert said.startswith(sys.prefix), said
    said, complaint = user.runs("taskd-net --version", code=1)
    assert said == "" and complaint.count("\n") == 1 and "pip install 'taskd-net[cli]'" in complaint, complaint


def commands_that_need_no_mesh(user: User) -> None:
    """Version, help, and the settings in force."""
    said, _ = user.runs("taskd-net --version")
    installed, _ = user.runs("python -c \"import importlib.metadata as m; print(m.version('taskd-net'))\"")
    assert said == f"taskd-net {installed}", said
    said, _ = user.runs("taskd-net --help")
    commands = ("mgr", "proxy", "send", "listen", "config", "demo", "bench")
    assert all(f"\n  {name} " in said for name in commands), said
    said, _ = user.runs("taskd-net config")
    assert "[mgr]" in said and 'listen = "127.0.0.1:9602"' in said, said
    said, _ = user.runs("taskd-net config proxy --json", env={"RANK": "3"})
    assert json.loads(said)["proxy"]["server_rank"] == {"value": 3, "source": "environment", "name": "RANK"}, said
    for command in ("clusterd-sim --scenario x.yaml", "simulate", "bench", "demo training worker-killed"):
        _, complaint = user.runs(f"taskd-net {command}", code=2)
        remedy = f"in the distribution taskd-net-lab; install taskd-net-lab=={installed.strip()}\n"
        assert complaint.count("\n") == 1 and complaint.endswith(remedy), complaint


def demo(user: User) -> None:
    """`taskd-net demo`."""
    said, _ = user.runs("taskd-net demo --json")
    report = json.loads(said)
    assert report["joined"] == report["expected"] == 13, said


def readme(user: User) -> None:
    """The command lines of README.md, and its Python on their mesh."""
    mgr, upstream = free_address(), free_address()
    places = {"TASKD_NET_UPSTREAM": upstream}
    lines = [line for block in fenced("") for line in block.splitlines() if line.startswith("taskd-net ")]
    assert [line.split()[1] for line in lines] == ["mgr", "proxy", "listen", "send"], lines
    with contextlib.ExitStack() as ending:
        running = {}
        for line in lines:
            command, _, comment = (part.strip() for part in re.sub(r"\b[\d.]+:9601\b", mgr, line).partition("#"))
            name = command.split()[1]
            if name == "send":
                said, _ = user.runs(command, env=places)
                assert said == f"{comment}\n", (command, said)
            else:
                env = {"TASKD_NET_LISTEN": upstream} if name == "proxy" else {} if name == "mgr" else places
                running[name] = ending.enter_context(user.starts(command, env))
                running[name].says(r" ready, ")
        running["listen"].says(r"^Agent/\d+ default step 100$")
        for number, snippet in enumerate(fenced("python")):
            (user.folder / f"readme_{number}.py").write_text(snippet.replace("127.0.0.1:9602", upstream))
            ranks = {"RANK": "1", "LOCAL_WORLD_SIZE": "8"}
            with user.starts(f"python readme_{number}.py", places | ranks) as script:
                if where := re.search(r"(?s)worker\(server_rank=(\d+), rank=(\d+),.*\.messages\(\)", snippet):
                    script.says("^arrived$")
                    user.sends(f"Worker/{where[1]}/{where[2]}", "hello", upstream)
                    script.says(r"^Agent/\d+ hello$")
                    script.ends(signal.SIGINT, code=None)
                else:
                    script.ends()
                    assert not re.search(r"Traceback|\berror\b", script.seen), script.seen
        running["mgr"].says(r'"src": "Worker/0/3".*"body": "step 100"')
        running["mgr"].says(r'"src": "Worker/0/1".*1410')
        for name in ("listen", "proxy", "mgr"):
            running[name].ends(signal.SIGTERM)


def examples(user: User) -> None:
    """Every script of the folder `examples`."""
    names = {path.name for path in (CHECKOUT / "examples").glob("*.py")}
    assert names == {"manager.py", "proxy.py", "train.py", "service.py"}, f"somebody has to run these: {names}"
    for name in names:
        shutil.copy(CHECKOUT / "examples" / name, user.folder)
    upstream = free_address()
    ranks = {"TASKD_NET_UPSTREAM": upstream, "LOCAL_WORLD_SIZE": "8", "RANK": "0"}
    with (
        user.starts("python manager.py", {"POD_IP": OWN_IP}) as manager,
        user.starts(f"python proxy.py --manager {OWN_IP} --listen-port {upstream.rpartition(':')[2]}") as proxy,
        user.starts("python train.py --steps 100000", ranks) as endless,
        user.starts("python train.py --steps 20", ranks | {"RANK": "1"}) as short,
        user.starts(f"python service.py --upstream {upstream}") as service,
    ):
        short.ends()
        manager.says("^Worker/0/1 DONE weight ")
        user.sends("Agent/1000", "checkpoint", upstream)
        endless.says("^checkpoint, asked for by Agent/1000$")
        manager.says("^Worker/0/0 SAVED step ")
        for process in (service, proxy, manager):
            process.ends(signal.SIGTERM)


def lab(user: User, wheel: Path) -> None:
    """The commands of the lab: ClusterD's stand-in against a recording, and a demo of a job."""
    require_licence(wheel)
    pip("install", wheel)
    said, _ = user.runs(f"taskd-net clusterd-sim check {CHECKOUT}/tests/lab/clusterd/recordings/stop_404.jsonl")
    assert said == "1 of 1 recordings agree\n", said
    said, _ = user.runs("taskd-net demo job worker-dies --json")
    assert json.loads(said)["ok"], said
    _, complaint = user.runs("taskd-net bench", code=1)
    assert complaint.count("\n") == 1 and "needs a checkout" in complaint, complaint


def from_taskd(user: User, wheel: Path) -> None:
    """The import packages of TaskD and Elastic-Agent come, work, and go without a trace."""
    require_licence(wheel)
    before = installed_files()
    pip("install", wheel)
    for line in FROM_TASKD:
        user.runs(shlex.join(["python", "-W", "error", "-c", line]))
    said, _ = user.runs("taskd-net doctor --compat")
    assert said.splitlines()[-1] == "nothing wrong was found", said
    version = wheel.name.split("-")[1]
    assert f"taskd-net-compat {version}" in said, said
    # Another distribution with the same package: whichever comes last, somebody says so.
    pip("install", other_taskd(user.folder))
    said, _ = user.runs("taskd-net doctor --compat", code=1)
    named = f"taskd-net-compat {version} and taskd 7.0 both have the package taskd"
    assert named in said and "pip uninstall taskd taskd-net-compat" in said, said
    pip("install", "--force-reinstall", "--no-deps", wheel)
    _, complaint = user.runs('python -c "import taskd"', code=1)
    assert named in complaint and "pip uninstall taskd taskd-net-compat" in complaint, complaint
    pip("uninstall", "-y", "taskd", "taskd-net-compat")
    for package in ("taskd", "mindx_elastic"):
        _, complaint = user.runs(f'python -c "import {package}"', code=1)
        assert f"No module named '{package}'" in complaint, complaint
    assert installed_files() == before, installed_files() ^ before


def other_taskd(folder: Path) -> Path:
    """The wheel of another distribution with the package `taskd`."""
    path = folder / "taskd-7.0-py3-none-any.whl"
    info = "taskd-7.0.dist-info"
    files = {
        "taskd/__init__.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: taskd\nVersion: 7.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: new_user\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def installed_files() -> set[str]:
    """The files and folders of the environment, but for compiled ones."""
    found = (path.relative_to(sys.prefix).as_posix() for path in Path(sys.prefix).rglob("*"))
    return {name for name in found if "__pycache__" not in name}


def give_up(_: int, __: FrameType | None) -> None:
    """Give up after too long a run."""
    raise TimeoutError(f"not done in {ALL_S} s")


def main() -> None:
    """Run all steps."""
    built = Path(sys.argv[1]).resolve()
    (wheel,), (of_names,), (of_lab,) = (list(built.glob(f"taskd_net{name}-*.whl")) for name in ("", "_compat", "_lab"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        user = User(Path(folder))
        with step("the wheel has what it should"):
            wheel_has_what_it_should(wheel)
        with step("the package without the extra"):
            package_works_without_the_extra(user)
        with step("pip install taskd-net[cli]"):
            pip("install", f"{wheel}[cli]")
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(ALL_S)
        for name, check in (
            ("--version, --help, config", commands_that_need_no_mesh),
            ("demo", demo),
            ("README", readme),
            ("examples", examples),
        ):
            with step(name):
                check(user)
        signal.alarm(0)
        with step("from TaskD"):
            from_taskd(user, of_names)
        with step("the lab"):
            lab(user, of_lab)
    print(f"a new user gets along, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
