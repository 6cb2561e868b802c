"""The manifests of the base: every field by the schemas of Kubernetes, and every value that concerns the program."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from taskd_net.net.joining.standard import LIVENESS
from tests.cli.processes import Daemon, run
from tests.deploy.artefacts import CLOSING_S, DEPLOY, containerfile, port_of, settings_of

OLDEST = "1.29"
"""The first release with sidecars by default."""

FOLDER = DEPLOY / "kubernetes" / "base"
BASE = [FOLDER / name for name in yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]]

pytestmark = pytest.mark.timeout(180)


class StrictLoader(yaml.SafeLoader):
    """A loader that refuses duplicate keys, like kubectl."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Read a mapping."""
        mapping = super().construct_mapping(node, deep)
        assert len(mapping) == len(node.value), f"a key twice{node.start_mark}"
        return mapping


def resources() -> list[dict[str, Any]]:
    """All applied resources."""
    return [resource for path in BASE for resource in yaml.load_all(path.read_text(), StrictLoader)]


def named(kind: str, name: str) -> dict[str, Any]:
    """A resource's spec."""
    (spec,) = (r["spec"] for r in resources() if (r["kind"], r["metadata"]["name"]) == (kind, name))
    assert isinstance(spec, dict)
    return spec


def pods() -> dict[str, dict[str, Any]]:
    """The pods' templates, by the name of their Job."""
    return {name: named("Job", name)["template"] for name in ("train-rank-0", "train-ranks")}


def ours() -> Iterator[tuple[str, dict[str, Any]]]:
    """The containers that run `taskd-net`, with the name of their Job."""
    for job, pod in pods().items():
        for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
            if container["image"].startswith("taskd-net:"):
                yield job, container


def environment(container: dict[str, Any]) -> dict[str, str]:
    """A container's variables, in a pod with the address 10.1.2.3."""
    env = {}
    for variable in container["env"]:
        if "valueFrom" in variable:
            assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
        env[variable["name"]] = variable.get("value", "10.1.2.3")
    return env


def arguments(container: dict[str, Any], index: int, programs: Path) -> list[str]:
    """The arguments of `taskd-net` (or `torchrun`) in a container, in the Indexed Job's pod with this index."""
    line = [*container.get("command", ["taskd-net"]), *container["args"]]
    # Kubernetes itself replaces $(NAME), and would leave a shell's $((…)) alone.
    assert not any(re.search(r"\$\(\w+\)", part) for part in line)
    programs.mkdir(exist_ok=True)
    for name in ("taskd-net", "torchrun"):
        (programs / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "JOB_COMPLETION_INDEX": str(index)}
    return subprocess.run(line, env=env, capture_output=True, text=True, check=True, timeout=10).stdout.splitlines()


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_every_field_is_one_of_kubernetes(version: str) -> None:
    for resource in resources():
        assert version.startswith(kubernetes_validate.validate(resource, version, strict=True))


@pytest.mark.parametrize(("field", "value"), [("readOnlyRootFileSystem", True), ("runAsUser", "65532")])
def test_schemas_find_a_field_that_does_not_exist_or_has_another_type(field: str, value: object) -> None:
    (job,) = (deepcopy(r) for r in resources() if r["metadata"]["name"] == "train-ranks")
    job["spec"]["template"]["spec"]["initContainers"][0]["securityContext"][field] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)


def test_mgr_listens_where_its_probes_and_the_service_look_for_it(tmp_path: Path) -> None:
    ((job, mgr),) = ((job, container) for job, container in ours() if container["name"] == "mgr")
    settings = settings_of(arguments(mgr, 0, tmp_path), environment(mgr))
    assert (job, settings["listen"]) == ("train-rank-0", "10.1.2.3:9601")
    port = {"port": port_of(settings["listen"])}
    assert mgr["startupProbe"]["grpc"] == mgr["livenessProbe"]["grpc"] == {**port, "service": LIVENESS}
    direct = port_of(settings["direct_listen"])
    assert [p["containerPort"] for p in mgr["ports"]] == [port["port"], direct]
    service = named("Service", "train-rank-0")
    assert {port["port"], direct} <= {p["port"] for p in service["ports"]}
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    labels = {job: pod["metadata"]["labels"].items() for job, pod in pods().items()}
    assert service["selector"].items() <= labels["train-rank-0"]
    assert not service["selector"].items() <= labels["train-ranks"]


