"""The commands of the daemons: position, configuration and log file of each role."""

from __future__ import annotations

import sys

import click
import pytest
from click.testing import CliRunner

from taskd_net import NodeConfig
from taskd_net.cli.daemon import RememberingCommand
from taskd_net.cli.group import group


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

    def serve(_: click.Context, config: NodeConfig, name: str) -> None:
        served.append((str(config.position), config.listen, config.inbox, name))

    monkeypatch.setattr(sys.modules["taskd_net.cli.roles"], "serve", serve)
    done = CliRunner().invoke(group, arguments)
    assert (done.exit_code, done.output, served) == (0, "", [(position, listen, inbox, log_file)])


def test_a_daemon_reads_its_settings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    command = group.commands["mgr"]
    assert isinstance(command, RememberingCommand)
    ctx = command.make_context("mgr", ["--grace", "7"])
    monkeypatch.setenv("TASKD_NET_DRAIN", "3")
    again = command.read_again(ctx)
    assert (again["grace"], again["drain"], ctx.params["drain"]) == (7.0, 3.0, 10.0)
