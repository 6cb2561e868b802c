"""The file with the groups of ranks of a real training: two processes, three groups."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.compat.environment import with_compat

SCRIPT = """
import sys
import torch.distributed as dist
from taskd.python.adaptor.pytorch.group_info import dump_group_info

assert dump_group_info() is False
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
dist.new_group([0, 1], group_desc="tp")
dist.new_group([1])
assert dump_group_info() is True
dist.destroy_process_group()
"""


def test_groups_of_each_rank(tmp_path: Path) -> None:
    environment = {**with_compat(), "MINDX_TASK_ID": "J", "GROUP_BASE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    store = f"file://{tmp_path}/store"
    ranks = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(rank), store], env=environment, cwd=tmp_path)
        for rank in range(2)
    ]
    try:
        assert [process.wait(60) for process in ranks] == [0, 0]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    for rank in range(2):
        groups = json.loads((tmp_path / "J" / str(rank) / "parallel_group.json").read_text())
        found = {(each["group_name"], each["group_rank"], tuple(each["global_ranks"])) for each in groups.values()}
        assert found == {("default_group", rank, (0, 1)), ("tp", rank, (0, 1))} | ({("", 0, (1,))} if rank else set())
