"""Builders of Kubernetes objects for the tests: keyword-only, valid by default, plain dicts."""

from collections.abc import Mapping, Sequence

from hooks.kube.metadata import JsonObject

WORKLOAD_RULES: tuple[JsonObject, ...] = (
    {"match": {"nameContains": "-general-"}, "labels": {"workload-type": "general"}},
    {"match": {"nameContains": "-compute-"}, "labels": {"workload-type": "compute"}},
    {"match": {"nameContains": "-database-"}, "labels": {"workload-type": "database"}},
)
CREATED = "2026-01-01T00:00:00Z"


def node(
    *,
    name: str = "rke2-prod-compute-x7k2p",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    uid: str | None = None,
    deleting: bool = False,
) -> JsonObject:
    metadata: JsonObject = {"name": name, "uid": uid or f"uid-of-{name}", "resourceVersion": "1"}
    metadata["creationTimestamp"] = CREATED
    metadata["labels"] = {"kubernetes.io/os": "linux"} if labels is None else dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}}


def policy(
    *,
    name: str = "workload-type",
    priority: int | None = None,
    conflict: str | None = None,
    rules: Sequence[JsonObject] = WORKLOAD_RULES,
) -> JsonObject:
    spec: JsonObject = {"rules": [dict(rule) for rule in rules]}
    if priority is not None:
        spec["priority"] = priority
    if conflict is not None:
        spec["conflict"] = conflict
    return {
        "apiVersion": "node-labeler.io/v1alpha1",
        "kind": "NodeLabelPolicy",
        "metadata": {"name": name, "creationTimestamp": CREATED},
        "spec": spec,
    }
