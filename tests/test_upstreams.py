"""Several addresses of a parent: reading them, and the order of the attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import ConfigError, NodeConfig
from taskd_net.base import upstreams
from taskd_net.base.address import Address
from taskd_net.base.upstreams import Rounds, parse


def test_addresses_are_read_in_their_order() -> None:
    assert parse("a:1") == (Address("a", 1),)
    assert parse("a:1, [::1]:2 ,b:3") == (Address("a", 1), Address("::1", 2), Address("b", 3))
    assert NodeConfig.worker(server_rank=0, rank=0, upstream="b:2,a:1").upstreams == (Address("b", 2), Address("a", 1))
    assert NodeConfig.mgr().upstreams == ()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a:1,", "upstream is 'a:1,': an address is empty"),
        (",a:1", "upstream is ',a:1': an address is empty"),
        ("a:1, ,b:1", "an address is empty"),
        ("a:1,b", "upstream is 'b'; expected host:port"),
        ("a:1,::1:2", "an IPv6 address goes in brackets"),
        ("a:1,b:0", "upstream is 'b:0': port 0 is not a port to connect to"),
        ("a:1,b:1, a:1", "a:1 is there twice"),
        (",".join(f"a:{1 + n}" for n in range(upstreams.UPSTREAMS + 1)), "has 9 addresses; expected at most 8"),
    ],
)
def test_wrong_addresses(text: str, error: str) -> None:
    with pytest.raises(ConfigError, match="upstream") as refused:
        NodeConfig.worker(server_rank=0, rank=0, upstream=text)
    assert error in str(refused.value)


@given(st.data(), st.integers(1, upstreams.UPSTREAMS))
def test_each_address_is_tried_once_in_a_round(data: st.DataObject, count: int) -> None:
    rounds = Rounds(count)
    for _ in range(4):
        first = data.draw(st.lists(st.integers(0, count - 1), unique=True))
        last = data.draw(st.none() | st.integers(0, count - 1))
        rounds.begin(first, last)
        tried = [rounds.current]
        while not rounds.failed():
            tried.append(rounds.current)
        assert sorted(tried) == list(range(count))
        assert last is None or tried[-1] == last
        wanted = [each for each in first if each != last]
        assert tried[: len(wanted)] == wanted
        assert rounds.current == 0, "the next round is in the order of preference"
