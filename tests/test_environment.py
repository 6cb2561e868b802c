"""gRPC's environment, in processes of their own: it is read once, when grpc is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from taskd_net.base.environment import SWITCH

pytestmark = pytest.mark.timeout(180)

FORK, EXPERIMENTS = "GRPC_ENABLE_FORK_SUPPORT", "GRPC_EXPERIMENTS"
NO_EVENT_ENGINE = "-event_engine_client,-event_engine_listener"

SCRIPT = """
import importlib.util, json, os, sys, tempfile, types, warnings
from importlib import metadata
from pathlib import Path
real = importlib.util.find_spec
folder = tempfile.TemporaryDirectory()
fake = types.SimpleNamespace(origin=folder.name + "/__init__.py")
if {known}:
    Path(fake.origin).with_name("_grpcio_metadata.py").write_text("__version__ = '{version}'")
else:
    metadata.version = lambda name: {version!r}
importlib.util.find_spec = lambda name, *rest: fake if name == "grpc" else real(name, *rest)
if {grpc_first}:
    import grpc
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import taskd_net
    import grpc.aio
found = [[warning.category.__name__, str(warning.message), warning.filename] for warning in caught]
print(json.dumps([{{key: os.environ.get(key) for key in {keys}}}, found]))
"""


def imported(
    env: Mapping[str, str] | None = None, *, grpc_first: bool = False, version: str = "1.85.1", known: bool = True
) -> tuple[dict[str, str | None], list[tuple[str, str, str]]]:
    """Import the package in a new process: the environment that it leaves, and what it warned of."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GRPC_") and key != SWITCH}
    script = SCRIPT.format(version=version, known=known, grpc_first=grpc_first, keys=(FORK, EXPERIMENTS))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=clean | dict(env or {}), capture_output=True, text=True, timeout=50, check=True)
    environment, warned = json.loads(done.stdout)
    return environment, [tuple(warning) for warning in warned]


@pytest.mark.parametrize(
    ("version", "experiments"),
    [
        ("1.62.2", None),
        ("1.79.9", None),
        ("1.80.0", NO_EVENT_ENGINE),
        ("1.100.0rc1", NO_EVENT_ENGINE),
        ("2.0.0", NO_EVENT_ENGINE),
    ],
)
def test_what_is_set_depends_on_the_version_of_grpc(version: str, experiments: str | None) -> None:
    """A version that does not know an experiment prints an error about it."""
    assert imported(version=version) == ({FORK: "0", EXPERIMENTS: experiments}, [])


def test_version_of_grpc_without_the_file_that_tells_it() -> None:
    assert imported(version="1.79.9", known=False) == ({FORK: "0", EXPERIMENTS: None}, [])


def test_what_the_user_has_set_stays() -> None:
    env = {FORK: "1", EXPERIMENTS: ""}
    assert imported(env) == (env, [])
    assert imported(env, grpc_first=True) == (env, [])


def test_what_the_user_has_not_set_is_added() -> None:
    assert imported({FORK: "1"}) == ({FORK: "1", EXPERIMENTS: NO_EVENT_ENGINE}, [])


def test_too_late_is_told_and_nothing_is_set() -> None:
    """A setting that grpc no longer reads would only mislead; children of the process would have it."""
    environment, warned = imported(grpc_first=True)
    assert environment == {FORK: None, EXPERIMENTS: None}
    ((category, text, file),) = warned
    assert (category, file) == ("RuntimeWarning", "<string>")
    assert "import taskd_net first" in text
    assert f"{FORK}=0 {EXPERIMENTS}={NO_EVENT_ENGINE}" in text
    assert f"{SWITCH}=off silences this" in text


def test_too_late_names_only_what_is_missing() -> None:
    _, ((_, text, _),) = imported({EXPERIMENTS: "x"}, grpc_first=True)
    assert f"{FORK}=0" in text
    assert EXPERIMENTS not in text


@pytest.mark.parametrize("off", ["off", "OFF"])
@pytest.mark.parametrize("grpc_first", [False, True])
def test_switched_off_it_leaves_everything_alone(off: str, grpc_first: bool) -> None:
    assert imported({SWITCH: off}, grpc_first=grpc_first) == ({FORK: None, EXPERIMENTS: None}, [])


def test_any_other_word_does_not_switch_it_off() -> None:
    assert imported({SWITCH: "on"})[0][FORK] == "0"


@pytest.mark.parametrize(("said", "left"), [(None, "ERROR"), ("INFO", "INFO"), ("", "")])
def test_grpc_does_not_print_every_handshake_that_fails(said: str | None, left: str) -> None:
    script = "import os, taskd_net; print(os.environ['GRPC_VERBOSITY'])"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GRPC_")}
    env = clean if said is None else {**clean, "GRPC_VERBOSITY": said}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout == f"{left}\n"


@pytest.mark.parametrize(("said", "left"), [(None, "NONE"), ("ERROR", "ERROR"), ("", "")])
def test_command_line_silences_grpc_unless_the_user_has_said_more(said: str | None, left: str) -> None:
    script = "import os, taskd_net; from taskd_net.base.environment import silence; silence()"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GRPC_")}
    env = clean if said is None else {**clean, "GRPC_VERBOSITY": said}
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; print(os.environ['GRPC_VERBOSITY'])"],
        env=env, capture_output=True, text=True, check=True, timeout=50,
    )  # fmt: skip
    assert done.stdout == f"{left}\n"
