"""The entry point: what it says when it is asked nothing, its version, or has not what it needs."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import taskd_net
from taskd_net.cli.group import group

WITHOUT = "import sys; sys.modules[{!r}] = None; from taskd_net.cli import main; main()"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_version() -> None:
    done = run("-m", "taskd_net.cli", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"taskd-net {taskd_net.__version__}\n", "")


def test_help_lists_the_commands() -> None:
    done = CliRunner().invoke(group, ["--help"])
    assert done.exit_code == 0
    assert "demo " in done.output


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_says_how_to_install_it(missing: str) -> None:
    done = run("-c", WITHOUT.format(missing))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert missing in done.stderr
    assert "pip install 'taskd-net[cli]'" in done.stderr


def test_another_missing_module_is_not_taken_for_the_extra() -> None:
    done = run("-c", WITHOUT.format("json"))
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "pip install" not in done.stderr
