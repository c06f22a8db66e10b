"""Requests to try the hooks with, by hand: shown on the front page and in the API description."""

from hooks.kube.metadata import JsonObject

_EXPANSION_API = "autoscaling.volume-autoscaler.io/v1alpha1"
_METADATA: JsonObject = {"name": "data-loki-0", "namespace": "monitoring", "uid": "7f3c"}
_CLAIM: JsonObject = {
    "metadata": _METADATA,
    "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}}},
    "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
}

NODE: JsonObject = {"object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rke2-prod-compute-x7k2p"}}}

AUTOSCALER: JsonObject = {
    "parent": {
        "metadata": {"name": "loki", "namespace": "monitoring", "uid": "51ab"},
        "spec": {"target": {"pvcName": "data-loki-0"}, "maxSize": "200Gi"},
    },
    "children": {f"VolumeExpansion.{_EXPANSION_API}": {}},
    "related": {
        "PersistentVolumeClaim.v1": {"monitoring/data-loki-0": _CLAIM},
        "StorageClass.storage.k8s.io/v1": {"fast": {"allowVolumeExpansion": True}},
        f"VolumeExpansion.{_EXPANSION_API}": {},
    },
}

CLAIM: JsonObject = {
    "object": _CLAIM,
    "related": {
        f"VolumeExpansion.{_EXPANSION_API}": {
            "monitoring/loki-data-loki-0": {
                "metadata": {
                    "name": "loki-data-loki-0",
                    "ownerReferences": [
                        {"apiVersion": _EXPANSION_API, "kind": "VolumeAutoscaler", "name": "loki", "controller": True}
                    ],
                },
                "spec": {
                    "claimName": "data-loki-0",
                    "claimUID": "7f3c",
                    "fromSize": "10Gi",
                    "size": "12Gi",
                    "requestedAt": "2026-11-16T03:00:00Z",
                    "message": "91% used, threshold 80%: 10Gi -> 12Gi",
                },
            }
        }
    },
}
