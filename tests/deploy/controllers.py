"""Pods as controllers make them of the manifests: the environment that Kubernetes resolves, and the host name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.deploy.manifests import Resource, pods

POD_IP: Final = "10.1.2.3"
JOBSET_UID: Final = "f2f5ad60-1f3c-4f0f-9d9e-3f5f0a3c1b77"
DOMAIN: Final = "default.svc.cluster.local"

_ANNOTATION: Final = re.compile(r"metadata\.annotations\['([^']+)'\]")
_REFERENCE: Final = re.compile(r"\$\((\w+)\)")


@dataclass(frozen=True)
class Node:
    """A pod as its launcher finds it.

    Args:
        host: name of the pod, with its domain where its /etc/hosts has that.
        environment: variables of the container of the training.
        arguments: its command.
    """

    host: str
    environment: Mapping[str, str]
    arguments: list[str] = field(default_factory=list)


def jobset(resource: Resource, attempt: int = 0) -> list[Node]:
    """The pods of a JobSet with one Job."""
    name = resource["metadata"]["name"]
    (replicated,) = resource["spec"]["replicatedJobs"]
    (pod,) = pods(resource)
    assert replicated.get("replicas", 1) == 1 and pod.job["completionMode"] == "Indexed"
    assert pod.job["completions"] == pod.job["parallelism"]
    more = {}
    if (first := resource["spec"].get("coordinator")) is not None:
        number = f"{first['replicatedJob']}-{first.get('jobIndex', 0)}-{first.get('podIndex', 0)}"
        more["jobset.sigs.k8s.io/coordinator"] = f"{name}-{number}.{name}"
    return [
        _indexed(f"{name}-{replicated['name']}-0", name, index, pod.spec["containers"][0], {}, more, attempt)
        for index in range(pod.job["completions"])
    ]


def trainer(runtime: Resource, job: Resource, attempt: int = 0) -> list[Node]:
    """The pods of a TrainJob by a runtime with the policy for torch."""
    name, wanted = job["metadata"]["name"], job["spec"]["trainer"]
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] and "torch" in runtime["spec"]["mlPolicy"]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    labels = replicated["template"]["metadata"]["labels"]
    (pod,) = pods(runtime)
    assert labels["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer" and replicated["name"] == "node"
    (container,) = (each for each in pod.spec["containers"] if each["name"] == "node")
    own = {key: wanted[key] for key in ("image", "command", "args") if key in wanted}
    nodes = wanted.get("numNodes", runtime["spec"]["mlPolicy"]["numNodes"])
    has_gpus = any("gpu" in each for each in wanted["resourcesPerNode"]["limits"])
    return [
        _indexed(
            f"{name}-node-0",
            name,
            index,
            {**container, **own},
            {
                "PET_NNODES": str(nodes),
                "PET_NODE_RANK": str(index),
                "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
                "PET_MASTER_PORT": "29500",
                "PET_NPROC_PER_NODE": "auto" if has_gpus else wanted["resourcesPerNode"]["requests"]["cpu"],
            },
            {},
            attempt,
        )
        for index in range(nodes)
    ]


def volcano(resource: Resource, attempt: int = 0) -> list[Node]:
    """The pods of a Volcano job with the plugins env and svc."""
    name, tasks = resource["metadata"]["name"], resource["spec"]["tasks"]
    assert {"env", "svc"} <= set(resource["spec"]["plugins"])
    shared: dict[str, str] = {}
    for task in tasks:
        hosts = [f"{name}-{task['name']}-{index}.{name}" for index in range(task["replicas"])]
        known = f"VC_{task['name'].upper().replace('-', '_')}"
        shared |= {f"{known}_NUM": str(task["replicas"]), f"{known}_HOSTS": ",".join(hosts)}
    annotations = {
        "scheduling.k8s.io/group-name": f"{name}-{JOBSET_UID}",
        "volcano.sh/job-version": str(attempt),
        "volcano.sh/job-retry-count": str(attempt),
    }
    nodes = []
    for task, pod in zip(tasks, pods(resource), strict=True):
        container = pod.spec["containers"][0]
        for index in range(task["replicas"]):
            own = {**shared, "VC_TASK_INDEX": str(index), "VK_TASK_INDEX": str(index)}
            host = f"{name}-{task['name']}-{index}.{name}.{DOMAIN}"
            nodes.append(Node(host, resolved(container, annotations, own), command(container)))
    return nodes


def command(container: Mapping[str, Any]) -> list[str]:
    """The words of a container's command."""
    return [*container.get("command", ()), *container.get("args", ())]


def resolved(
    container: Mapping[str, Any], annotations: Mapping[str, str], own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of a container in a pod.

    Args:
        container: of the pod.
        annotations: of the pod, for the downward API. One that is missing is an empty text.
        own: variables of the controller.
    """
    found: dict[str, str] = {}
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            annotation = _ANNOTATION.fullmatch(path)
            assert annotation or path == "status.podIP", path
            value = annotations.get(annotation[1], "") if annotation else POD_IP
        else:
            # A reference to an unknown variable stays as it is.
            value = _REFERENCE.sub(lambda name: found.get(name[1], name[0]), variable["value"])
        assert variable["name"] not in found, variable
        found[variable["name"]] = value
    assert not set(found) & set(own or {}), "the controller sets it"
    return {"KUBERNETES_SERVICE_HOST": "10.96.0.1", **(own or {}), **found}


def _indexed(
    job: str,
    subdomain: str,
    index: int,
    container: Mapping[str, Any],
    own: Mapping[str, str],
    annotations: Mapping[str, str],
    attempt: int,
) -> Node:
    """A pod of an indexed Job of a JobSet."""
    given = {
        "jobset.sigs.k8s.io/jobset-uid": JOBSET_UID,
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": str(index),
        **annotations,
    }
    given["jobset.sigs.k8s.io/jobset-name"] = subdomain
    variables = {**own, "JOB_COMPLETION_INDEX": str(index)}
    return Node(f"{job}-{index}.{subdomain}.{DOMAIN}", resolved(container, given, variables), command(container))
