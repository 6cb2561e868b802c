"""The manifests: every field by a schema, every value that concerns the program, and the place of each pod in a job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import pytest
from kubeflow_trainer_api import models

from taskd_net.base.cause import NEVER_AGAIN
from taskd_net.base.codes import ConfigError
from taskd_net.base.limits import KILLED_S
from taskd_net.job import run_arguments
from taskd_net.job.manager_place import MGR_END_S
from taskd_net.job.platforms.place import Flags, settle
from tests.api.test_run_arguments import parser
from tests.deploy import controllers
from tests.deploy.artefacts import DEPLOY, containerfile
from tests.deploy.controllers import DOMAIN, JOBSET_UID, Node
from tests.deploy.manifests import KUBERNETES, SCHEMAS, VERSIONS, Pod, changed, check, every_pod, named, pods, resources
from tests.deploy.pod_security import breaches

SHUTDOWN_S: Final = 30
"""torchrun's default of `--shutdown-timeout`."""
WRONG_ARGUMENT: Final = 2
"""Exit code of a launcher for a wrong argument or environment."""

JOBSET: Final = named("JobSet", "jobset")
RUNTIME: Final = named("ClusterTrainingRuntime", "trainer")
TRAIN_JOB: Final = named("TrainJob", "trainer")
VOLCANO: Final = named("Job", "volcano")
TEMPLATE: Final = ("spec", "replicatedJobs", 0, "template", "spec")
TRAINER_TEMPLATE: Final = ("spec", "template", *TEMPLATE)
TASK: Final = ("spec", "tasks", 0, "template", "spec")

STARTS: Final[dict[str, Callable[[int], list[Node]]]] = {
    "JobSet": lambda attempt: controllers.jobset(JOBSET, attempt),
    "TrainJob": lambda attempt: controllers.trainer(RUNTIME, TRAIN_JOB, attempt),
    "Volcano": lambda attempt: controllers.volcano(VOLCANO, attempt),
}
"""Pods of each training, by the number of the attempt."""


def trainings() -> list[tuple[Pod, dict[str, Any]]]:
    """The pods that run `taskd-net run`, with that container."""
    found = []
    for pod in every_pod():
        (container,) = pod.spec["containers"]
        if controllers.command(container)[:2] == ["taskd-net", "run"]:
            found.append((pod, container))
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", sorted(path.name for path in KUBERNETES.iterdir()))
def test_every_field_is_one_of_its_schema(folder: str, version: str) -> None:
    for resource in resources(folder):
        if resource["kind"] != "PodMonitor":  # tests/deploy/test_kustomize.py
            check(resource, version)


def test_no_manifest_is_left_out() -> None:
    kinds = [resource["kind"] for resource in resources()]
    assert sorted(kinds) == [
        *("ClusterTrainingRuntime", "Job", "JobSet", "NetworkPolicy", "NetworkPolicy", "PodDisruptionBudget"),
        *("PodMonitor", "Service", "StatefulSet", "TrainJob"),
    ]
    assert [pod.of for pod in every_pod()] == [
        *("StatefulSet train-mgr", "JobSet train", "ClusterTrainingRuntime taskd-net", "Job train"),
    ]
    assert len(trainings()) == 3


def test_schemas_of_others_name_their_origin() -> None:
    for path in SCHEMAS.glob("*.yaml"):
        head = [line.split(": ", 1)[0] for line in path.read_text().splitlines() if line.startswith("# ")]
        assert [f"# {name}" for name in ("origin", "path", "commit", "licence", "cut")] == head[1:6], path


