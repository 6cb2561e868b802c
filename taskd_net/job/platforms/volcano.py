"""Volcano's jobs. A pod knows its index within its task by the plugin env, and the hosts of all tasks by svc.

The plugin pytorch brings svc with it, and not env. Without env the index of a pod is the position of its host in the
list of its task.

The environment does not order the tasks. The first one is that of the host in `MASTER_ADDR`, where the plugin pytorch
names it: it calls its tasks as its arguments say. Otherwise a task `master` is the first one. The others follow by
name. All pods have the same lists, so all of them come to the same ranks. A task of 0 replicas has no hosts.
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
    if not _is_pod(environment) or not _is_of_pytorch(environment):
        return None
    rank, nodes = number(environment, "RANK"), count(environment, "WORLD_SIZE")
    return Seen("Volcano's plugin pytorch", rank, nodes, text(environment, "MASTER_ADDR"))


def volcano(environment: Environment, host: str) -> Seen | None:
    """A pod with the plugins svc and env, or with one of them."""
    if not _is_pod(environment):
        return None
    index = number(environment, *INDEX)
    hosts = _hosts(environment)
    sizes = _sizes(environment, hosts)
    first = text(environment, "MASTER_ADDR") if _is_of_pytorch(environment) else None
    masters = () if first is None else [task for task in hosts if _position(hosts[task], first.value) is not None]
    tasks = sorted(hosts, key=lambda task: (task not in masters, task != "MASTER", task))
    own = [task for task in tasks if _position(hosts[task], host) is not None] or tasks
    rank = nodes = first_host = None
    if len(own) == 1:
        position = _position(hosts[own[0]], host)
        known = index or position
        # An index of one task beside the hosts of another one is no rank.
        if known is not None and (position is None or position.value == known.value):
            before = tasks[: tasks.index(own[0])]
            rank = Said(sum(sizes[task] for task in before) + known.value, known.by)
    if tasks and all(sizes[task] for task in tasks):
        nodes = Said(sum(sizes[task] for task in tasks), " + ".join(f"VC_{task}_NUM" for task in tasks))
    if tasks and hosts[tasks[0]]:
        first_host = Said(hosts[tasks[0]][0], f"VC_{tasks[0]}_HOSTS")
    return Seen("Volcano", rank, nodes, first_host)


def _is_of_pytorch(environment: Environment) -> bool:
    return all(text(environment, name) is not None for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))


def _hosts(environment: Environment) -> dict[str, list[str]]:
    """The hosts of each task with replicas; none for a task whose list is missing."""
    found = {}
    for task in {named["task"] for name in environment if (named := _TASK.fullmatch(name))}:
        size, listed = number(environment, f"VC_{task}_NUM"), text(environment, f"VC_{task}_HOSTS")
        if size is None or size.value:
            found[task] = [] if listed is None else [each.strip() for each in listed.value.split(",")]
    return found


def _sizes(environment: Environment, hosts: dict[str, list[str]]) -> dict[str, int]:
    """The number of pods of each task; 0 for an unknown one."""
    stated = {task: number(environment, f"VC_{task}_NUM") for task in hosts}
    return {task: len(hosts[task]) if size is None else size.value for task, size in stated.items()}


def _is_pod(environment: Environment) -> bool:
    return text(environment, *INDEX) is not None or any(
        _HOSTS.fullmatch(name) and text(environment, name) for name in environment
    )


def _position(hosts: list[str], host: str) -> Said[int] | None:
    names = [_short(each) for each in hosts]
    return Said(names.index(_short(host)), HOST_NAME) if _short(host) in names else None


def _short(host: str) -> str:
    return host.partition(".")[0]
