"""A NodeAgentAutoscaler with many nodes, at rest, as Metacontroller sends it.

Each object carries all that the API server keeps about it: that, and not what the hook reads, is most of a request.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any

import yaml

from bench.bodies import ROOT
from bench.stored import KUBECTL, KUBECTL_MANAGER, as_stored, keyed, make_uid, named_fields, written_by
from hooks import node_agent, wire
from hooks.agents import autoscaler, daemonsets, shapes
from hooks.kube.merge import go_json
from hooks.kube.metadata import JsonObject, annotations_of, group_key, labels_of

FAMILIES, SIZES = ("m5", "c5", "r5", "m6i"), {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32}
TYPES = {f"{family}.{size}": cores for family in FAMILIES for size, cores in SIZES.items()}
"""Instance types and their cores: 20 groups."""
LABELS, REGION = 40, "eu-central-1"
MOUNTS = ("run", "var", "etc", "boot", "proc", "sys")
NAMESPACE, NAME = "kubescape", "node-agent"
UID = make_uid("a6e70000", 0)
SHAPES = group_key(shapes.API_VERSION, shapes.KIND)
DAEMONSETS = group_key(daemonsets.API_VERSION, daemonsets.KIND)


def sync_body(nodes: int, now: datetime) -> bytes:
    """A sync that changes nothing: every DaemonSet is there, rolled out, and told in the status."""
    request = _request(nodes)
    children = json.loads(wire.encode(_outcome(request, now).response))["children"]
    found = keyed(_daemonset(child, nodes) for child in children if child["kind"] == daemonsets.KIND)
    request["children"][DAEMONSETS] = request["related"][DAEMONSETS] = found
    for _ in range(2):  # the first status still says that something was asked for
        status = json.loads(wire.encode(_outcome(request, now).response))["status"]
        request["parent"]["status"] = status | {"observedGeneration": 1}
    return go_json(request).encode()


def _outcome(request: JsonObject, now: datetime) -> wire.Outcome:
    return node_agent.sync(wire.parse(node_agent.SyncRequest, go_json(request).encode()), now=now)


def _request(nodes: int) -> JsonObject:
    return {
        "controller": _controller(),
        "parent": _parent(),
        "children": {DAEMONSETS: {}, "Event.v1": {}},
        "related": {SHAPES: keyed(map(_shape, range(nodes))), DAEMONSETS: {}},
        "finalizing": False,
    }


def _controller() -> JsonObject:
    """The shipped manifest, with Events as in the default overlay."""
    controller: JsonObject = yaml.safe_load((ROOT / "metacontroller" / "node-agent.yaml").read_text())
    controller["spec"]["childResources"].append({"apiVersion": "v1", "resource": "events"})
    return controller


# The NodeAgentAutoscaler


def _parent() -> JsonObject:
    spec: JsonObject = {
        "nodeGroupLabel": autoscaler.INSTANCE_TYPE,
        "nodeSelector": {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}]},
        "defaultGroup": "Disabled",
        "resourcePercentages": {"requestCPU": 2, "requestMemory": 2, "limitCPU": 5, "limitMemory": 5},
        "minResources": {"cpu": "100m", "memory": "180Mi"},
        "maxResources": {"cpu": "2", "memory": "4Gi"},
        "goMemLimitPercent": 80,
        "emptyGroupGracePeriod": "1h",
        "paused": False,
        "template": _template(),
    }
    metadata = {"name": NAME, "namespace": NAMESPACE, "uid": UID, "generation": 1}
    parent = {"apiVersion": autoscaler.API_VERSION, "kind": autoscaler.KIND, "metadata": metadata, "spec": spec}
    fields = [written_by(KUBECTL_MANAGER, autoscaler.API_VERSION, {"f:spec": _fields(spec)})]
    return as_stored(parent, {}, {KUBECTL: go_json(parent)}, fields)


def _template() -> JsonObject:
    """An agent as it is found in clusters: probes, mounts of the host, and some variables."""
    container = {
        "name": "node-agent",
        "image": "quay.io/kubescape/node-agent:v0.2.400",
        "args": ["--config=/etc/config/config.json", "--log-level=info"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
            *({"name": f"FEATURE_{number}", "value": "true"} for number in range(8)),
        ],
        "ports": [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": 7888}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 7888}, "periodSeconds": 10},
        "securityContext": {"capabilities": {"add": ["SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN"]}, "runAsUser": 0},
        "volumeMounts": [{"name": f"host-{part}", "mountPath": f"/host/{part}"} for part in MOUNTS],
    }
    pod = {
        "serviceAccountName": "node-agent",
        "hostPID": True,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": f"host-{part}", "hostPath": {"path": f"/{part}", "type": ""}} for part in MOUNTS],
    }
    labels = {"app.kubernetes.io/name": "node-agent", "app.kubernetes.io/part-of": "kubescape"}
    return {"metadata": {"labels": labels}, "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}}}


# NodeShapes


def _shape(number: int) -> JsonObject:
    name, kind = f"ip-10-{number >> 16}-{number >> 8 & 255}-{number & 255}.ec2.internal", [*TYPES][number % len(TYPES)]
    node = make_uid("90de0000", number)
    controller = {"metacontroller.k8s.io/decorator-controller": "node-shape"}
    spec = {"labels": _labels(name, kind, number), "allocatable": _allocatable(kind, number), "os": "linux"}
    metadata = {"name": name, "annotations": controller}
    applied = {"apiVersion": shapes.API_VERSION, "kind": shapes.KIND, "metadata": metadata, "spec": spec}
    annotations = controller | {wire.LAST_APPLIED: go_json(applied)}
    fields = named_fields([*annotations], owner=node) | {"f:spec": _fields(spec)}
    shape = as_stored(applied, {}, annotations, [written_by("metacontroller", shapes.API_VERSION, fields)])
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node}
    shape["metadata"] |= {"generation": 1, "uid": make_uid("5a9e0000", number), "ownerReferences": [_owned_by(owner)]}
    return shape


def _allocatable(kind: str, number: int) -> Mapping[str, str]:
    """Nodes of one type differ by some pages."""
    return {"cpu": f"{TYPES[kind] * 1000 - 80}m", "memory": f"{TYPES[kind] * 3_900_000 + number // 20 % 50 * 4}Ki"}


def _labels(name: str, kind: str, number: int) -> Mapping[str, str]:
    """Those of the cloud and of the kubelet; the rest is what feature discovery writes."""
    zone = f"{REGION}{'abc'[number % 3]}"
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": kind,
        "beta.kubernetes.io/os": "linux",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "eks.amazonaws.com/nodegroup": f"workers-{kind.replace('.', '-')}",
        "failure-domain.beta.kubernetes.io/region": REGION,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        autoscaler.INSTANCE_TYPE: kind,
        "topology.ebs.csi.aws.com/zone": zone,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": zone,
        "workload-type": "compute",
    }
    missing = range(LABELS - len(labels))
    return labels | {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{feature}": "true" for feature in missing}


# DaemonSets


def _daemonset(child: JsonObject, nodes: int) -> JsonObject:
    """What the hook returned, as it is stored: with the defaults that the API server fills in, and rolled out."""
    annotations = annotations_of(child) | {
        "deprecated.daemonset.template.generation": "1",
        wire.LAST_APPLIED: go_json(child),
    }
    spec = deepcopy(child["spec"])
    spec |= {"revisionHistoryLimit": 10}
    spec |= {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}
    _fill_in(spec["template"]["spec"])
    status = _status(nodes // len(TYPES))
    fields = named_fields([*annotations], labels_of(child), owner=UID) | {"f:spec": _fields(spec)}
    found = as_stored(
        child | {"spec": spec, "status": status},
        labels_of(child),
        annotations,
        [
            written_by("metacontroller", daemonsets.API_VERSION, fields),
            written_by("kube-controller-manager", daemonsets.API_VERSION, {"f:status": _fields(status)}, "status"),
        ],
    )
    owner = {"apiVersion": autoscaler.API_VERSION, "kind": autoscaler.KIND, "name": NAME, "uid": UID}
    uid = make_uid("d5000000", [*TYPES].index(labels_of(child)[daemonsets.NODE_GROUP]))
    found["metadata"] |= {"generation": 1, "uid": uid, "ownerReferences": [_owned_by(owner)]}
    return found


def _status(nodes: int) -> JsonObject:
    scheduled = {f"{part}NumberScheduled": nodes for part in ("current", "desired", "updated")}
    return scheduled | {
        "numberAvailable": nodes,
        "numberMisscheduled": 0,
        "numberReady": nodes,
        "observedGeneration": 1,
    }


def _fill_in(pod: JsonObject) -> None:
    pod |= {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": pod["serviceAccountName"],
        "terminationGracePeriodSeconds": 30,
    }
    for container in pod["containers"]:
        container |= {
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for probe in ("livenessProbe", "readinessProbe"):
            container[probe] |= {"failureThreshold": 3, "successThreshold": 1, "timeoutSeconds": 1}
            container[probe]["httpGet"] |= {"scheme": "HTTP"}


# Who wrote what


def _owned_by(owner: JsonObject) -> JsonObject:
    return owner | {"blockOwnerDeletion": True, "controller": True}


def _fields(value: Any) -> JsonObject:
    """The tree that the API server keeps of what one manager has written."""
    return dict(_parts(value))


def _parts(value: Any) -> Iterator[tuple[str, JsonObject]]:
    if isinstance(value, dict):
        yield ".", {}
        for key, item in value.items():
            yield f"f:{key}", _fields(item)
    elif isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
        for item in value:
            yield f'k:{{"name":"{item["name"]}"}}', _fields(item)
