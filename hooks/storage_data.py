"""A label on each DRBDResource with the name of its node, for the guard of the storage nodes.

A Node relates to objects by label only. Without this label each Node would have to relate to all DRBDResources, and
every change of any of them would sync every Node, with all of them.
"""

from datetime import datetime
from enum import StrEnum

from hooks import wire
from hooks.storage.data import KIND, NODE_LABEL, DrbdResource, label_for

RESYNC_SECONDS = 5
"""Metacontroller drops a write that meets a newer object and does not try again: look once more after every change."""


class Reason(StrEnum):
    MARKED = "Marked"  # the label names the node
    UNMARKED = "Unmarked"  # it is on no node: without the label every Node sees it


class SyncRequest(wire.DecoratorRequest, kw_only=True):
    object: DrbdResource


def sync(request: SyncRequest, *, now: datetime) -> wire.Outcome:
    resource = request.object
    wanted = label_for(resource.node) if resource.node else None
    if (resource.metadata.labels or {}).get(NODE_LABEL) == wanted:
        return wire.Outcome(response=wire.DecoratorResponse())
    decision = wire.Decision(
        reason=Reason.MARKED if wanted else Reason.UNMARKED,
        message=f"it is on node {resource.node}" if wanted else "it is on no node",
        object=wire.ObjectRef(KIND, resource.metadata.name),
        changes=True,
        field=f"labels.{NODE_LABEL}",
    )
    response = wire.DecoratorResponse(labels={NODE_LABEL: wanted}, resync_after_seconds=RESYNC_SECONDS)
    return wire.Outcome(response=response, decisions=[decision])
