"""The label sds-replicated-volume-node: on the Nodes that a ReplicatedStorageClass means, and on those that hold data.

The label decides where the storage agent runs, and to remove it stops the agent with the volumes that it serves. So it
is added as soon as a class means the Node, and removed only if every class is known and none does, no data is there,
and all that has been so for a while.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from hooks import wire
from hooks.kube.duration import InvalidDuration, parse_duration
from hooks.kube.events import event, with_earlier
from hooks.kube.metadata import JsonObject, group_key, name_of
from hooks.kube.times import InvalidTime, format_time, parse_time
from hooks.storage import classes, data
from hooks.storage.classes import LABEL, Judgement, Pool, Reason, StorageClass
from hooks.storage.data import DrbdResource

REMOVALS = "storage-nodes.metahooks.io/removals"
"""Annotation of the DecoratorController: Strict takes the label off as the original does, whatever is not known."""
REMOVAL = "storage-nodes.metahooks.io/removal"
"""Annotation of a Node: Allowed does so for this one."""
DATA_GUARD = "storage-nodes.metahooks.io/data-guard"
"""Annotation of the DecoratorController: Enabled if there are DRBDResources to look for."""
REMOVAL_DELAY = "storage-nodes.metahooks.io/removal-delay"
"""Annotation of the DecoratorController: how long a Node must have been without class and data, 10m unless given."""
REMOVABLE_SINCE = "storage-nodes.metahooks.io/removable-since"
"""Annotation of a Node: since when it is. Classes come one by one when a backup is restored, and so does data."""
DEFAULT_DELAY = timedelta(minutes=10)
RESYNC_SECONDS = 5
"""Metacontroller drops a write that meets a newer Node and does not try again: look once more after every change."""
LABELED, UNLABELED = "Labeled", "Unlabeled"
"""The reasons of Events."""


class Condition(wire.Model):
    type: str = ""
    status: str = ""


class NodeStatus(wire.Model):
    conditions: list[Condition] | None = None


class Node(wire.Model, kw_only=True):
    metadata: wire.Metadata
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def is_ready(self) -> bool:
        """Or does not say."""
        return all(found.status == "True" for found in self.status.conditions or [] if found.type == "Ready")


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
    annotations: Mapping[str, str]
    judgements: Sequence[Judgement]
    listed: Judgement | None  # by a pool, whether or not a class names it
    holds: Sequence[str] | None  # the DRBDResources on the node; None if nobody can tell
    is_ready: bool
    is_strict: bool
    delay: timedelta
    now: datetime

    @property
    def value(self) -> str | None:
        return self.labels.get(LABEL)

    @property
    def removable_since(self) -> datetime | None:
        try:
            since = parse_time(self.annotations.get(REMOVABLE_SINCE, ""))
        except InvalidTime:
            return None
        return since if since <= self.now else None

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
        if not unknown and not self.is_ready:
            return "the node is not ready: its pool may have dropped it for that"
        return unknown


class Verdict(NamedTuple):
    change: Literal["add", "correct", "remove", ""]
    reason: Reason | None = None
    sentence: str = ""
    pending: timedelta | None = None
    """For how long a removal still waits."""


def customize(request: wire.CustomizeRequest) -> wire.Outcome:
    """All classes and pools, and the data of this node: cached by UID, so it depends on the name and nothing else."""
    rules = [
        wire.RelatedRule(api_version=classes.API_VERSION, resource=classes.CLASSES),
        wire.RelatedRule(api_version=classes.API_VERSION, resource=classes.POOLS),
    ]
    if request.controller.annotation(DATA_GUARD) == "Enabled":
        own = {"matchLabels": {data.NODE_LABEL: data.label_for(name_of(request.parent))}}
        # Seldom any, and not for long. First, as they are listed one after the other, and objects only move to `own`.
        unmarked = {"matchExpressions": [{"key": data.NODE_LABEL, "operator": "DoesNotExist"}]}
        rules += [
            wire.RelatedRule(api_version=data.API_VERSION, resource=data.RESOURCE, label_selector=selector)
            for selector in (unmarked, own)
        ]
    return wire.Outcome(response=wire.CustomizeResponse(rules))


def sync(request: SyncRequest, *, now: datetime) -> wire.Outcome:
    if request.object.metadata.deletion_timestamp:
        return wire.Outcome(response=wire.DecoratorResponse())
    observed = observe(request, now)
    return report(request, observed, decide(observed))


def observe(request: SyncRequest, now: datetime) -> Observed:
    node, related = request.object.metadata, request.related
    if related.storage_classes is None or related.pools is None:
        kind = classes.CLASS if related.storage_classes is None else classes.POOL
        raise wire.RetryLater(f"the request has no related {kind}, not even an empty map of them", seconds=60)
    labels, pools, found = node.labels or {}, related.pools, classes.in_order(related.storage_classes)
    is_strict = request.controller.annotation(REMOVALS) == "Strict"
    annotations = node.annotations or {}
    return Observed(
        name=node.name,
        labels=labels,
        annotations=annotations,
        listed=classes.listed_by(pools, node.name),
        is_ready=request.object.is_ready,
        delay=removal_delay(request.controller.annotation(REMOVAL_DELAY)),
        now=now,
        judgements=[classes.judge(storage_class, pools, node.name, labels) for storage_class in found],
        holds=held_by(node.name, related.resources),
        is_strict=is_strict or annotations.get(REMOVAL) == "Allowed",
    )


def removal_delay(text: str) -> timedelta:
    """One that cannot be read is the default: a mistake must not make it shorter."""
    try:
        delay = parse_duration(text)
    except InvalidDuration:
        return DEFAULT_DELAY
    return delay if timedelta() <= delay <= timedelta(days=365) else DEFAULT_DELAY


def held_by(node: str, resources: Mapping[str, DrbdResource] | None) -> Sequence[str] | None:
    if resources is None:
        return None
    return sorted(resource.metadata.name for resource in resources.values() if resource.node == node)


def decide(observed: Observed) -> Verdict:
    meant = next((found for found in observed.judgements if found.means_node), None) or observed.listed
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
    waits = observed.delay - (observed.now - (observed.removable_since or observed.now))
    if waits > timedelta() and not observed.is_strict:
        until = format_time(observed.now + waits)
        return Verdict("", Reason.REMOVAL_PENDING, f"no class means it: the label goes after {until}", waits)
    return Verdict("remove", Reason.NO_MATCH, "no class means it, and no data is known to be on it")


# The answer


def report(request: SyncRequest, observed: Observed, verdict: Verdict) -> wire.Outcome:
    change, reason, sentence, pending = verdict
    labels: Mapping[str, str | None] = {LABEL: None if change == "remove" else ""} if change else {}
    annotations = bookkeeping(observed, verdict)
    waits = math.ceil(pending.total_seconds()) if pending else 0
    response = wire.DecoratorResponse(
        labels=labels,
        annotations=annotations,
        attachments=events(request, verdict, observed.now),
        resync_after_seconds=RESYNC_SECONDS if labels or annotations else waits,
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


def bookkeeping(observed: Observed, verdict: Verdict) -> Mapping[str, str | None]:
    """Since when the label may go, and nothing once that is over; what allowed one removal does not allow the next."""
    if verdict.pending and not observed.removable_since:
        return {REMOVABLE_SINCE: format_time(observed.now)}
    over = [] if verdict.pending else [REMOVABLE_SINCE]
    over += [REMOVAL] if verdict.change == "remove" else []
    return {key: None for key in over if key in observed.annotations}


def events(request: SyncRequest, verdict: Verdict, now: datetime) -> Sequence[JsonObject]:
    """Earlier Events as they are, and one for what this answer changes; none if the manifest lists none."""
    if not request.controller.manages("v1", "events"):
        return ()
    news = []
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
        news.append(new)
    return with_earlier((request.attachments or {}).get("Event.v1"), news)