@pytest.mark.parametrize(
    "broken",
    [
        changed(JOBSET, "spec", "failurePolicies", value={}),
        changed(JOBSET, "spec", "failurePolicy", "maxRestart", value=3),
        changed(JOBSET, "spec", "failurePolicy", "maxRestarts", value="3"),
        changed(JOBSET, "spec", "failurePolicy", "restartStrategy", value="Blocking"),
        changed(JOBSET, "spec", "failurePolicy", "rules", 0, "action", value="FailJob"),
        changed(JOBSET, "spec", "failurePolicy", "rules", 0, "name", value=None),
        changed(JOBSET, "spec", "coordinator", "replicatedJob", value=None),
        changed(JOBSET, *TEMPLATE, "backofLimit", value=0),
        changed(JOBSET, *TEMPLATE, "podFailurePolicy", "rules", 0, "onExitCodes", "value", value=[65]),
        changed(JOBSET, *TEMPLATE, "podFailurePolicy", "rules", 0, "action", value=None),
        changed(JOBSET, *TEMPLATE, "template", "spec", "terminationGracePeriod", value=60),
        changed(JOBSET, *TEMPLATE, "template", "spec", "containers", 0, "securityContext", "runAsUser", value="65532"),
        changed(JOBSET, "spec", "replicatedJobs", 0, "template", "specs", value={}),
        changed(JOBSET, "status", value={}),
        changed(JOBSET, "kind", value="Jobset"),
        changed(JOBSET, "apiVersion", value="jobset.x-k8s.io/v1"),
        changed(RUNTIME, "spec", "mlPolicy", "nodes", value=4),
        changed(RUNTIME, "spec", "mlPolicy", "torch", "numProcPerNode", value="auto"),
        changed(RUNTIME, "spec", "template", "spec", "failurePolicy", "rules", 0, "onJobFailureReason", value=[]),
        changed(RUNTIME, *TRAINER_TEMPLATE, "template", "spec", "container", value=[]),
        changed(TRAIN_JOB, "spec", "runtimeRef", "name", value=None),
        changed(TRAIN_JOB, "spec", "trainer", "nodes", value=4),
        changed(TRAIN_JOB, "spec", "trainer", "resourcesPerNode", "limits", "memory", value="128 GB"),
        changed(VOLCANO, "spec", "policies", 0, "exitCodes", value=[65]),
        changed(VOLCANO, "spec", "policies", 2, "event", value="PodFail"),
        changed(VOLCANO, "spec", "plugins", "svc", value="--publish-not-ready-addresses=true"),
        changed(VOLCANO, "spec", "tasks", 0, "name", value="Worker"),
        changed(VOLCANO, *TASK, "restartPolicies", value="Never"),
    ],
    ids=range(28),
)
def test_schemas_find_a_typo(broken: dict[str, Any]) -> None:
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.SchemaNotFoundError)):
        check(broken)


def kept(resource: dict[str, Any]) -> object:
    """A resource as the models of the projects themselves write it that have read it: without unknown fields."""
    kinds = {
        "JobSet": models.JobsetV1alpha2JobSet,
        "ClusterTrainingRuntime": models.TrainerV1alpha1ClusterTrainingRuntime,
        "TrainJob": models.TrainerV1alpha1TrainJob,
    }
    return kinds[resource["kind"]].from_dict(resource).to_dict()


@pytest.mark.parametrize("resource", [JOBSET, RUNTIME, TRAIN_JOB], ids=lambda resource: str(resource["kind"]))
def test_models_of_jobset_and_the_trainer_know_every_field(resource: dict[str, Any]) -> None:
    """A second opinion, of a release: it has the template of a Job whole, and no enumerations."""
    assert kept(resource) == resource


@pytest.mark.parametrize(
    "broken",
    [
        changed(JOBSET, "spec", "failurePolicy", "maxRestart", value=3),
        changed(JOBSET, *TEMPLATE, "template", "spec", "containers", 0, "securityContext", "readOnly", value=True),
        changed(RUNTIME, *TRAINER_TEMPLATE, "podFailurePolicy", "rule", value=[]),
        changed(TRAIN_JOB, "spec", "trainer", "nodes", value=4),
    ],
    ids=range(4),
)
def test_models_find_a_typo(broken: dict[str, Any]) -> None:
    assert kept(broken) != broken


def test_pods_keep_the_restricted_standard() -> None:
    for pod in every_pod():
        assert breaches(pod.metadata, pod.spec) == [], pod.of


