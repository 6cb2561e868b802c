"""Codec of the messages of `proto/probe.proto`.

Both ends check what they read: a node the requests for probes, a client the answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from google.protobuf.message import DecodeError

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.limits import TIMEOUT_MAX_S
from taskd_net.base.position import Position
from taskd_net.base.untrusted import shown
from taskd_net.core.frame import Failure
from taskd_net.net.wire import probe_pb2 as pb


class Echo(NamedTuple):
    """The answer to a probe.

    Attributes:
        code: 0: `src` has answered. Else the code that a message would have got (docs/contract.md, section 6), or 4999
            where the way ends at a node that knows no probes.
        src: the node that answered; with 6001 the one that did not; with that 4999 the one that was not probed.
        seconds: the round trip.
        link: in a trace the kind of link that leads to `src`; empty where the way ends.
        detail: an explanation for people.
        receivers: nodes that have answered a ping; None where unknown. See `Ack.receivers`.
        failures: nodes that have not answered a ping of a broadcast or list, `acks.FAILURES_TOLD` at most.
    """

    code: int
    src: Position
    seconds: float
    link: str = ""
    detail: str = ""
    receivers: int | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the code is 0."""
        return self.code == Code.OK

    @property
    def asked(self) -> bool:
        """False if the way ends at a node that knows no probes, which was not probed.

        For several destinations, false if nothing but that is missing.
        """
        return self.code != Code.CLIENT_ERR or not self.link or any(code != self.code for _, code in self.failures)


@dataclass(frozen=True, slots=True)
class ProbeSeries:
    """A request for a series of probes: `count` 0 is endless, times are in seconds."""

    to: Position
    timeout: float
    count: int = 1
    interval: float = 1.0


class About(NamedTuple):
    """A node's description of itself.

    Attributes:
        position: its own.
        version: of this package.
        time_ns: its clock, since the epoch.
        parent: its parent; None while it has none.
        job_id: of its job; empty where it knows none.
    """

    position: Position
    version: str
    time_ns: int
    parent: Position | None
    job_id: str = ""

    def __str__(self) -> str:
        return f"{self.position} of job {shown(self.job_id)}" if self.job_id else str(self.position)


def write_ping(series: ProbeSeries) -> bytes:
    """Serialize a PingRequest."""
    to = _path(series.to)
    request = pb.PingRequest(to=to, count=series.count, interval=series.interval, timeout=series.timeout)
    return request.SerializeToString()


def read_ping(data: bytes) -> ProbeSeries:
    """Read a PingRequest.

    Raises:
        ValueError: the request cannot be carried out; the text says why.
    """
    try:
        request = pb.PingRequest.FromString(data)
    except DecodeError as error:
        raise ValueError("the bytes are not a PingRequest") from error
    interval = _seconds("interval", request.interval)
    return ProbeSeries(Position.parse(request.to), _seconds("timeout", request.timeout), request.count, interval)


def write_trace(to: Position, timeout: float) -> bytes:
    """Serialize a TraceRequest."""
    return pb.TraceRequest(to=_path(to), timeout=timeout).SerializeToString()


def read_trace(data: bytes) -> tuple[Position, float]:
    """Read a TraceRequest: the destination, and the seconds for each hop.

    Raises:
        ValueError: the request cannot be carried out; the text says why.
    """
    try:
        request = pb.TraceRequest.FromString(data)
    except DecodeError as error:
        raise ValueError("the bytes are not a TraceRequest") from error
    return Position.parse(request.to), _seconds("timeout", request.timeout)


def write_echo(echo: Echo) -> bytes:
    """Serialize an Echo."""
    return pb.Echo(
        code=echo.code,
        src=_path(echo.src),
        seconds=echo.seconds,
        link=echo.link,
        detail=echo.detail,
        receivers=echo.receivers,
        failures=[pb.NotReached(position=_path(position), code=code) for position, code in echo.failures],
    ).SerializeToString()


def read_echo(data: bytes) -> Echo:
    """Read an Echo.

    Raises:
        Refusal: 4999, the bytes are not an Echo.
    """
    try:
        echo = pb.Echo.FromString(data)
        failures = tuple(Failure(Position.parse(failure.position), failure.code) for failure in echo.failures)
        receivers = echo.receivers if echo.HasField("receivers") else None
        return Echo(echo.code, Position.parse(echo.src), echo.seconds, echo.link, echo.detail, receivers, failures)
    except (DecodeError, ValueError) as error:
        raise Refusal(Code.CLIENT_ERR, f"the answer is not one to a probe: {shown(str(error))}") from error


def write_about(about: About) -> bytes:
    """Serialize an AboutNode."""
    parent = _path(about.parent) if about.parent else ""
    return pb.AboutNode(
        position=_path(about.position),
        version=about.version,
        time_ns=about.time_ns,
        parent=parent,
        job_id=about.job_id,
    ).SerializeToString()


def read_about(data: bytes) -> About:
    """Read an AboutNode.

    Raises:
        Refusal: 4999, the bytes are not an AboutNode.
    """
    try:
        about = pb.AboutNode.FromString(data)
        parent = Position.parse(about.parent) if about.parent else None
        return About(Position.parse(about.position), about.version, about.time_ns, parent, about.job_id)
    except (DecodeError, ValueError) as error:
        raise Refusal(Code.CLIENT_ERR, f"the answer describes no node: {shown(str(error))}") from error


def _path(position: Position) -> str:
    """All three fields: a foreign parent's may be of any form."""
    return "/".join(position)


def _seconds(name: str, value: float) -> float:
    if math.isnan(value) or not 0.0 <= value <= TIMEOUT_MAX_S:
        raise ValueError(f"{name} is {value}; expected seconds from 0 to {TIMEOUT_MAX_S:.0f}")
    return value
