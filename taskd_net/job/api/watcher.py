"""`DeviceWatcher`: reports of faults of devices, for a process of the user's that watches them.

It joins the mesh of a job as a tool: it takes no rank of the job, and nobody misses it when it ends. A training process
reports by `send_to_manager` over its own Worker instead.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from taskd_net.base import limits
from taskd_net.base.codes import ArgumentError
from taskd_net.base.untrusted import shown
from taskd_net.core.frame import Ack
from taskd_net.job.decide.device_reports import DeviceReport, release_body
from taskd_net.job.faults.events import read_event
from taskd_net.net.free_position import tool_position
from taskd_net.net.retry import Retry
from taskd_net.net.tls.files import Tls
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig


class DeviceWatcher:
    """Reports faults of devices to the Manager of a job. Its methods block, and any thread may call them.

    Use it as `with DeviceWatcher(upstream, node=1) as watcher`, or call `start` and `close`.

    Args:
        upstream: address of the node's Proxy, or of the Mgr, as `host:port`.
        node: rank of the node whose devices it watches; None where each name is HOST/NAME.
        tls: files of a mesh with TLS. Where nodes take positions by certificates, it reports about the nodes whose
            Agents its certificate names: all, `node`, or the only one.

    Raises:
        ConfigError: names the argument, its value and the expected one.
    """

    def __init__(self, upstream: str = "127.0.0.1:9602", *, node: int | None = None, tls: Tls | None = None) -> None:
        config = NodeConfig(position=tool_position(node, tls), upstream=upstream, service=True, tls=tls)
        self._member = BlockingNode(config)
        self._node = node

    def start(self) -> Self:
        """Begin to join the mesh; reports wait for that."""
        self._member.start()
        return self

    def report(
        self,
        code: str,
        device: str,
        kind: str = "occurred",
        *,
        severity: str | None = None,
        network: bool = False,
        at: float | None = None,
        timeout: float = limits.ACK_TIMEOUT_S,
    ) -> Ack:
        """Report a fault of a device, and wait until the Manager has stored it.

        Args:
            code: 8 or 9 hexadecimal digits.
            device: HOST/NAME, as Agents or the mapping file name it; NAME where the watcher has a node.
            kind: `occurred`, `recovered` or `once`.
            severity: `notice`, `minor`, `major` or `critical`; it counts for codes that no file has.
            network: the fault is one of the network; it counts for codes that no file has.
            at: time of the event, in seconds since the epoch; None for now.
            timeout: seconds for all tries, with one uuid: the Manager counts the event once.

        Returns:
            Code 0 when it is stored, else the reason of the last try: after 6001 nobody knows, and a further report of
            this event, with the same `at`, counts once. 4999 when the watcher is not started, or closed.

        Raises:
            ArgumentError: names the argument, its value and the expected one.
        """
        given: dict[str, object] = {"code": code, "device": device, "kind": kind, "network": network}
        if severity is not None:
            given["severity"] = severity
        event = read_event(given, time.time() if at is None else at)
        if "/" not in event.device and self._node is None:
            raise ArgumentError(f"device is {shown(device)}; expected HOST/NAME, or a watcher with a node")
        return self._send(DeviceReport(event, self._node).body.to_json(), timeout)

    def release(self, device: str, *, timeout: float = limits.ACK_TIMEOUT_S) -> Ack:
        """Give a device free that waits for a person.

        Args:
            device: HOST/NAME.
            timeout: seconds for all tries.

        Returns:
            As for `report`.

        Raises:
            ArgumentError: names the argument, its value and the expected one.
        """
        return self._send(release_body(device).to_json(), timeout)

    def close(self) -> None:
        """Leave the mesh. Idempotent."""
        self._member.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, body: str, timeout: float) -> Ack:
        return self._member.send(body, to="Mgr", timeout=timeout, retry=Retry(within=timeout))
