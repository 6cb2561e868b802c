"""The settings of TLS: files that belong together, and the links that they are for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskd_net import ConfigError
from taskd_net.net.tls.files import Tls, chosen

FILES = {"ca": "ca", "server_key": "k", "server_crt": "c", "client_key": "k", "client_crt": "c"}


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({"ca": ""}, "ca is ''; expected the path of a file"),
        ({"ca": None}, "ca is None; expected the path of a file"),
        ({"server_key": 3}, "server_key is 3; expected the path of a file"),
        ({"server_name": " "}, "server_name is ' '; expected a name"),
        ({"server_crt": None}, "server_crt is missing; it belongs to server_key, 'k'"),
        ({"client_key": None}, "client_key is missing; it belongs to client_crt, 'c'"),
        (dict.fromkeys(set(FILES) - {"ca"}), "server_key and client_key are missing"),
    ],
)
def test_files_that_do_not_go_together(files: dict[str, Any], refused: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(refused)):
        Tls(**{**FILES, **files})


@pytest.mark.parametrize("enabled", [None, True])
def test_only_the_files_for_the_links_of_a_node_count(enabled: bool | None) -> None:
    said = {**FILES, "server_name": "mgr"}
    assert chosen(enabled, said, listens=True, connects=True) == Tls(**said)
    assert chosen(enabled, said, listens=True, connects=False) == Tls(ca="ca", server_key="k", server_crt="c")
    leaf = Tls(ca="ca", client_key="k", client_crt="c", server_name="mgr")
    assert chosen(enabled, said, listens=False, connects=True) == leaf


def test_tls_is_off_where_nothing_is_said_or_it_is_switched_off() -> None:
    assert chosen(None, {}, listens=True, connects=True) is None
    assert chosen(None, {"server_key": "k"}, listens=False, connects=True) is None
    assert chosen(False, FILES, listens=True, connects=True) is None


@pytest.mark.parametrize(
    ("enabled", "said", "refused"),
    [
        (True, {}, "server_key is missing; enable_tls is on"),
        (None, {"ca": "x"}, "server_key is missing; ca is 'x'"),
        (None, {"server_key": "k", "server_crt": "c"}, "ca is missing; it belongs to server_key, 'k'"),
        (None, {"ca": "x", "server_key": "k"}, "server_crt is missing"),
    ],
)
def test_half_of_it_is_never_plain_text(enabled: bool | None, said: dict[str, str], refused: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(refused)):
        chosen(enabled, said, listens=True, connects=False)


def test_which_links_tls_is_for() -> None:
    both = Tls(**FILES)
    assert (both.listens, both.connects) == (True, True)
    assert not Tls(ca="ca", client_key="k", client_crt="c").listens
    assert not Tls(ca="ca", server_key="k", server_crt="c").connects
