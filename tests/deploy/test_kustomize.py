"""The job with everything, as kustomize renders it: TLS from Secrets, metrics, the status page, PodMonitor."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import urllib.request
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.cli.processes import Daemon, run
from tests.deploy.artefacts import DEPLOY, containerfile, port_of, settings_of
from tests.deploy.test_alerts import alerts
from tests.deploy.test_kubernetes import BASE, OLDEST, StrictLoader, arguments, environment
from tests.peers.certificates import Folder

KUBERNETES = DEPLOY / "kubernetes"
COMPONENTS = sorted((KUBERNETES / "components").iterdir())
RENDERERS = (("kubectl", "kustomize"), ("kustomize", "build"))
TLS = "/etc/taskd-net/tls"

POD_MONITOR = {
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


@cache
def rendered(overlay: str = "overlays/full") -> list[dict[str, Any]]:
    """The resources of a folder, by the program that the instructions use."""
    for program, verb in RENDERERS:
        if shutil.which(program):
            command = [program, verb, str(KUBERNETES / overlay)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
            return list(yaml.load_all(done.stdout, StrictLoader))
    pytest.skip("neither kubectl nor kustomize is installed")


def files() -> list[dict[str, Any]]:
    """The resources in the files of the base."""
    return [resource for path in BASE for resource in yaml.safe_load_all(path.read_text())]


def name(resource: dict[str, Any]) -> tuple[str, str]:
    """The kind and the name of a resource."""
    return resource["kind"], resource["metadata"]["name"]


def the(kind: str, name: str) -> dict[str, Any]:
    """One rendered resource's spec."""
    (spec,) = (r["spec"] for r in rendered() if (r["kind"], r["metadata"]["name"]) == (kind, name))
    assert isinstance(spec, dict)
    return spec


def daemons() -> dict[tuple[str, str], dict[str, Any]]:
    """The containers that run `taskd-net`, by their Job and name."""
    jobs = {r["metadata"]["name"]: r["spec"]["template"]["spec"] for r in rendered() if r["kind"] == "Job"}
    return {(job, c["name"]): c for job, pod in jobs.items() for c in pod["initContainers"]}


def settings(container: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """The settings in force of a container's daemon."""
    return settings_of(arguments(container, 0, tmp_path / "programs"), environment(container))


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda path: path.name)
def test_patches_change_what_the_base_has(component: Path) -> None:
    """Kustomize would add a container that a patch has a wrong name for."""
    base = {name(resource): resource for resource in files()}
    patches = [patch["path"] for patch in yaml.safe_load((component / "kustomization.yaml").read_text())["patches"]]
    assert len(patches) >= 2
    for patch in (yaml.safe_load((component / path).read_text()) for path in patches):
        # The other form of a patch, a list of operations, fails by itself.
        if isinstance(patch, dict):
            changed = base[name(patch)]
            if patch["kind"] == "Job":
                pods = [resource["spec"]["template"]["spec"] for resource in (changed, patch)]
                there, patched = ({container["name"] for container in pod["initContainers"]} for pod in pods)
                assert patched == there


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_every_rendered_field_is_one_of_kubernetes(version: str) -> None:
    kinds = set()
    for resource in rendered():
        kinds.add(resource["kind"])
        if resource["kind"] == "PodMonitor":
            jsonschema.validate(resource, POD_MONITOR)
        else:
            kubernetes_validate.validate(resource, version, strict=True)
    assert kinds == {"Job", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "Service"}


def test_base_renders_to_its_files() -> None:
    assert sorted(rendered("base"), key=name) == sorted(files(), key=name)


def test_files_of_tls_are_those_of_the_secrets_and_open_to_the_daemons_alone(tmp_path: Path) -> None:
    group = int(dict(containerfile())["USER"].partition(":")[2])
    for (job, daemon), container in daemons().items():
        pod = the("Job", job)["template"]["spec"]
        assert pod["securityContext"] == {"fsGroup": group}
        (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "tls")
        assert volume["secret"] == {"secretName": job.replace("train", "taskd-net"), "defaultMode": 0o440}
        assert {"name": "tls", "mountPath": TLS, "readOnly": True} in container["volumeMounts"]
        found = settings(container, tmp_path)
        side = "server" if daemon == "mgr" else "client"
        assert (found["ca"], found[f"{side}_key"], found[f"{side}_crt"]) == tuple(
            f"{TLS}/{file}" for file in ("ca.crt", "tls.key", "tls.crt")
        )


