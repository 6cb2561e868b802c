"""Values of the documented calls: accepted in the forms of TaskD, refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from taskd_net import ConfigError
from taskd_net.base import limits
from taskd_net.job import arguments
from taskd_net.net.tls.files import Tls

TLS = {"ca": "ca", "client_key": "k", "client_crt": "c", "server_key": "k", "server_crt": "c"}


def refusal(call: Callable[[], object]) -> str:
    """The text that a value is refused with."""
    with pytest.raises(ConfigError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(("value", "rank"), [(0, 0), (7, 7), ("7", 7), (" 7 ", 7), (10**64 - 1, 10**64 - 1)])
def test_ranks_are_numbers_or_digits(value: object, rank: int) -> None:
    assert arguments.rank(value, "RANK") == rank


@pytest.mark.parametrize("value", [-1, True, 1.0, "-1", "x", "", None, "²", 10**64])
def test_other_ranks_are_named(value: object) -> None:
    assert refusal(lambda: arguments.rank(value, "RANK")).startswith("RANK is ")


def test_server_rank_comes_from_the_config_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "MS_NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert arguments.server_rank({}, "RANK", "MS_NODE_RANK") == 0
    monkeypatch.setenv("MS_NODE_RANK", "4")
    assert arguments.server_rank({}, "RANK", "MS_NODE_RANK") == 4
    monkeypatch.setenv("RANK", "3")
    assert arguments.server_rank({}, "RANK", "MS_NODE_RANK") == 3
    assert arguments.server_rank({"ServerRank": "2"}, "RANK", "MS_NODE_RANK") == 2


def test_seconds_are_above_0_and_at_most_a_day() -> None:
    assert [arguments.seconds(value, "timeout") for value in (1, 0.5, math.inf)] == [1, 0.5, limits.TIMEOUT_MAX_S]
    assert refusal(lambda: arguments.seconds(0, "timeout")).endswith("expected a number of seconds above 0")
    for value in (math.nan, True, "1", None):
        assert refusal(lambda value=value: arguments.seconds(value, "timeout")).startswith("timeout is not a number")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        ("node-0", 9601, "node-0:9601"),
        (" 10.0.0.7 ", " 9601 ", "10.0.0.7:9601"),
        ("::1", "9602", "[::1]:9602"),
        ("[fd00::7]", 1, "[fd00::7]:1"),
    ],
)
def test_addresses(host: object, port: object, address: str) -> None:
    assert arguments.address({"ListenAddr": host, "ListenPort": port}, "Listen", 9602) == address


def test_several_upstreams(monkeypatch: pytest.MonkeyPatch) -> None:
    assert arguments.addresses({"UpstreamAddr": "a, ::1", "UpstreamPort": "9"}, 9601) == "a:9,[::1]:9"
    assert arguments.upstream({"UpstreamAddr": "a,b"}) == "a:9602,b:9602"
    assert refusal(lambda: arguments.addresses({"UpstreamAddr": "a,,b"}, 1)).startswith("UpstreamAddr is ''")
    assert "a:1 is there twice" in refusal(lambda: arguments.addresses({"UpstreamAddr": "a,a"}, 1))
    assert refusal(lambda: arguments.address({"ListenAddr": "a,b"}, "Listen", 1)).startswith("ListenAddr is 'a,b'")
    monkeypatch.setenv(arguments.UPSTREAM, "a:1, b:2")
    assert arguments.upstream({}) == "a:1,b:2"
    monkeypatch.setenv(arguments.UPSTREAM, "a:1,")
    assert refusal(lambda: arguments.upstream({})).startswith(f"{arguments.UPSTREAM} is 'a:1,': an address is empty")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"ListenPort": 0}, "ListenPort is 0"),
        ({"ListenPort": "65536"}, "ListenPort is '65536'"),
        ({"ListenPort": True}, "ListenPort is True"),
        ({"ListenAddr": ""}, "ListenAddr is ''"),
        ({"ListenAddr": 7}, "ListenAddr is 7"),
        ({"ListenAddr": "a b"}, "ListenAddr is 'a b'"),
        ({"ListenAddr": "1:2"}, "ListenAddr is '1:2'"),
    ],
)
def test_other_addresses_are_named(config: dict[str, object], named: str) -> None:
    assert refusal(lambda: arguments.address(config, "Listen", 9602)).startswith(f"{named}; expected a")


def test_plain_address_is_there_when_either_half_is() -> None:
    assert arguments.plain_address({}, 9602) is None
    assert arguments.plain_address({"PlainListenPort": 1}, 9602) == "127.0.0.1:1"
    assert arguments.plain_address({"PlainListenAddr": "::1"}, 9602) == "[::1]:9602"


@pytest.mark.parametrize(("value", "said"), [("on", True), ("TRUE", True), (True, True), ("no", False), ("0", False)])
def test_tls_is_switched_by_words(value: object, said: bool) -> None:
    found = arguments.secured({"enable_tls": value, "tls_conf": TLS}, listens=False, connects=True)
    assert found == (Tls(ca="ca", client_key="k", client_crt="c") if said else None)


def test_tls_of_the_environment_counts_where_the_config_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TLS.items():
        monkeypatch.setenv(f"TASKD_NET_{name.upper()}", value)
    assert arguments.secured({}, listens=True, connects=False) == Tls(ca="ca", server_key="k", server_crt="c")
    assert arguments.secured({"tls_conf": {}}, listens=True, connects=False) is None
    monkeypatch.setenv("TASKD_NET_ENABLE_TLS", "maybe")
    expected = "TASKD_NET_ENABLE_TLS is 'maybe'; expected True or False"
    assert refusal(lambda: arguments.secured({}, listens=True, connects=False)) == expected


@pytest.mark.parametrize(
    ("conf", "named"), [("ca", "tls_conf is 'ca'"), ({"key": "k"}, "tls_conf has 'key'"), ({"ca": 7}, "ca is 7")]
)
def test_other_files_of_tls_are_named(conf: object, named: str) -> None:
    assert refusal(lambda: arguments.secured({"tls_conf": conf}, listens=True, connects=True)).startswith(named)


def test_a_config_is_a_dict() -> None:
    assert arguments.checked({"unknown": 1}) == {"unknown": 1}
    assert refusal(lambda: arguments.checked([1])) == "config is [1]; expected a dict"
