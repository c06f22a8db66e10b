"""The label sds-replicated-volume-node: on the Nodes that a ReplicatedStorageClass means, and on those that hold data.

The label decides where the storage agent runs, and to remove it stops the agent with the volumes that it serves. So it
is added as soon as a class means the Node, and removed only if every class is known and none does, and no data is
there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from hooks import wire
from hooks.kube.events import event
from hooks.kube.metadata import JsonObject, group_key, name_of
from hooks.storage import classes, data
from hooks.storage.classes import LABEL, Judgement, Pool, Reason, StorageClass
from hooks.storage.data import DrbdResource

REMOVALS = "storage-nodes.metahooks.io/removals"
"""Annotation of the DecoratorController: Strict takes the label off as the original does, whatever is not known."""
REMOVAL = "storage-nodes.metahooks.io/removal"
"""Annotation of a Node: Allowed does so for this one."""
DATA_GUARD = "storage-nodes.metahooks.io/data-guard"
"""Annotation of the DecoratorController: Enabled if there are DRBDResources to look for."""
RESYNC_SECONDS = 5
"""Metacontroller drops a write that meets a newer Node and does not try again: look once more after every change."""
LABELED, UNLABELED = "Labeled", "Unlabeled"
"""The reasons of Events."""


class Node(wire.Model):
    metadata: wire.Metadata


class Related(wire.Model):
    storage_classes: dict[str, StorageClass] | None = msgspec.field(
        default=None, name=group_key(classes.API_VERSION, classes.CLASS)
    )
    pools: dict[str, Pool] | None = msgspec.field(default=None, name=group_key(classes.API_VERSION, classes.POOL))
    resources: dict[str, DrbdResource] | None = msgspec.field(default=None, name=group_key(data.API_VERSION, data.KIND))


class SyncRequest(wire.DecoratorRequest, kw_only=True):
    object: Node
    related: Related = msgspec.field(default_factory=Related)


@dataclass(frozen=True)
class Observed:
    name: str
    labels: Mapping[str, str]
    judgements: Sequence[Judgement]
    holds: Sequence[str] | None  # the DRBDResources on the node; None if nobody can tell
    is_strict: bool

    @property
    def value(self) -> str | None:
        return self.labels.get(LABEL)

    @property
    def doubt(self) -> str:
        """Why a label that no class asks for may not be removed, or empty."""
        unknown = next((found.sentence for found in self.judgements if found.means_node is None), "")
        if self.is_strict:
            return ""
        if not self.judgements:
            return f"there is no {classes.CLASS} at all"
        if not unknown and self.holds is None:
            return "nobody can tell whether data is on the node: the data guard is not installed"
        return unknown


class Verdict(NamedTuple):
    change: Literal["add", "correct", "remove", ""]
    reason: Reason | None = None
    sentence: str = ""


def customize(request: wire.CustomizeRequest) -> wire.Outcome:
    """All classes and pools, and the data of this node: cached by UID, so it depends on the name and nothing else."""
    rules = [
        wire.RelatedRule(api_version=classes.API_VERSION, resource=classes.CLASSES),
        wire.RelatedRule(api_version=classes.API_VERSION, resource=classes.POOLS),
    ]
    if request.controller.annotation(DATA_GUARD) == "Enabled":
        own = {"matchLabels": {data.NODE_LABEL: data.label_for(name_of(request.parent))}}
        unmarked = {
            "matchExpressions": [{"key": data.NODE_LABEL, "operator": "DoesNotExist"}]
        }  # seldom any, not for long
        rules += [
            wire.RelatedRule(api_version=data.API_VERSION, resource=data.RESOURCE, label_selector=selector)
            for selector in (own, unmarked)
        ]
    return wire.Outcome(response=wire.CustomizeResponse(rules))


def sync(request: SyncRequest, *, now: datetime) -> wire.Outcome:
    if request.object.metadata.deletion_timestamp:
        return wire.Outcome(response=wire.DecoratorResponse())
    observed = observe(request)
    return report(request, observed, decide(observed), now)


def observe(request: SyncRequest) -> Observed:
    node, related = request.object.metadata, request.related
    if related.storage_classes is None or related.pools is None:
        kind = classes.CLASS if related.storage_classes is None else classes.POOL
        raise wire.RetryLater(f"the request has no related {kind}, not even an empty map of them", seconds=60)
    labels, pools, found = node.labels or {}, related.pools, classes.in_order(related.storage_classes)
    is_strict = request.controller.annotation(REMOVALS) == "Strict"
    is_allowed = (node.annotations or {}).get(REMOVAL) == "Allowed"
    return Observed(
        name=node.name,
        labels=labels,
        judgements=[classes.judge(storage_class, pools, node.name, labels) for storage_class in found],
        holds=held_by(node.name, related.resources),
        is_strict=is_strict or is_allowed,
    )


def held_by(node: str, resources: Mapping[str, DrbdResource] | None) -> Sequence[str] | None:
    if resources is None:
        return None
    return sorted(resource.metadata.name for resource in resources.values() if resource.node == node)


def decide(observed: Observed) -> Verdict:
    meant = next((found for found in observed.judgements if found.means_node), None)
    if meant is None and observed.holds:
        meant = Judgement(True, Reason.HOLDS_DATA, f"DRBDResource {observed.holds[0]} is on it")
    if meant:
        change: Literal["add", "correct", ""] = (
            "add" if observed.value is None else "correct" if observed.value != "" else ""
        )
        return Verdict(change, meant.reason, meant.sentence)
    if observed.value is None:
        unknown = next((found for found in observed.judgements if found.means_node is None), None)
        return Verdict("", unknown.reason, unknown.sentence) if unknown else Verdict("")
    if observed.doubt:
        return Verdict("", Reason.REMOVAL_FROZEN, f"no class means it, but it stays labelled: {observed.doubt}")
    return Verdict("remove", Reason.NO_MATCH, "no class means it, and no data is known to be on it")


# The answer


def report(request: SyncRequest, observed: Observed, verdict: Verdict, now: datetime) -> wire.Outcome:
    change, reason, sentence = verdict
    labels: Mapping[str, str | None] = {LABEL: None if change == "remove" else ""} if change else {}
    response = wire.DecoratorResponse(
        labels=labels,
        attachments=events(request, verdict, now),
        resync_after_seconds=RESYNC_SECONDS if change else 0,
    )
    counted = {"add": "storage_nodes_labels_applied_total", "remove": "storage_nodes_labels_removed_total"}
    decision = wire.Decision(
        reason=reason or Reason.NO_MATCH,
        message=f"label corrected from {observed.value!r}: {sentence}" if change == "correct" else sentence,
        object=wire.ObjectRef("Node", observed.name),
        changes=bool(change),
        field=f"labels.{LABEL}",
    )
    return wire.Outcome(
        response=response,
        decisions=[decision] if reason else [],
        measurements=[wire.Measurement(counted[change])] if change in counted else [],
    )


def events(request: SyncRequest, verdict: Verdict, now: datetime) -> Sequence[JsonObject]:
    """Earlier Events as they are, and one for what this answer changes; none if the manifest lists none."""
    if not request.controller.manages("v1", "events"):
        return ()
    sent = {name_of(old): old for _, old in sorted((request.attachments or {}).get("Event.v1", {}).items())}
    if verdict.change:
        node = request.object.metadata
        new = event(
            involved={"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "uid": node.uid}},
            reason=UNLABELED if verdict.change == "remove" else LABELED,
            message=f"{LABEL}: {verdict.reason}: {verdict.sentence}",
            type_="Normal",
            component="storage-nodes",
            now=now,
            identity=[verdict.sentence],
        )
        sent.setdefault(name_of(new), new)
    return list(sent.values())
