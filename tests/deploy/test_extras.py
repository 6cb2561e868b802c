"""Images and instructions install the extras of their settings; without them a daemon does not start."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence

import pytest
import yaml

from taskd_net.cli.settings import COMMANDS
from tests.cli.processes import ROOT
from tests.deploy.artefacts import DEPLOY

EXTRAS: Mapping[str, Sequence[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]

NEEDED = {
    "http_port": "page",
    "metrics_port": "metrics",
    "tracing": "tracing",
    **dict.fromkeys(("enable_tls", "ca", "server_key", "server_crt", "client_key", "client_crt", "server_name"), "tls"),
    "identity": "tls",
    "job": "tls",
}
"""Settings of the daemons, and the extra that each needs."""

INSTALLED = {
    path.name: set(re.findall(r"pip install .*\[([\w,]+)\]'", path.read_text()))
    for path in (DEPLOY / "Containerfile", DEPLOY / "README.md")
}


def with_theirs(extra: str) -> set[str]:
    """An extra with the extras that it includes."""
    found = {extra}
    for requirement in EXTRAS[extra]:
        if own := re.fullmatch(r"taskd-net\[([\w,]+)\]", requirement):
            for other in own[1].split(","):
                found |= with_theirs(other)
    return found


def installed(name: str) -> set[str]:
    """The extras that an artefact installs."""
    (said,) = INSTALLED[name]
    return {other for extra in said.split(",") for other in with_theirs(extra)}


def configured() -> set[str]:
    """The settings in deploy/: as a flag, as a variable, or in a file."""
    texts = [path.read_text() for path in sorted(DEPLOY.rglob("*")) if path.is_file() and path.suffix != ".json"]
    names = {setting.name: setting for command in ("mgr", "proxy") for setting in COMMANDS[command]}
    found = set()
    for name, setting in names.items():
        words = [re.escape(setting.opts[0]) + r"\b", *map(re.escape, setting.variables), rf"^{name} = "]
        if any(re.search("|".join(words), text, re.MULTILINE) for text in texts):
            found.add(name)
    return found


@pytest.mark.parametrize("artefact", INSTALLED)
def test_extras_of_every_setting_that_is_configured_are_installed(artefact: str) -> None:
    wanted = {NEEDED[name] for name in configured() if name in NEEDED}
    assert {"metrics", "page"} <= wanted, "deploy/ names both, as the dashboard needs the one"
    assert wanted | {"cli", "health"} <= installed(artefact)


@pytest.mark.parametrize("artefact", INSTALLED)
def test_every_extra_that_the_program_asks_for_is_installed(artefact: str) -> None:
    """The image is for any settings, so it has every extra that a daemon may ask for."""
    source = "\n".join(path.read_text() for path in (ROOT / "taskd_net").rglob("*.py"))
    # No daemon asks for `plot`, which draws a file at a desk, and matplotlib is large. Trainings have images of their
    # own, with `torch`.
    asked = set(re.findall(r"taskd-net\[(\w+)\]", source)) - {"plot", "torch"}
    assert asked >= {"cli", "health", "metrics", "page", "tls", "tracing"}
    assert asked <= installed(artefact)
    assert set(NEEDED.values()) <= asked


def test_settings_that_need_an_extra_are_the_daemons() -> None:
    names = {setting.name for command in ("mgr", "proxy") for setting in COMMANDS[command]}
    assert set(NEEDED) <= names


def test_probes_of_the_manifests_ask_what_the_extra_serves() -> None:
    texts = [path.read_text() for path in (DEPLOY / "kubernetes").rglob("*.yaml")]
    probes = [line for text in texts for line in text.splitlines() if "grpc: " in line]
    assert len(probes) == 3 and all(list(yaml.safe_load_all(text)) for text in texts)
    assert "health" in with_theirs("cli")


def test_the_unit_runs_what_its_instructions_install() -> None:
    unit = (DEPLOY / "systemd" / "taskd-net-proxy.service").read_text()
    (program,) = re.findall(r"^ExecStart=(\S+)", unit, re.MULTILINE)
    readme = (DEPLOY / "README.md").read_text()
    (pip,) = (line for line in readme.splitlines() if "pip install" in line)
    assert pip.split()[0].removesuffix("/pip") == program.removesuffix("/taskd-net")
