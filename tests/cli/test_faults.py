"""`taskd-net faults check`, `explain` and `simulate`, as a user types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from taskd_net.cli.faults.plot import spans
from taskd_net.cli.group import group
from taskd_net.job.faults.decisions import Decision
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import FaultType
from tests.cli.processes import ROOT
from tests.fault_levels.scene import CODES, L1, L3, L5, LINK, files, frequency
from tests.fault_levels.shipped import shipped

Run = Callable[..., Result]


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`taskd-net faults`, in a folder with files."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path, files())

    def run(*arguments: str, code: int = 0, typed: str | None = None) -> Result:
        done = CliRunner().invoke(group, ["faults", *arguments], input=typed)
        assert done.exit_code == code, done.output
        return done

    return run


def put(folder: Path, contents: dict[str, bytes]) -> None:
    """Write files."""
    for name, data in contents.items():
        (folder / name).write_bytes(data)


PAGE: Final = ROOT / "docs" / "faults.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documents are part of a checkout")
def test_the_examples_of_the_document_decide_as_it_says(faults: Run, tmp_path: Path) -> None:
    _, *examples = PAGE.read_text().split("\n### ")
    codes = re.findall(r"(?ms)^```json\n(.*?)^```$", PAGE.read_text())[0]
    assert len(examples) == 4
    for text in examples:
        example = text.partition("\n## ")[0]
        blocks = dict(re.findall(r"(?ms)^```(json|jsonl|text)\n(.*?)^```$", example))
        put(tmp_path, {"faultCode.json": codes.encode(), "faultCustomization.json": blocks.get("json", "{}").encode()})
        assert faults("check", ".").output.startswith("accepted")
        more = ["--fault-mode", "grace"] if text.startswith("Grace") else []
        assert faults("simulate", "-", "--fault-config", ".", *more, typed=blocks["jsonl"]).output == blocks["text"]


@pytest.mark.parametrize("edition", Edition)
def test_check_accepts_shipped_files(faults: Run, tmp_path: Path, edition: Edition) -> None:
    put(tmp_path, dict(shipped(edition)))
    done = faults("check", ".", "--fault-edition", edition.value)
    codes = 800 if edition is Edition.DOCUMENTED else 821
    numbers = f"codes {codes}, frequency rules 60, duration rules 1, poll interval 300"
    assert done.output == f"accepted: edition {edition.value}, {numbers}\n"


def test_check_names_every_problem_and_the_edition_that_the_files_look_like(faults: Run, tmp_path: Path) -> None:
    put(tmp_path, files({**CODES, "RestartNPUCodes": [L5, "x"]}, {"GraceTolerance": {"WaitDeviceResetTime": 150}}))
    put(tmp_path, {"PollInterval": b"29"})
    *lines, last = faults("check", ".").output.splitlines()
    assert [line.split(";")[0] for line in lines] == [
        "problem: faultCode.json: RestartNPUCodes[1] is 'x'",
        "problem: faultCustomization.json: GraceTolerance.WaitDeviceResetTime is 150",
        "note: the folder is like the edition `current`: GraceTolerance.WaitDeviceResetTime 150",
        "problem: PollInterval is '29'",
    ]
    assert last.startswith("accepted: edition documented, codes 6,")


@pytest.mark.parametrize("data", [b"{", None, b" " * 5_000_000])
def test_check_ends_with_1_where_the_files_would_be_refused(faults: Run, tmp_path: Path, data: bytes | None) -> None:
    if data is None:
        (tmp_path / "faultCode.json").unlink()
    else:
        put(tmp_path, {"faultCode.json": data})
    done = faults("check", ".", code=1)
    assert "faultCode.json" in done.output


def test_check_as_json(faults: Run, tmp_path: Path) -> None:
    put(tmp_path, {"faultCode.json": b"[]"})
    found = json.loads(faults("check", ".", "--json", code=1).output)
    assert found["refused"] and found["problems"][0]["file"] == "faultCode.json"
    put(tmp_path, files())
    found = json.loads(faults("check", ".", "--json").output)
    assert found == {
        "refused": False,
        "problems": [],
        "edition": "documented",
        "codes": 6,
        "frequency_rules": 0,
        "duration_rules": 1,
        "poll_interval": 300,
    }


def test_check_refuses_another_argument_in_one_line(faults: Run) -> None:
    assert "DIR is 'nowhere'; expected a folder" in faults("check", "nowhere", code=2).output
    done = faults("check", ".", "--linkdown-timeout", "31", code=2)
    assert "linkdown_timeout is 31; expected a whole number from 1 to 30 (from --linkdown-timeout)" in done.output


def test_explain_a_listed_code(faults: Run) -> None:
    lines = faults("explain", "8c03a000", "--fault-config", ".").output.splitlines()
    assert lines[:2] == [f"{L5}, edition documented", "  L5 RestartNPU: by the list of codes"]
    assert lines[2].split(maxsplit=2) == ["rescheduling", "training", "isolate_and_reschedule"]
    assert lines[4].split(maxsplit=2)[2] == "stop_processes (90 s), reset_device (60 s), run_again"


def test_explain_names_the_rules_that_touch_a_code(faults: Run, tmp_path: Path) -> None:
    custom = {**frequency(EventId=LINK), "FaultDuration": [{"EventId": LINK, "FaultTimeout": 7}]}
    put(tmp_path, files(CODES, custom))
    text = faults("explain", LINK, "--fault-config", ".").output
    assert "standing for more than 7 s, until it is gone for 60 s" in text
    assert "exceeding that duration 3 times within 60 s" in text
    put(tmp_path, files(CODES, frequency(EventId=L1)))
    found = json.loads(faults("explain", L1, "--fault-config", ".", "--json").output)
    assert [(case["level"], case["type"]) for case in found["cases"]] == [
        ("L1", "NotHandleFault"),
        ("L6", "SeparateNPU"),
    ]
    assert found["cases"][1]["steps"]["grace, inference"] == "isolate_and_reschedule"


def test_explain_an_unknown_code_without_files(faults: Run) -> None:
    text = faults("explain", "FFFF0000").output
    assert "L1 NotHandleFault: unknown, of severity notice or minor" in text
    assert "-  PreSeparateNPU: unknown, and of the network" in text


def test_explain_refuses_what_is_no_code(faults: Run, tmp_path: Path) -> None:
    assert "CODE is 'L5'; expected 8 or 9 hexadecimal digits" in faults("explain", "L5", code=2).output
    assert "no JSON" in _broken(faults, tmp_path)
    assert "expected a folder that can be read" in faults("explain", L5, "--fault-config", "none", code=1).output


def _broken(faults: Run, folder: Path) -> str:
    put(folder, {"faultCode.json": b"{"})
    return faults("explain", L5, "--fault-config", ".", code=1).output


EVENTS = [
    {"code": L1, "device": "npu-0", "at": 100},
    {"code": L5, "device": "npu-1", "at": 101, "kind": "once"},
    {"code": LINK, "device": "npu-0", "at": 110},
    {"code": L3, "device": "npu-0", "at": 1_700_000_000, "severity": "major"},
]


def lines_of(events: list[object]) -> str:
    """Events as lines."""
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in events)


def test_simulate_shows_a_table_of_decisions(faults: Run, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(lines_of([*EVENTS]))
    late = "the code is listed as RestartBusiness; the device takes no new job already"
    head, *rows = faults("simulate", "events.jsonl", "--fault-config", ".").output.splitlines()
    assert head.split()[:4] == ["time", "device", "code", "level"]
    assert [" ".join(row.split()) for row in rows] == [
        f"100 s npu-0 {L1} L1 NotHandleFault NotHandleFault nothing: the code is listed as NotHandleFault",
        f"101 s npu-1 {L5} L5 RestartNPU NotHandleFault isolate_and_reschedule: the code is listed as RestartNPU",
        f"110 s npu-0 {LINK} L1 NotHandleFault NotHandleFault nothing: the code is in no list, and its duration counts",
        f"140 s npu-0 {LINK} - PreSeparateNPU PreSeparateNPU no_new_job: it has stood for more than 30 s",
        f"2023-11-14T22:13:20Z npu-0 {L3} L3 RestartBusiness PreSeparateNPU nothing: {late}",
        "at the end: npu-0 no_new_job since 140 s: it has stood for more than 30 s",
    ]


def test_simulate_in_the_grace_mode_with_steps_that_end_or_hang(faults: Run) -> None:
    typed = lines_of([{"code": L5, "device": "npu-1", "at": 0}])

    def found(*more: str) -> list[object]:
        done = faults("simulate", "-", "--fault-config", ".", "--fault-mode", "grace", "--json", *more, typed=typed)
        return [json.loads(line)["reason"] for line in done.output.splitlines()]

    assert found() == ["the code is listed as RestartNPU", "the device was reset"]
    assert found("--steps", "hangs")[1] == "stop_processes has not ended within 90 s"


def test_simulate_names_each_line_that_is_no_event_and_goes_on(faults: Run) -> None:
    bad = [
        {"code": "L5", "device": "npu-0", "at": 1},
        {"code": L5, "device": "", "at": 1},
        {"code": L5, "device": "npu-0"},
        "{",
        "[" * 50_000,
        "",
        "[]",
        '"' + "x" * 200_000 + '"',
        "\x1b[2J",
    ]
    done = faults("simulate", "-", "--json", typed=lines_of([*bad, EVENTS[0]]), code=1)
    named = [line.partition(": ")[0] for line in done.stderr.splitlines()]
    assert named == [f"line {number}" for number in (1, 2, 3, 4, 5, 7, 8, 9)]
    assert "code is 'L5'; expected 8 or 9 hexadecimal digits" in done.stderr and "\x1b" not in done.stderr
    (decision,) = done.stdout.splitlines()
    assert json.loads(decision)["device"] == "npu-0"


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_simulate_draws_a_plot(tmp_path: Path, suffix: str) -> None:
    """It is a process of its own, because matplotlib keeps its fonts open."""
    if find_spec("matplotlib") is None:
        pytest.skip("needs the extra `plot`")
    put(tmp_path, files())
    arguments = ("simulate", "-", "--fault-config", ".", "--plot", f"plot.{suffix}")
    run = process(tmp_path, *arguments, typed=lines_of([*EVENTS]))
    assert run.returncode == 0, run.stderr
    data = (tmp_path / f"plot.{suffix}").read_bytes()
    assert data.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


def test_a_plot_that_cannot_be_drawn_is_one_line(faults: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected a file with the suffix .svg or .png" in faults("simulate", "-", "--plot", "x.txt", code=2).output
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'taskd-net[plot]'" in faults("simulate", "-", "--plot", "x.svg", code=1, typed="").output


def test_the_spans_of_a_plot() -> None:
    def decision(at: float, standing: FaultType) -> Decision:
        return Decision("a", L5, standing, standing, (), "", at)

    found = spans(
        [
            decision(1.0, FaultType.RESTART_NPU),
            decision(2.0, FaultType.RESTART_NPU),
            decision(3.0, FaultType.SEPARATE_NPU),
            decision(5.0, FaultType.NOT_HANDLE),
            decision(7.0, FaultType.RESTART_REQUEST),
        ],
        9.0,
    )
    assert found == {
        "a": [
            (1.0, 3.0, FaultType.RESTART_NPU),
            (3.0, 5.0, FaultType.SEPARATE_NPU),
            (7.0, 9.0, FaultType.RESTART_REQUEST),
        ]
    }


def process(folder: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as a process."""
    command = [sys.executable, "-c", "from taskd_net.cli import main; main()", "faults", *arguments]
    return subprocess.run(command, cwd=folder, input=typed, capture_output=True, text=True, timeout=120, check=False)


def test_the_commands_as_processes(tmp_path: Path) -> None:
    put(tmp_path, files())
    (tmp_path / "events.jsonl").write_text(lines_of([*EVENTS]))
    for arguments in (["check", "."], ["explain", L1, "--fault-config", "."], ["simulate", "events.jsonl"]):
        run = process(tmp_path, *arguments)
        assert run.returncode == 0 and run.stderr == "" and run.stdout