def test_all_but_tls_and_the_ports_is_as_in_the_base(tmp_path: Path) -> None:
    jobs = {r["metadata"]["name"]: r["spec"]["template"]["spec"] for r in files() if r["kind"] == "Job"}
    for (job, daemon), container in daemons().items():
        (base,) = (c for c in jobs[job]["initContainers"] if c["name"] == daemon)
        before, after = settings(base, tmp_path), settings(container, tmp_path)
        changed = {key for key in after if after[key] != before.get(key)}
        tls = {"ca", "server_key", "server_crt", "client_key", "client_crt", "enable_tls", "plain_listen"}
        assert changed <= tls | {"metrics_port", "http_port"}


def test_ports_of_metrics_and_page_are_open_to_prometheus_and_the_job(tmp_path: Path) -> None:
    monitor = the("PodMonitor", "taskd-net")
    scraped = {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]}
    (_, watched) = the("NetworkPolicy", "train")["ingress"]
    opened = {port["port"] for port in watched["ports"]}
    ports = set()
    for container in daemons().values():
        found, named = settings(container, tmp_path), {p["name"]: p["containerPort"] for p in container["ports"]}
        (metrics,) = scraped & set(named)
        assert found["metrics_port"] == f"0.0.0.0:{named[metrics]}"
        ports.add(named[metrics])
        if container["name"] == "mgr":
            assert found["http_port"] == f"0.0.0.0:{named['page']}"
            assert named["page"] in [port["port"] for port in the("Service", "train-rank-0")["ports"]]
    assert ports == opened
    # Prometheus's operator names the job after the monitor.
    assert "taskd-net" in alerts()["TaskdNetScrapeFails"]["expr"]
    for job in ("train-rank-0", "train-ranks"):
        labels = the("Job", job)["template"]["metadata"]["labels"].items()
        assert monitor["selector"]["matchLabels"].items() <= labels


def test_containers_of_one_pod_share_no_port() -> None:
    for job in ("train-rank-0", "train-ranks"):
        ports = [port for (of, _), c in daemons().items() if of == job for port in c["ports"]]
        assert len({port["containerPort"] for port in ports}) == len({port["name"] for port in ports}) == len(ports)


async def test_daemons_of_the_job_with_everything(tmp_path: Path) -> None:
    """The rendered variables and arguments, with other addresses and the files of a test."""
    issued = Folder(tmp_path / "certificates")
    names = {"ca.crt": issued.ca, "tls.key": issued.key, "tls.crt": issued.crt}

    def env(container: dict[str, Any], **changed: str) -> dict[str, str]:
        return {
            variable: names[value.removeprefix(f"{TLS}/")] if value.startswith(TLS) else value
            for variable, value in environment(container).items()
        } | changed

    side = {"TASKD_NET_METRICS_PORT": "127.0.0.1:0"}
    mgr_of, proxy_of = daemons()["train-rank-0", "mgr"], daemons()["train-rank-0", "proxy"]
    plain = settings(mgr_of, tmp_path)["plain_listen"]
    for probe in (mgr_of["startupProbe"], mgr_of["livenessProbe"]):
        assert set(probe) & {"exec", "grpc"} == {"exec"} and plain in probe["exec"]["command"]
    assert port_of(plain) != port_of(settings(proxy_of, tmp_path)["listen"])
    logged = ("--log-std-level", "INFO")
    async with AsyncExitStack() as stack:
        here = ("--plain-listen", "127.0.0.1:0", "--direct-listen", "auto", "--http-port", "127.0.0.1:0")
        mgr = await stack.enter_async_context(
            Daemon("mgr", *logged, *here, logs=tmp_path / "mgr", env=env(mgr_of, **side))
        )
        listening = await mgr.said(r"listening +.*plain_address=(\S+)")
        proxy = await stack.enter_async_context(
            Daemon(
                *("proxy", *logged, "--server-rank", "0"),
                logs=tmp_path / "proxy",
                env=env(proxy_of, TASKD_NET_UPSTREAM=mgr.address, **side),
            )
        )
        await proxy.said(r"\bjoined\b")
        # The probes, with the variables of their containers: the loopback interface of a pod has plain text.
        asked = ((mgr_of, plain, listening[1]), (proxy_of, settings(proxy_of, tmp_path)["listen"], proxy.address))
        for container, address, here_at in asked:
            _, *probe = container["livenessProbe"]["exec"]["command"]
            assert address in probe
            probe[probe.index(address)] = here_at
            assert (await run(*probe, env=env(container)))[:2] == (0, "SERVING\n")
        metrics = await proxy.said(r"metrics_listening.*?address=(\S+)")
        read = urllib.request.urlopen
        text = (await asyncio.to_thread(lambda: read(f"http://{metrics[1]}/metrics").read())).decode()
        assert "taskd_net_joined 1.0" in text
        assert 'taskd_net_certificate_expiry_timestamp_seconds{use="client"}' in text
