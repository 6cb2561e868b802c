"""A member of the mesh: `Node` for asyncio, `BlockingNode` for threads, and its configuration.

Read first: `node` (the calls of the application, and the node's life: start, join, drain, close), `driver` (one Router
and its links: carries out what the Router decides), `sending` (a send until its answer), `config` (the settings).

It imports `observe`, `net`, `core` and `base`.
"""

from typing import TYPE_CHECKING

from taskd_net.base.exports import late

if TYPE_CHECKING:
    from taskd_net.node.node import Node

__all__ = ["Node"]

if not TYPE_CHECKING:  # a type checker would take any name for one that is here
    __getattr__ = late(globals(), {"taskd_net.node.node": ("Node",)})
