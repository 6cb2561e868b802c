"""The units of Proxy and Mgr: systemd's reading of them, and the daemons under them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.cli.processes import Command, heard, service_manager
from tests.deploy.artefacts import CLOSING_S, DEPLOY, settings_of

UNITS = ("proxy", "mgr")
PROGRAM = "/opt/taskd-net/bin/taskd-net"
ETC = "/etc/taskd-net/"

NETWORK = {"PrivateNetwork", "RestrictAddressFamilies"}
STAYS = NETWORK | {"IPAddressDeny", "RootDirectory", "ProcSubset", "DeviceAllow"}
"""Directives that `systemd-analyze security` names; the units have the reasons."""
EXPOSURE_MOST = 1.2
"""The overall exposure level. It is 1.1 with systemd 252."""

pytestmark = pytest.mark.timeout(180)


def path(unit: str) -> Path:
    """The file of a unit."""
    return DEPLOY / "systemd" / f"taskd-net-{unit}.service"


def directives(unit: str = "proxy") -> dict[str, list[str]]:
    """The unit's section [Service], by name."""
    found = defaultdict(list)
    section = ""
    for line in path(unit).read_text().splitlines():
        if line.startswith("["):
            section = line
        elif line and not line.startswith("#") and section == "[Service]":
            name, _, value = line.partition("=")
            found[name].append(value)
    return found


def only(name: str, unit: str = "proxy") -> str:
    """The one value of a directive."""
    (value,) = directives(unit)[name]
    return value


def arguments(unit: str = "proxy") -> list[str]:
    """The unit's arguments of `taskd-net`, with the configuration of the checkout."""
    program, *rest = shlex.split(only("ExecStart", unit))
    assert program == PROGRAM
    return [str(DEPLOY / "systemd" / part.removeprefix(ETC)) if part.startswith(ETC) else part for part in rest]


def environment(logs: Path, unit: str = "proxy") -> dict[str, str]:
    """The unit's variables, with a log folder outside /var/log, and the state beside it."""
    file = only("EnvironmentFile", unit)
    assert file.startswith(ETC)
    lines = (DEPLOY / "systemd" / file.removeprefix(ETC)).read_text().splitlines()
    pairs = directives(unit)["Environment"] + [line for line in lines if line and not line.startswith("#")]
    env = dict(pair.split("=", 1) for pair in pairs)
    assert env["TASKD_LOG_PATH"] == f"%L/{only('LogsDirectory', unit)}"
    if "TASKD_NET_STATE" in env:
        assert env["TASKD_NET_STATE"] == f"%S/{only('StateDirectory', unit)}/job.sqlite3"
        env["TASKD_NET_STATE"] = str(logs / "job.sqlite3")
    return env | {"TASKD_LOG_PATH": str(logs)}


