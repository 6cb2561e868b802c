"""The groups of ranks of a PyTorch training, as a file per rank (TaskD user guide, "slow node").

A diagnosis of slow nodes reads which ranks wait for each other. The training script calls `dump_group_info` once, after
its first steps: a communicator of HCCL has its name when it has been used.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job.member import documented, log
from taskd_net.job.worker.disk import MOUNTED

__all__ = ["dump_group_info"]

BASE: Final = "GROUP_BASE_DIR"
JOB: Final = "MINDX_TASK_ID"
FILE: Final = "parallel_group.json"
DEFAULT_GROUP: Final = "default_group"
FOLDER_MODE: Final = 0o755
"""Mode of a new folder: others may read it."""


@documented
def dump_group_info() -> bool:
    """Write the groups of this rank to `parallel_group.json`.

    The file is in `<base>/<MINDX_TASK_ID>/<rank>/`. The base is the variable `GROUP_BASE_DIR` where that folder exists,
    else `/user/cluster-info/profiling`. Each group stands under the name of its communicator: `group_name`,
    `group_rank` (this rank in it) and `global_ranks`. The group of all ranks is `default_group`. A file of an earlier
    call is replaced as a whole.

    Returns:
        True, or False with one line in the log: torch has no groups yet, the job has no name, or the file cannot be
        written. A call is never an error to the training script.

    Source: TaskD user guide, "slow node"; `taskd.python.adaptor.pytorch.group_info`.
    """
    path = _write()
    log.info("group_info_written", file=str(path))
    return True


def _write() -> Path:
    # The script has imported torch, and has made its groups: without them there is nothing to import it for.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        raise ConfigError("torch.distributed has no groups; expected a call after init_process_group")
    rank: int = distributed.get_rank()
    groups = dict(_groups(distributed, rank))
    folder = _folder() / str(rank)
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    if folder.is_symlink():  # the folder is shared by all that run on this node
        raise ConfigError(f"{folder} is a symbolic link; expected a folder")
    path, new = folder / FILE, folder / f".{FILE}.{os.getpid()}-{threading.get_ident()}"
    new.unlink(missing_ok=True)
    try:
        with new.open("x", encoding="utf-8") as file:
            json.dump(groups, file, ensure_ascii=False, indent=4)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return path


def _folder() -> Path:
    """The folder of the job."""
    job = os.environ.get(JOB, "")
    if job in ("", ".", "..") or "/" in job:
        raise ConfigError(f"{JOB} is {shown(job)}; expected the id of the job, as the name of a folder")
    base = Path(os.environ.get(BASE, ""))
    if not os.environ.get(BASE) or not base.is_dir():
        base = MOUNTED
    return base / job


def _groups(distributed: Any, rank: int) -> Iterator[tuple[str, dict[str, object]]]:
    """The groups that this rank is in, by the name of their communicator; the default one comes last."""
    world = distributed.distributed_c10d._world
    default = distributed.group.WORLD
    for group in sorted(world.pg_map, key=lambda group: group is default):
        if distributed.get_rank(group) < 0:
            continue
        name, title = _names(distributed, group, str(world.pg_map[group][0]), rank)
        if name is None:  # HCCL has no communicator before the first use
            continue
        yield (
            name,
            {
                "group_name": DEFAULT_GROUP if group is default else title,
                "group_rank": distributed.get_group_rank(group, rank),
                "global_ranks": distributed.get_process_group_ranks(group),
            },
        )


def _names(distributed: Any, group: Any, backend: str, rank: int) -> tuple[str | None, str]:
    """The name of a group's communicator, and what the script calls the group.

    Only HCCL has a communicator with a name of its own; another backend's group is named as torch names it.
    """
    if "hccl" not in backend.lower():  # also of several: `cpu:gloo,npu:hccl`
        title = getattr(group, "group_desc", "undefined")  # torch before 2.4 has none
        return group.group_name, "" if title == "undefined" else title
    hccl = group._get_backend(sys.modules["torch"].device("npu"))
    return hccl.get_hccl_comm_name(rank, init_comm=False), hccl.options.hccl_config.get("group_name", "")
