"""The manifests of `deploy/kubernetes`: their resources, the pods in them, and their schemas.

kubernetes-validate has the schemas of Kubernetes. The resources of JobSet, Kubeflow's Trainer and Volcano are checked
in two parts: their own fields by `schemas/`, and each template of a Job or a Pod as one of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import yaml

from tests.deploy.artefacts import DEPLOY

KUBERNETES: Final = DEPLOY / "kubernetes"
SCHEMAS: Final = Path(__file__).parent / "schemas"

OLDEST: Final = "1.29"
"""The first release in which a Job's `podReplacementPolicy`, which a podFailurePolicy changes, is on by default."""
VERSIONS: Final = (OLDEST, kubernetes_validate.latest_version())

Resource = dict[str, Any]


class StrictLoader(yaml.SafeLoader):
    """A loader that refuses duplicate keys, like kubectl."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Read a mapping."""
        mapping = super().construct_mapping(node, deep)
        assert len(mapping) == len(node.value), f"a key twice{node.start_mark}"
        return mapping


def documents(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    return list(yaml.load_all(path.read_text(), StrictLoader))


def resources(folder: str = "") -> list[Resource]:
    """The resources of a folder of `deploy/kubernetes`, without kustomize's own files and patches."""
    found = [document for path in sorted((KUBERNETES / folder).rglob("*.yaml")) for document in documents(path)]
    return [each for each in found if isinstance(each, dict) and "kustomize" not in each["apiVersion"]]


def rendered(folder: Path) -> list[Resource]:
    """The resources of a folder with a kustomization: its resources and components, and patches that are operations."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    assert set(kustomization) <= {"apiVersion", "kind", "resources", "components", "patches"}
    found: list[Resource] = []
    for name in kustomization.get("resources", ()):
        path = (folder / name).resolve()
        found += rendered(path) if path.is_dir() else documents(path)
    for name in kustomization.get("components", ()):
        component = (folder / name).resolve()
        (parts,) = documents(component / "kustomization.yaml")
        found += [document for part in parts.get("resources", ()) for document in documents(component / part)]
        for patch in parts["patches"]:
            kind, own = patch["target"]["kind"], patch["target"]["name"]
            (target,) = (each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, own))
            _patch(target, *documents(component / patch["path"]))
    return found


def _patch(resource: Resource, operations: list[dict[str, Any]]) -> None:
    """Carry out operations of JSON Patch, as far as the components have them."""
    for operation in operations:
        *way, last = operation["path"].removeprefix("/").split("/")
        place: Any = resource
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        match operation["op"], last:
            case "test", _:
                assert place[last] == operation["value"], operation
            case "add", "-":
                place.append(operation["value"])
            case "add", _:
                assert isinstance(place, dict) and last not in place, operation
                place[last] = operation["value"]
            case other:
                raise AssertionError(other)


def named(kind: str, folder: str) -> Resource:
    """The one resource of a kind in a folder."""
    (found,) = (each for each in resources(folder) if each["kind"] == kind)
    return found


@dataclass(frozen=True)
class Pod:
    """A template of pods.

    Args:
        of: kind and name of the resource.
        metadata, spec: of the pods.
        job: spec of the Job around it; empty for none.
    """

    of: str
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    job: Mapping[str, Any]


def pods(resource: Resource) -> list[Pod]:
    """The templates of pods in a resource."""
    of = f"{resource['kind']} {resource['metadata']['name']}"
    found = []
    for template, kind in _templates(resource):
        job = template["spec"] if kind == "JobTemplateSpec" else {}
        pod = job["template"] if job else template
        found.append(Pod(of, pod.get("metadata", {}), pod["spec"], job))
    if not found and "template" in resource.get("spec", {}):  # of Kubernetes' own kinds
        pod = resource["spec"]["template"]
        found.append(Pod(of, pod["metadata"], pod["spec"], {}))
    return found


def every_pod() -> list[Pod]:
    """All templates of pods in `deploy/kubernetes`."""
    return [pod for resource in resources() for pod in pods(resource)]


def check(resource: Resource, version: str = VERSIONS[-1]) -> None:
    """Check every field of a resource.

    Args:
        resource: any of those in `deploy/kubernetes`.
        version: of Kubernetes.

    Raises:
        jsonschema.ValidationError: a field is unknown, missing, or of another type.
        kubernetes_validate.SchemaNotFoundError: the kind is unknown.
    """
    schema = _schemas().get((resource["apiVersion"], resource["kind"]))
    if schema is None:
        kubernetes_validate.validate(resource, version, strict=True)
        return
    fields = {"apiVersion": {}, "kind": {}, "metadata": {"required": ["name"]}, "spec": _strict(schema["spec"])}
    jsonschema.validate(resource, {"required": list(fields), "properties": fields, "additionalProperties": False})
    for template, kind in _templates(resource):
        jsonschema.validate(template, {"properties": {"metadata": {}, "spec": {}}, "additionalProperties": False})
        api, of = ("batch/v1", "Job") if kind == "JobTemplateSpec" else ("v1", "Pod")
        made = {"apiVersion": api, "kind": of, "metadata": {"name": "a-name", **template.get("metadata", {})}}
        kubernetes_validate.validate({**made, "spec": template["spec"]}, version, strict=True)


@cache
def _schemas() -> dict[tuple[str, str], dict[str, Any]]:
    """The schemas of other projects, by `apiVersion` and kind."""
    found = [yaml.safe_load(path.read_text()) for path in sorted(SCHEMAS.glob("*.yaml"))]
    return {(f"{schema['group']}/{schema['version']}", schema["kind"]): schema for schema in found}


def _strict(schema: Any) -> Any:
    """A schema that refuses fields without a schema, as `kubectl apply --validate=strict` does."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _strict(each) for name, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made["additionalProperties"] = False
    return made


def _templates(resource: Resource) -> Iterator[tuple[dict[str, Any], str]]:
    """The templates in a resource at places that its schema has cut, each with the kind of Kubernetes."""
    schema = _schemas().get((resource["apiVersion"], resource["kind"]))
    if schema is not None:
        yield from _cut(schema["spec"], resource["spec"])


def _cut(schema: Any, value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    if "x-cut" in schema:
        yield value, schema["x-cut"]
    elif isinstance(value, list):
        for each in value:
            yield from _cut(schema.get("items", {}), each)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _cut(schema.get("properties", {}).get(name, {}), each)


def changed(resource: Resource, *path: str | int, value: object) -> Resource:
    """A copy of a resource with another value at a path; None as a value removes it."""
    made = deepcopy(resource)
    place: Any = made
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made
