"""The configuration of a node: one frozen dataclass, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, Self

from taskd_net.base import limits, upstreams
from taskd_net.base.address import Address
from taskd_net.base.codes import ArgumentTypeError, ConfigError, Refusal
from taskd_net.base.expect import Expected
from taskd_net.base.job_id import job_id_of, require_job_id
from taskd_net.base.peer_limits import DEFAULT, Limits
from taskd_net.base.position import Position, Role, require_node
from taskd_net.base.schema import DAEMONS, JOINING, PREFIX, Group, Kind, require_all, setting
from taskd_net.base.untrusted import shown
from taskd_net.core.router import RouterConfig
from taskd_net.net.links.registry import KINDS
from taskd_net.net.tls.files import Tls

AUTO: Final = "auto"
OFF: Final = "off"
"""The word for an address that is not used."""

_MGR: Final = "127.0.0.1:9601"
_PROXY: Final = "127.0.0.1:9602"


def _pod_ip(text: str) -> str:
    return f"[{text}]:9601" if ":" in text else f"{text}:9601"


def _local_proxy(text: str) -> str | None:
    return _MGR if text == "on" else None


# A tool that joins names its parent as other tools name the node that they ask.
_JOINED_AT: Final = {"default": _PROXY, "also": ("--at",), "variables": {f"{PREFIX}AT": str}}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The configuration of one node; usually made by `mgr`, `proxy`, `agent` or `worker`.

    docs/configuration.md has the settings in one table, with their ranges.

    Args:
        position: The node's own.
        listen: Address for the children's connections. Port 0 takes any free port, which the ready line names. A Proxy
            needs to be reached from its own node alone.
        job_id: Id of the job. Nodes of another job are refused. A node without one takes that of its parent
            ([two jobs](training.md#two-jobs-on-one-machine)).
        upstream: Address of the parent, the Mgr or a Proxy. The Mgr has none. Several, with commas, are tried in turn,
            and after a loss the one that answers first ([reliability](reliability.md)).
        inbox: Messages for this node that wait for the application. More absorb bursts without 5001, and are lost if
            the process dies. 0 refuses every message with 5000.
        expect: Size of the job, to report missing ranks. Changes nothing else ([status](status.md)).
        ack_timeout: Seconds the Mgr waits for a child's answer; lower levels wait less. Also the default timeout of a
            send. Shorter detects a frozen node sooner, and takes a slow one for frozen. Use one value in a job.
        link_bytes: Bytes waiting to be written on one link; 5001 beyond. At least 8388608, the largest message.
        max_children: Children of this node; 5003 beyond. More cost memory and file descriptors (`ulimit -n`).
        grace: Seconds a child without a stream keeps its place and routes. Longer lets a restarting child find its
            place; senders to one that never returns get 6002 instead of 5002 for longer.
        links: Best kind of link to offer and to use. `batched` switches off direct links. `tasknet` restricts links to
            the four calls that every peer knows, with far fewer messages a second ([performance](performance.md)).
        direct_listen: Address for direct links of the children, beside `listen`; firewalls have to let them through.
            `auto` takes any free port of the host of `listen`. `off` accepts none: links then go over gRPC, with fewer
            messages a second ([how it works](mesh.md)).
        tracing: Traces of messages with OpenTelemetry. Costs a span, some 50 µs, per message and node
            ([diagnosis](diagnosis.md#traces)). Use one value in a job; needs the extra `tracing`.
        record: File for a record of every event at this node and its outcome, for a bug report; message bodies are left
            out. Costs a line of JSON, some 100 µs, per event, and ends at 64 MiB ([diagnosis](diagnosis.md#records)).
        plain_listen: Second address, on the loopback interface, for plain text beside TLS. Serves Workers and health
            probes of this machine; every process there can join the mesh.
        identity: Proof of a child's claims. `certificate` accepts only positions that the child's certificate names
            ([security](security.md)); needs TLS and `job`.
        job: Name of the job in certificates. Without it `job_id`; with both they have to agree.
        service: Whether this is a tool or a service, and no rank of the job. The state of the mesh shows it as such,
            and forgets it when it has left.
        confirms: Whether senders to this node are answered 0 only when its application confirms their message
            (`Node.confirm`): for one that makes sure first that it survives the process.
        standby: Whether this node begins as a standby, which refuses children (`Node.stand_by`): for a Mgr of whose
            job another Manager may lead.
        tls: The files of mutual TLS, and so the links that use it; None for plain text.
        limits: Bounds on the cost of a child, and of all children together.

    Raises:
        ConfigError: names the field, its value and the range.
    """

    position: Position
    listen: str | None = setting(
        Kind.ADDRESS,
        None,
        unset="none",
        matters=True,
        by={
            "mgr": {"default": _MGR, "variables": {"LOCAL_PROXY_ENABLE": _local_proxy, "POD_IP": _pod_ip}},
            "proxy": {"default": _PROXY},
        },
    )
    upstream: str | None = setting(
        Kind.ADDRESSES,
        None,
        unset="none",
        matters=True,
        of=("proxy", *JOINING),
        by={
            "proxy": {"default": _MGR, "variables": {"LOCAL_PROXY_ENABLE": _local_proxy}},
            **dict.fromkeys(JOINING, _JOINED_AT),
        },
    )
    job_id: str | None = setting(
        Kind.TEXT,
        None,
        unset="its parent's",
        matters=True,
        of=(*DAEMONS, *JOINING),
        by={
            "mgr": {
                "unset": "none, decides nothing",
                "about": "Job that this Mgr decides for, and whose nodes it takes. Without it the Mgr keeps no state, "
                "decides nothing ([manager](manager.md)), and takes the nodes of any job.",
            },
            "proxy": {"matters": False},
        },
    )
    inbox: int | None = setting(
        Kind.WHOLE,
        None,
        unset="by role",
        of=(*DAEMONS, "listen"),
        by={
            "mgr": {"default": limits.INBOX["Mgr"]},
            "proxy": {"default": limits.INBOX["Proxy"]},
            "listen": {"default": limits.INBOX["Worker"]},
        },
    )
    expect: str | None = setting(Kind.SIZE, None, unset="not known", matters=True, of=("mgr", "tree", "top"))
    ack_timeout: float = setting(Kind.SECONDS, limits.ACK_TIMEOUT_S, most=limits.TIMEOUT_MAX_S, group=Group.LINKS)
    # A link has to hold the largest message, or that could never be sent.
    link_bytes: int = setting(Kind.WHOLE, limits.LINK_BYTES, least=limits.MESSAGE_BYTES, group=Group.BOUNDS)
    max_children: int = setting(Kind.WHOLE, limits.MAX_CHILDREN, least=1, group=Group.BOUNDS)
    grace: float = setting(Kind.SECONDS, limits.GRACE_S, group=Group.LINKS)
    links: str = setting(Kind.CHOICE, "direct", choices=KINDS, group=Group.LINKS, of=(*DAEMONS, *JOINING))
    direct_listen: str = setting(Kind.ADDRESS, AUTO, choices=(AUTO, OFF), group=Group.LINKS)
    tracing: bool = setting(Kind.SWITCH, False, group=Group.SIDE, of=(*DAEMONS, *JOINING))
    record: str | None = setting(Kind.FILE, None, unset="none", group=Group.SIDE)
    service: bool = False
    confirms: bool = False
    standby: bool = False
    plain_listen: str | None = setting(Kind.ADDRESS, None, unset="none", group=Group.TLS)
    tls: Tls | None = None
    identity: Literal["position", "certificate"] = setting(
        Kind.CHOICE, "position", choices=("position", "certificate"), group=Group.TLS
    )
    job: str | None = setting(Kind.TEXT, None, unset="none", group=Group.TLS)
    # The last one: in a class's body its name hides the module's.
    limits: Limits = DEFAULT

    @property
    def job_name(self) -> str:
        """The name of the job, by either setting; empty for none."""
        return job_id_of(self.job_id) or self.job or self.job_id or ""

    @property
    def upstreams(self) -> tuple[Address, ...]:
        """The addresses of the parent, in the order of preference; empty for the Mgr."""
        return () if self.upstream is None else upstreams.parse(self.upstream)

    @property
    def direct_address(self) -> Address | None:
        """The address for direct links, with port 0 for any free one; None for none."""
        if self.listen is None or self.direct_listen == OFF:
            return None
        if self.direct_listen == AUTO:
            return Address(Address.parse(self.listen, "listen").host, 0)
        return Address.parse(self.direct_listen, "direct_listen")

    @classmethod
    def mgr(cls, *, listen: str = _MGR, **settings: object) -> Self:
        """The root of a job's tree."""
        return cls(position=Position.mgr(), listen=listen, **settings)  # type: ignore[arg-type]

    @classmethod
    def proxy(cls, *, server_rank: int | str, upstream: str, listen: str = _PROXY, **settings: object) -> Self:
        """The Proxy of a node; its upstream is the Mgr or another Proxy."""
        position = Position.proxy(server_rank)
        return cls(position=position, listen=listen, upstream=upstream, **settings)  # type: ignore[arg-type]

    @classmethod
    def agent(cls, *, server_rank: int | str, upstream: str = _PROXY, **settings: object) -> Self:
        """The launcher of a node."""
        return cls(position=Position.agent(server_rank), upstream=upstream, **settings)  # type: ignore[arg-type]

    @classmethod
    def worker(cls, *, server_rank: int | str, rank: int | str, upstream: str = _PROXY, **settings: object) -> Self:
        """One training process."""
        return cls(position=Position.worker(server_rank, rank), upstream=upstream, **settings)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Check every field.

        Raises:
            ConfigError: names the field, its value and what was expected.
        """
        for name, kind in (("position", Position), ("limits", Limits), ("tls", Tls | None)):
            if not isinstance(value := getattr(self, name), kind):
                raise ConfigError(f"{name} is {shown(value)}; expected a {name.capitalize()}")
        try:
            require_node(self.position)
        except Refusal as refusal:
            raise ConfigError(f"position is {self.position}: {refusal}") from refusal
        for require in _RULES:
            require(self, Role(self.position.role))

    @property
    def router(self) -> RouterConfig:
        """The part of it that the Router decides by."""
        shared = {each.name for each in fields(RouterConfig)} & {each.name for each in fields(self)}
        given = {name: getattr(self, name) for name in shared}
        given["inbox"] = limits.INBOX[self.position.role] if self.inbox is None else self.inbox
        return RouterConfig(**{**given, "job": self.job_name})


def _place(config: NodeConfig, role: Role) -> None:
    """Leaves listen nowhere, the root has no parent, everybody else has both."""
    if role.is_leaf and config.listen is not None:
        raise ConfigError(f"listen is {shown(config.listen)}; a {role} has no children and listens nowhere")
    if not role.is_leaf and config.listen is None:
        raise ConfigError(f"listen is missing; a {role} listens for its children, e.g. 127.0.0.1:9602")
    if role is Role.MGR and config.upstream is not None:
        raise ConfigError(f"upstream is {shown(config.upstream)}; the Mgr is the root and has none")
    if role is not Role.MGR and config.upstream is None:
        raise ConfigError(f"upstream is missing; a {role} needs its parent's host:port")
    if config.service and not role.is_leaf:
        raise ConfigError(f"service is True; a {role} is no tool or service, expected an Agent or a Worker")


def _values(config: NodeConfig, _: Role) -> None:
    """Every value is in its range, alone and beside the others."""
    require_all(config)
    require_all(config.limits)
    if not isinstance(config.service, bool):
        raise ConfigError(f"service is {shown(config.service)}; expected True or False")
    if config.expect is not None:
        Expected.parse(config.expect)
    require_job_id("job_id", config.job_id)
    require_job_id("job", config.job)
    names = [job_id_of(config.job_id), job_id_of(config.job)]
    if all(names) and len(set(names)) > 1:
        raise ConfigError(f"job is {shown(config.job)}, and job_id {shown(config.job_id)}; expected one name")


def _addresses(config: NodeConfig, role: Role) -> None:
    """Plain text stays on this machine."""
    if config.plain_listen is None:
        return
    if config.listen is None:
        raise ConfigError(f"plain_listen is {shown(config.plain_listen)}; a {role} listens nowhere")
    if not Address.parse(config.plain_listen, "plain_listen").is_loopback:
        expected = "expected 127.0.0.1, [::1] or localhost, as whoever can connect there needs no certificate"
        raise ConfigError(f"plain_listen is {shown(config.plain_listen)}; {expected}")


def _security(config: NodeConfig, role: Role) -> None:
    """The files of TLS serve a link of this node, and certificates can be seen where they decide."""
    if config.tls is not None and config.listen is None and not config.tls.connects:
        raise ConfigError(f"client_key is missing; a {role} with tls needs it, and client_crt")
    if config.tls is not None and config.upstream is None and not config.tls.listens:
        raise ConfigError(f"server_key is missing; a {role} with tls needs it, and server_crt")
    if config.identity == "certificate" and not (config.tls is not None and config.tls.listens):
        raise ConfigError("identity is 'certificate'; expected TLS for children, which shows their certificates")
    if config.identity == "certificate" and not config.job_name:
        raise ConfigError("job_id is missing; identity is 'certificate', and certificates name positions of a job")


def require_config(config: object) -> None:
    """Check that a node gets a `NodeConfig`.

    Raises:
        ArgumentTypeError: it is of another type.
    """
    if not isinstance(config, NodeConfig):
        raise ArgumentTypeError(f"config is {shown(config)}; expected a NodeConfig")


_RULES: Final = (_place, _values, _addresses, _security)
