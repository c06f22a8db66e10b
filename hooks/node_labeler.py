"""Labels and annotations for Nodes, by rules over their names and labels.

A NodeLabelPolicy says which Nodes get which labels: a new Node is labelled as soon as it appears, a label that somebody
removes comes back, and one whose rule is gone is taken off again. What this hook wrote is recorded on the Node, so that
nothing it did not write is ever removed, and a value that somebody else set stays unless the policy says Enforce.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from hooks import node_label_policy, wire
from hooks.kube.events import event, with_earlier
from hooks.kube.metadata import JsonObject, compact_json, group_key
from hooks.kube.quote import quote
from hooks.node_label_policy import PARTS, Part, Policy, Wish

OWNED = "node-labeler.io/owned"
"""Annotation: JSON of the keys and values that this hook wrote on the Node."""
CONFLICTS = "node-labeler.io/conflicts"
"""Annotation: keys that policies want to set differently, and who won. Gone when they agree."""
LONGEST_CONFLICTS = 4096
"""Where it is cut, in characters: a Node whose annotations grow too large cannot be written at all."""
RESYNC_SECONDS = 5
"""Metacontroller drops a write that meets a newer Node and does not try again: look once more after every change."""


class Reason(StrEnum):
    LABELED = "Labeled"  # a label that the Node did not have is added
    ANNOTATED = "Annotated"  # an annotation that the Node did not have is added
    CHANGED = "Changed"  # a value is replaced: this hook wrote it, or the policy says Enforce
    CHANGE_HELD = "ChangeHeld"  # a rule wants another value than this hook wrote, but not all rules are known
    REMOVED = "Removed"  # this hook wrote it, and no rule asks for it any more
    KEPT = "Kept"  # somebody else set another value, and the policy says Keep
    REMOVAL_HELD = "RemovalHeld"  # no rule asks for it, but not all rules are known
    CONFLICT = "Conflict"  # policies disagree about a key; the higher priority wins
    RULE_OVERLAP = "RuleOverlap"  # a later rule of the same policy matches too, and disagrees
    INVALID_SPEC = wire.INVALID_SPEC  # a policy, rule or value cannot be used; nothing is removed on its account


class Node(wire.Model):
    metadata: wire.Metadata


class Related(wire.Model):
    policies: dict[str, Any] | None = msgspec.field(
        default=None, name=group_key(node_label_policy.API_VERSION, node_label_policy.KIND)
    )


class Record(wire.Model):
    """What the annotation `owned` holds."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class SyncRequest(wire.DecoratorRequest, kw_only=True):
    object: Node
    related: Related | None = None


@dataclass(frozen=True)
class Observed:
    name: str
    values: Mapping[Part, Mapping[str, str]]
    owned: Mapping[Part, Mapping[str, str]]
    policies: Sequence[Policy]  # highest priority first
    complaints: Mapping[str, str]
    held: str  # why nothing that this hook wrote may be removed or changed now, or empty

    def is_ours(self, part: Part, name: str) -> bool:
        """Recorded, and still the value that this hook wrote."""
        value = self.values[part].get(name)
        return value is not None and value == self.owned[part].get(name)


class Key(NamedTuple):
    """One label or annotation: what it holds, whether that is ours, and what the policies want, the winner first."""

    part: Part
    name: str
    value: str | None
    ours: bool
    wishes: Sequence[Wish]

    def __str__(self) -> str:
        return f"{self.part.removesuffix('s')} {self.name}"


class Verdict(NamedTuple):
    key: Key
    after: str | None
    owned: bool
    reason: Reason | None = None
    sentence: str = ""

    @property
    def changes(self) -> bool:
        return self.after != self.key.value


def customize(request: wire.CustomizeRequest) -> wire.Outcome:
    """Every Node relates to every policy: the answer is cached by UID, so it may depend on nothing else."""
    policies = wire.RelatedRule(api_version=node_label_policy.API_VERSION, resource=node_label_policy.RESOURCE)
    return wire.Outcome(response=wire.CustomizeResponse([policies]))


