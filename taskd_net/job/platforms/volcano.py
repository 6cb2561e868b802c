"""Volcano's jobs. A pod knows its index within its task by the plugin env, and the hosts of all tasks by svc.

The plugin pytorch brings svc with it, and not env. Without env the index of a pod is the position of its host in the
list of its task.

The environment does not order the tasks. A task `master` is the first one here, as in Volcano's plugin for PyTorch; the
others follow by name. All pods have the same lists, so all of them come to the same ranks.
"""

from __future__ import annotations

import re
from typing import Final

from taskd_net.job.platforms.facts import HOST_NAME, Environment, Said, Seen, count, number, text

INDEX: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")

_TASK: Final = re.compile(r"VC_(?P<task>[A-Z0-9_]+)_(?:NUM|HOSTS)")
_HOSTS: Final = re.compile(r"VC_[A-Z0-9_]+_HOSTS")


def pytorch(environment: Environment, _host: str) -> Seen | None:
    """A pod with the plugin for PyTorch. `WORLD_SIZE` is the number of pods there, and `RANK` that of the pod."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR")
    if not _is_pod(environment) or any(text(environment, name) is None for name in names):
        return None
    rank, nodes = number(environment, "RANK"), count(environment, "WORLD_SIZE")
    return Seen("Volcano's plugin pytorch", rank, nodes, text(environment, "MASTER_ADDR"))


def volcano(environment: Environment, host: str) -> Seen | None:
    """A pod with the plugins svc and env, or with one of them."""
    if not _is_pod(environment):
        return None
    index = number(environment, *INDEX)
    tasks = sorted({found["task"] for name in environment if (found := _TASK.fullmatch(name))}, key=_order)
    sizes, hosts = {}, {}
    for task in tasks:
        listed = text(environment, f"VC_{task}_HOSTS")
        hosts[task] = [each.strip() for each in listed.value.split(",")] if listed is not None else []
        size = count(environment, f"VC_{task}_NUM")
        sizes[task] = len(hosts[task]) if size is None else size.value
    own = [task for task in tasks if any(_short(each) == _short(host) for each in hosts[task])] or tasks
    rank = nodes = first_host = None
    if len(own) == 1 and (index := index or _position(hosts[own[0]], host)) is not None:
        before = tasks[: tasks.index(own[0])]
        rank = Said(sum(sizes[task] for task in before) + index.value, index.by)
    if tasks and all(sizes.values()):
        nodes = Said(sum(sizes.values()), " + ".join(f"VC_{task}_NUM" for task in tasks))
    if tasks and hosts[tasks[0]]:
        first_host = Said(hosts[tasks[0]][0], f"VC_{tasks[0]}_HOSTS")
    return Seen("Volcano", rank, nodes, first_host)


def _is_pod(environment: Environment) -> bool:
    return text(environment, *INDEX) is not None or any(
        _HOSTS.fullmatch(name) and text(environment, name) for name in environment
    )


def _position(hosts: list[str], host: str) -> Said[int] | None:
    names = [_short(each) for each in hosts]
    return Said(names.index(_short(host)), HOST_NAME) if _short(host) in names else None


def _order(task: str) -> tuple[bool, str]:
    return task != "MASTER", task


def _short(host: str) -> str:
    return host.partition(".")[0]
