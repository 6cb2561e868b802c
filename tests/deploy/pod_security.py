"""The restricted Pod Security Standard of Kubernetes, as far as a template of pods can keep or break it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Spec = Mapping[str, Any]

VOLUMES: Final = frozenset(
    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
)
SECCOMP: Final = ("RuntimeDefault", "Localhost")
SELINUX: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    )
)
APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def breaches(metadata: Spec, spec: Spec) -> list[str]:
    """The breaches of the standard by a pod; empty for a pod that is admitted.

    Args:
        metadata: of the pod.
        spec: of the pod.

    Returns:
        One text for each: the container, if it is of one, and the field.
    """
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ()), *spec.get("ephemeralContainers", ())]
    found = list(_of_pod(metadata, spec))
    for container in containers:
        fields = _of_container(container, spec.get("securityContext", {}))
        found += [f"{container['name']}: {field}" for field in fields]
    return found


def _of_pod(metadata: Spec, spec: Spec) -> Iterator[str]:
    context = spec.get("securityContext", {})
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    for volume in spec.get("volumes", ()):
        yield from (f"volume {volume['name']}: {kind}" for kind in set(volume) - {"name"} - VOLUMES)
    yield from (f"sysctl {each['name']}" for each in context.get("sysctls", ()) if each["name"] not in SYSCTLS)
    for name, profile in metadata.get("annotations", {}).items():
        if name.startswith(APPARMOR) and profile == "unconfined":
            yield name
    yield from _of_context(context)


def _of_context(context: Spec) -> Iterator[str]:
    """The breaches that a context of a pod has like one of a container."""
    if context.get("runAsUser") == 0:
        yield "runAsUser"
    if context.get("runAsNonRoot") is False:
        yield "runAsNonRoot"
    if context.get("seccompProfile", {"type": SECCOMP[0]}).get("type") not in SECCOMP:
        yield "seccompProfile"
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield "appArmorProfile"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in SELINUX or selinux.get("user") or selinux.get("role"):
        yield "seLinuxOptions"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield "hostProcess"


def _of_container(container: Spec, around: Spec) -> Iterator[str]:
    context = container.get("securityContext", {})
    yield from _of_context(context)
    if "runAsNonRoot" not in context and not around.get("runAsNonRoot"):
        yield "runAsNonRoot"
    if "seccompProfile" not in context and "seccompProfile" not in around:
        yield "seccompProfile"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if context.get("privileged"):
        yield "privileged"
    if context.get("procMount", "Default") != "Default":
        yield "procMount"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "capabilities"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "hostPort"
    hooks = container.get("lifecycle", {})
    probes = [container.get(name, {}) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for action in (*probes, *hooks.values()):
        if action.get("httpGet", {}).get("host") or action.get("tcpSocket", {}).get("host"):
            yield "host of a probe"
