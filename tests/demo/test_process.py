"""The process that runs one Node of the demo, steered over its pipes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest

from taskd_net.base import limits
from taskd_net.demo.process import CLOSE_S, LINE_BYTES
from taskd_net.demo.tour import UNICAST_SENDS


@pytest.fixture
def mgr() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "taskd_net.demo.process", "Mgr", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield process
        process.kill()


def ask(process: subprocess.Popen[str], do: str, **arguments: object) -> object:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps({"do": do, "arguments": arguments}) + "\n")
    return json.loads(process.stdout.readline())


def test_a_node_from_its_start_to_the_end_of_its_stdin(mgr: subprocess.Popen[str]) -> None:
    assert mgr.stdin is not None and mgr.stdout is not None
    started = json.loads(mgr.stdout.readline())
    assert started["value"]["address"].startswith("127.0.0.1:")

    answer = ask(mgr, "send", to="Mgr", mtype="a", uuids=["1", "2"])
    assert isinstance(answer, dict)
    assert answer["value"]["codes"] == [0, 0]
    assert ask(mgr, "received") == {"value": {"a": ["1", "2"]}}
    assert ask(mgr, "routes") == {"value": {}}
    assert ask(mgr, "reach", to=["Worker/0/0"], timeout=0.0) == {"value": [{"at": None, "code": 5002}]}
    assert ask(mgr, "send", to="nobody", mtype="a", uuids=["3"]) == {
        "error": "'nobody' is not a position; expected Role/serverRank[/processRank], e.g. Worker/0/3"
    }

    stdout, stderr = mgr.communicate(timeout=20)
    assert (mgr.returncode, stdout, stderr) == (0, "", "")


def test_what_has_not_been_read_is_not_lost(mgr: subprocess.Popen[str]) -> None:
    assert mgr.stdout is not None
    mgr.stdout.readline()
    assert ask(mgr, "pause") == {"value": None}
    ask(mgr, "send", to="Mgr", mtype="a", uuids=["1"])
    assert ask(mgr, "resume") == {"value": None}
    assert ask(mgr, "received") == {"value": {"a": ["1"]}}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["Mgr"], "listen is missing"),
        (["Worker/0/0", "--upstream", "nowhere"], "upstream is 'nowhere'"),
        (["Proxy/0", "--listen", "192.0.2.1:0", "--upstream", "127.0.0.1:1"], "cannot listen on 192.0.2.1:0"),
    ],
)
def test_a_bad_configuration_is_one_line(arguments: list[str], reason: str) -> None:
    command = [sys.executable, "-m", "taskd_net.demo.process", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, input="", check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert reason in done.stderr.splitlines()[-1]


def test_a_line_has_room_for_every_uuid_of_a_request() -> None:
    assert len(str(uuid4())) * max(UNICAST_SENDS, limits.INBOX["Worker"]) * 100 < LINE_BYTES


def test_a_process_ends_before_its_controller_gives_it_up() -> None:
    assert limits.BACKOFF_MAX_S < CLOSE_S < 10
