"""Addresses: IPv4, IPv6 in brackets, names, and everything that is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9602", "127.0.0.1", 9602),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("node-0.job.svc:65535", "node-0.job.svc", 65535),
        ("[::1]:9602", "::1", 9602),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        (" localhost:80\n", "localhost", 80),
    ],
)
def test_address_is_read_and_written(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert address == Address(host, port)
    assert str(address) == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "9602",
        ":9602",
        "localhost",
        "localhost:",
        "localhost:x",
        "localhost:-1",
        "localhost:65536",
        "localhost:٣",
        "localhost:1.5",
        "localhost: 80",
        "::1:9602",
        "[::1]",
        "[::1]9602",
        "[nonsense]:9602",
        "[127.0.0.1]:9602",
        "[]:9602",
        "http://localhost:80",
        "two words:80",
        "[::1:80",
    ],
)
def test_text_that_is_no_address(text: str) -> None:
    """The error names the field, the text, and what was expected."""
    with pytest.raises(ConfigError, match=r"^upstream is ") as error:
        Address.parse(text, "upstream")
    assert repr(text) in str(error.value)
    assert "expected host:port" in str(error.value)


@given(st.text())
def test_no_text_is_more_than_a_config_error(text: str) -> None:
    try:
        address = Address.parse(text)
    except ConfigError:
        return
    assert 0 <= address.port <= 65535
    assert Address.parse(str(address)) == address


@given(st.ip_addresses(v=6), st.integers(0, 65535))
def test_every_ipv6_address_comes_back(host: object, port: int) -> None:
    assert Address.parse(f"[{host}]:{port}") == Address(str(host), port)
