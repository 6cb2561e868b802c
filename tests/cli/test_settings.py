"""The source of a setting: a flag before the environment, before the file, before the default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from taskd_net.base.schema import Kind
from taskd_net.cli.group import group
from taskd_net.cli.options import SettingOption
from taskd_net.cli.settings import COMMANDS, SETTINGS

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

FILE = """
ack_timeout = 7.0
links = "tasknet"
inbox = 70
log_stdout = false

[mgr]
ack_timeout = 8

[proxy]
server_rank = 5
upstream = "file:1"
grace = 60
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with settings."""
    path = tmp_path / "taskd-net.toml"
    path.write_text(FILE)
    return str(path)


def settings_of(command: str, *arguments: str) -> dict[str, Any]:
    """The settings in force, by name: value, source and name of the source."""
    done = CliRunner().invoke(group, ["config", "--json", command, *arguments])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)[command]
    return {name: (said["value"], said["source"], said["name"]) for name, said in found.items()}


def refused(*arguments: str) -> str:
    """The one line with which a command refuses its settings."""
    done = CliRunner().invoke(group, list(arguments))
    assert done.exit_code == 2
    assert done.output.startswith("Error: ")
    assert done.output.count("\n") == 1
    return done.output.removeprefix("Error: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("name", "flag", "variable", "in_file", "default"),
    [
        ("ack_timeout", 9.0, 8.0, 7.0, 3.0),
        ("links", "batched", "direct", "tasknet", "direct"),
        ("inbox", 90, 80, 70, 32),
        ("grace", 90.0, 80.0, 60.0, 30.0),
        ("server_rank", 9, 8, 5, 0),
        ("upstream", "flag:1", "variable:1", "file:1", "127.0.0.1:9601"),
    ],
)
def test_each_place_counts_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    name: str,
    flag: object,
    variable: object,
    in_file: object,
    default: object,
) -> None:
    option, key = f"--{name.replace('_', '-')}", f"TASKD_NET_{name.upper()}"
    assert settings_of("proxy")[name] == (default, "default", None)
    assert settings_of("proxy", "--config", file)[name] == (in_file, "file", file)
    monkeypatch.setenv(key, str(variable))
    assert settings_of("proxy", "--config", file)[name] == (variable, "environment", key)
    assert settings_of("proxy", "--config", file, option, str(flag))[name] == (flag, "flag", option)


def test_a_switch_is_set_by_each_place_too(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    assert settings_of("proxy")["log_stdout"] == (True, "default", None)
    assert settings_of("proxy", "--config", file)["log_stdout"] == (False, "file", file)
    monkeypatch.setenv("TASKD_LOG_STDOUT", "True")
    assert settings_of("proxy", "--config", file)["log_stdout"] == (True, "environment", "TASKD_LOG_STDOUT")
    assert settings_of("proxy", "--no-log-stdout")["log_stdout"][:2] == (False, "flag")


def test_a_table_counts_before_the_top_of_the_file(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setenv("TASKD_NET_CONFIG", file)
    assert settings_of("mgr")["ack_timeout"] == (8.0, "file", file)
    assert settings_of("proxy")["ack_timeout"] == (7.0, "file", file)
    assert settings_of("mgr")["grace"] == (30.0, "default", None)


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKD_NET_GRACE", "")
    monkeypatch.setenv("RANK", "")
    monkeypatch.setenv("MS_NODE_RANK", "4")
    settings = settings_of("proxy")
    assert settings["grace"] == (30.0, "default", None)
    assert settings["server_rank"] == (4, "environment", "MS_NODE_RANK")


@pytest.mark.parametrize(("ip", "address"), [("10.0.0.7", "10.0.0.7:9601"), ("fd00::7", "[fd00::7]:9601")])
def test_pod_ip_is_the_host_of_the_mgr(monkeypatch: pytest.MonkeyPatch, ip: str, address: str) -> None:
    monkeypatch.setenv("POD_IP", ip)
    assert settings_of("mgr")["listen"] == (address, "environment", "POD_IP")
    assert settings_of("proxy")["listen"] == ("127.0.0.1:9602", "default", None)
    monkeypatch.setenv("TASKD_NET_LISTEN", "0.0.0.0:1")
    assert settings_of("mgr")["listen"] == ("0.0.0.0:1", "environment", "TASKD_NET_LISTEN")


def test_rank_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for rank, name in enumerate(("MS_NODE_RANK", "RANK", "TASKD_NET_SERVER_RANK")):
        monkeypatch.setenv(name, str(rank))
        assert settings_of("proxy")["server_rank"] == (rank, "environment", name)


@pytest.mark.parametrize(("value", "source"), [("on", "environment"), ("off", "file")])
def test_local_proxy_puts_the_upstream_here(
    monkeypatch: pytest.MonkeyPatch, file: str, value: str, source: str
) -> None:
    monkeypatch.setenv("LOCAL_PROXY_ENABLE", value)
    expected = ("127.0.0.1:9601", source, "LOCAL_PROXY_ENABLE") if value == "on" else ("file:1", source, file)
    assert settings_of("proxy", "--config", file)["upstream"] == expected
    assert settings_of("send")["upstream"] == ("127.0.0.1:9602", "default", None)


def test_levels_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKD_FILE_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("TASKD_STD_LOG_LEVEL", "error")
    monkeypatch.setenv("TASKD_LOG_PATH", "/var/log/taskd")
    settings = settings_of("mgr")
    assert settings["log_file_level"] == ("DEBUG", "environment", "TASKD_FILE_LOG_LEVEL")
    assert settings["log_std_level"] == ("ERROR", "environment", "TASKD_STD_LOG_LEVEL")
    assert settings["log_path"] == ("/var/log/taskd", "environment", "TASKD_LOG_PATH")


@pytest.mark.parametrize("command", ["mgr", "proxy"])
def test_wrong_flag(command: str) -> None:
    expected = "ack_timeout is 'soon'; expected a number of seconds (from --ack-timeout)"
    assert refused(command, "--ack-timeout", "soon") == expected
    assert refused("config", command, "--ack-timeout", "soon") == expected
    assert refused(command, "--inbox", "1.5") == "inbox is '1.5'; expected a whole number (from --inbox)"
    assert refused(command, "--grace", "0") == "grace is 0.0; expected a number of seconds above 0 (from --grace)"
    assert (
        refused(command, "--drain", "nan")
        == "drain is 'nan'; expected a number of seconds from 0 to 86400 (from --drain)"
    )
    assert refused(command, "--links", "x") == "links is 'x'; expected direct or batched or tasknet (from --links)"
    assert refused(command, "--listen", "9601").endswith("e.g. 127.0.0.1:9602 or [::1]:9602 (from --listen)")
    assert "--nothing" in refused(command, "--nothing")
    assert "--path-length" in refused(command, "--path-length", "9")


def test_wrong_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    assert refused("proxy") == "server_rank is 'first'; expected a natural number (from the environment variable RANK)"
    monkeypatch.delenv("RANK")
    monkeypatch.setenv("TASKD_NET_PLAIN_LISTEN", "h:1")
    text = refused("proxy")
    assert text.startswith("plain_listen is 'h:1'; expected 127.0.0.1, [::1] or localhost, ")
    assert text.endswith(" (from the environment variable TASKD_NET_PLAIN_LISTEN)")
    monkeypatch.delenv("TASKD_NET_PLAIN_LISTEN")
    monkeypatch.setenv("POD_IP", "not an address")
    assert refused("mgr").endswith(
        "is not a host name or an IP address; expected host:port, e.g. 127.0.0.1:9602 or "
        "[::1]:9602 (from the environment variable POD_IP)"
    )
    monkeypatch.setenv("TASKD_STD_LOG_LEVEL", "LOUD")
    assert refused("proxy") == (
        "log_std_level is 'LOUD'; expected one of DEBUG, INFO, WARNING, ERROR "
        "(from the environment variable TASKD_STD_LOG_LEVEL)"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ack_timeout = "3"', "ack_timeout is '3'; expected a number of seconds (from the file {})"),
        ("[proxy]\ninbox = 1.0", "inbox is 1.0; expected a whole number (from the file {})"),
        ("max_children = true", "max_children is True; expected a whole number (from the file {})"),
        ("listen = 9602", "listen is 9602; expected host:port, e.g. 127.0.0.1:9602 or [::1]:9602 (from the file {})"),
        ("log_stdout = 1", "log_stdout is 1; expected true or false (from the file {})"),
        ("grace = [1]", "grace is [1]; expected a number of seconds (from the file {})"),
        ("link_bytes = 5", "link_bytes is 5; expected a whole number, at least 8388608 (from the file {})"),
        ("ack-timeout = 3", "config '{}' has ack-timeout = 3; expected a setting; did you mean ack_timeout?"),
        ("[mgr]\nupstream = 'a:1'", "config '{}' has [mgr] upstream = 'a:1'; expected a setting of mgr"),
        ("[worker]", "config '{}' has [worker]; expected a table of one of the commands " + ", ".join(COMMANDS)),
        ("backoff_max = 1", "config '{}' has backoff_max = 1; expected a setting"),
        ("[proxy.x]", "config '{}' has [proxy] x = {{}}; expected a setting of proxy"),
        ("[mgr]\ngrac = 1", "config '{}' has [mgr] grac = 1; expected a setting of mgr; did you mean grace?"),
        ("proxy = 3", "config '{}' has proxy = 3; expected a setting"),
        ("grace = ", "config is '{}'; expected a TOML file: Invalid value (at end of document)"),
    ],
)  # fmt: skip
def test_wrong_file(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "taskd-net.toml"
    path.write_text(text)
    assert refused("proxy", "--config", str(path)) == expected.format(path)


def test_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "missing.toml"
    monkeypatch.setenv("TASKD_NET_CONFIG", str(missing))
    assert refused("proxy") == f"config is '{missing}'; expected a file that can be read: No such file or directory"
    assert refused("mgr", "--config", str(tmp_path)).endswith("expected a file that can be read: Is a directory")
    missing.write_bytes(b"\xff")
    assert refused("proxy").startswith(f"config is '{missing}'; expected a TOML file: 'utf-8' codec")


def test_a_declaration_differs_only_for_commands_that_have_the_setting() -> None:
    for name, setting in SETTINGS.items():
        assert set(setting.by) <= set(setting.of) <= set(COMMANDS), name


def another(option: SettingOption) -> Any:
    """A value in the range of a setting, by its declaration; for most another one than the default."""
    setting = option.setting
    match setting.kind:
        case Kind.WHOLE | Kind.RANK:
            return setting.least + 1
        case Kind.PERIOD | Kind.SECONDS:
            return 42.0
        case Kind.SWITCH:
            return not setting.default
        case Kind.CHOICE:
            # Another identity needs certificates.
            return setting.default if option.name == "identity" else list(setting.choices)[-1]
        case _:
            return SAMPLES[setting.kind]


SAMPLES: Final = {
    **dict.fromkeys((Kind.ADDRESS, Kind.ADDRESSES, Kind.PORT), "[::1]:42"),
    **dict.fromkeys((Kind.FILE, Kind.FOLDER, Kind.TEXT), "x"),
    Kind.POSITION: "Worker/0/0",
    Kind.POSITIONS: "Agent/7,Worker/0/3",
    Kind.SIZE: "4x8",
}


def test_every_setting_can_be_given_in_the_file_and_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "all.toml"
    for command, options in COMMANDS.items():
        values = {option.name: another(option) for option in options}
        path.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items()))
        in_force = settings_of(command, "--config", str(path))
        assert {name: said[:2] for name, said in in_force.items()} == {
            name: (value, "file") for name, value in values.items()
        }
        for option in options:
            variable = next(iter(option.variables))
            monkeypatch.setenv(variable, str(values[option.name]))
            assert settings_of(command, "--config", str(path))[option.name][1:] == ("environment", variable)
            monkeypatch.delenv(variable)
        assert [param for param in group.commands[command].params if isinstance(param, SettingOption)] == list(options)
