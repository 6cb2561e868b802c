"""A message mesh for distributed training jobs: Mgr, Proxies, Agents and Workers, joined by gRPC into one tree.

`Node` is a member of the mesh for asyncio, `BlockingNode` the same for threads, `NodeConfig` says who it is. A training
script, a launcher or a job uses the calls of TaskD, `init_taskd_worker` and so on. All errors are `TaskdNetError`s.
"""

from taskd_net.environment import prepare

prepare()  # before anything imports grpc

from importlib import import_module
from typing import TYPE_CHECKING

from taskd_net.blocking import BlockingNode
from taskd_net.codes import (
    ArgumentError,
    ArgumentTypeError,
    Code,
    ConfigError,
    NodeClosed,
    NodeError,
    NodeForked,
    NodeTimeout,
    TaskdNetError,
)
from taskd_net.config import NodeConfig
from taskd_net.core.decisions import Statistics
from taskd_net.core.frame import Ack, Failure
from taskd_net.mesh_errors import MeshError, NetworkError, ReceiverError, SenderError
from taskd_net.node import Node
from taskd_net.observe.probe_codec import Echo
from taskd_net.observe.records import Mesh
from taskd_net.peer_limits import Limits
from taskd_net.position import Position, Role
from taskd_net.retry import Retry
from taskd_net.tls.files import Tls
from taskd_net.version import __version__
from taskd_net.wire.codec import Message

if TYPE_CHECKING:
    from taskd_net.api import (
        Body,
        Command,
        Report,
        destroy_taskd_agent,
        destroy_taskd_manager,
        destroy_taskd_proxy,
        destroy_taskd_worker,
        init_taskd_agent,
        init_taskd_manager,
        init_taskd_proxy,
        init_taskd_worker,
        last_reports,
        register_func,
        register_handler,
        send_to_manager,
        start_taskd_agent,
        start_taskd_manager,
        start_taskd_worker,
    )

__all__ = [
    "Ack",
    "ArgumentError",
    "ArgumentTypeError",
    "BlockingNode",
    "Body",
    "Code",
    "Command",
    "ConfigError",
    "Echo",
    "Failure",
    "Limits",
    "Mesh",
    "MeshError",
    "Message",
    "NetworkError",
    "Node",
    "NodeClosed",
    "NodeConfig",
    "NodeError",
    "NodeForked",
    "NodeTimeout",
    "Position",
    "ReceiverError",
    "Report",
    "Retry",
    "Role",
    "SenderError",
    "Statistics",
    "TaskdNetError",
    "Tls",
    "__version__",
    "destroy_taskd_agent",
    "destroy_taskd_manager",
    "destroy_taskd_proxy",
    "destroy_taskd_worker",
    "init_taskd_agent",
    "init_taskd_manager",
    "init_taskd_proxy",
    "init_taskd_worker",
    "last_reports",
    "register_func",
    "register_handler",
    "send_to_manager",
    "start_taskd_agent",
    "start_taskd_manager",
    "start_taskd_worker",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # a type checker would take any name for one that is here

    def __getattr__(name: str) -> object:
        # The calls of TaskD: imported with the first that is used, as who runs a Node has no need of them.
        if name in __all__:
            return getattr(import_module("taskd_net.api"), name)
        if name in ("api", "logs"):  # the documents write `taskd_net.logs.start`
            return import_module(f"taskd_net.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
