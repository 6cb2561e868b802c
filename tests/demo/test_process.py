"""The process that runs one Node of the demo, steered over its pipes."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def mgr() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "taskd_net.demo.process", "Mgr", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield process
        process.kill()


def ask(process: subprocess.Popen[str], **request: object) -> object:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    return json.loads(process.stdout.readline())


def test_a_node_from_its_start_to_the_end_of_its_stdin(mgr: subprocess.Popen[str]) -> None:
    assert mgr.stdin is not None and mgr.stdout is not None
    started = json.loads(mgr.stdout.readline())
    assert started["id"] == 0
    assert started["value"]["address"].startswith("127.0.0.1:")

    sent = {"do": "send", "to": "Mgr", "mtype": "a", "uuids": ["1", "2"]}
    answer = ask(mgr, id=1, **sent)
    assert isinstance(answer, dict)
    assert answer["value"]["codes"] == [0, 0]
    assert ask(mgr, id=2, do="received") == {"id": 2, "value": {"a": ["1", "2"]}}
    assert ask(mgr, id=3, do="routes") == {"id": 3, "value": {}}
    assert ask(mgr, id=4, do="reach", to=["Worker/0/0"], timeout=0.0) == {
        "id": 4,
        "value": [{"at": None, "code": 5002}],
    }
    assert ask(mgr, id=5, do="dance") == {"id": 5, "error": "not a request: {'id': 5, 'do': 'dance'}"}

    stdout, stderr = mgr.communicate(timeout=20)
    assert (mgr.returncode, stdout, stderr) == (0, "", "")


def test_what_has_not_been_read_is_not_lost(mgr: subprocess.Popen[str]) -> None:
    assert mgr.stdout is not None
    mgr.stdout.readline()
    assert ask(mgr, id=1, do="pause") == {"id": 1, "value": None}
    ask(mgr, id=2, do="send", to="Mgr", mtype="a", uuids=["1"])
    assert ask(mgr, id=3, do="resume") == {"id": 3, "value": None}
    assert ask(mgr, id=4, do="received") == {"id": 4, "value": {"a": ["1"]}}


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