def sync(request: SyncRequest, *, now: datetime) -> wire.Outcome:
    if request.object.metadata.deletion_timestamp:
        return wire.Outcome(response=wire.DecoratorResponse())
    observed = observe(request)
    return report(request, observed, decide(observed), now)


def observe(request: SyncRequest) -> Observed:
    """A request without policies is not a cluster without any: the built-in one applies, and only adds."""
    node = request.object.metadata
    sent = request.related.policies if request.related else None
    built_in = {"workload-type": node_label_policy.BUILT_IN}
    policies, complaints = node_label_policy.read_policies(built_in if sent is None else sent)
    held = (
        "the request names no policies" if sent is None else f"{min(complaints)} cannot be used" if complaints else ""
    )
    return Observed(
        name=node.name,
        values={"labels": node.labels or {}, "annotations": node.annotations or {}},
        owned=read_owned((node.annotations or {}).get(OWNED, "")),
        policies=policies,
        complaints=complaints,
        held=held,
    )


def read_owned(text: str) -> Mapping[Part, Mapping[str, str]]:
    """What we wrote, as far as we could have: people can edit the record.

    One that cannot be read means that nothing is ours: nothing is removed for it.
    """
    try:
        record = wire.parse(Record, text.encode())
    except wire.InvalidRequest:
        record = Record()
    recorded: Mapping[Part, Mapping[str, str]] = {"labels": record.labels, "annotations": record.annotations}
    return {
        part: {key: value for key, value in values.items() if node_label_policy.check_key(part, key) is None}
        for part, values in recorded.items()
    }


def decide(observed: Observed) -> Sequence[Verdict]:
    # A label that we wrote for a rule which is gone goes in the same answer: no selector may still count on it.
    ours = observed.owned["labels"]
    selectable = {key: value for key, value in observed.values["labels"].items() if ours.get(key) != value}
    wishes: dict[tuple[Part, str], list[Wish]] = {(part, key): [] for part in PARTS for key in observed.owned[part]}
    for policy in observed.policies:
        for wish in policy.wishes(observed.name, selectable):
            wishes.setdefault((wish.part, wish.key), []).append(wish)
    return [
        settle(
            Key(part, name, observed.values[part].get(name), observed.is_ours(part, name), wishes[part, name]),
            observed.held,
        )
        for part, name in sorted(wishes)
    ]


def settle(key: Key, held: str) -> Verdict:
    """The cases, first hit wins."""
    wish = key.wishes[0] if key.wishes else None
    if wish is None and not key.ours:
        return Verdict(key, key.value, owned=False)
    if wish is None and held:
        return Verdict(key, key.value, True, Reason.REMOVAL_HELD, f"{key}={key.value} stays: {held}")
    if wish is None:
        return Verdict(key, None, False, Reason.REMOVED, f"{key}={key.value} removed: no rule asks for it any more")
    if wish.problem:
        return Verdict(key, key.value, key.ours, Reason.INVALID_SPEC, f"{key}: {wish.where}: {wish.problem}")
    if key.value is None:
        added = Reason.LABELED if key.part == "labels" else Reason.ANNOTATED
        return Verdict(key, wish.value, True, added, f"{key}={wish.value} added: {wish.where}")
    if key.value == wish.value:
        return Verdict(key, key.value, key.ours)
    if key.ours and held:
        sentence = f"{key}={key.value} stays, though {wish.where} wants {wish.value!r}: {held}"
        return Verdict(key, key.value, True, Reason.CHANGE_HELD, sentence)
    if key.ours or wish.policy.enforce:
        sentence = f"{key} changed from {key.value!r} to {wish.value!r}: {wish.where}"
        return Verdict(key, wish.value, True, Reason.CHANGED, sentence)
    sentence = f"{key}={key.value} kept: somebody else set it, and {wish.where}, which wants {wish.value!r}, says Keep"
    return Verdict(key, key.value, False, Reason.KEPT, sentence)


