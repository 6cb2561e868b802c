"""A new user with an empty home, whose shell runs lines of the documents and keeps their output.

Where the tests run as root, the user is another one (`nobody`), on a machine of its own: a network namespace, with all
ports of the documents free. Elsewhere it is the present user, on this machine. The path of the home has a space.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.install.new_user import Running

STEP_S: Final = 120.0
"""Seconds for a line, and until a program says an expected thing: torch is imported, on a busy machine."""
INSTALL_S: Final = 1500.0
"""Seconds for a line that may download packages."""
DOWNLOADS: Final = ("git", "make", "pip", "python3.11")
"""Programs that use the network of this machine."""
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
COLUMNS: Final = 118


class Newcomer:
    """The new user. As a context it has a home, and its processes end with it.

    Args:
        root: the folder that stands for `/` where a line names `/opt` or `/etc`; None: a new one.

    Attributes:
        home: the empty folder.
        folder: the working directory of the next line.
        shown: the kept lines with their output, by chapter.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._ending = contextlib.ExitStack()
        self._given = root
        self.shown: dict[str, list[str]] = {}
        self._chapter = ""
        self._other = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._machine: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        try:
            self._move_in()
        except BaseException:
            self._ending.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.close()

    def _move_in(self) -> None:
        if self._given is None:
            self._ending.callback(shutil.rmtree, made := tempfile.mkdtemp(), ignore_errors=True)
            self._root = Path(made)
        else:
            self._root = self._given
        self.home = self._root / "home" / "new user"
        for folder in (self._root, self._root / "home", self.home, self._root / "opt", self._root / "etc"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            self._owned(folder)
        self.folder = self.home
        # The index of packages is this machine's affair.
        around = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or "_proxy" in name}
        self.env = {
            **around,
            "PATH": PATH,
            "HOME": str(self.home),
            "USER": "newcomer",
            "LOGNAME": "newcomer",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "COLUMNS": str(COLUMNS),
            "PYTHONUNBUFFERED": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_QUIET": "1",
            # A bundle of a commit has no branch, of which git would warn.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "advice.detachedHead",
            "GIT_CONFIG_VALUE_0": "false",
        }
        if self._other is not None:
            self._machine = self._namespace()

    def _namespace(self) -> tuple[str, ...]:
        """Make a machine with a loopback interface alone, which also has the address of its name."""
        name = f"hour{os.getpid()}"
        own = socket.gethostbyname(socket.gethostname())
        _ip("netns", "add", name)
        self._ending.callback(_ip, "netns", "del", name)
        if not own.startswith("127."):
            _ip("-n", name, "addr", "add", f"{own}/32", "dev", "lo")
        _ip("-n", name, "link", "set", "lo", "up")
        return ("ip", "netns", "exec", name)

    def _owned(self, path: Path) -> None:
        if self._other is not None:
            os.chown(path, self._other.pw_uid, self._other.pw_gid)

    @contextlib.contextmanager
    def chapter(self, name: str) -> Iterator[None]:
        """Keep the output of the lines of a chapter."""
        self._chapter = name
        self.shown[name] = []
        began = time.monotonic()
        yield
        print(f"ok: {name}, {time.monotonic() - began:.1f} s", flush=True)

    def runs(self, line: str, *, code: int = 0, cut: tuple[int, int] = (8, 4), until: str = "") -> str:
        """Run a line to its end, and keep it with its output.

        Args:
            line: as it stands in a document.
            code: the expected exit code.
            cut: lines of a long output that are kept, at its beginning and at its end.
            until: the line runs again until its output has this.

        Returns:
            The output, of both streams.
        """
        give_up_at = time.monotonic() + STEP_S
        while True:
            ended, output = self._run(line)
            if until in output and ended == code:
                break
            assert until and time.monotonic() < give_up_at, f"{line}: ended with {ended}\n{output}"
            time.sleep(0.1)
        self.says(f"$ {line}", *_cut(output.splitlines(), *cut))
        return output

    def starts(self, line: str, ready: str = "") -> Running:
        """Start a line in a terminal of its own, and keep it with its first line that has the pattern `ready`."""
        running = Running(shlex.join(self._command(line)), self.folder, self.env, STEP_S)
        self._ending.enter_context(running)
        self.says(f"$ {line}")
        if ready:
            self.says(running.says(ready).string)
        return running

    def reads(self, running: Running, terminal: str, pattern: str) -> re.Match[str]:
        """Read a terminal until a line has a pattern, and keep that line."""
        found = running.says(pattern)
        self.says(f"[in the terminal of {terminal}]", found.string)
        return found

    def interrupts(self, *running: Running) -> None:
        """Press Ctrl-C in terminals, one after another."""
        for one in running:
            os.killpg(one.pid, signal.SIGINT)
            one.ends(code=None)

    def activates(self, line: str) -> None:
        """Take over the variables that a line sets, as a shell does."""
        _, output = self._run(f"{line} && env -0")
        after = dict(pair.split("=", 1) for pair in output.split("\0") if "=" in pair)
        self.env |= {name: after[name] for name in ("PATH", "VIRTUAL_ENV")}
        self.says(f"$ {line}")

    def enters(self, folder: str) -> None:
        """Change the working directory."""
        self.folder = self.folder / folder
        self.says(f"$ cd {folder}")

    def asks(self, line: str) -> str:
        """The output of a line that is not kept, whatever its exit code."""
        return self._run(line)[1]

    def waits(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        give_up_at = time.monotonic() + STEP_S
        while not condition():
            assert time.monotonic() < give_up_at, f"{self._chapter}: it never comes"
            time.sleep(0.1)

    def places(self, file: str, at: str) -> None:
        """Copy a file of the working directory to a path of the machine."""
        self._owned(Path(shutil.copy(self.folder / file, f"{self._root}{at}")))
        self.says(f"[{at} is a copy of {file}]")

    def writes(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.folder / name
        path.write_text(text)
        self._owned(path)

    def says(self, *lines: str) -> None:
        """Keep lines, without uuids, and with the paths that the user sees."""
        for line in lines:
            bare = re.sub(r'(?<="uuid": )"[^"]+"', '"…"', line.rstrip())
            self.shown[self._chapter].append(bare.replace(str(self._root), ""))

    def _run(self, line: str) -> tuple[int, str]:
        done = subprocess.run(
            self._command(line),
            check=False,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_S,
        )
        return done.returncode, done.stdout

    def _command(self, line: str) -> list[str]:
        """The command that runs a line as the user, by exec, as the leader of a group."""
        words = shlex.split(line)
        if any(word.startswith(("/opt/", "/etc/")) for word in words):
            words = [re.sub(r"^(?=/opt/|/etc/)", str(self._root), word) for word in words]
            line = shlex.join(words)
        machine: tuple[str, ...] = () if Path(words[0]).name in DOWNLOADS else self._machine
        user: tuple[str, ...] = ()
        if self._other is not None:
            user = ("setpriv", f"--reuid={self._other.pw_uid}", f"--regid={self._other.pw_gid}", "--clear-groups")
        return [*machine, *user, "setsid", "bash", "-c", line]


def _cut(lines: list[str], first: int, last: int) -> list[str]:
    """The first and last lines of many."""
    if len(lines) <= first + last + 1:
        return lines
    return [*lines[:first], f"[… {len(lines) - first - last} lines …]", *lines[len(lines) - last :]]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
