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

_AGENT_API = "autoscaling.node-agent.io/v1alpha1"

SHAPED_NODE: JsonObject = {
    "object": {
        "metadata": {"name": "ip-10-0-1-7", "labels": {"node.kubernetes.io/instance-type": "m5.xlarge"}},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi"}, "nodeInfo": {"operatingSystem": "linux"}},
    }
}

AGENT: JsonObject = {
    "parent": {
        "metadata": {"name": "node-agent", "namespace": "kubescape", "uid": "c0de"},
        "spec": {
            "template": {
                "spec": {"template": {"spec": {"containers": [{"name": "node-agent", "image": "example/agent:1.0"}]}}}
            }
        },
    },
    "children": {"DaemonSet.apps/v1": {}},
    "related": {
        "DaemonSet.apps/v1": {},
        f"NodeShape.{_AGENT_API}": {
            "ip-10-0-1-7": {
                "metadata": {"name": "ip-10-0-1-7"},
                "spec": {
                    "labels": {"node.kubernetes.io/instance-type": "m5.xlarge"},
                    "allocatable": {"cpu": "4", "memory": "16Gi"},
                    "os": "linux",
                },
            }
        },
    },
}

_STORAGE_API = "storage.deckhouse.io/v1alpha1"

STORAGE_NODE: JsonObject = {
    "object": {"metadata": {"name": "worker-1", "labels": {"topology.kubernetes.io/zone": "a"}}},
    "related": {
        f"ReplicatedStorageClass.{_STORAGE_API}": {
            "fast": {"metadata": {"name": "fast"}, "status": {"configuration": {"zones": ["a", "b"]}}}
        },
        f"ReplicatedStoragePool.{_STORAGE_API}": {},
    },
}

DRBD_RESOURCE: JsonObject = {"object": {"metadata": {"name": "pvc-1-worker-1"}, "spec": {"nodeName": "worker-1"}}}
