"""VolumeAutoscalers with many claims, as Metacontroller sends them, and what a Prometheus knows of those claims.

Each object carries all that the API server keeps about it: that, and not what the hook reads, is most of a request.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import yaml

from bench.bodies import ROOT
from bench.stored import KUBECTL, KUBECTL_MANAGER, as_stored, keyed, make_uid, named_fields, written_by
from hooks import volume_autoscaler, wire
from hooks.kube.merge import go_json
from hooks.kube.metadata import JsonObject
from hooks.kube.quantity import whole_bytes
from hooks.volumes import claims, expansions, policy
from hooks.volumes.claims import Resize
from hooks.volumes.expansions import Step
from hooks.volumes.usage import CLAIM_LABEL, METRICS, PREFIX, Filesystem, Usages

POLL, THRESHOLD = timedelta(seconds=60), 80
EXPANSIONS = f"{expansions.KIND}.{expansions.API_VERSION}"
SIZES = ("10Gi", "15Gi", "25Gi", "40Gi")
"""Each claim has grown from the first to the last of them."""
CLASSES = ("fast", "slow", "archive")


@dataclass(frozen=True)
class Fleet:
    """The claims of one VolumeAutoscaler: every tenth is over the threshold."""

    size: int
    namespace: str = "databases"
    autoscaler: str = "databases"
    first: int = 0

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.size)

    @property
    def uid(self) -> str:
        return make_uid(f"f{self.first:07x}", 0)


def sync_body(fleet: Fleet, now: datetime) -> bytes:
    """A sync whose poll is due: its last one, when nothing was over the threshold, was an interval ago."""
    request = _request(fleet, _parent(fleet))
    parsed = wire.parse(volume_autoscaler.SyncRequest, go_json(request).encode())
    outcome = volume_autoscaler.sync(parsed, now=now - POLL, usage=usages(fleet, most=THRESHOLD - 1))
    status = json.loads(wire.encode(outcome.response))["status"]
    request["parent"]["status"] = status | {"observedGeneration": 1}
    return go_json(request).encode()


def usages(fleet: Fleet, *, most: int = 100) -> Usages:
    return Usages({claim_name(number): _filesystem(number, most) for number in fleet.numbers})


def metrics_answer(fleets: Sequence[Fleet], now: datetime) -> bytes:
    """What Prometheus answers: six series for each claim, with the labels that a kubelet's scrape gives them."""
    result = [
        {"metric": labels, "value": [now.timestamp(), str(value)]}
        for fleet in fleets
        for number in fleet.numbers
        for labels, value in _series(fleet, number)
    ]
    return go_json({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def claim_name(number: int) -> str:
    return f"data-postgres-{number:04}"


def _claim_uid(number: int) -> str:
    return make_uid("c1a10000", number)


def _percent(number: int) -> int:
    return THRESHOLD + number % 15 if number % 10 == 0 else 20 + number % (THRESHOLD - 20)


def _filesystem(number: int, most: int = 100) -> Filesystem:
    capacity = whole_bytes(SIZES[-1])
    used = math.ceil(capacity * min(_percent(number), most) / 100)
    return Filesystem(capacity, used, used, inodes=2_621_440, inodes_used=number * 1000)


def _series(fleet: Fleet, number: int) -> Iterator[tuple[Mapping[str, str], int]]:
    found = _filesystem(number)
    labels = {
        "namespace": fleet.namespace,
        CLAIM_LABEL: claim_name(number),
        "node": f"worker-{number % 50}",
        "instance": f"10.42.0.{number % 50}:10250",
        "job": "kubelet",
        "metrics_path": "/metrics",
        "endpoint": "https-metrics",
        "service": "kube-prometheus-stack-kubelet",
    }
    available = found.capacity_bytes - found.used_bytes
    values = (found.used_bytes, found.capacity_bytes, available, found.inodes, found.inodes_used, 0)
    for metric, value in zip(METRICS, values, strict=True):
        yield {"__name__": PREFIX + metric, **labels}, value


# The request


def _request(fleet: Fleet, parent: JsonObject) -> JsonObject:
    return {
        "controller": _controller(),
        "parent": parent,
        "children": {
            EXPANSIONS: keyed(_expansion(fleet, number) for number in fleet.numbers),
            "Event.v1": {},
        },
        "related": {
            "PersistentVolumeClaim.v1": keyed(_claim(fleet, number) for number in fleet.numbers),
            "StorageClass.storage.k8s.io/v1": keyed(map(_storage_class, CLASSES)),
            EXPANSIONS: {},
        },
        "finalizing": False,
    }


def _controller() -> JsonObject:
    """The shipped manifest, with Events as in the default overlay."""
    controller: JsonObject = yaml.safe_load((ROOT / "metacontroller" / "volume-autoscaler.yaml").read_text())
    controller["spec"]["childResources"].append({"apiVersion": "v1", "resource": "events"})
    return controller


def _parent(fleet: Fleet) -> JsonObject:
    spec = {
        "target": {"selector": {"matchLabels": {"app.kubernetes.io/name": "postgres"}}},
        "thresholdPercent": THRESHOLD,
        "maxSize": "500Gi",
        "increasePercent": 20,
        "pollInterval": "1m",
        "cooldownPeriod": "5m",
        "inodeThresholdPercent": 0,
        "mode": "Apply",
        "onMetricsLost": "Wait",
        "resizeBudget": {"count": 4, "window": "24h"},
    }
    metadata = {"name": fleet.autoscaler, "namespace": fleet.namespace, "uid": fleet.uid, "generation": 1}
    shown = ("claims", "claimsByReason", "conditions", "lastPollTime", "observedGeneration", "pvcs", "totalScaleEvents")
    fields = [
        written_by(KUBECTL_MANAGER, policy.API_VERSION, {"f:spec": {f"f:{key}": {} for key in spec}}),
        written_by("metacontroller", policy.API_VERSION, {"f:status": {f"f:{key}": {} for key in shown}}, "status"),
    ]
    parent = {"apiVersion": policy.API_VERSION, "kind": policy.KIND, "metadata": metadata, "spec": spec}
    return as_stored(parent, {}, {KUBECTL: go_json(parent)}, fields)


def _storage_class(name: str) -> JsonObject:
    found = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "uid": make_uid("c1a55000", CLASSES.index(name))},
        "provisioner": "csi.example.com",
        "parameters": {"csi.storage.k8s.io/fstype": "ext4", "type": name},
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }
    fields: JsonObject = {f"f:{key}": {} for key in found if key not in ("apiVersion", "kind", "metadata")}
    return as_stored(found, {}, {KUBECTL: go_json(found)}, [written_by(KUBECTL_MANAGER, "storage.k8s.io/v1", fields)])


