"""msrun of one node on this machine, or its double, under a Mgr whose inbox the test reads.

The training processes are `lab/taskd_net_lab/demos/mindspore/trainee.py`, which the test steers by signals.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskd_net import BlockingNode, Body, Message, NodeConfig, NodeTimeout, Position
from taskd_net_lab.demos.mindspore import names, trainee
from taskd_net_lab.demos.mindspore.stage import CLEARED

SOON: Final = 60.0
"""Seconds for one step: an import of mindspore takes many on a busy machine."""

AGENT: Final = "Agent/1"

ROOT: Final = Path(__file__).parents[2]
"""The checkout."""


@dataclass
class Launched:
    """msrun on node 1 of a job, with the global ranks 2 and 3.

    Args:
        process: msrun.
        folder: where all of its processes work.
        mgr: the Mgr.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    mgr: BlockingNode

    def pids(self, rank: int, role: str = "MS_WORKER") -> list[int]:
        """The processes of a rank, in the order of their starts."""
        files = self.folder.glob(f"began-{role}-{rank}-*")
        return [int(file.name.split("-")[3]) for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)]

    def began(self, rank: int, lives: int = 1) -> int:
        """The process of this number of a rank, when it has begun."""
        self.until(lambda: len(self.pids(rank)) >= lives, f"process {lives} of rank {rank}")
        return self.pids(rank)[lives - 1]

    def write_reset(self, *listed: tuple[int, str], **fields: object) -> None:
        """Replace the platform's reset file."""
        new = self.folder / "new"
        ranks = [{"RankId": rank, "Status": status} for rank, status in listed]
        new.write_text(json.dumps({"RankList": ranks, "RetryTime": 0, **fields}))
        new.rename(self.folder / "reset.json")

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait until a condition holds."""
        give_up_at = time.monotonic() + SOON
        while not true():
            assert time.monotonic() < give_up_at, f"{what}\n{self.output()}"
            select.select([], [], [], 0.01)

    def command(self, code: int, message: str = "") -> None:
        """Have the Mgr send a command."""
        assert self.mgr.send(Body("ACTION", code, message).to_json(), to=AGENT, timeout=SOON).ok

    def report(self, code: int | str) -> Body:
        """The next report of this code or msg_type; the others before it are dropped."""
        while True:
            try:
                message: Message = self.mgr.receive(SOON)
            except NodeTimeout as error:
                raise AssertionError(f"no report {code}: {error}\n{self.output()}") from None
            body = Body.parse(message.body)
            if str(message.src) == AGENT and code in (body.code, body.msg_type):
                return body

    def failed(self) -> list[int]:
        """The ranks of the next 202."""
        ranks: list[int] = json.loads(self.report(202).message)["fault_ranks"]
        return ranks

    def exit_status(self) -> int:
        """The exit status of msrun."""
        return self.process.wait(SOON)

    def left(self) -> list[int]:
        """The processes that work in its folder."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (path / "cwd").readlink() == self.folder:
                    found.append(int(path.name))
        return found

    def output(self) -> str:
        """The last output of msrun and the Agent."""
        return (self.folder / "msrun.log").read_text(errors="replace")[-3000:]


@contextmanager
def launched(module: str, folder: Path, *modules: str, scheduler: bool = False, **variables: str) -> Iterator[Launched]:
    """Start msrun.

    Args:
        module: msrun, or its double.
        folder: to work in.
        modules: of TaskD that it finds. Default: all of those in `compat/`.
        scheduler: msrun takes this node for the first one and starts a scheduler. The Mgr is elsewhere, so the Proxy is
            no part of msrun.
        variables: of the environment.
    """
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
    with ExitStack() as stack:
        node = BlockingNode(NodeConfig.mgr(listen=f"{host}:9601"))
        stack.enter_context(node)
        if scheduler:
            proxy = NodeConfig.proxy(server_rank=1, listen=f"{host}:9602", upstream=node.address or "")
            stack.enter_context(BlockingNode(proxy))
        names.write(folder / "names", *modules)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}
        environment = {
            **clean,
            "MS_ENABLE_TFT": "{TTP:1,ARF:1}",
            "MS_NODE_RANK": "1",
            "MS_LOCAL_WORKER": "2",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(folder / "names" if modules else ROOT / "compat"), str(ROOT)]),
            "PYTHONWARNINGS": "ignore",
            "TASKD_LOG_PATH": str(folder / "log"),
            "TASKD_NET_UPSTREAM": f"{host}:9602",
            "TASKD_NET_RESET_FILE": str(folder / "reset.json"),
            "TASKD_NET_FINISH_PAUSE": "0.1",
            "TASKD_NET_RESTART_PAUSE": "0.1",
            "TASKD_NET_FAILURE_PAUSE": "0.1",
            **variables,
        }
        if not scheduler:
            environment = {"MS_SCHED_HOST": host, **environment}
        address = "127.0.0.1" if scheduler else host
        command = ["--worker_num=4", "--local_worker_num=2", "--node_rank=1", f"--master_addr={address}"]
        script = [f"--log_dir={folder}/logs", str(Path(trainee.__file__)), str(folder)]
        with (folder / "msrun.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *command, *script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=folder,
            )
        made = Launched(process, folder, node)
        try:
            yield made
        finally:
            process.kill()
            process.wait()
            for pid in made.left():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def there(node: BlockingNode, *positions: Position) -> bool:
    """True where exactly these nodes are routed."""
    return set(node.routes()) == set(positions)
