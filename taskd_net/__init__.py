"""A message mesh for distributed training jobs: Mgr, Proxies, Agents and Workers, joined by gRPC into one tree."""

from taskd_net.environment import prepare

prepare()  # before anything imports grpc

from taskd_net.blocking import BlockingNode
from taskd_net.codes import Code, ConfigError, MeshError, NetworkError, ReceiverError, SenderError, TaskdNetError
from taskd_net.config import NodeConfig
from taskd_net.core.frame import Ack
from taskd_net.node import Node, NodeClosed, NodeForked
from taskd_net.position import Position, Role
from taskd_net.version import __version__
from taskd_net.wire.codec import Message

__all__ = [
    "Ack",
    "BlockingNode",
    "Code",
    "ConfigError",
    "MeshError",
    "Message",
    "NetworkError",
    "Node",
    "NodeClosed",
    "NodeConfig",
    "NodeForked",
    "Position",
    "ReceiverError",
    "Role",
    "SenderError",
    "TaskdNetError",
    "__version__",
]
