"""Request bodies of realistic size."""

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


def node_sync_body() -> bytes:
    """A Node of about 14 KB, as a busy kubelet reports it, with the shipped policy."""
    controller = yaml.safe_load((ROOT / "metacontroller" / "node-labeler.yaml").read_text())
    policy = yaml.safe_load((ROOT / "deploy" / "base" / "workload-type.yaml").read_text())
    body = {
        "controller": controller,
        "object": node("rke2-prod-compute-x7k2p"),
        "attachments": {},
        "related": {"NodeLabelPolicy.node-labeler.io/v1alpha1": {"workload-type": policy}},
        "finalizing": False,
    }
    return json.dumps(body).encode()


def node(name: str) -> dict[str, Any]:
    owned = json.dumps({"labels": {"workload-type": "compute"}}, separators=(",", ":"))
    labels = {f"example.com/label-{number}": f"value-{number}" for number in range(20)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": "0f3a05b8-cee6-4470-920e-020c890f6524",
            "resourceVersion": "123456",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels | {"workload-type": "compute"},
            "annotations": {"node-labeler.io/owned": owned},
            "managedFields": [
                _managed_fields(manager) for manager in ("kubelet", "metacontroller", "controller-manager")
            ],
        },
        "spec": {"podCIDR": "10.42.1.0/24", "providerID": "example://node/1"},
        "status": {
            "capacity": {"cpu": "16", "memory": "65843532Ki", "pods": "110"},
            "allocatable": {"cpu": "15820m", "memory": "62843532Ki", "pods": "110"},
            "conditions": [_condition(kind) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")],
            "images": [_image(number) for number in range(42)],
        },
    }


def _managed_fields(manager: str) -> dict[str, Any]:
    fields: dict[str, Any] = {f"f:example.com/label-{number}": {} for number in range(20)}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": fields}},
    }


def _condition(kind: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "False",
        "reason": "KubeletHasSufficientMemory",
        "message": "kubelet has sufficient memory available",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _image(number: int) -> dict[str, Any]:
    digest = f"{number:064x}"
    name = f"registry.example.com/team/application-{number}"
    return {"names": [f"{name}@sha256:{digest}", f"{name}:v1.2.{number}"], "sizeBytes": 100_000_000 + number}
