"""The JobSet with everything, as kustomize renders it: TLS from a Secret, metrics, the status page, PodMonitor."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from taskd_net.cli.settings import COMMANDS
from tests.cli.processes import Daemon, run
from tests.deploy import controllers
from tests.deploy.artefacts import settings_of
from tests.deploy.manifests import KUBERNETES, VERSIONS, Resource, StrictLoader, check, named, pods, rendered
from tests.deploy.pod_security import breaches
from tests.deploy.test_alerts import alerts
from tests.peers.certificates import Folder

RENDERERS: Final = (("kubectl", "kustomize"), ("kustomize", "build"))
TLS: Final = "/etc/taskd-net/tls"

POD_MONITOR: Final = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "PodMonitor"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["selector", "podMetricsEndpoints"],
            "additionalProperties": False,
            "properties": {
                "selector": {"type": "object", "properties": {"matchLabels": {"type": "object"}}},
                "podMetricsEndpoints": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "port": {"type": "string"},
                            "interval": {"type": "string", "pattern": "^[0-9]+s$"},
                        },
                    },
                },
            },
        },
    },
}
"""The fields in use of the operator's own resource, which the schemas of Kubernetes do not have."""

pytestmark = pytest.mark.timeout(180)


def everything() -> list[Resource]:
    """The resources of the overlay with everything."""
    return rendered(KUBERNETES / "overlays" / "full")


def the(kind: str) -> Resource:
    """The one rendered resource of a kind."""
    (found,) = (resource for resource in everything() if resource["kind"] == kind)
    return found


def training() -> dict[str, Any]:
    """The container of the training."""
    (pod,) = pods(the("JobSet"))
    (container,) = pod.spec["containers"]
    assert isinstance(container, dict)
    return container


def settings() -> dict[str, Any]:
    """The settings of the Manager that the launcher of node 0 starts, by the variables of its pod."""
    known = {variable for setting in COMMANDS["mgr"] for variable in setting.variables}
    first, *_ = controllers.jobset(the("JobSet"))
    return settings_of(["mgr"], {name: value for name, value in first.environment.items() if name in known})


@pytest.mark.parametrize("version", VERSIONS)
def test_every_rendered_field_is_one_of_its_schema(version: str) -> None:
    kinds = set()
    for resource in everything():
        kinds.add(resource["kind"])
        if resource["kind"] == "PodMonitor":
            jsonschema.validate(resource, POD_MONITOR)
        else:
            check(resource, version)
    assert kinds == {"JobSet", "NetworkPolicy", "PodMonitor"}


