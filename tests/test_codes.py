"""The codes, in numbers and names of the contract (section 6), and the errors that carry one."""

import pytest

from taskd_net import Code, ConfigError, MeshError, NetworkError, Position, ReceiverError, SenderError, TaskdNetError
from taskd_net.codes import describe, error_for


def test_codes_are_those_of_the_contract() -> None:
    assert {code.name: code.value for code in Code} == {
        "OK": 0,
        "NIL_MESSAGE": 4000,
        "NIL_HEADER": 4001,
        "NIL_POSITION": 4002,
        "DST_ROLE_ILLEGAL": 4003,
        "DST_SRV_RANK_ILLEGAL": 4004,
        "DST_PROCESS_RANK_ILLEGAL": 4005,
        "DST_TYPE_ILLEGAL": 4006,
        "CLIENT_ERR": 4999,
        "RECV_BUF_NIL": 5000,
        "RECV_BUF_BUSY": 5001,
        "NO_ROUTE": 5002,
        "EXCEED_MAX_REGISTRY_NUM": 5003,
        "SERVER_ERR": 5999,
        "NETWORK_SEND_LOST": 6000,
        "NETWORK_ACK_LOST": 6001,
        "NET_STREAM_NOT_INITED": 6002,
        "NET_ERR": 6999,
    }


def test_every_code_has_a_meaning_of_its_own() -> None:
    meanings = [code.meaning for code in Code]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


def test_description_of_a_code() -> None:
    assert describe(5002) == "5002 NO_ROUTE: nobody on the way knows the destination"
    assert describe(4711) == "4711: a code that this version does not know"


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_error_of_a_code_carries_what_is_known(code: Code) -> None:
    error = error_for(code, Position.worker(0, 3), "some-uuid", "words")
    assert type(error) is {4: SenderError, 5: ReceiverError, 6: NetworkError}[code // 1000]
    assert (error.code, error.src, error.uuid, error.detail) == (code, Position.worker(0, 3), "some-uuid", "words")
    assert str(error) == f"{describe(code)} (from Worker/0/3, uuid some-uuid): words"


def test_error_of_an_unknown_code_is_still_a_mesh_error() -> None:
    error = error_for(7123, Position.mgr(), "u")
    assert type(error) is MeshError
    assert str(error) == "7123: a code that this version does not know (from Mgr/0, uuid u)"


def test_one_except_catches_every_error() -> None:
    for kind in (ConfigError, MeshError, SenderError, ReceiverError, NetworkError):
        assert issubclass(kind, TaskdNetError)
    assert issubclass(ConfigError, ValueError)
    assert not issubclass(ConfigError, MeshError)
