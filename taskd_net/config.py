"""What can be set on a node: one frozen dataclass, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final, Literal, Self

from taskd_net import limits
from taskd_net.address import Address
from taskd_net.codes import ConfigError, Refusal
from taskd_net.core.router import RouterConfig
from taskd_net.expect import Expected
from taskd_net.peer_limits import DEFAULT, Limits
from taskd_net.position import Position, Role, require_node
from taskd_net.tls.files import Tls
from taskd_net.untrusted import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The configuration of one node; usually made by `mgr`, `proxy`, `agent` or `worker`.

    Args:
        position: the node's own.
        listen: `host:port` where children connect (Mgr and Proxy); port 0 takes any free one.
        plain_listen: a second one, on the loopback interface, that takes plain text whatever `tls` says: for the
            processes of this machine, such as local Workers and health probes.
        upstream: `host:port` of the parent (all but the Mgr).
        inbox: messages that wait for the application, None for the role's default. More room: bursts get through
            instead of 5001; what is in it is lost if the process dies. 0: no inbox, every sender gets 5000.
        dedup_window: uuids remembered of each sender that does not use this package. Smaller: less memory; a resend
            that comes later than this many messages of that sender is delivered twice.
        ack_timeout: seconds the Mgr waits for a child's answer; nodes below wait less, by level. Also the default
            timeout of a send. Shorter: a frozen node is noticed sooner; a slow one is taken for frozen.
        link_messages, link_bytes: what may wait to be written on one link. More: bursts get through; a node with many
            slow children needs that much memory for each.
        max_children: children of this node. More: memory and file descriptors.
        grace: seconds a child whose stream is gone keeps its place and routes. Longer: a restarting child finds its
            place; senders to one that never returns get 6002 instead of 5002 for longer.
        registration_hold: seconds a registration without a stream holds its place.
        links: `batched`: offer the fast link to nodes of ours and take it up; `tasknet`: only the four calls.
        tracing: whether to trace messages with OpenTelemetry, by the provider that the process has set up. Costs each
            message a span at each node; needs the extra `tracing`.
        expect: the size of the job, nodes x processes per node (`4x8`): whoever asks for the state of the mesh is told
            which ranks are missing. Changes nothing else.
        service: whether this is a tool or a service, and no rank of the job. The state of the mesh shows it as such,
            expects no Agent on its account, and remembers nothing of it when it has left.
        backoff_initial, backoff_max: seconds; bounds of the pause between attempts to join (full jitter). Shorter: back
            sooner after a fault; more load on a parent that is just starting.
        tls: the files of mutual TLS, and so which links use it; None: plain text.
        identity: what a child's claims are held against. `certificate`: it takes only positions that its certificate
            names, in this `job`; `position`: any that no other host's node is connected in. Either way it speaks for
            itself alone and for what it announces (SECURITY.md).
        job: the name of the job in certificates; needed with `identity` `certificate`.
        limits: what a child, and all of them together, may cost this node; see `peer_limits.Limits`.

    Raises:
        ConfigError: names the field, its value and what was expected.
    """

    position: Position
    listen: str | None = None
    plain_listen: str | None = None
    upstream: str | None = None
    inbox: int | None = None
    dedup_window: int = limits.DEDUP_WINDOW
    ack_timeout: float = limits.ACK_TIMEOUT_S
    link_messages: int = limits.LINK_MESSAGES
    link_bytes: int = limits.LINK_BYTES
    max_children: int = limits.MAX_CHILDREN
    grace: float = limits.GRACE_S
    registration_hold: float = limits.REGISTRATION_HOLD_S
    links: Literal["batched", "tasknet"] = "batched"
    tracing: bool = False
    expect: str | None = None
    service: bool = False
    backoff_initial: float = limits.BACKOFF_INITIAL_S
    backoff_max: float = limits.BACKOFF_MAX_S
    tls: Tls | None = None
    identity: Literal["position", "certificate"] = "position"
    job: str | None = None
    # The last one: in a class's body its name hides the module's.
    limits: Limits = DEFAULT

    @classmethod
    def mgr(cls, *, listen: str = "127.0.0.1:9601", **settings: object) -> Self:
        """The root of a job's tree."""
        return cls(position=Position.mgr(), listen=listen, **settings)  # type: ignore[arg-type]

    @classmethod
    def proxy(
        cls, *, server_rank: int | str, upstream: str, listen: str = "127.0.0.1:9602", **settings: object
    ) -> Self:
        """The Proxy of a node; its upstream is the Mgr or another Proxy."""
        position = Position.proxy(server_rank)
        return cls(position=position, listen=listen, upstream=upstream, **settings)  # type: ignore[arg-type]

    @classmethod
    def agent(cls, *, server_rank: int | str, upstream: str = "127.0.0.1:9602", **settings: object) -> Self:
        """The launcher of a node."""
        return cls(position=Position.agent(server_rank), upstream=upstream, **settings)  # type: ignore[arg-type]

    @classmethod
    def worker(
        cls, *, server_rank: int | str, rank: int | str, upstream: str = "127.0.0.1:9602", **settings: object
    ) -> Self:
        """One training process."""
        return cls(position=Position.worker(server_rank, rank), upstream=upstream, **settings)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Check every field.

        Raises:
            ConfigError: names the field, its value and what was expected.
        """
        try:
            require_node(self.position)
        except Refusal as refusal:
            raise ConfigError(f"position is {self.position}: {refusal}") from refusal
        role = Role(self.position.role)
        if role.is_leaf and self.listen is not None:
            raise ConfigError(f"listen is {shown(self.listen)}; a {role} has no children and listens nowhere")
        if not role.is_leaf and self.listen is None:
            raise ConfigError(f"listen is missing; a {role} listens for its children, e.g. 127.0.0.1:9602")
        if role is Role.MGR and self.upstream is not None:
            raise ConfigError(f"upstream is {shown(self.upstream)}; the Mgr is the root and has none")
        if role is not Role.MGR and self.upstream is None:
            raise ConfigError(f"upstream is missing; a {role} needs its parent's host:port")
        if self.listen is not None:
            Address.parse(self.listen, "listen")
        if self.plain_listen is not None:
            if self.listen is None:
                raise ConfigError(f"plain_listen is {shown(self.plain_listen)}; a {role} listens nowhere")
            if not Address.parse(self.plain_listen, "plain_listen").is_loopback:
                expected = "expected 127.0.0.1, [::1] or localhost, as whoever can connect there needs no certificate"
                raise ConfigError(f"plain_listen is {shown(self.plain_listen)}; {expected}")
        if self.upstream is not None and Address.parse(self.upstream, "upstream").port == 0:
            raise ConfigError(f"upstream is {shown(self.upstream)}: port 0 is not a port to connect to")
        # A link has to hold the largest message, or that could never be sent.
        least_of = {"dedup_window": 1, "link_messages": 1, "link_bytes": limits.MESSAGE_BYTES, "max_children": 1}
        for field, least in (least_of if self.inbox is None else {"inbox": 0, **least_of}).items():
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{field} is {shown(value)}; expected a whole number, at least {least}")
        for field in ("ack_timeout", "grace", "registration_hold", "backoff_initial", "backoff_max"):
            value = getattr(self, field)
            if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
                raise ConfigError(f"{field} is {shown(value)}; expected a number of seconds above 0")
        if self.ack_timeout > limits.TIMEOUT_MAX_S:
            raise ConfigError(f"ack_timeout is {shown(self.ack_timeout)}; expected at most {limits.TIMEOUT_MAX_S}")
        if self.tls is not None:
            if self.listen is None and not self.tls.connects:
                raise ConfigError(f"client_key is missing; a {role} with tls needs it, and client_crt")
            if self.upstream is None and not self.tls.listens:
                raise ConfigError(f"server_key is missing; a {role} with tls needs it, and server_crt")
        if self.links not in ("batched", "tasknet"):
            raise ConfigError(f"links is {shown(self.links)}; expected 'batched' or 'tasknet'")
        for field in ("tracing", "service"):
            if not isinstance(getattr(self, field), bool):
                raise ConfigError(f"{field} is {shown(getattr(self, field))}; expected True or False")
        if self.service and not role.is_leaf:
            raise ConfigError(f"service is True; a {role} is no tool or service, expected an Agent or a Worker")
        if self.expect is not None:
            Expected.parse(self.expect)
        if self.backoff_max < self.backoff_initial:
            raise ConfigError(f"backoff_max is {shown(self.backoff_max)}; expected at least backoff_initial")
        if self.identity not in ("position", "certificate"):
            raise ConfigError(f"identity is {shown(self.identity)}; expected 'position' or 'certificate'")
        if self.identity == "certificate" and not (self.tls is not None and self.tls.listens):
            raise ConfigError("identity is 'certificate'; expected TLS for children, which shows their certificates")
        if self.identity == "certificate" and not self.job:
            raise ConfigError("job is missing; identity is 'certificate', and certificates name positions of a job")
        _check_limits(self.limits)

    @property
    def router(self) -> RouterConfig:
        """The part of it that the Router decides by."""
        return RouterConfig(
            inbox=limits.INBOX[self.position.role] if self.inbox is None else self.inbox,
            dedup_window=self.dedup_window,
            ack_timeout=self.ack_timeout,
            link_messages=self.link_messages,
            link_bytes=self.link_bytes,
            max_children=self.max_children,
            grace=self.grace,
            registration_hold=self.registration_hold,
            job=self.job or "",
            limits=self.limits,
        )


_LEAST: Final = {
    "uuid_length": limits.UUID_CHARS,
    "message_bytes": 1024,
    "metadata_bytes": 1024,
    "child_bytes": limits.MESSAGE_BYTES,
    "total_bytes": limits.MESSAGE_BYTES,
}
_MOST: Final = {"list_ranks": limits.RANKS_PER_LIST, "message_bytes": limits.MESSAGE_BYTES}


def _check_limits(checked: Limits) -> None:
    for field in fields(checked):
        value, least, most = getattr(checked, field.name), _LEAST.get(field.name, 1), _MOST.get(field.name, 2**31 - 1)
        if field.name == "registration_time":
            if not isinstance(value, int | float) or not 0 < value <= limits.TIMEOUT_MAX_S:
                text = f"expected a number of seconds above 0, at most {limits.TIMEOUT_MAX_S}"
                raise ConfigError(f"{field.name} is {shown(value)}; {text}")
        elif not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ConfigError(f"{field.name} is {shown(value)}; expected a whole number from {least} to {most}")