def test_every_rank_has_its_proxy_which_joins_the_mgr(tmp_path: Path) -> None:
    ranks = []
    for job, proxy in ours():
        if proxy["name"] != "proxy":
            continue
        spec = named("Job", job)
        assert spec.get("completions", 1) == spec.get("parallelism", 1)
        (train,) = pods()[job]["spec"]["containers"]
        for index in range(spec.get("completions", 1)):
            settings = settings_of(arguments(proxy, index, tmp_path), environment(proxy))
            assert (settings["listen"], settings["upstream"]) == ("127.0.0.1:9602", "train-rank-0:9601")
            assert settings["direct_listen"] == "auto"
            assert [p["containerPort"] for p in proxy["ports"]] == [9602]
            torchrun = arguments(train, index, tmp_path)
            assert f"--node-rank={settings['server_rank']}" in torchrun
            assert {"--nnodes=4", "--master-addr=train-rank-0", "--master-port=29500"} <= set(torchrun)
            ranks.append(settings["server_rank"])
    assert ranks == [0, 1, 2, 3]
    assert 29500 in [p["port"] for p in named("Service", "train-rank-0")["ports"]]


def test_pods_of_the_job_reach_each_other_and_nobody_else_does() -> None:
    policy = named("NetworkPolicy", "train")
    selector = policy["podSelector"]["matchLabels"].items()
    assert all(selector <= pod["metadata"]["labels"].items() for pod in pods().values())
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"from": [{"podSelector": policy["podSelector"]}]}]


def test_budget_for_disruptions_is_the_whole_job() -> None:
    assert set(FOLDER.glob("*.yaml")) == {*BASE, FOLDER / "kustomization.yaml"}
    budget = named("PodDisruptionBudget", "train")
    selector = budget["selector"]["matchLabels"].items()
    assert all(selector <= pod["metadata"]["labels"].items() for pod in pods().values())
    # A Job has no scale, so the number is no percentage.
    assert budget["minAvailable"] == sum(named("Job", job).get("completions", 1) for job in pods())


def test_proxies_are_the_same_but_for_their_rank() -> None:
    first, second = ({**c, "command": None, "args": None} for _, c in ours() if c["name"] == "proxy")
    assert first == second


def test_mesh_is_there_before_the_training_and_drains_after_it(tmp_path: Path) -> None:
    for job, pod in pods().items():
        sidecars = pod["spec"]["initContainers"]
        assert [c["name"] for c in sidecars] == (["mgr", "proxy"] if job == "train-rank-0" else ["proxy"])
        assert all(c["restartPolicy"] == "Always" and "startupProbe" in c for c in sidecars)
        ends = [settings_of(arguments(c, 0, tmp_path), environment(c))["drain"] + CLOSING_S for c in sidecars]
        # They end one after another, after the training, which gets 30 s.
        assert pod["spec"]["terminationGracePeriodSeconds"] >= 30 + sum(ends)


def test_containers_run_unprivileged_and_write_into_their_log_folder_alone() -> None:
    image = dict(containerfile())
    user, _, group = image["USER"].partition(":")
    folder = dict(pair.split("=", 1) for pair in image["ENV"].split())["TASKD_LOG_PATH"]
    for job, container in ours():
        assert container["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": int(user),
            "runAsGroup": int(group),
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        volumes = {volume["name"]: set(volume) - {"name"} for volume in pods()[job]["spec"]["volumes"]}
        ((mount,),) = (container["volumeMounts"],)
        assert (mount["mountPath"], volumes[mount["name"]]) == (folder, {"emptyDir"})
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


async def test_probe_of_the_proxy_sees_whether_its_loop_turns(tmp_path: Path) -> None:
    proxy = next(container for _, container in ours() if container["name"] == "proxy")
    assert proxy["startupProbe"]["exec"] == proxy["livenessProbe"]["exec"]
    program, *rest = proxy["livenessProbe"]["exec"]["command"]
    settings = settings_of(arguments(proxy, 0, tmp_path / "programs"), environment(proxy))
    assert program == "taskd-net" and settings["listen"] in rest

    async def probe(address: str) -> tuple[int, str]:
        code, output, _ = await run(*(part.replace(settings["listen"], address) for part in rest))
        return code, output

    async with Daemon("proxy", "--log-std-level", "INFO", "--upstream", "127.0.0.1:9", logs=tmp_path) as daemon:
        # It lives without an upstream.
        assert await probe(daemon.address) == (0, "SERVING\n")
        assert (await run("health", "--at", daemon.address))[:2] == (1, "NOT_SERVING\n")
        address = daemon.address
        daemon.signal(signal.SIGSTOP)
        assert await probe(address) == (3, "")
        daemon.signal(signal.SIGCONT)
    assert await probe(address) == (3, "")


def test_mgr_expects_as_many_ranks_as_the_job_has(tmp_path: Path) -> None:
    ((_, mgr),) = ((job, container) for job, container in ours() if container["name"] == "mgr")
    settings = settings_of(arguments(mgr, 0, tmp_path), environment(mgr))
    (train,) = pods()["train-rank-0"]["spec"]["containers"]
    nodes, processes = settings["expect"].split("x")
    assert {f"--nnodes={nodes}", f"--nproc-per-node={processes}"} <= set(arguments(train, 0, tmp_path))
