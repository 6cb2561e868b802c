"""The StatefulSet of docs/high-availability.md: the file in deploy/, and its values by the program."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from tests.cli.processes import ROOT
from tests.deploy import controllers
from tests.deploy.artefacts import CLOSING_S, port_of, settings_of
from tests.deploy.manifests import KUBERNETES, named

DOCUMENT: Final = ROOT / "docs" / "high-availability.md"
FILE: Final = KUBERNETES / "high-availability" / "mgr.yaml"

pytestmark = pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")


def mgr() -> dict[str, Any]:
    """The container of a Mgr."""
    (container,) = named("StatefulSet", "high-availability")["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def settings() -> dict[str, Any]:
    """The settings in force of a Mgr."""
    variables = {name: value for name, value in controllers.resolved(mgr(), {}).items() if "KUBERNETES" not in name}
    return settings_of(controllers.command(mgr()), variables)


def test_document_has_the_file() -> None:
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", DOCUMENT.read_text())
    assert text == "".join(line for line in FILE.read_text().splitlines(keepends=True) if not line.startswith("#"))


def test_names_lead_to_the_mgrs() -> None:
    mgrs, service = named("StatefulSet", "high-availability"), named("Service", "high-availability")
    found = settings()
    assert (found["job_id"], found["listen"]) == ("J", f"{controllers.POD_IP}:9601")
    assert found["state"].startswith("etcd://")
    labels = mgrs["spec"]["template"]["metadata"]["labels"]
    assert mgrs["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    name, subdomain = mgrs["metadata"]["name"], mgrs["spec"]["serviceName"]
    assert service["metadata"]["name"] == subdomain
    upstream = ",".join(f"{name}-{number}.{subdomain}:9601" for number in range(mgrs["spec"]["replicas"]))
    assert f"`TASKD_NET_UPSTREAM={upstream}`" in DOCUMENT.read_text()
    ports = {port_of(found["listen"]), port_of(found["direct_listen"])}
    assert {each["port"] for each in service["spec"]["ports"]} == ports
    assert {each["containerPort"] for each in mgr()["ports"]} == ports


def test_a_drain_takes_one_mgr_at_a_time() -> None:
    budget, mgrs = named("PodDisruptionBudget", "high-availability"), named("StatefulSet", "high-availability")
    assert budget["spec"]["selector"] == mgrs["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] == mgrs["spec"]["replicas"] - 1 == 1


def test_probes_ask_whether_the_loop_turns() -> None:
    asked = {"port": port_of(settings()["listen"]), "service": "liveness"}
    assert all(mgr()[f"{probe}Probe"]["grpc"] == asked for probe in ("startup", "readiness", "liveness"))


def test_mgr_has_the_time_that_it_takes_to_end() -> None:
    spec = named("StatefulSet", "high-availability")["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] >= settings()["drain"] + CLOSING_S
