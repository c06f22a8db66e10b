"""Claims, VolumeAutoscalers and their requests for tests: keyword-only, valid by default, 10Gi with room to 100Gi."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hooks import volume_autoscaler, volume_claim, wire
from hooks.kube.metadata import JsonObject, compact_json, name_of, object_key
from hooks.kube.quantity import whole_bytes
from hooks.volumes import expansions
from hooks.volumes.expansions import Step
from hooks.volumes.usage import Fault, Filesystem, Unavailable, Usages

NOW = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
API = expansions.API_VERSION
EXPANSIONS = f"VolumeExpansion.{API}"
EVENTS = "Event.v1"
CONTROLLER: JsonObject = {
    "spec": {
        "childResources": [
            {"apiVersion": API, "resource": "volumeexpansions"},
            {"apiVersion": "v1", "resource": "events"},
        ]
    }
}


def claim(
    *,
    name: str = "data-0",
    namespace: str = "db",
    uid: str | None = None,
    request: str | None = "10Gi",
    capacity: str | None = "10Gi",
    phase: str = "Bound",
    storage_class: str | None = "fast",
    mode: str = "Filesystem",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    conditions: Sequence[JsonObject] = (),
    allocated: Mapping[str, str] | None = None,
    deleting: bool = False,
    created: str = "2026-01-01T00:00:00Z",
) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": namespace, "uid": f"uid-{name}" if uid is None else uid}
    metadata["creationTimestamp"] = created
    metadata |= {"labels": dict(labels or {"app": "db"}), "annotations": dict(annotations or {})}
    status: JsonObject = {"phase": phase, "conditions": list(conditions)}
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-16T02:59:00Z"
    if capacity:
        status["capacity"] = {"storage": capacity}
    if allocated:
        status["allocatedResourceStatuses"] = dict(allocated)
    spec: JsonObject = {"volumeMode": mode, "accessModes": ["ReadWriteOnce"], "volumeName": f"pv-{name}"}
    spec["resources"] = {"requests": {"storage": request}} if request else {}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


def storage_class(*, name: str = "fast", expandable: bool | None = True) -> JsonObject:
    found: JsonObject = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return found if expandable is None else found | {"allowVolumeExpansion": expandable}


def autoscaler(
    *,
    name: str = "db",
    namespace: str = "db",
    uid: str = "uid-db",
    generation: int = 1,
    status: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    """Spec fields as they are written: `maxSize="50Gi"`; None leaves one out."""
    wanted = {"target": {"selector": {"matchLabels": {"app": "db"}}}, "maxSize": "100Gi"} | spec
    return {
        "apiVersion": API,
        "kind": "VolumeAutoscaler",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "generation": generation,
            "creationTimestamp": "2026-01-02T00:00:00Z",
        },
        "spec": {key: value for key, value in wanted.items() if value is not None},
    } | ({"status": status} if status is not None else {})


def expansion(
    *,
    of: str = "db",
    owner_uid: str = "uid-db",
    owned: bool = True,
    claim_name: str = "data-0",
    claim_uid: str | None = None,
    namespace: str = "db",
    **step: Any,
) -> JsonObject:
    """As Metacontroller stores what the hook returned. Fields of the step by their Python names."""
    fields = Step(claim_name=claim_name, claim_uid=f"uid-{claim_name}" if claim_uid is None else claim_uid, **step)
    stored = expansions.child(expansions.name_for(of, claim_name), fields)
    stored["metadata"]["namespace"] = namespace
    applied = compact_json(stored)
    stored["metadata"] |= {"uid": f"uid-of-{name_of(stored)}", "annotations": {wire.LAST_APPLIED: applied}}
    if owned:
        owner = {"apiVersion": API, "kind": "VolumeAutoscaler", "name": of, "uid": owner_uid, "controller": True}
        stored["metadata"]["ownerReferences"] = [owner]
    return stored


def filesystem(
    percent: float = 50, *, size: str | int = "10Gi", inodes: tuple[int, int] = (0, 0), abnormal: bool = False
) -> Filesystem:
    capacity = size if isinstance(size, int) else whole_bytes(size)
    used = math.ceil(capacity * percent / 100)
    return Filesystem(capacity, used, used, inodes=inodes[1], inodes_used=inodes[0], is_abnormal=abnormal)


def usages(of_claims: Mapping[str, Filesystem | Fault] | None = None) -> Usages:
    return Usages(dict(of_claims if of_claims is not None else {"data-0": filesystem(90)}))


def keyed(objects: Sequence[JsonObject]) -> JsonObject:
    return {object_key(obj): obj for obj in objects}


def autoscaler_request(
    *,
    parent: JsonObject | None = None,
    claims: Sequence[JsonObject] | None = None,
    own: Sequence[JsonObject] | None = None,
    rivals: Sequence[JsonObject] = (),
    classes: Sequence[JsonObject] | None = None,
    events: Sequence[JsonObject] = (),
    controller: JsonObject | None = None,
) -> JsonObject:
    """By default one claim with its expansion, so that a step can be decided."""
    return {
        "controller": CONTROLLER if controller is None else controller,
        "parent": parent or autoscaler(),
        "children": {EXPANSIONS: keyed([expansion()] if own is None else own), EVENTS: keyed(events)},
        "related": {
            "PersistentVolumeClaim.v1": keyed([claim()] if claims is None else claims),
            "StorageClass.storage.k8s.io/v1": keyed([storage_class()] if classes is None else classes),
            EXPANSIONS: keyed(rivals),
        },
        "finalizing": False,
    }


def ask_autoscaler(*, usage: Usages | Unavailable | None = None, now: datetime = NOW, **parts: Any) -> wire.Outcome:
    """The outcome of a sync; usage is 90 % of data-0 unless told."""
    request = wire.parse(volume_autoscaler.SyncRequest, compact_json(autoscaler_request(**parts)).encode())
    return volume_autoscaler.sync(request, now=now, usage=usages() if usage is None else usage)


def ask_claim(
    *, obj: JsonObject | None = None, related: Sequence[JsonObject] = (), now: datetime = NOW
) -> wire.Outcome:
    body = {"object": obj or claim(), "attachments": {}, "related": {EXPANSIONS: keyed(related)}}
    return volume_claim.sync(wire.parse(volume_claim.SyncRequest, compact_json(body).encode()), now=now)


def body_of(outcome: wire.Outcome) -> JsonObject:
    return outcome.response.body()


def status_of(outcome: wire.Outcome) -> JsonObject:
    status: JsonObject = body_of(outcome)["status"]
    return status


def entry_of(outcome: wire.Outcome, name: str = "data-0") -> JsonObject:
    return next(entry for entry in status_of(outcome)["pvcs"] if entry["name"] == name)


def said_of(outcome: wire.Outcome, name: str = "data-0") -> tuple[str, str]:
    entry = entry_of(outcome, name)
    return entry["reason"], entry["message"]


def step_of(outcome: wire.Outcome, name: str = "data-0") -> JsonObject | None:
    """The spec of the claim's expansion in the answer."""
    found = [
        child["spec"] for child in children_of(outcome, "VolumeExpansion") if child["spec"].get("claimName") == name
    ]
    return found[0] if found else None


def size_of(outcome: wire.Outcome, name: str = "data-0") -> str | None:
    return (step_of(outcome, name) or {}).get("size")


def children_of(outcome: wire.Outcome, kind: str) -> list[JsonObject]:
    return [child for child in body_of(outcome)["children"] if child["kind"] == kind]


def condition_of(outcome: wire.Outcome, type_: str) -> JsonObject:
    return next(item for item in status_of(outcome)["conditions"] if item["type"] == type_)