@pytest.mark.parametrize(
    ("path", "value", "breach"),
    [
        (("securityContext",), None, "train: runAsNonRoot"),
        (("securityContext", "runAsNonRoot"), None, "train: runAsNonRoot"),
        (("securityContext", "seccompProfile"), None, "train: seccompProfile"),
        (("securityContext", "seccompProfile", "type"), "Unconfined", "seccompProfile"),
        (("securityContext", "runAsUser"), 0, "runAsUser"),
        (("securityContext", "sysctls"), [{"name": "kernel.msgmax", "value": "1"}], "sysctl kernel.msgmax"),
        (("securityContext", "appArmorProfile"), {"type": "Unconfined"}, "appArmorProfile"),
        (("securityContext", "seLinuxOptions"), {"type": "spc_t"}, "seLinuxOptions"),
        (("securityContext", "windowsOptions"), {"hostProcess": True}, "hostProcess"),
        (("hostNetwork",), True, "hostNetwork"),
        (("volumes", 0), {"name": "v", "hostPath": {"path": "/"}}, "volume v: hostPath"),
        (("containers", 0, "securityContext"), None, "train: allowPrivilegeEscalation"),
        (("containers", 0, "securityContext", "allowPrivilegeEscalation"), None, "train: allowPrivilegeEscalation"),
        (("containers", 0, "securityContext", "capabilities"), {"drop": ["NET_RAW"]}, "train: capabilities"),
        (("containers", 0, "securityContext", "capabilities", "add"), ["SYS_PTRACE"], "train: capabilities"),
        (("containers", 0, "securityContext", "privileged"), True, "train: privileged"),
        (("containers", 0, "securityContext", "procMount"), "Unmasked", "train: procMount"),
        (("containers", 0, "securityContext", "runAsNonRoot"), False, "train: runAsNonRoot"),
        (("containers", 0, "ports"), [{"containerPort": 1, "hostPort": 1}], "train: hostPort"),
        (("containers", 0, "livenessProbe"), {"tcpSocket": {"port": 1, "host": "a"}}, "train: host of a probe"),
        (("initContainers",), [{"name": "init"}], "init: allowPrivilegeEscalation"),
    ],
)
def test_breach_of_the_restricted_standard_is_found(path: tuple[str | int, ...], value: object, breach: str) -> None:
    (pod,) = pods(changed(JOBSET, *TEMPLATE, "template", "spec", *path, value=value))
    assert breach in breaches(pod.metadata, pod.spec)


def test_profile_of_apparmor_in_an_annotation_is_found() -> None:
    (pod,) = pods(JOBSET)
    name = "container.apparmor.security.beta.kubernetes.io/train"
    assert breaches({"annotations": {name: "unconfined"}}, pod.spec) == [name]


def loose(pod: Pod) -> list[str]:
    """Rules of the house beyond the standard that a pod breaks."""
    found = []
    folders = {"/tmp"} if pod.job or "restartPolicy" in pod.spec else {"/var/log/taskd-net"}  # noqa: S108 - of the pod
    empty = {volume["name"] for volume in pod.spec["volumes"] if "emptyDir" in volume}
    for container in pod.spec["containers"]:
        written = {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in empty}
        image, _, digest = container["image"].partition("@sha256:")
        found += [
            *(["root file system"] if not container["securityContext"].get("readOnlyRootFilesystem") else []),
            *([f"no emptyDir at {folders - written}"] if folders - written else []),
            *(["image"] if ":" not in image or len(digest) != 64 or set(digest) - set("0123456789abcdef") else []),
        ]
    if pod.spec.get("automountServiceAccountToken") is not False or pod.spec.get("enableServiceLinks") is not False:
        found.append("token or service links")
    spread = pod.spec.get("topologySpreadConstraints")
    if not spread or any(not own(each["labelSelector"]["matchLabels"], pod) for each in spread):
        found.append("topology spread")
    return found


def own(labels: dict[str, str], pod: Pod) -> bool:
    """True where a selector is of this pod."""
    return labels.items() <= dict(pod.metadata["labels"]).items()


def test_pods_write_to_their_volumes_alone_and_spread_over_hosts() -> None:
    for pod in every_pod():
        assert loose(pod) == [], pod.of
    for pod, container in trainings():
        assert {"/tmp", "/dev/shm"} == {mount["mountPath"] for mount in container["volumeMounts"]}  # noqa: S108
        assert {"name": "HOME", "value": "/tmp"} in container["env"], pod.of  # noqa: S108


