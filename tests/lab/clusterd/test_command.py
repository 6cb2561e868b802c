"""`taskd-net clusterd-sim` as a process."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner

from taskd_net.net.wire import recover_pb2 as pb
from taskd_net_lab.clusterd.command import clusterd_sim
from tests.cli.processes import Command
from tests.lab.clusterd.test_recordings import RECORDINGS

SCENARIO = """\
jobs: [{id: demo}]
steps:
  - {when: registered, wait: 0.5, end: on}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


async def test_it_prints_json_lines_until_its_scenario_ends(path: Path) -> None:
    async with Command("clusterd-sim", "--scenario", path, "--listen", "127.0.0.1:0", "--json") as command:
        listening = json.loads(await command.line())
        assert listening["event"] == "listening"
        async with grpc.aio.insecure_channel(listening["address"]) as channel:
            for name in ("Init", "Register"):
                method = channel.unary_unary(
                    f"/Recover/{name}",
                    request_serializer=pb.ClientInfo.SerializeToString,
                    response_deserializer=pb.Status.FromString,
                )
                assert (await method(pb.ClientInfo(jobId="demo"), timeout=20)).code == 0
        assert await command.exit_code() == 0
        assert "A stand-in for ClusterD, for development only." in command.errors


def test_a_wrong_scenario_is_refused_with_all_its_problems(path: Path) -> None:
    path.write_text("jobs: [{id: demo}]\nsteps:\n- {}\n- {wait: x, end: on}\n")
    result = CliRunner().invoke(clusterd_sim, ["--scenario", str(path)])
    assert result.exit_code == 2
    assert [line.rpartition(f"{path}:")[2].partition(" ")[0] for line in result.output.splitlines()] == ["3:", "4:"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "/nowhere.yaml"], "No such file"),
        (["--scenario", "{path}", "--listen", "nowhere"], "nowhere"),
        ([], "--scenario"),
    ],
)
def test_wrong_arguments(path: Path, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(clusterd_sim, [each.format(path=path) for each in arguments])
    assert result.exit_code == 2
    assert words in result.output


def test_an_address_that_is_taken_is_named(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(clusterd_sim, ["--scenario", str(path), "--listen", address])
    assert result.exit_code == 1
    assert f"Error: cannot listen on {address}: in use, or not an address of this machine" in result.output


def test_recordings_that_agree_and_one_that_does_not(tmp_path: Path) -> None:
    recording = RECORDINGS / "stop_404.jsonl"
    result = CliRunner().invoke(clusterd_sim, ["check", str(recording)])
    assert (result.exit_code, result.output) == (0, "1 of 1 recordings agree\n")
    other = tmp_path / "other.jsonl"
    other.write_text(recording.read_text().replace("killMaster", "killAll"))
    result = CliRunner().invoke(clusterd_sim, ["check", str(recording), str(other)])
    assert result.exit_code == 1
    first, *_, last = result.output.splitlines()
    assert first.startswith(f"{other}: ")
    assert "killAll" in first
    assert last == "1 of 2 recordings agree"


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    file = tmp_path / "none.jsonl"
    file.write_text("{}\n")
    result = CliRunner().invoke(clusterd_sim, ["check", str(file)])
    assert result.exit_code == 2
    assert f"{file} is no recording" in result.output
