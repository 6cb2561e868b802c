"""Statuses as codes, by the kind of peer, and the statuses for a child of the original."""

import grpc
import pytest

from taskd_net import Code
from taskd_net.base.position import Destination, Position
from taskd_net.net.links.grpc_status import broadcast_code, read_original, read_plain, text_for

PLAIN = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: Code.CLIENT_ERR,
    grpc.StatusCode.DEADLINE_EXCEEDED: Code.NETWORK_ACK_LOST,
    grpc.StatusCode.UNAVAILABLE: Code.NETWORK_ACK_LOST,
    grpc.StatusCode.CANCELLED: Code.NETWORK_ACK_LOST,
}
NIL = "grpc: error while marshaling: proto: Marshal called with nil"


@pytest.mark.parametrize("status", grpc.StatusCode)
def test_peer_of_the_contract(status: grpc.StatusCode) -> None:
    """A text of the original's means nothing from it."""
    assert read_plain(status, "no route", True) == PLAIN.get(status, Code.NET_ERR)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no route", 5002),
        ("dst recv buffer busy", 5001),
        ("stream not inited", 6002),
        ("ack time out", 6001),
        ("exceed max registry num", 5003),
        ("dst type illegal", 4006),
        ("client not inited", 5999),
        ("client not inited, dial failed", 5999),
        ("qps exceeded, method=/TaskNet/TransferMessage", 5001),
        ("broadcast error", 6999),
        ("EOF", 6001),
        ("", 6999),
        ("no route to host", 6999),
        ("something else", 6999),
        ("4004 is a number", 6999),
    ],
)
def test_texts_of_the_original(text: str, code: int) -> None:
    assert read_original(grpc.StatusCode.UNKNOWN, text, False) == code


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (grpc.StatusCode.CANCELLED, "context canceled", 6001),
        (grpc.StatusCode.UNAVAILABLE, "error reading from server: EOF", 6001),
        (grpc.StatusCode.UNAVAILABLE, "no route", 6001),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max", 4999),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "context deadline exceeded", 6001),
        (grpc.StatusCode.INTERNAL, NIL, 6999),
        (grpc.StatusCode.UNIMPLEMENTED, "", 6999),
    ],
)
def test_status_comes_before_text(status: grpc.StatusCode, text: str, code: int) -> None:
    assert read_original(status, text, False) == code


def test_broadcast_that_the_original_delivered_and_could_not_answer() -> None:
    assert read_original(grpc.StatusCode.INTERNAL, NIL, True) == Code.OK
    assert read_original(grpc.StatusCode.INTERNAL, "something else", True) == Code.NET_ERR


@pytest.mark.parametrize("code", [code for code in Code if code])
def test_code_comes_back_through_a_node_of_the_originals(code: Code) -> None:
    """It passes our texts on as they are; its own words stand where it has some."""
    text = text_for(code)
    assert read_original(grpc.StatusCode.UNKNOWN, text, False) == code
    own = {5002: "no route", 5001: "dst recv buffer busy", 6002: "stream not inited", 6001: "ack time out"}
    own |= {5003: "exceed max registry num", 4006: "dst type illegal"}
    assert text == own.get(code, text)


def test_code_that_nobody_knows() -> None:
    assert read_original(grpc.StatusCode.UNKNOWN, text_for(7777), False) == Code.NET_ERR


@pytest.mark.parametrize(
    ("parent", "child", "to", "code"),
    [
        ("Mgr", "Worker/0/0", "Worker/1/All", 0),
        ("Proxy/0", "Worker/0/0", "Worker/0/All", 0),
        ("Proxy/0", "Worker/0/0", "Worker/0,1/All", 0),
        ("Proxy/0", "Worker/0/0", "Worker/All/7", 0),
        ("Proxy/0", "Worker/0/0", "Proxy/All", 0),
        ("Proxy/0", "Worker/0/0", "Worker/1/All", 6001),
        ("Proxy/0", "Agent/0", "Worker/1,2/All", 6001),
        ("Proxy/0", "Worker/0/0", "Mgr/All", 5002),
        ("Proxy/0", "Worker/1/5", "Worker/1/All", 0),
        ("Proxy/0", "Worker/1/5", "Worker/0/All", 0),
        ("Proxy/0", "Worker/1/5", "Worker/2/All", 6001),
        ("Proxy/0", "Proxy/2", "Worker/1/All", 0),
        ("Proxy/0", "Proxy/2", "Worker/1,3/All", 0),
        ("Proxy/0", "Proxy/2", "Mgr/All", 5002),
    ],
)
def test_broadcast_that_the_original_took(parent: str, child: str, to: str, code: int) -> None:
    """A Proxy of the original's passes none on to its parent, and answers all of them alike."""
    dst = Destination.of(Position.parse(to))
    assert broadcast_code(Position.parse(parent), Position.parse(child), dst) == code