@pytest.mark.parametrize("folder", ["jobset", "overlays/full"])
def test_folder_renders_as_by_the_program_that_the_instructions_use(folder: str) -> None:
    """The renderer of these tests is no kustomize, which others need not have."""
    own = {resource["kind"]: resource for resource in rendered(KUBERNETES / folder)}
    for program, verb in RENDERERS:
        if shutil.which(program):
            command = [program, verb, str(KUBERNETES / folder)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
            found = list(yaml.load_all(done.stdout, StrictLoader))
            assert {resource["kind"]: resource for resource in found} == own and len(found) == len(own)
            return
    pytest.skip("neither kubectl nor kustomize is installed")


def test_pods_with_everything_keep_the_restricted_standard() -> None:
    (pod,) = pods(the("JobSet"))
    assert breaches(pod.metadata, pod.spec) == []


def test_components_add_to_the_jobset_and_change_nothing() -> None:
    (pod,), (before,) = pods(the("JobSet")), pods(named("JobSet", "jobset"))
    container, earlier = training(), before.spec["containers"][0]
    for name in ("env", "volumeMounts"):
        assert container[name][: len(earlier[name])] == earlier[name]
    assert {key for key in container if container[key] != earlier.get(key)} == {"env", "volumeMounts", "ports"}
    assert {key for key in pod.spec if pod.spec[key] != before.spec[key]} == {"containers", "volumes"}
    variables = [variable["name"] for variable in container["env"]]
    assert len(set(variables)) == len(variables)


def test_files_of_tls_are_those_of_the_secret_and_open_to_the_group_alone() -> None:
    (pod,) = pods(the("JobSet"))
    (volume,) = (volume for volume in pod.spec["volumes"] if volume["name"] == "tls")
    assert volume["secret"] == {"secretName": "train-tls", "defaultMode": 0o440}
    assert pod.spec["securityContext"]["fsGroup"] == pod.spec["securityContext"]["runAsGroup"]
    assert {"name": "tls", "mountPath": TLS, "readOnly": True} in training()["volumeMounts"]
    found = {name: value for node in controllers.jobset(the("JobSet")) for name, value in node.environment.items()}
    files = {
        "TASKD_NET_CA": "ca.crt",
        **dict.fromkeys(("TASKD_NET_SERVER_KEY", "TASKD_NET_CLIENT_KEY"), "tls.key"),
        **dict.fromkeys(("TASKD_NET_SERVER_CRT", "TASKD_NET_CLIENT_CRT"), "tls.crt"),
    }
    assert {name: value for name, value in found.items() if value.startswith(TLS)} == {
        name: f"{TLS}/{file}" for name, file in files.items()
    }
    assert found["TASKD_NET_SERVER_NAME"] == found["TASKD_NET_MASTER_ADDR"]


def test_ports_of_the_manager_are_those_that_prometheus_and_readers_ask() -> None:
    monitor = the("PodMonitor")
    (scraped,) = (endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"])
    named = {port["name"]: port["containerPort"] for port in training()["ports"]}
    assert set(named) == {scraped, "page"} and len(set(named.values())) == 2
    found = settings()
    assert found["metrics_port"] == f"0.0.0.0:{named[scraped]}" and found["http_port"] == f"0.0.0.0:{named['page']}"
    (_, watched) = the("NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in watched["ports"]] == [named[scraped]]
    # Prometheus's operator names the job after the namespace and the monitor.
    (looked_for,) = re.findall(r'job=~"(.*?)"', alerts()["TaskdNetScrapeFails"]["expr"])
    assert re.fullmatch(looked_for, f"research/{monitor['metadata']['name']}")
    (pod,) = pods(the("JobSet"))
    labels = {**pod.metadata["labels"], "batch.kubernetes.io/job-completion-index": "0"}
    assert monitor["spec"]["selector"]["matchLabels"].items() == labels.items()


async def test_manager_and_proxies_join_by_the_one_certificate_of_the_job(tmp_path: Path) -> None:
    """The rendered variables, with other addresses and the files of a test. A launcher's Proxy has all of them."""
    first, *_ = controllers.jobset(the("JobSet"))
    issued = Folder(tmp_path / "certificates")
    issued.issue(hosts=(first.environment["TASKD_NET_MASTER_ADDR"],))
    names = {"ca.crt": issued.ca, "tls.key": issued.key, "tls.crt": issued.crt}
    secured = {
        name: names[value.removeprefix(f"{TLS}/")] if value.startswith(TLS) else value
        for name, value in first.environment.items()
        if value.startswith(TLS) or name == "TASKD_NET_SERVER_NAME"
    }
    side = {"TASKD_NET_METRICS_PORT": "127.0.0.1:0", "TASKD_NET_HTTP_PORT": "127.0.0.1:0"}
    logged = ("--log-std-level", "INFO")
    async with AsyncExitStack() as stack:
        mgr = await stack.enter_async_context(Daemon("mgr", *logged, logs=tmp_path / "mgr", env=secured | side))
        metrics = await mgr.said(r"metrics_listening.*?address=(\S+)")
        proxy = await stack.enter_async_context(
            Daemon("proxy", *logged, "--upstream", mgr.address, logs=tmp_path / "proxy", env=secured)
        )
        await proxy.said(r"\bjoined\b")
        for address in (mgr.address, proxy.address):
            assert (await run("health", "--at", address, "--service=liveness", env=secured))[:2] == (0, "SERVING\n")
        read = urllib.request.urlopen
        text = (await asyncio.to_thread(lambda: read(f"http://{metrics[1]}/metrics").read())).decode()
        assert 'taskd_net_certificate_expiry_timestamp_seconds{use="server"}' in text