def modes(folder: Path) -> dict[str, int]:
    """The modes of the files in a folder, by name."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / path(name).name
    # It checks for the program, which need not be installed here.
    unit.write_text(path(name).read_text().replace(PROGRAM, f'"{sys.executable}"'))
    command = [analyze, "verify", "--man=no", str(unit)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "taskd-net" in line]) == (0, [])


@pytest.mark.parametrize("name", UNITS)
def test_systemd_names_no_exposure_without_a_reason(name: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    command = [analyze, "security", "--offline=true", "--no-pager", str(path(name))]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    named = set(re.findall(r"(?m)^✗ (\w+)", done.stdout))
    assert named <= STAYS, done.stdout
    (exposure,) = re.findall(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    assert float(exposure) <= EXPOSURE_MOST


@pytest.mark.parametrize("name", UNITS)
def test_unit_gives_the_reason_for_each_exposure_that_stays(name: str) -> None:
    text = path(name).read_text()
    reasons = text.partition("still names these, with a reason each:\n")[2].partition("\n\n")[0]
    assert all(directive in reasons for directive in STAYS - NETWORK) and "network" in reasons
    # Set in any case, also where systemd-analyze is not there to say so.
    for directive in ("PrivateDevices", "PrivateMounts", "PrivateTmp", "PrivateUsers", "NoNewPrivileges"):
        assert only(directive, name) == "yes", directive
    assert only("UMask", name) == "0077" and "~@privileged @resources" in directives(name)["SystemCallFilter"]
    assert only("CapabilityBoundingSet", name) == ""


def test_settings_of_the_unit_and_its_files_are_the_daemons(tmp_path: Path) -> None:
    settings = settings_of(arguments(), environment(tmp_path))
    assert (settings["listen"], settings["direct_listen"]) == ("127.0.0.1:9602", "auto")
    assert (settings["upstream"], settings["server_rank"]) == ("10.0.0.7:9601", 0)
    assert settings["log_path"] == str(tmp_path)
    assert settings["drain"] + CLOSING_S <= float(only("TimeoutStopSec"))
    assert only("RestartPreventExitStatus") == "2"


def test_settings_of_the_mgr_are_those_that_the_proxies_have(tmp_path: Path) -> None:
    mgr, proxy = (
        settings_of(arguments("mgr"), environment(tmp_path, "mgr")),
        settings_of(arguments(), environment(tmp_path)),
    )
    assert mgr["listen"] == proxy["upstream"] and proxy["job_id"] is None
    assert (mgr["direct_listen"], mgr["expect"], mgr["job_id"]) == ("10.0.0.7:9611", "4x8", None)
    assert (mgr["log_path"], mgr["state"]) == (str(tmp_path), str(tmp_path / "job.sqlite3"))
    assert mgr["drain"] + CLOSING_S <= float(only("TimeoutStopSec", "mgr"))


def test_units_differ_in_their_files_and_the_state_alone() -> None:
    proxy, mgr = directives(), directives("mgr")
    assert {name for name in proxy | mgr if proxy.get(name) != mgr.get(name)} == {
        *("EnvironmentFile", "ExecStart", "Environment", "StateDirectory"),
    }
    assert [line for line in mgr["Environment"] if line not in proxy["Environment"]] == [
        "TASKD_NET_STATE=%S/taskd-net/job.sqlite3"
    ]


async def test_manager_of_a_job_as_the_unit_runs_it(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    here = {"NOTIFY_SOCKET": address, "TASKD_NET_LISTEN": "127.0.0.1:0", "TASKD_NET_DIRECT_LISTEN": "auto"}
    here |= {"TASKD_NET_JOB_ID": "j", "TASKD_LOG_PATH": str(tmp_path)}
    with service_manager(address) as manager:
        async with Command(*arguments("mgr"), env=environment(tmp_path, "mgr") | here, cwd=tmp_path) as mgr:
            ready, status = await heard(manager)
            assert ready == "READY=1" and "taskd-net mgr Mgr/0 ready, listening on 127.0.0.1:" in status
            mgr.signal(signal.SIGTERM)
            assert await mgr.exit_code() == 0
    assert (tmp_path / "job.sqlite3").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces here")
async def test_daemon_needs_no_other_user_no_capability_and_its_files_are_its_own(tmp_path: Path) -> None:
    """The kernel's part of PrivateUsers, CapabilityBoundingSet, NoNewPrivileges and UMask, without systemd."""
    confined = f'umask {only("UMask", "mgr")}; exec unshare --map-user=61200 --map-group=61200 "$@"'
    wrapper = ("sh", "-c", confined, "unit", "setpriv", "--no-new-privs", "--bounding-set=-all")
    here = {"TASKD_NET_LISTEN": "127.0.0.1:0", "TASKD_NET_DIRECT_LISTEN": "auto", "TASKD_NET_JOB_ID": "j"}
    async with Command(*arguments("mgr"), env=environment(tmp_path, "mgr") | here, wrapper=wrapper) as mgr:
        assert " ready, " in await mgr.line()
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0
    found = modes(tmp_path)
    assert set(found) >= {"job.sqlite3", "manager.log"} and set(found.values()) == {0o600}


async def test_daemon_as_the_unit_runs_it(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    around = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": f"{int(only('WatchdogSec')) * 1_000_000}"}
    here = {"TASKD_NET_LISTEN": "127.0.0.1:0", "TASKD_NET_UPSTREAM": "127.0.0.1:9"}
    assert only("Type") == "notify"
    assert shlex.split(only("ExecReload")) == ["/bin/sh", "-c", "kill -HUP $MAINPID"]
    with service_manager(address) as manager:
        async with Command(*arguments(), env=environment(tmp_path / "log") | around | here, cwd=tmp_path) as proxy:
            ready, status = await heard(manager)
            assert ready == "READY=1"
            assert status.startswith("STATUS=taskd-net proxy Proxy/0 ready, listening on 127.0.0.1:")
            assert await heard(manager) == ["WATCHDOG=1"]
            proxy.signal(signal.SIGHUP)
            assert (await heard(manager))[0] == "RELOADING=1"
            assert await heard(manager) == ["READY=1"]
            proxy.signal(signal.Signals[only("KillSignal")])
            assert await heard(manager) == ["STOPPING=1"]
            assert await proxy.exit_code() == 0
    assert "draining" in (tmp_path / "log" / "taskd-proxy-0.log").read_text()


async def test_watchdog_leaves_a_trace_of_every_thread(tmp_path: Path) -> None:
    here = {"TASKD_NET_LISTEN": "127.0.0.1:0"}
    async with Command(*arguments(), env=environment(tmp_path / "log") | here, cwd=tmp_path) as proxy:
        assert " ready, " in await proxy.line()
        proxy.signal(signal.Signals[only("WatchdogSignal")])
        assert await proxy.exit_code() == -signal.SIGABRT
        assert "Fatal Python error: Aborted" in proxy.errors
        assert "taskd_net/cli/daemon.py" in proxy.errors


async def test_wrong_setting_is_no_reason_to_start_again(tmp_path: Path) -> None:
    async with Command(*arguments(), env=environment(tmp_path) | {"TASKD_NET_SERVER_RANK": "three"}) as proxy:
        assert str(await proxy.exit_code()) == only("RestartPreventExitStatus")
