"""The environment of the tests of the command line: nothing in it is a setting."""

import pytest

from taskd_net.cli.settings import COMMANDS


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of whoever runs the tests."""
    names = {name for settings in COMMANDS.values() for setting in settings for name in setting.variables}
    for name in names | {"TASKD_NET_CONFIG", "TASKD_NET_CONTEXT", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
