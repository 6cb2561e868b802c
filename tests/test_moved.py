"""Documented import paths of the release before go on, and say where the module is now."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from taskd_net.moved import MOVED, place_now
from tests.compat.environment import with_compat


def alone(code: str, *options: str) -> tuple[str, str]:
    """The output and the errors of some code in an interpreter of its own, with `compat/`."""
    command = [sys.executable, *options, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=with_compat())
    return run.stdout, run.stderr


@pytest.mark.parametrize("old", MOVED)
def test_old_path_is_the_module_of_the_new_one_and_warns_once(old: str) -> None:
    code = f"import {old}, {MOVED[old]}; from {old} import __name__ as name; print({old} is {MOVED[old]}, name)"
    out, err = alone(code)
    assert out == f"True {MOVED[old]}\n"
    assert err.count(f"FutureWarning: {old} is {MOVED[old]} now") == 1
    assert err.count("FutureWarning") == sum(old == each or old.startswith(f"{each}.") for each in MOVED)


def test_modules_and_names_below_an_old_path() -> None:
    code = """
import json
from taskd_net.jobs.plugins import Plugin
from taskd_net.jobs import snapshot
import taskd_net.faults.policy as policy
from taskd_net.job.decide.plugins import Plugin as now
print(json.dumps([Plugin is now, snapshot.__name__, policy.__name__, snapshot.__spec__.name]))
"""
    out, err = alone(code)
    below = ["taskd_net.job.decide.snapshot", "taskd_net.job.faults.policy", "taskd_net.job.decide.snapshot"]
    assert json.loads(out) == [True, *below]
    assert "<string>:3: FutureWarning" in err, "the user's own line is named"


def test_names_that_never_were_are_not_found() -> None:
    code = """
try:
    import taskd_net.jobs.nothing
except ModuleNotFoundError as error:
    print(error.name)
try:
    import taskd_net.nothing
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert alone(code, "-W", "ignore")[0] == "taskd_net.jobs.nothing\ntaskd_net.nothing\n"


def test_documented_attributes_warn_of_nothing() -> None:
    out, err = alone("import taskd_net; print(taskd_net.logs.__name__, taskd_net.api.__name__)", "-W", "error")
    assert (out, err) == ("taskd_net.base.logs taskd_net.job.api\n", "")


def test_new_names_are_no_old_ones() -> None:
    assert place_now("taskd_net.job.decide") is None
    assert place_now("taskd_net.jobs_of_others") is None