def test_user_is_that_of_the_image() -> None:
    user, _, group = dict(containerfile())["USER"].partition(":")
    for pod in every_pod():
        context = pod.spec["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group)), pod.of


def faults_of_job(pod: Pod) -> list[str]:
    """Faults in the policies of a Job around `taskd-net run`."""
    job, found = pod.job, []
    if pod.spec.get("restartPolicy") != "Never":
        found.append("restartPolicy")
    if job.get("backoffLimit") != 0:
        found.append("backoffLimit")
    rules = job.get("podFailurePolicy", {}).get("rules", [])
    names = {container["name"] for container in pod.spec["containers"]}
    ended = {
        code
        for rule in rules
        if rule["action"] == "FailJob" and rule.get("onExitCodes", {}).get("operator") == "In"
        for code in rule["onExitCodes"]["values"]
    }
    if any("onExitCodes" in rule and rule["onExitCodes"].get("containerName") not in names for rule in rules):
        found.append("containerName")
    if ended != {WRONG_ARGUMENT, NEVER_AGAIN}:
        found.append("exit codes")
    disruption = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    if disruption not in rules:
        found.append("disruption")
    return found


def test_policies_of_a_job_end_it_at_the_same_failure_and_let_a_disruption_pass() -> None:
    for resource in (JOBSET, RUNTIME):
        (pod,) = pods(resource)
        assert faults_of_job(pod) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("podFailurePolicy", "rules", 0, "onExitCodes", "containerName"), None, "containerName"),
        (("podFailurePolicy", "rules", 0, "onExitCodes", "containerName"), "trian", "containerName"),
        (("podFailurePolicy", "rules", 0, "onExitCodes", "values"), [65, 143], "exit codes"),
        (("podFailurePolicy", "rules", 0, "action"), "Ignore", "exit codes"),
        (("podFailurePolicy", "rules", 0, "onExitCodes", "operator"), "NotIn", "exit codes"),
        (("podFailurePolicy", "rules", 1, "onPodConditions", 0, "status"), None, "disruption"),
        (("podFailurePolicy",), None, "exit codes"),
        (("backoffLimit",), None, "backoffLimit"),
        (("template", "spec", "restartPolicy"), None, "restartPolicy"),
    ],
)
def test_policy_that_would_not_hold_is_found(path: tuple[str | int, ...], value: object, fault: str) -> None:
    (pod,) = pods(changed(JOBSET, *TEMPLATE, *path, value=value))
    assert fault in faults_of_job(pod)


