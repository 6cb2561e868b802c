"""The demos of a job as commands: their results, their end, and that no process is left."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence

import click
import psutil
import pytest
from click.testing import CliRunner

from taskd_net_lab.demos.commands import job, training, watch
from taskd_net_lab.demos.job.run import Result
from taskd_net_lab.demos.job.scenarios import Scenario
from taskd_net_lab.demos.watch.scenarios import Scenario as Watch
from taskd_net_lab.demos.watch.scenarios import Watched
from tests.cli.processes import Command
from tests.cli.test_demo import running


def result(name: str, *problems: str) -> Result:
    return Result(name, 1.23456, problems)


@pytest.mark.parametrize("problems", [(), ("commands of Agent/1: none; expected 203",)])
def test_job_prints_the_results_and_exits_with_their_verdict(
    problems: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play_all(scenarios: Sequence[Scenario], done: Callable[[Result], None]) -> list[Result]:
        results = [result(scenario.name, *problems) for scenario in scenarios]
        for each in results:
            done(each)
        return results

    monkeypatch.setattr("taskd_net_lab.demos.commands.play_all", play_all)
    done = CliRunner().invoke(job, ["retry-time", "start", "--json"])
    assert done.exit_code == bool(problems)
    more = {"problems": list(problems)} if problems else {}
    rows = [{"name": name, "ok": not problems, "seconds": 1.235, **more} for name in ("start", "retry-time")]
    assert json.loads(done.stdout) == {"scenarios": rows, "ok": not problems}
    assert f"{'✗' if problems else '✓'} start" in done.stderr
    assert ("commands of Agent/1: none; expected 203" in done.stderr) is bool(problems)


def test_job_refuses_an_unknown_scenario() -> None:
    done = CliRunner().invoke(job, ["dinner"])
    assert done.exit_code == 2
    assert "'dinner' is not one of 'start', 'worker-dies'" in done.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_job_that_is_ended_leaves_no_process(number: signal.Signals) -> None:
    with running("job", "worker-dies") as started:
        nodes = started.programs("manager", "launcher", "trainee")
        started.process.send_signal(number)
        code, _, stderr = started.finish()
        _, alive = psutil.wait_procs(nodes, timeout=10)
        assert alive == []
    assert code == (143 if number == signal.SIGTERM else -9)
    assert ("interrupted by SIGTERM" in stderr) is (number == signal.SIGTERM)
    assert "Traceback" not in stderr


async def test_a_recovery_is_played_and_printed() -> None:
    async with Command("demo", "recovery", "retry", "--json") as command:
        printed = json.loads(await command.rest())
        assert await command.exit_code() == 0
    (result,) = printed["scenarios"]
    assert (result["name"], result["ok"], printed["ok"]) == ("retry", True, True)
    assert result["seconds"] > 0


@pytest.mark.parametrize("command", [training, watch], ids=["training", "watch"])
def test_demo_needs_torch(command: click.Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskd_net_lab.demos.commands.find_spec", lambda _: None)
    done = CliRunner().invoke(command)
    assert done.exit_code == 1
    assert f"taskd-net demo {command.name} needs torch, which is not installed" in done.output


def test_watch_prints_what_was_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play_all(scenarios: Sequence[Watch], done: Callable[[Result], None]) -> list[Result]:
        results: list[Result] = [
            Watched(scenario.name, 1.0, (), (), 6.25, frozenset({2}), "here") for scenario in scenarios
        ]
        for each in results:
            done(each)
        return results

    monkeypatch.setattr("taskd_net_lab.demos.commands.find_spec", lambda _: "torch")
    monkeypatch.setattr("taskd_net_lab.demos.commands.play_watches", play_all)
    done = CliRunner().invoke(watch, ["stopped", "--json"])
    assert done.exit_code == 0
    assert "✓ stopped" in done.stderr and "noticed after 6.2 s | named: rank 2 | where: here" in done.stderr
    assert json.loads(done.stdout)["scenarios"][0]["named"] == [2]
