"""One NodeShape per Node: its labels, what it can allocate and its operating system, written only when they change.

Nodes report themselves all the time. What relates to Nodes would be synced as often; what relates to NodeShapes is
synced when a node comes, goes, is relabelled or changes its size.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from hooks import wire
from hooks.agents import shapes
from hooks.agents.shapes import OS_LABEL, Allocatable, NodeShape
from hooks.kube.metadata import JsonObject, group_key
from hooks.kube.quantity import canonical

LOOK_AGAIN_SECONDS = 15
"""A kubelet fills in the status soon after it has made the Node, and a change of the status causes no sync."""


class Reason(StrEnum):
    SHAPED = "Shaped"  # the NodeShape is new or changes
    KEPT = "Kept"  # the Node says nothing readable about what it can allocate: what was known stays


class NodeInfo(wire.Model):
    operating_system: str = ""


class NodeStatus(wire.Model):
    allocatable: dict[str, str] | None = None
    node_info: NodeInfo | None = None


class Node(wire.Model, kw_only=True):
    metadata: wire.Metadata
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Attachments(wire.Model):
    shapes: dict[str, NodeShape] | None = msgspec.field(default=None, name=group_key(shapes.API_VERSION, shapes.KIND))


class SyncRequest(wire.Model, kw_only=True):
    object: Node
    attachments: Attachments = msgspec.field(default_factory=Attachments)


def sync(request: SyncRequest, *, now: datetime) -> wire.Outcome:
    node = request.object
    known = (request.attachments.shapes or {}).get(node.metadata.name)
    wanted, reason, message = decide(node, known)
    decision = wire.Decision(
        reason=reason,
        message=message,
        object=wire.ObjectRef(shapes.KIND, node.metadata.name),
        changes=known is None or child(node, known.spec) != child(node, wanted),
    )
    news = [decision] if decision.changes or reason is Reason.KEPT else []
    response = wire.DecoratorResponse(
        attachments=[child(node, wanted)], resync_after_seconds=LOOK_AGAIN_SECONDS if reason is Reason.KEPT else 0
    )
    return wire.Outcome(response=response, decisions=news)


def decide(node: Node, known: NodeShape | None) -> tuple[shapes.ShapeSpec, Reason, str]:
    labels = node.metadata.labels or {}
    os = (node.status.node_info.operating_system if node.status.node_info else "") or labels.get(OS_LABEL, "")
    given = node.status.allocatable or {}
    cpu, memory = given.get("cpu", ""), given.get("memory", "")
    if shapes.read_amount(cpu, memory):
        allocatable = Allocatable(canonical(cpu), canonical(memory))
        reason, message = Reason.SHAPED, f"{allocatable.cpu} CPU and {allocatable.memory} can be allocated"
    else:
        allocatable = (known.spec.allocatable if known else None) or Allocatable()
        reason, message = Reason.KEPT, "the Node does not say what it can allocate"
    return shapes.ShapeSpec(labels, allocatable, os), reason, message


def child(node: Node, spec: shapes.ShapeSpec) -> JsonObject:
    allocatable = {"cpu": spec.allocatable.cpu, "memory": spec.allocatable.memory} if spec.allocatable else {}
    fields = {
        "labels": spec.labels,
        "allocatable": {key: value for key, value in allocatable.items() if value},
        "os": spec.os,
    }
    return {
        "apiVersion": shapes.API_VERSION,
        "kind": shapes.KIND,
        "metadata": {"name": node.metadata.name},
        "spec": {key: value for key, value in fields.items() if value},  # the API server drops what is empty
    }
