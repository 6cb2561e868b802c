"""The Proxy: the parent of the Workers and the Agent of one node (TaskD API reference, "TaskD Proxy")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskd_net.job import arguments, node_proxy
from taskd_net.job.frameworks.registry import FRAMEWORKS
from taskd_net.job.member import documented
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig

slot: Final = node_proxy.slot


@documented
def init_taskd_proxy(config: Mapping[str, object]) -> bool:
    """Make this process the Proxy of its node. It listens when this returns, and joins the Mgr in the background.

    It replaces a Proxy that this process's Agent has started beside itself.

    Args:
        config: `ListenAddr` (127.0.0.1), `ListenPort` (9602), `UpstreamAddr` (127.0.0.1), `UpstreamPort` (9601),
            `ServerRank` (the variable `RANK`, then `MS_NODE_RANK`, then 0). Addresses are host names, IPv4 or IPv6;
            ports and ranks are texts or ints. `UpstreamAddr` may have several hosts, with commas, which share the port.
            With the variable `LOCAL_PROXY_ENABLE=on` the upstream is at 127.0.0.1.
            `tls_conf` is a dict with the files of `taskd_net.net.tls.files.Tls`, and `enable_tls` its switch; without
            both, `TASKD_NET_ENABLE_TLS`, `TASKD_NET_CA` and so on count. `PlainListenAddr` and `PlainListenPort` are a
            second address for Workers of this machine, without TLS.

    Returns:
        True, or False with one line in the log: a value is not usable, the address cannot be listened on, there is a
        Proxy already, or this process is a forked child.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    wanted = arguments.checked(config)
    server_rank = arguments.server_rank(wanted, *(each.rank_variable for each in FRAMEWORKS))
    listen = arguments.address(wanted, "Listen", arguments.PROXY_PORT)
    if node_proxy.mgr_is_local():
        wanted = {**wanted, "UpstreamAddr": arguments.LOOPBACK}
    upstream = arguments.addresses(wanted, arguments.MGR_PORT)
    # Without an inbox: nobody reads what is sent to a Proxy itself, so its sender has to hear that at once (5000).
    node = NodeConfig.proxy(
        server_rank=server_rank,
        job_id=arguments.job_id(),
        listen=listen,
        plain_listen=arguments.plain_address(wanted, arguments.PROXY_PORT),
        upstream=upstream,
        inbox=0,
        tls=arguments.secured(wanted, listens=True, connects=True),
    )
    node_proxy.make_way()
    slot.fill(lambda: BlockingNode(node).start(), f"taskd-proxy-{server_rank}.log")
    return True


@documented
def destroy_taskd_proxy() -> bool:
    """Leave the mesh and stop listening; children try to come back until there is a Proxy again.

    Returns:
        True, or False with one line in the log: no Proxy was initialised.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    slot.clear()
    return True