# Claims


def _claim(fleet: Fleet, number: int) -> JsonObject:
    labels = {
        "app.kubernetes.io/component": "primary",
        "app.kubernetes.io/instance": fleet.autoscaler,
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/name": "postgres",
    }
    metadata = {"name": claim_name(number), "namespace": fleet.namespace, "uid": _claim_uid(number), "labels": labels}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": SIZES[-1]}},
        "storageClassName": CLASSES[number % len(CLASSES)],
        "volumeMode": "Filesystem",
        "volumeName": f"pvc-{make_uid('9a7f0000', number)}",
    }
    claim = {"apiVersion": claims.API_VERSION, "kind": claims.KIND, "metadata": metadata, "spec": spec}
    stored = as_stored(claim, labels, _claim_annotations(fleet, number, claim), _claim_fields(labels))
    stored["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    status = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": SIZES[-1]}, "phase": "Bound"}
    return stored | {"status": status}


def _claim_annotations(fleet: Fleet, number: int, applied: JsonObject) -> Mapping[str, str]:
    history = _history(number)
    return {
        KUBECTL: go_json(applied),
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.beta.kubernetes.io/storage-provisioner": "csi.example.com",
        "volume.kubernetes.io/selected-node": f"worker-{number % 50}",
        "volume.kubernetes.io/storage-provisioner": "csi.example.com",
        claims.REQUESTED_AT: history[-1].at,
        claims.REQUESTED_BY: fleet.autoscaler,
        claims.REQUESTED_SIZE: history[-1].to,
        claims.HISTORY: claims.format_history(history),
    }


