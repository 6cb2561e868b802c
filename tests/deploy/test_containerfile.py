"""The Containerfile matches the program. No test builds an image."""

from __future__ import annotations

import json
import re
import tomllib

from click.testing import CliRunner

from taskd_net import __version__
from taskd_net.cli.group import group
from taskd_net.cli.settings import COMMANDS
from taskd_net.net.joining.standard import LIVENESS
from tests.cli.processes import ROOT
from tests.deploy.artefacts import DEPLOY, containerfile, port_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def every(name: str) -> list[str]:
    """The arguments of every instruction of this name."""
    return [rest for instruction, rest in containerfile() if instruction == name]


def only(name: str) -> str:
    """The arguments of the only instruction of this name."""
    (rest,) = every(name)
    return rest


def test_everything_that_a_wheel_is_made_of_is_copied_in() -> None:
    copied = {path for rest in every("COPY") if not rest.startswith("--from") for path in rest.split()[:-1]}
    assert all((ROOT / path).exists() for path in copied)
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    sources = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], *wheel}
    assert copied == {*sources, "constraints.txt"}


def test_it_installs_the_command_and_runs_it() -> None:
    assert re.search(r"pip install .*--constraint /src/constraints.txt '/src\[[\w,]+\]'$", every("RUN")[0])
    (entry,) = json.loads(only("ENTRYPOINT"))
    assert entry in PROJECT["project"]["scripts"]
    assert CliRunner().invoke(group, json.loads(only("CMD"))).exit_code == 0
    assert only("ARG") == "BASE=python:3.11-slim"
    assert [base.split()[0] for base in every("FROM")] == ["${BASE}", "${BASE}"]


def test_each_package_of_the_image_has_a_version() -> None:
    """The extras, as far as the requirements name them; pip's own resolution has the rest."""
    held = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted, seen = ["all"], set[str]()
    while wanted:
        if (extra := wanted.pop()) not in seen:
            seen.add(extra)
            for own in (re.fullmatch(r"taskd-net\[([\w,]+)\]", each) for each in extras[extra]):
                wanted += own[1].split(",") if own else []
    required = [*PROJECT["project"]["dependencies"], *(each for extra in seen for each in extras[extra])]
    named = {re.split(r"[^\w-]", each, maxsplit=1)[0] for each in required} - {"taskd-net"}
    assert named - held == set()


def test_ports_are_the_defaults() -> None:
    listen = [setting for name in ("mgr", "proxy") for setting in COMMANDS[name] if setting.name == "listen"]
    assert [int(port) for port in only("EXPOSE").split()] == [port_of(str(setting.default)) for setting in listen]


def test_it_runs_as_nobody_in_particular_who_can_write_its_log() -> None:
    user, _, group_id = only("USER").partition(":")
    assert user.isdigit() and group_id.isdigit() and int(user) > 0
    variables = dict(pair.split("=", 1) for pair in only("ENV").split())
    assert set(variables) == {"PATH", "TASKD_LOG_PATH", "TASKD_NET_AT"}
    assert every("RUN")[1] == f"install -d -o {user} -g {group_id} {variables['TASKD_LOG_PATH']}"


def test_labels_are_those_of_the_project() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', "\n".join(every("LABEL"))))
    assert labels == {
        "title": PROJECT["project"]["name"],
        "description": PROJECT["project"]["description"],
        "version": __version__,
        "licenses": PROJECT["project"]["license"],
    }


def test_health_check_asks_the_proxy_and_by_a_variable_the_mgr() -> None:
    options, _, command = only("HEALTHCHECK").partition(" CMD ")
    program, name, *rest = json.loads(command)
    assert (program, name) == ("taskd-net", "health")
    waits = float(next(word for word in rest if word.startswith("--timeout=")).partition("=")[2])
    assert waits < float(re.findall(r"--timeout=(\d+)s", options)[0])
    assert f"--service={LIVENESS}" in rest
    variables = dict(pair.split("=", 1) for pair in only("ENV").split())
    listen = {name: next(s for s in COMMANDS[name] if s.name == "listen").default for name in ("mgr", "proxy")}
    assert variables["TASKD_NET_AT"] == listen["proxy"]
    # An address that nobody listens at: exit code 3, which the engine takes for unhealthy.
    asked = CliRunner().invoke(group, [name, *rest[:-1], "--timeout=1"], env={"TASKD_NET_AT": "127.0.0.1:9"})
    assert asked.exit_code == 3


def test_context_has_what_is_copied_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    copied = {path for rest in every("COPY") if not rest.startswith("--from") for path in rest.split()[:-1]}
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
    assert lines[-2:] == ["**/__pycache__", "**/*.pyc"]


def test_the_tag_that_it_is_built_with_is_the_version() -> None:
    mgr = DEPLOY / "kubernetes" / "high-availability" / "mgr.yaml"
    for text in (DEPLOY / "Containerfile", DEPLOY / "README.md", mgr):
        tags = set(re.findall(r"\btaskd-net:([\w.]+)", text.read_text()))
        assert tags == {__version__}, text
