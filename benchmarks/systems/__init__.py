"""The systems under test: one module for each, all with the same interface (`member.Member`)."""

from __future__ import annotations

from benchmarks.systems.member import Member, Spec

OURS = "taskd_net"
DIRECT = "direct"
OVER_TCP = "direct-tcp"
"""Direct links as between two machines. The members of a bench are on one, where those are Unix sockets."""
PEERS = (DIRECT, OVER_TCP, "tasknet", "unary", "stream", "nats", "zmq", "sockets")
ALL = (OURS, *PEERS)

# Launchers of trainings, which are not members of a mesh.
TORCHRUN = "torchrun"
FT_LAUNCHER = "ft_launcher"
RESTART_ALL = "taskd_net, 208"
LAUNCHERS = (RESTART_ALL, TORCHRUN, FT_LAUNCHER)


def make(spec: Spec) -> Member:
    """Make the member that a specification describes, and import its libraries only here."""
    match spec["system"]:
        case "taskd_net" | "direct" | "direct-tcp" | "tasknet":
            from benchmarks.systems.taskd import Nodes

            return Nodes(spec)
        case "crowd":
            from benchmarks.systems.crowd import CrowdMember

            return CrowdMember(spec)
        case "blocking":
            from benchmarks.systems.taskd import Blocking

            return Blocking(spec)
        case "unary" | "stream":
            from benchmarks.systems.relay import RelayNode

            return RelayNode(spec)
        case "nats":
            from benchmarks.systems.nats import NatsClient, NatsServer

            return NatsServer(spec) if spec["positions"][0].startswith("Proxy") else NatsClient(spec)
        case "sockets":
            from benchmarks.systems.sockets import Sockets

            return Sockets(spec)
        case "zmq":
            from benchmarks.systems.zmq import ZmqClient, ZmqRelay

            return ZmqRelay() if spec["positions"][0].startswith("Proxy") else ZmqClient(spec)
        case "bare":
            from benchmarks.systems.bare import Bare

            return Bare(spec)
        case "calls":
            from benchmarks.systems.calls import Calls

            return Calls(spec)
        case "router":
            from benchmarks.systems.router import RouterAlone

            return RouterAlone()
    raise ValueError(f"no such system: {spec['system']}")
