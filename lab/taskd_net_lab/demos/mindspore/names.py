"""TaskD's import paths for msrun, as a folder for PYTHONPATH, where the distribution with these names is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

AGENT: Final = "taskd/api/taskd_agent_api.py"
PLUGIN: Final = "taskd/python/framework/agent/ms_mgr/msrun_plugin.py"

_CONTENTS: Final = {
    AGENT: "from taskd_net.job.api import init_taskd_agent, register_func, start_taskd_agent\n",
    PLUGIN: "from taskd_net.mindspore import MSRunPlugin\n",
}


def write(folder: Path, *names: str) -> None:
    """Write modules of TaskD.

    Args:
        folder: to be in PYTHONPATH.
        names: `AGENT`, `PLUGIN` or both; msrun takes the Agent first.
    """
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for package in path.relative_to(folder).parents[:-1]:
            (folder / package / "__init__.py").touch()
        path.write_text(_CONTENTS[name])