def report(request: SyncRequest, observed: Observed, verdicts: Sequence[Verdict], now: datetime) -> wire.Outcome:
    conflicts = [conflict for verdict in verdicts for conflict in disagreements(verdict.key)]
    changes = {part: {v.key.name: v.after for v in verdicts if v.changes and v.key.part == part} for part in PARTS}
    changes["annotations"] |= bookkeeping(observed, verdicts, conflicts)
    added = [verdict for verdict in verdicts if verdict.reason is Reason.LABELED]
    response = wire.DecoratorResponse(
        labels=changes["labels"],
        annotations=changes["annotations"],
        attachments=events(request, added, now),
        resync_after_seconds=RESYNC_SECONDS if any(changes.values()) else 0,
    )
    measured = [wire.Measurement("node_labeler_labels_applied_total", len(added))] if added else []
    return wire.Outcome(response=response, decisions=[*decisions(observed, verdicts, conflicts)], measurements=measured)


def disagreements(key: Key) -> Iterator[tuple[Reason, str]]:
    """Policies that lost to the winner, and rules that lost to an earlier one of their own policy."""
    first: dict[str, Wish] = {}
    for wish in (wish for wish in key.wishes if not (key.wishes[0].problem or wish.problem)):
        leader = first.setdefault(wish.policy.name, wish)
        reason, winner = (Reason.CONFLICT, key.wishes[0]) if leader is wish else (Reason.RULE_OVERLAP, leader)
        if wish.value != winner.value:
            yield reason, f"{key}: {_voice(winner)} wins over {_voice(wish)}"


def _voice(wish: Wish) -> str:
    return f"{wish.where} (priority {wish.policy.priority}, {quote(wish.value)})"


def bookkeeping(
    observed: Observed, verdicts: Sequence[Verdict], conflicts: Sequence[tuple[Reason, str]]
) -> dict[str, str | None]:
    """Our own two annotations, where they differ from what the Node has."""
    owned = {part: {v.key.name: v.after for v in verdicts if v.owned and v.key.part == part} for part in PARTS}
    record = {part: values for part, values in owned.items() if values}
    lost = "; ".join(sentence for reason, sentence in conflicts if reason is Reason.CONFLICT)
    wanted = {OWNED: compact_json(record) if record else None, CONFLICTS: lost[:LONGEST_CONFLICTS] or None}
    return {key: text for key, text in wanted.items() if text != observed.values["annotations"].get(key)}


def decisions(
    observed: Observed, verdicts: Sequence[Verdict], conflicts: Sequence[tuple[Reason, str]]
) -> Iterator[wire.Decision]:
    node = wire.ObjectRef("Node", observed.name)
    for where, complaint in observed.complaints.items():
        yield wire.Decision(reason=Reason.INVALID_SPEC, message=f"{where}: {complaint}", object=node, changes=False)
    for verdict in verdicts:
        if verdict.reason:
            field = f"{verdict.key.part}.{verdict.key.name}"
            yield wire.Decision(
                reason=verdict.reason, message=verdict.sentence, object=node, changes=verdict.changes, field=field
            )
    for reason, sentence in conflicts:
        yield wire.Decision(
            reason=reason, message=sentence, object=node, changes=False, field=f"annotations.{CONFLICTS}"
        )


def events(request: SyncRequest, added: Sequence[Verdict], now: datetime) -> Sequence[JsonObject]:
    """Earlier Events as they are, and one for the labels that this answer adds; none if the manifest lists none."""
    if not request.controller.manages("v1", "events"):
        return ()
    news = []
    if added:
        node = request.object.metadata
        new = event(
            involved={"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "uid": node.uid}},
            reason=Reason.LABELED,
            message="; ".join(verdict.sentence for verdict in added),
            type_="Normal",
            component="node-labeler",
            now=now,
            identity=[compact_json({verdict.key.name: verdict.after for verdict in added})],
        )
        news.append(new)
    return with_earlier((request.attachments or {}).get("Event.v1"), news)
