"""Elastic-Agent's variables."""

from __future__ import annotations

import os

import pytest

import mindx_elastic
from taskd_net.base import logs

pytestmark = pytest.mark.oldest

NAMES = (mindx_elastic.LOG_PATH, mindx_elastic.RECOVER, mindx_elastic.PROCESS_RECOVER, logs.PATH)


@pytest.mark.parametrize(
    ("given", "adopted"),
    [
        ({}, {}),
        ({"ELASTIC_LOG_PATH": "/a"}, {"TASKD_LOG_PATH": "/a"}),
        ({"ELASTIC_LOG_PATH": "/a", "TASKD_LOG_PATH": "/b"}, {"TASKD_LOG_PATH": "/b"}),
        ({"ELASTIC_LOG_PATH": ""}, {}),
        ({"ELASTIC_PROCESS_RECOVER_ENABLE": "1"}, {"PROCESS_RECOVER": "on"}),
        ({"ELASTIC_PROCESS_RECOVER_ENABLE": "1", "PROCESS_RECOVER": "off"}, {"PROCESS_RECOVER": "off"}),
        ({"ELASTIC_PROCESS_RECOVER_ENABLE": "0"}, {}),
        ({"ELASTIC_PROCESS_RECOVER_ENABLE": "on"}, {}),
    ],
)
def test_variables_of_taskd_follow(
    given: dict[str, str], adopted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    mindx_elastic.adopt_variables()
    assert {name: os.environ[name] for name in NAMES[2:] if name in os.environ} == adopted
