"""The far end of a connection, of the name that gRPC has for it."""

import pytest

from taskd_net.base.address import Address
from taskd_net.net.links.remote import remote_of


@pytest.mark.parametrize(
    ("connection", "host"),
    [("ipv4:10.0.0.1:40001", "ipv4:10.0.0.1"), ("ipv6:%5B::1%5D:40001", "ipv6:[::1]"), ("unix:", "unix"), ("", "")],
)
def test_host_of_a_connection(connection: str, host: str) -> None:
    assert remote_of(connection).place == host


@pytest.mark.parametrize(
    ("connection", "listen", "here"),
    [
        ("ipv4:127.0.0.1:40001", "0.0.0.0:9601", True),
        ("ipv4:127.8.0.1:40001", "10.0.0.7:9601", True),
        ("ipv6:%5B::1%5D:40001", "[::]:9601", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:40001", "[::]:9601", True),
        ("ipv6:%5Bfe80::1%25eth0%5D:40001", "[::]:9601", False),
        # A connection to an address of its own machine is a local one.
        ("ipv4:10.0.0.7:40001", "10.0.0.7:9601", True),
        ("ipv4:10.0.0.8:40001", "10.0.0.7:9601", False),
        ("ipv4:10.0.0.8:40001", "0.0.0.0:9601", False),
        ("ipv4:10.0.0.8:40001", "node-0:9601", False),
        ("unix:", "127.0.0.1:9601", False),
    ],
)
def test_who_comes_from_the_same_machine(connection: str, listen: str, here: bool) -> None:
    assert remote_of(connection).is_of_this_machine(Address.parse(listen)) is here
