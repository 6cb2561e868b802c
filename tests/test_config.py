"""The configuration of a node: its defaults, and what is refused, by name."""

import dataclasses
import re
from typing import Any

import pytest

from taskd_net import ConfigError, NodeConfig, Position
from taskd_net.base import limits
from taskd_net.base.peer_limits import DEFAULT
from taskd_net.base.times import TIMES
from taskd_net.core.router import RouterConfig
from taskd_net.core.topology import ROUTES, ROUTES_SLICE
from taskd_net.net.tls.files import Tls


def worker(**settings: Any) -> NodeConfig:
    """A Worker's configuration."""
    return NodeConfig.worker(server_rank=0, rank=0, **settings)


def test_addresses_of_a_job_are_the_defaults() -> None:
    assert NodeConfig.mgr().listen == "127.0.0.1:9601"
    assert NodeConfig.proxy(server_rank=0, upstream="10.0.0.1:9601").listen == "127.0.0.1:9602"
    assert NodeConfig.agent(server_rank=0).upstream == "127.0.0.1:9602"
    assert worker().upstream == "127.0.0.1:9602"


def test_each_role_knows_its_position() -> None:
    assert NodeConfig.mgr().position == Position.mgr()
    assert NodeConfig.proxy(server_rank="3", upstream="h:1").position == Position.proxy(3)
    assert NodeConfig.agent(server_rank=3).position == Position.agent(3)
    assert NodeConfig.worker(server_rank=3, rank="24").position == Position.worker(3, 24)


@pytest.mark.parametrize(
    ("config", "inbox"),
    [
        (NodeConfig.mgr(), 1024),
        (NodeConfig.proxy(server_rank=0, upstream="h:1"), 32),
        (NodeConfig.agent(server_rank=0), 8),
        (worker(), 8),
        (worker(inbox=3), 3),
        (worker(inbox=0), 0),
    ],
    ids=str,
)
def test_inbox_is_by_role_unless_it_is_set(config: NodeConfig, inbox: int) -> None:
    assert config.router.inbox == inbox


def test_defaults_are_those_of_the_contract() -> None:
    assert worker().router == RouterConfig(
        inbox=8,
        dedup_window=4096,
        inbox_wait=0.010,
        ack_timeout=3.0,
        link_messages=1024,
        link_bytes=16 * 1024 * 1024,
        max_children=5000,
        grace=30.0,
        registration_hold=10.0,
    )
    assert (TIMES.backoff_initial, TIMES.backoff_max, worker().links) == (0.05, 0.8, "direct")


def test_settings_reach_the_router() -> None:
    settings: dict[str, Any] = {
        "ack_timeout": 2,
        "link_bytes": 9_000_000,
        "max_children": 5,
        "grace": 6.0,
    }
    router = NodeConfig.mgr(inbox=4, job="j", confirms=True, **settings).router
    assert dataclasses.asdict(router) == {
        "inbox": 4,
        "inbox_wait": limits.INBOX_WAIT_S,
        "dedup_window": limits.DEDUP_WINDOW,
        "link_messages": limits.LINK_MESSAGES,
        "registration_hold": limits.REGISTRATION_HOLD_S,
        "job": "j",
        "confirms": True,
        "limits": dataclasses.asdict(DEFAULT),
        "routes": ROUTES,
        "routes_slice": ROUTES_SLICE,
        **settings,
    }


def test_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        worker().grace = 1.0  # type: ignore[misc]


MGR, LEAF = Position.mgr(), Position.worker(0, 0)
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("position is Boss/0: role", {"position": Position("Boss", "0")}),
    ("position is Proxy/x: serverRank", {"position": Position("Proxy", "x")}),
    ("position is Worker/0/All: processRank", {"position": Position("Worker", "0", "All")}),
    ("listen is 'h:1'; a Worker has no children", {"position": LEAF, "listen": "h:1", "upstream": "h:1"}),
    ("listen is 'h:1'; a Agent has no children", {"position": Position.agent(0), "listen": "h:1", "upstream": "h:1"}),
    ("listen is missing", {"position": MGR}),
    ("listen is missing", {"position": Position.proxy(0), "upstream": "h:1"}),
    ("upstream is 'h:1'; the Mgr is the root", {"position": MGR, "listen": "h:1", "upstream": "h:1"}),
    ("upstream is missing", {"position": LEAF}),
    ("upstream is missing", {"position": Position.proxy(0), "listen": "h:1"}),
    ("listen is 'h'; expected host:port", {"position": MGR, "listen": "h"}),
    ("upstream is 'h:x': the port", {"position": LEAF, "upstream": "h:x"}),
    ("upstream is 'h:0': port 0", {"position": LEAF, "upstream": "h:0"}),
]


