"""torchrun under TaskD's Manager, without a change on disk: names of torch's launcher are replaced in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Final

from torch.distributed.launcher import api as launcher

from taskd_net.torch import seam
from taskd_net.torch.agent import ElasticAgent

RESTARTS: Final = 32767
"""Restarts that an Agent offers where torchrun's `--max-restarts` is 0, its default, as with TaskD: no number."""

_originals: dict[str, Any] = {}
"""Replaced names. torch's launcher looks its agent's class up in its own module, and takes no argument for it. So a
class that knows the rank of its node takes that place, and each of its objects makes and holds its own Agent."""


def patch(
    node_rank: int | None = None,
    *,
    agent: type[ElasticAgent] = ElasticAgent,
    **named: Any,
) -> None:
    """Have torchrun, and everything else that calls torch's `launch_agent`, run its workers by an `ElasticAgent`.

    Patching twice is patching once. Agents that run already keep their class.

    Args:
        node_rank: rank of this node. Default: the variable `RANK` of the platform, or 0.
        agent: class of the Agent.
        named: further arguments of that class.

    Raises:
        UnsupportedTorch: the installed torch has not been checked; nothing is changed.
    """
    seam.check()
    unpatch()
    original = launcher.launch_agent

    @wraps(original)
    def launch_agent(config: Any, *arguments: Any, **named: Any) -> Any:
        return original(replace(config, max_restarts=config.max_restarts or RESTARTS), *arguments, **named)

    make: Callable[..., ElasticAgent] = partial(agent, node_rank=node_rank, **named)
    for name, value in (("launch_agent", launch_agent), ("LocalElasticAgent", make)):
        _originals[name] = getattr(launcher, name)
        setattr(launcher, name, value)


def unpatch() -> None:
    """Undo `patch`; without one, do nothing."""
    while _originals:
        name, value = _originals.popitem()
        setattr(launcher, name, value)


@contextmanager
def patched(node_rank: int | None = None, **named: Any) -> Iterator[None]:
    """Patch for the time of a block.

    Args:
        node_rank, named: as of `patch`.
    """
    patch(node_rank, **named)
    try:
        yield
    finally:
        unpatch()
