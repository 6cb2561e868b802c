"""A double of MindSpore's launcher: it starts processes, and hands them to TaskD, as msrun of 2.10 does.

- It takes the Agent (`taskd.api.taskd_agent_api`), else MSRunPlugin, by TaskD's import paths, if `MS_ENABLE_TFT` asks
  for it. Callbacks are registered before the scheduler starts, and results of `start` are ignored.
- `MS_WORKER_NUM`, `MS_SCHED_HOST` and `MS_ROLE` are set when the first process is started.
- The scheduler is a child on the first node. Nothing here ends it.
- KILL_WORKER sends SIGKILL to the worker's process group, and waits for nothing. A failed worker counts as vanished,
  300, as soon as its exit status has been taken.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

SWITCHES: Final = ("TTP:1", "UCE:1", "ARF:1", "TSP:1", "HCCE:1", "RSC:1")
NOT_STARTED: Final = 200
VANISHED: Final = 300

Status = dict[str, int | None]


class Msrun:
    """The launcher of one node.

    Args:
        args: as of the command line.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._listed: list[subprocess.Popen[bytes]] = []
        self._by_rank: dict[int, subprocess.Popen[bytes]] = {}
        Path(args.log_dir).mkdir(parents=True, exist_ok=True)
        self._start: Callable[[], object] | None = None
        if any(switch in os.environ.get("MS_ENABLE_TFT", "") for switch in SWITCHES):
            self._start = _by_agent(self._callbacks()) or _by_plugin(self._callbacks())
        if self._start is not None:
            os.environ["MS_ENABLE_RECOVERY"] = "1"

    def run(self) -> None:
        """Start the scheduler, and have TaskD run the workers."""
        os.environ["RANK_SIZE"] = str(self._args.worker_num)
        if ipaddress.ip_address(self._args.master_addr).is_loopback:
            os.environ["RANK_ID"] = "0"
            self._process("MS_SCHED", "scheduler.log")
        if self._start is not None:
            self._start()
            return
        self.start_all()
        if set(map(subprocess.Popen.wait, self._listed)) != {0}:
            sys.exit("a worker has failed")

    def kill(self, pids: list[int]) -> int:
        """KILL_WORKER."""
        everybody = -1 in pids
        for worker in list(self._listed):
            alive = worker.poll() is None
            if alive and (everybody or worker.pid in pids):
                os.killpg(worker.pid, signal.SIGKILL)
                self._listed.remove(worker)
        if everybody:
            self._listed.clear()
        return 0

    def start_all(self) -> int:
        """START_ALL_WORKER."""
        if self._listed:
            self.kill([-1])
        return self.start_list(list(range(self._args.local_worker_num)))

    def start_list(self, local_ranks: list[int]) -> int:
        """START_WORKER_LIST."""
        if not isinstance(local_ranks, list):
            raise TypeError(f"local ranks are {local_ranks!r}; expected a list")
        for local_rank in local_ranks:
            rank = self._global(local_rank)
            os.environ.update(DEVICE_ID=str(local_rank), RANK_ID=str(rank), MS_NODE_ID=str(rank))
            worker = self._process("MS_WORKER", f"worker_{rank}.log", start_new_session=True)
            self._listed.append(worker)
            self._by_rank[local_rank] = worker
        return int({status["status"] for status in self.monitor(local_ranks).values()} != {None})

    def monitor(self, local_ranks: list[int]) -> dict[int, Status]:
        """MONITOR."""
        wanted = range(self._args.local_worker_num) if -1 in local_ranks else local_ranks
        return {local_rank: self._status(local_rank) for local_rank in wanted}

    def _callbacks(self) -> Mapping[str, Callable[..., object]]:
        return {
            "KILL_WORKER": self.kill,
            "START_ALL_WORKER": self.start_all,
            "START_WORKER_LIST": self.start_list,
            "MONITOR": self.monitor,
        }

    def _status(self, local_rank: int) -> Status:
        worker, rank = self._by_rank.get(local_rank), self._global(local_rank)
        if worker is None:
            return {"pid": None, "status": NOT_STARTED, "global_rank": rank}
        status = worker.poll()
        if status not in (None, 0) and not Path(f"/proc/{worker.pid}").exists():
            status = VANISHED
        more = {"local_rank": local_rank, "node_id": self._args.node_rank}
        return {"pid": worker.pid, "status": status, "global_rank": rank, **more}

    def _global(self, local_rank: int) -> int:
        first: int = max(self._args.node_rank, 0) * self._args.local_worker_num
        return first + local_rank

    def _process(self, role: str, log: str, **options: Any) -> subprocess.Popen[bytes]:
        args = self._args
        os.environ.update(
            MS_WORKER_NUM=str(args.worker_num),
            MS_SCHED_HOST=args.master_addr,
            MS_SCHED_PORT=str(args.master_port),
            MS_ROLE=role,
        )
        command = ["python", args.task_script, *args.task_script_args]
        with (Path(args.log_dir) / log).open("wb") as file:
            return subprocess.Popen(command, stdout=file, stderr=file, **options)  # noqa: S603 - the user's script


def _by_agent(callbacks: Mapping[str, Callable[..., object]]) -> Callable[[], object] | None:
    try:
        calls = import_module("taskd.api.taskd_agent_api")
        if not calls.init_taskd_agent({"Framework": "MindSpore"}):
            return None
        for name, function in callbacks.items():
            calls.register_func(name, function)
    except Exception as error:  # noqa: BLE001 - as the real one
        _say(f"no Agent: {error}")
        return None
    start: Callable[[], object] = calls.start_taskd_agent
    return start


def _by_plugin(callbacks: Mapping[str, Callable[..., object]]) -> Callable[[], object] | None:
    try:
        plugin = import_module("taskd.python.framework.agent.ms_mgr.msrun_plugin").MSRunPlugin()
        for name, function in callbacks.items():
            plugin.register_callbacks(name, function)
    except Exception as error:  # noqa: BLE001 - as the real one
        _say(f"no plugin: {error}")
        return None
    start: Callable[[], object] = plugin.start
    return start


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> None:
    """Run the launcher of one node."""
    parser = argparse.ArgumentParser(prog="python -m taskd_net_lab.demos.mindspore.msrun", description=main.__doc__)
    parser.add_argument("--worker_num", type=int, default=8, help="workers of the job")
    parser.add_argument("--local_worker_num", type=int, default=8, help="workers of this node")
    parser.add_argument("--master_addr", default="127.0.0.1", help="the scheduler's address")
    parser.add_argument("--master_port", type=int, default=8118, help="the scheduler's port")
    parser.add_argument("--node_rank", type=int, default=-1, help="rank of this node")
    parser.add_argument("--log_dir", default=".", help="folder of the workers' output")
    parser.add_argument("task_script", help="the training script")
    parser.add_argument("task_script_args", nargs=argparse.REMAINDER, help="its arguments")
    Msrun(parser.parse_args()).run()


if __name__ == "__main__":
    main()
