"""The Proxy of a node in this process: that of `init_taskd_proxy`, or that of an Agent.

An Agent starts the Proxy of its node beside itself, as TaskD's does, under four conditions:

- The platform names the Mgr's host: `MASTER_ADDR` (PyTorch), `MS_SCHED_HOST` (MindSpore), or `LOCAL_PROXY_ENABLE=on`.
- The Agent's own upstream is a loopback address, and not the Mgr's.
- This process has no Proxy.
- Nobody listens at that address.

A Proxy of the user always has precedence: it is used where it is there, and `init_taskd_proxy` replaces the Agent's.
A listener at the Agent's upstream has to be the Proxy of this node. A Proxy that does not say its rank, as TaskD's own,
is believed; another listener is an error, because its messages would belong to another node or to nobody.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import Final

from taskd_net.base import threads, upstreams
from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.job_id import job_id_of
from taskd_net.base.position import Position
from taskd_net.base.untrusted import shown
from taskd_net.core.membership import Membership
from taskd_net.job import arguments
from taskd_net.job.member import Refused, Singleton, log
from taskd_net.net.tls.files import Tls
from taskd_net.node.background import shared
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig
from taskd_net.observe.identify import Found, ServerKind, identify

LOCAL: Final = "LOCAL_PROXY_ENABLE"

IDENTIFY_S: Final = 5.0
"""Seconds for each answer of a listener to the question of its position."""

SILENT_S: Final = 30.0
"""Seconds in which a listener that does not answer is asked again: on a busy host, or while the Proxy is stopped."""

AGAIN_S: Final = 0.2
"""Seconds between two questions, as a listener that ends each connection at once would be asked without a pause."""

slot: Final[Singleton[BlockingNode]] = Singleton("proxy")


def joined() -> bool | None:
    """True while the Mgr knows the way to this process's Proxy; None where it has none."""
    try:
        return slot.member.is_joined
    except Refused:
        return None


def mgr_is_local() -> bool:
    """True where the Mgr is at 127.0.0.1, whatever else is configured."""
    return os.environ.get(LOCAL, "").strip().lower() == "on"


class AgentsProxy:
    """The Proxy that an Agent starts beside itself.

    Args:
        server_rank: of the node.
        listen: the Agent's upstream, `host:port`.
        variable: names the Mgr's host.
        config: of the Agent, for TLS.
        identify: seconds for each answer of another listener to the question of its position.
        silent: seconds in which one that does not answer is asked again.

    Raises:
        ConfigError: the variable is set, and no host.
    """

    def __init__(
        self,
        server_rank: int,
        listen: str,
        variable: str,
        config: arguments.Settings,
        identify: float = IDENTIFY_S,
        silent: float = SILENT_S,
    ) -> None:
        self._identify_s = identify
        self._silent = silent
        self._server_rank = server_rank
        self._listen = listen
        self._variable = variable
        self._config = config
        self._job_id = arguments.job_id()
        self._node: BlockingNode | None = None
        self._is_there = False
        self._upstream()

    def start(self) -> None:
        """Start it where the conditions hold; a second time, if the variable names another host than at the first.

        Raises:
            ConfigError: the variable is set, and no host; or another process listens there, and it is not the Proxy of
                this node.
        """
        upstream = self._upstream()
        if self._node is not None and upstream not in (None, self._node.config.upstream):
            self.close()
        if self._node is not None or self._is_there or slot.filled:
            return
        # An Agent with several addresses has Proxies that others start.
        listens = upstreams.parse(self._listen)
        if upstream is None or upstream == self._listen or len(listens) > 1 or not listens[0].is_loopback:
            return
        tls = arguments.secured(self._config, listens=True, connects=True)
        if tls is not None and tls.server_key is None:
            log.info("no_own_proxy", reason="the Agent's TLS has no server_key, so the Proxy must be another process")
            return
        config = NodeConfig.proxy(
            server_rank=self._server_rank, job_id=self._job_id, listen=self._listen, upstream=upstream, inbox=0, tls=tls
        )
        try:
            node = BlockingNode(config).start()
        except ConfigError as error:
            self._use_listener(error, tls)
            return
        try:
            slot.fill(lambda: node, f"taskd-proxy-{self._server_rank}.log")
        except Refused:  # of a call in another thread
            node.close()
            return
        self._node = node
        _agents.add(node)

    @property
    def absence(self) -> tuple[str, str] | None:
        """The address of its parent, and the reason why it has not joined; None where another process is the Proxy."""
        node = self._node
        return None if node is None else (node.config.upstream or "", node.trouble)

    def close(self) -> None:
        """End it, unless a Proxy of the user has replaced it."""
        node, self._node = self._node, None
        if node is not None:
            _agents.discard(node)
            slot.clear(node)

    def _use_listener(self, error: ConfigError, tls: Tls | None) -> None:
        """Use the process that listens at the Agent's upstream, if it is the Proxy of this node."""
        address, until = Address.parse(self._listen), time.monotonic() + self._silent
        found = identified(address, tls, self._identify_s)
        while found.kind in (ServerKind.SILENT, ServerKind.NONE) and time.monotonic() < until:
            time.sleep(AGAIN_S)
            found = identified(address, tls, self._identify_s)
        due, own = Position.proxy(self._server_rank), Membership(job_id_of(self._job_id))
        holder = found.kind.value if found.about is None else str(found.about)
        astray = found.about is None or found.about.position.identity != due or own.excludes(found.about.job_id)
        if astray and found.kind is not ServerKind.MESH:
            of_job = f" of job {shown(own.job_id)}" if own.job_id else ""
            raise ConfigError(f"{error}. Found there: {holder}; expected {due}{of_job}")
        log.info("no_own_proxy", reason=f"{self._listen} is held by {holder}")
        self._is_there = True

    def _upstream(self) -> str | None:
        host = arguments.LOOPBACK if mgr_is_local() else os.environ.get(self._variable)
        return arguments.joined(host, self._variable, arguments.mgr_port(), arguments.MGR_PORT_SET) if host else None


_agents: Final[set[BlockingNode]] = set()


def make_way() -> None:
    """End the Proxy of this process's Agent, for one of the user."""
    for node in list(_agents):
        _agents.discard(node)
        slot.clear(node)


def identified(address: Address, tls: Tls | None, seconds: float) -> Found:
    """Identify a listener, in the loop of this process's nodes."""
    user = object()
    release = partial(shared.release, user)
    loop = threads.uninterrupted(partial(shared.acquire, user), release)
    try:
        return asyncio.run_coroutine_threadsafe(identify(address, seconds, tls), loop).result()
    finally:
        threads.uninterrupted(release)