def _history(number: int) -> Sequence[Resize]:
    """Each claim has grown at its own times."""
    hour, minute = number // 60 % 24, number % 60
    return [
        Resize(at=f"2026-01-0{day}T{hour:02}:{minute:02}:07Z", from_=old, to=new)
        for day, (old, new) in enumerate(pairwise(SIZES), start=1)
    ]


def _claim_fields(labels: Mapping[str, str]) -> Sequence[JsonObject]:
    """Who wrote what: a person, the binder, the scheduler, the storage driver, and we."""
    spec: JsonObject = {"f:accessModes": {}, "f:resources": {"f:requests": {".": {}, "f:storage": {}}}}
    spec |= {"f:storageClassName": {}, "f:volumeMode": {}}
    bound = ("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller")
    provisioned = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
    ours = (claims.REQUESTED_AT, claims.REQUESTED_BY, claims.REQUESTED_SIZE, claims.HISTORY)
    bound_status: JsonObject = {"f:accessModes": {}, "f:capacity": {".": {}, "f:storage": {}}, "f:phase": {}}
    return [
        written_by(KUBECTL_MANAGER, "v1", named_fields([KUBECTL], labels) | {"f:spec": spec}),
        written_by("kube-scheduler", "v1", named_fields(["volume.kubernetes.io/selected-node"])),
        written_by(
            "kube-controller-manager", "v1", named_fields([*bound, *provisioned]) | {"f:spec": {"f:volumeName": {}}}
        ),
        written_by("kube-controller-manager", "v1", {"f:status": bound_status}, "status"),
        written_by("csi-resizer", "v1", {"f:status": {"f:capacity": {"f:storage": {}}}}, "status"),
        written_by("metacontroller", "v1", named_fields(ours)),
    ]


# VolumeExpansions


def _expansion(fleet: Fleet, number: int) -> JsonObject:
    """What the hook returned when the claim grew last, as Metacontroller has stored it."""
    history = _history(number)
    last = history[-1]
    step = Step(
        claim_name=claim_name(number),
        claim_uid=_claim_uid(number),
        from_size=last.from_,
        size=last.to,
        reason="ExpandRequested",
        message=f"84% used, threshold {THRESHOLD}%: {last.from_} -> {last.to}",
        requested_at=last.at,
        count=len(history),
        attempt=1,
    )
    child = expansions.child(expansions.name_for(fleet.autoscaler, step.claim_name), step)
    labels = child["metadata"]["labels"] | {volume_autoscaler.CONTROLLER_UID: fleet.uid}
    child["metadata"] |= {"labels": labels, "namespace": fleet.namespace}
    fields = named_fields([wire.LAST_APPLIED], labels, owner=fleet.uid)
    fields["f:spec"] = {".": {}} | {f"f:{key}": {} for key in child["spec"]}
    written = written_by("metacontroller", expansions.API_VERSION, fields)
    stored = as_stored(child, labels, {wire.LAST_APPLIED: go_json(child)}, [written])
    owner = {"apiVersion": policy.API_VERSION, "kind": policy.KIND, "name": fleet.autoscaler, "uid": fleet.uid}
    stored["metadata"]["ownerReferences"] = [owner | {"blockOwnerDeletion": True, "controller": True}]
    return stored | {"metadata": stored["metadata"] | {"generation": 2, "uid": make_uid("e4a00000", number)}}
