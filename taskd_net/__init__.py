"""A message mesh for distributed training jobs: Mgr, Proxies, Agents and Workers, joined by gRPC into one tree.

`Node` is a member of the mesh for asyncio, `BlockingNode` the same for threads, `NodeConfig` says who it is. A training
script, a launcher or a job uses the calls of TaskD, `init_taskd_worker` and so on. All errors are `TaskdNetError`s.
"""

from taskd_net.base.environment import prepare

prepare()  # before anything imports grpc

from typing import TYPE_CHECKING

from taskd_net.base.exports import late
from taskd_net.moved import find_moved
from taskd_net.version import __version__

if TYPE_CHECKING:
    from taskd_net.base.codes import (
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
    from taskd_net.base.peer_limits import Limits
    from taskd_net.base.position import Position, Role
    from taskd_net.core.counters import Statistics
    from taskd_net.core.frame import Ack, Failure, MeshError, NetworkError, ReceiverError, SenderError
    from taskd_net.job.api import (
        Body,
        Command,
        DeviceWatcher,
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
    from taskd_net.net.retry import Retry
    from taskd_net.net.tls.files import Tls
    from taskd_net.net.wire.codec import Message
    from taskd_net.node.blocking import BlockingNode
    from taskd_net.node.config import NodeConfig
    from taskd_net.node.node import Node
    from taskd_net.observe.probe_codec import Echo
    from taskd_net.observe.records import Mesh

__all__ = [
    "Ack",
    "ArgumentError",
    "ArgumentTypeError",
    "BlockingNode",
    "Body",
    "Code",
    "Command",
    "ConfigError",
    "DeviceWatcher",
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


_HOMES = {
    "taskd_net.job.api": (
        "Body",
        "Command",
        "DeviceWatcher",
        "Report",
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
    ),
    "taskd_net.node.blocking": ("BlockingNode",),
    "taskd_net.base.codes": (
        "ArgumentError",
        "ArgumentTypeError",
        "Code",
        "ConfigError",
        "NodeClosed",
        "NodeError",
        "NodeForked",
        "NodeTimeout",
        "TaskdNetError",
    ),
    "taskd_net.node.config": ("NodeConfig",),
    "taskd_net.core.counters": ("Statistics",),
    "taskd_net.core.frame": ("Ack", "Failure", "MeshError", "NetworkError", "ReceiverError", "SenderError"),
    "taskd_net.node.node": ("Node",),
    "taskd_net.observe.probe_codec": ("Echo",),
    "taskd_net.observe.records": ("Mesh",),
    "taskd_net.base.peer_limits": ("Limits",),
    "taskd_net.base.position": ("Position", "Role"),
    "taskd_net.net.retry": ("Retry",),
    "taskd_net.net.tls.files": ("Tls",),
    "taskd_net.net.wire.codec": ("Message",),
}

if not TYPE_CHECKING:  # a type checker would take any name for one that is here
    # The documents write `taskd_net.logs.start`.
    _modules = {"api": "taskd_net.job.api", "logs": "taskd_net.base.logs", "train": "taskd_net.train"}
    __getattr__ = late(globals(), _HOMES, modules=_modules)

find_moved()