@pytest.mark.parametrize(("text", "settings"), REFUSED)
def test_place_in_the_tree_that_cannot_be(text: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        NodeConfig(**settings)
    assert str(error.value).startswith(text)


def test_port_0_is_for_listening_only() -> None:
    assert NodeConfig.mgr(listen="127.0.0.1:0").listen == "127.0.0.1:0"


@pytest.mark.parametrize("field", ["inbox", "link_bytes", "max_children"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "7"])
def test_numbers_of_things_are_whole(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{field} is {value!r}; expected a whole number, at least"):
        worker(**{field: value})


@pytest.mark.parametrize(
    ("field", "least"),
    [
        ("inbox", 0),
        ("link_bytes", limits.MESSAGE_BYTES),
        ("max_children", 1),
    ],
)
def test_least_value_that_works(field: str, least: int) -> None:
    assert getattr(worker(**{field: least}), field) == least
    with pytest.raises(ConfigError, match=f"^{field} is {least - 1}; expected a whole number, at least {least}"):
        worker(**{field: least - 1})


@pytest.mark.parametrize("field", ["ack_timeout", "grace"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "3", None])
def test_times_are_seconds_above_0(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{field} is {value!r}; expected a number of seconds above 0"):
        worker(**{field: value})


def test_ack_timeout_is_a_day_at_most() -> None:
    assert worker(ack_timeout=limits.TIMEOUT_MAX_S).ack_timeout == limits.TIMEOUT_MAX_S
    with pytest.raises(ConfigError, match=r"^ack_timeout is 86401; expected at most"):
        worker(ack_timeout=86_401)


def test_port_of_direct_links_is_any_free_one_an_address_or_none() -> None:
    assert NodeConfig.mgr().direct_listen == "auto"
    assert str(NodeConfig.mgr(listen="[::1]:9601").direct_address) == "[::1]:0"
    assert NodeConfig.mgr(direct_listen="off").direct_address is None
    assert NodeConfig.agent(server_rank=0).direct_address is None
    assert str(NodeConfig.mgr(direct_listen="127.0.0.1:9701").direct_address) == "127.0.0.1:9701"
    for value in ("auto", "off", "127.0.0.1:9701", "[::]:0"):
        assert NodeConfig.mgr(direct_listen=value).direct_listen == value
    with pytest.raises(ConfigError, match="direct_listen is 'on'; expected host:port"):
        NodeConfig.mgr(direct_listen="on")


def test_kinds_of_links() -> None:
    assert worker(links="tasknet").links == "tasknet"
    with pytest.raises(ConfigError, match=r"^links is 'carrier pigeon'; expected 'direct' or 'batched' or 'tasknet'"):
        worker(links="carrier pigeon")


FILES = {"ca": "ca", "server_key": "k", "server_crt": "c", "client_key": "k", "client_crt": "c"}


def test_a_node_needs_the_files_of_the_links_that_it_has() -> None:
    with pytest.raises(ConfigError, match="client_key is missing; a Worker"):
        worker(tls=Tls(ca="ca", server_key="k", server_crt="c"))
    with pytest.raises(ConfigError, match="server_key is missing; a Mgr"):
        NodeConfig.mgr(tls=Tls(ca="ca", client_key="k", client_crt="c"))
    for files in (("server_key", "server_crt"), ("client_key", "client_crt")):
        half = Tls(ca="ca", **{name: FILES[name] for name in files})
        assert NodeConfig.proxy(server_rank=0, upstream="h:1", tls=half).tls == half


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"])
def test_the_plain_address_is_on_the_loopback_interface(address: str) -> None:
    assert NodeConfig.mgr(plain_listen=address).plain_listen == address


@pytest.mark.parametrize("address", ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "node-0:1"])
def test_no_other_address_takes_plain_text_beside_tls(address: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"plain_listen is {address!r}; expected 127.0.0.1")):
        NodeConfig.mgr(plain_listen=address)


def test_a_leaf_listens_nowhere() -> None:
    with pytest.raises(ConfigError, match="listens nowhere"):
        worker(plain_listen="127.0.0.1:1")


@pytest.mark.parametrize("field", ["position", "limits", "tls", "listen", "plain_listen", "direct_listen", "expect"])
@pytest.mark.parametrize("value", [3, b"127.0.0.1:1", 10**400, []])
def test_value_of_a_wrong_kind_is_named(field: str, value: object) -> None:
    settings = {"position": Position.mgr(), "listen": "127.0.0.1:0", field: value}
    with pytest.raises(ConfigError, match=f"^{field} is .*; expected"):
        NodeConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["ack_timeout", "grace"])
def test_time_beyond_a_float_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field} is .*; expected a number of seconds above 0"):
        worker(**{field: 10**400})
