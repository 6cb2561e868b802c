"""The StatefulSet of docs/high-availability.md: its fields by the schemas of Kubernetes, its values by the program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.cli.processes import ROOT
from tests.deploy.artefacts import settings_of
from tests.deploy.test_kubernetes import OLDEST, StrictLoader, arguments, environment

DOCUMENT = ROOT / "docs" / "high-availability.md"

pytestmark = pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")


def resources() -> tuple[dict[str, Any], dict[str, Any]]:
    """The StatefulSet and the Service."""
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", DOCUMENT.read_text())
    mgrs, service = yaml.load_all(text, StrictLoader)
    return mgrs, service


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_every_field_is_one_of_kubernetes(version: str) -> None:
    for resource in resources():
        kubernetes_validate.validate(resource, version, strict=True)


def test_names_lead_to_the_mgrs(tmp_path: Path) -> None:
    mgrs, service = resources()
    (container,) = mgrs["spec"]["template"]["spec"]["containers"]
    settings = settings_of(arguments(container, 0, tmp_path), environment(container))
    assert (
        settings["job_id"] == "J" and settings["state"].startswith("etcd://") and settings["listen"] == "10.1.2.3:9601"
    )
    labels = mgrs["spec"]["template"]["metadata"]["labels"]
    assert mgrs["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    name, subdomain = mgrs["metadata"]["name"], mgrs["spec"]["serviceName"]
    assert service["metadata"]["name"] == subdomain
    upstream = ",".join(f"{name}-{number}.{subdomain}:9601" for number in range(mgrs["spec"]["replicas"]))
    assert f"`TASKD_NET_UPSTREAM={upstream}`" in DOCUMENT.read_text()
    assert {each["port"] for each in service["spec"]["ports"]} == {9601, 9611}
