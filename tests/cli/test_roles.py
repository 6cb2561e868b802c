"""The commands of the daemons: position, configuration and log file of each role."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import chain

import click
import pytest
from click.testing import CliRunner

from taskd_net import NodeConfig
from taskd_net.base.schema import Group
from taskd_net.cli.daemon import DaemonCommand
from taskd_net.cli.group import group
from taskd_net.cli.settings import COMMANDS
from taskd_net.job.manager.config import ManagerConfig, ignored_interval


@pytest.mark.parametrize(
    ("arguments", "position", "listen", "inbox", "log_file"),
    [
        (["mgr"], "Mgr/0", "127.0.0.1:9601", 1024, "manager.log"),
        (["proxy", "--server-rank", "3"], "Proxy/3", "127.0.0.1:9602", 32, "taskd-proxy-3.log"),
        (["proxy", "--listen", "[::]:1", "--inbox", "0"], "Proxy/0", "[::]:1", 0, "taskd-proxy-0.log"),
    ],
)
def test_a_role_has_its_position_defaults_and_log_file(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], position: str, listen: str, inbox: int, log_file: str
) -> None:
    served: list[tuple[str, str | None, int | None, str]] = []

    def serve(_: click.Context, config: NodeConfig, name: str, manager: object = None) -> None:
        assert manager is None and not config.confirms
        served.append((str(config.position), config.listen, config.inbox, name))

    monkeypatch.setattr(import_module("taskd_net.cli.daemon"), "serve", serve)
    done = CliRunner().invoke(group, arguments)
    assert (done.exit_code, done.output, served) == (0, "", [(position, listen, inbox, log_file)])


def test_a_mgr_with_a_job_is_its_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ManagerConfig | None] = []

    def serve(_: click.Context, config: NodeConfig, name: str, manager: ManagerConfig | None) -> None:
        assert config.confirms and name == "manager.log"
        served.append(manager)

    monkeypatch.setattr(import_module("taskd_net.cli.daemon"), "serve", serve)
    monkeypatch.setenv("TASKD_PROCESS_INTERVAL", "250")
    for arguments in ([], ["--state", "x.db", "--fault-recover", "on", "--plugins", "p"]):
        done = CliRunner().invoke(group, ["mgr", "--job-id", "J", "--expect", "2x8", "--log-path", "logs", *arguments])
        assert (done.exit_code, done.output) == (0, "")
    size = {"nodes": 2, "processes_per_node": 8, "process_interval": 250}
    assert served == [
        ManagerConfig(job_id="J", state="logs/manager-state.sqlite3", **size),  # type: ignore[arg-type]
        ManagerConfig(job_id="J", state="x.db", fault_recover="on", plugins="p", **size),  # type: ignore[arg-type]
    ]


def test_an_interval_out_of_bounds_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    command = group.commands["mgr"]
    for text in ("99", "1001", "x"):
        monkeypatch.setenv("TASKD_PROCESS_INTERVAL", text)
        assert command.make_context("mgr", []).params["process_interval"] == 100
        assert ignored_interval() == text
    monkeypatch.setenv("TASKD_PROCESS_INTERVAL", "1000")
    assert ignored_interval() is None


def test_a_daemon_reads_its_settings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    command = group.commands["mgr"]
    assert isinstance(command, DaemonCommand)
    ctx = command.make_context("mgr", ["--grace", "7"])
    monkeypatch.setenv("TASKD_NET_DRAIN", "3")
    again = command.read_again(ctx)
    assert (again["grace"], again["drain"], ctx.params["drain"]) == (7.0, 3.0, 10.0)


def options(text: str) -> dict[str, list[str]]:
    """The long flags in a help, by the heading that they stand below."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            heading = line.rstrip(":")
        elif flag := re.match(r"  (?:-h, )?(--[a-z-]+)", line):
            found.setdefault(heading, []).append(flag[1])
    return found


@pytest.mark.parametrize(
    ("command", "own"), [("mgr", ["--expect", "--job-id"]), ("proxy", ["--upstream", "--server-rank"])]
)
def test_help_has_the_eight_options_that_matter_and_help_all_every_one(command: str, own: list[str]) -> None:
    short = CliRunner().invoke(group, [command, "--help"])
    (heading,) = found = options(short.output)
    assert (short.exit_code, heading) == (0, "Options")
    *settings, config, help_all, help_ = found["Options"]
    assert len(settings) == 8 and {"--listen", "--ca", "--server-key", "--server-crt", *own} <= set(settings)
    assert [config, help_all, help_] == ["--config", "--help-all", "--help"]

    whole = CliRunner().invoke(group, [command, "--help-all"])
    assert whole.exit_code == 0 and "Exit codes:" in whole.output
    found = options(whole.output)
    assert found.pop("Options") == [config, help_all, help_]
    names = [each.value for each in Group if command == "mgr" or each not in (Group.MANAGER, Group.FAULTS)]
    assert list(found) == names
    assert sorted(chain.from_iterable(found.values())) == sorted(each.opts[0] for each in COMMANDS[command])


def test_default_of_a_command_counts_in_its_help() -> None:
    shown = " ".join(CliRunner().invoke(group, ["proxy", "--help"]).output.split())
    assert "TASKD_NET_LISTEN; default: 127.0.0.1:9602]" in shown
    assert "TASKD_NET_CA; default: (none)]" in shown