def test_jobset_starts_all_pods_again_unless_the_failure_would_come_again() -> None:
    for spec in (JOBSET["spec"], RUNTIME["spec"]["template"]["spec"]):
        policy = spec["failurePolicy"]
        assert policy["maxRestarts"] > 0 and policy["restartStrategy"] == "BlockingRecreate"
        first = policy["rules"][0]
        assert (first["action"], first["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])


def test_volcano_asks_for_the_exit_code_before_it_starts_all_pods_again() -> None:
    spec = VOLCANO["spec"]
    assert spec["policies"] == [
        {"exitCode": NEVER_AGAIN, "action": "TerminateJob"},
        {"exitCode": WRONG_ARGUMENT, "action": "TerminateJob"},
        {"event": "PodFailed", "action": "RestartJob"},
        {"event": "PodEvicted", "action": "RestartJob"},
    ]
    assert "--publish-not-ready-addresses=true" in spec["plugins"]["svc"] and spec["schedulerName"] == "volcano"
    assert spec["minAvailable"] == sum(task["replicas"] for task in spec["tasks"])
    (pod,) = pods(VOLCANO)
    assert pod.spec["restartPolicy"] == "Never" and spec["maxRetry"] > 0


def test_launcher_has_the_time_that_it_takes_to_end() -> None:
    for pod, _ in trainings():
        assert pod.spec["terminationGracePeriodSeconds"] >= SHUTDOWN_S + MGR_END_S + KILLED_S, pod.of


def test_size_of_a_node_is_the_number_of_its_processes() -> None:
    for resource in (JOBSET, VOLCANO):
        (pod,) = pods(resource)
        (container,) = pod.spec["containers"]
        gpus = container["resources"]["limits"]["nvidia.com/gpu"]
        assert f"--nproc-per-node={gpus}" in controllers.command(container)
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]


def shown(node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The place of a node, as `taskd-net run --show-launcher --json` prints it in a pod."""
    assert (node.arguments[:2], node.arguments[-1]) == (["taskd-net", "run"], "train.py")
    with monkeypatch.context() as patch:
        for name, value in node.environment.items():
            patch.setenv(name, value)
        arguments = ["--show-launcher", "--json", *node.arguments[2:-1]]
        with pytest.raises(SystemExit) as ended:
            run_arguments.parse(parser(), lambda text: 8 if text == "auto" else int(text), arguments, node.host)
    assert ended.value.code == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


@pytest.mark.parametrize("name", STARTS)
def test_pods_of_a_manifest_are_one_training(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for attempt in (0, 2):
        nodes = STARTS[name](attempt)
        said = [shown(node, capsys, monkeypatch) for node in nodes]
        assert [each["node_rank"] for each in said] == list(range(4))
        assert {each["nodes"] for each in said} == {4} and {each["processes"] for each in said} == {8}
        # The name of node 0 is the begin of its whole name, which its /etc/hosts has.
        (first,) = {each["first_host"] for each in said}
        assert nodes[0].host == f"{first}.{DOMAIN}"
        (job_id,) = {each["job_id"] for each in said}
        assert job_id.endswith(JOBSET_UID) and {each["attempt"] for each in said} == {attempt}


def test_pod_without_the_number_of_nodes_does_not_start() -> None:
    (node, *_) = controllers.jobset(JOBSET)
    environment = {name: value for name, value in node.environment.items() if name != "TASKD_NET_NNODES"}
    with pytest.raises(ConfigError, match="number of nodes is missing"):
        settle(Flags(), environment, node.host)


def test_pods_know_the_manager_at_one_address() -> None:
    for name, start in STARTS.items():
        for node in start(0):
            assert node.environment["TASKD_NET_MGR_PORT"] == "9601" and node.environment["POD_IP"], name


def test_tools_in_any_pod_ask_the_manager(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, start in STARTS.items():
        for node in start(0):
            first = shown(node, capsys, monkeypatch)["first_host"]
            assert node.environment["TASKD_NET_AT"] == f"{first}:9601", name
    said = (DEPLOY / "README.md").read_text()
    for pod, path in (("job/train-node-0", "jobset"), ("job/train-node-0", "trainer"), ("train-worker-0", "volcano")):
        line = f"kubectl exec {pod} -- taskd-net job"
        assert line in said and any(line in each.read_text() for each in (KUBERNETES / path).iterdir())


def test_finished_jobset_goes_after_a_week_and_that_of_a_trainjob_with_the_trainjob() -> None:
    assert JOBSET["spec"]["ttlSecondsAfterFinished"] == 7 * 24 * 3600
    assert "ttlSecondsAfterFinished" not in RUNTIME["spec"]["template"]["spec"]


def test_pods_of_a_job_reach_each_other_and_nobody_else_does() -> None:
    for resource, folder in ((JOBSET, "jobset"), (RUNTIME, "trainer")):
        policy = named("NetworkPolicy", folder)["spec"]
        (pod,) = pods(resource)
        # The label of a TrainJob's pods is JobSet's.
        labels = {**pod.metadata["labels"], "jobset.sigs.k8s.io/jobset-name": "train"}
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()
        assert policy["policyTypes"] == ["Ingress"]
        assert policy["ingress"] == [{"from": [{"podSelector": policy["podSelector"]}]}]


def test_files_name_each_other() -> None:
    folder: Path = KUBERNETES / "jobset"
    listed = {"jobset.yaml", "network-policy.yaml"}
    assert {path.name for path in folder.iterdir()} == {*listed, "kustomization.yaml"}
