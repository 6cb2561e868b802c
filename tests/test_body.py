"""The bodies of TaskD's own traffic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import ArgumentError
from taskd_net.base.body import Body


@given(st.text(), st.integers(), st.text(), st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_read(msg_type: str, code: int, message: str, extension: dict[str, str]) -> None:
    body = Body(msg_type, code, message, extension)
    assert Body.parse(body.to_json()) == body


def test_form_on_the_wire() -> None:
    body = Body("ACTION", 204, "on", {"globalOps": "[true]"})
    expected = {"msg_type": "ACTION", "code": 204, "message": "on", "extension": {"globalOps": "[true]"}}
    assert json.loads(body.to_json()) == expected


@pytest.mark.parametrize("text", ['{"code": 5}', '{"code": 5, "message": null, "extension": null, "other": 1}'])
def test_what_others_leave_out(text: str) -> None:
    assert Body.parse(text) == Body("", 5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("5", "expected a JSON object"),
        ('{"code": "5"}', "code is '5'; expected a whole number"),
        ('{"code": true}', "code is True; expected a whole number"),
        ('{"code": 5, "msg_type": 1}', "msg_type is 1; expected a text"),
        ('{"code": 5, "message": 1}', "message is 1; expected a text"),
        ('{"code": 5, "extension": [1]}', "expected a dict of texts"),
        ('{"code": 5, "extension": {"a": 1}}', "expected a dict of texts"),
    ],
)
def test_what_is_no_body(text: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        Body.parse(text)
