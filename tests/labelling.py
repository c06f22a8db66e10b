"""How the tests ask the node labeler: a sync through bytes, its answer in words, and the Node that obeys it."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from hooks import wire
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, name_of
from hooks.node_label_policy import PARTS
from hooks.node_labeler import CONFLICTS, OWNED, SyncRequest, sync
from tests.builders import policy

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
POLICIES = "NodeLabelPolicy.node-labeler.io/v1alpha1"
LISTS_EVENTS = {"spec": {"attachments": [{"apiVersion": "v1", "resource": "events"}]}}
UNUSABLE = policy(name="zz-unusable", rules=[{"match": {"nameMatches": "("}, "labels": {"zz": "1"}}])
NOTHING = wire.Outcome(response=wire.DecoratorResponse())
UNCHANGED: JsonObject = {"labels": {}, "annotations": {}, "attachments": []}  # that, as it is sent
NOBODY = "no rule asks for it any more"

Policies = Sequence[JsonObject] | None


def ask(of: JsonObject, policies: Policies, *, now: datetime = NOW, **request: Any) -> wire.Outcome:
    """One sync, through the bytes that Metacontroller would send. None: the request does not name policies at all."""
    related = {} if policies is None else {POLICIES: {name_of(each): each for each in policies}}
    body = {"controller": {}, "object": of, "attachments": {}, "related": related, "finalizing": False} | request
    return sync(wire.parse(SyncRequest, json.dumps(body).encode()), now=now)


def answer(outcome: wire.Outcome) -> JsonObject:
    parsed: JsonObject = json.loads(wire.encode(outcome.response))
    return parsed


def said(outcome: wire.Outcome) -> list[tuple[str, str]]:
    return [(decision.reason, decision.message) for decision in outcome.decisions]


def reasons(outcome: wire.Outcome) -> list[str]:
    return [decision.reason for decision in outcome.decisions]


def obeyed(of: JsonObject, outcome: wire.Outcome) -> JsonObject:
    """The Node after Metacontroller has carried out the answer: null deletes, keys left out stay."""
    after = deepcopy(of)
    for part in PARTS:
        values = (after["metadata"].get(part) or {}) | answer(outcome)[part]
        after["metadata"][part] = {key: value for key, value in values.items() if value is not None}
    return after


def record(**parts: Mapping[str, str]) -> dict[str, str]:
    return {OWNED: compact_json(parts)}


def foreign(of: JsonObject) -> dict[str, str]:
    """The annotations that are not the hook's own bookkeeping."""
    return {key: value for key, value in annotations_of(of).items() if key not in (OWNED, CONFLICTS)}


def rule(
    labels: Mapping[str, str] | None = None, *, annotations: Mapping[str, str] | None = None, **match: Any
) -> JsonObject:
    given: JsonObject = {"match": match or {"nodeSelector": {}}}
    return given | ({"labels": labels} if labels else {}) | ({"annotations": annotations} if annotations else {})


def setting(value: str, *, name: str = "p", conflict: str | None = None, priority: int | None = None) -> JsonObject:
    """A policy that gives every Node the label tier."""
    return policy(name=name, conflict=conflict, priority=priority, rules=[rule({"tier": value})])


def observed_events(*events: JsonObject) -> JsonObject:
    """As the API server gives them back."""
    stored = {"uid": "e1", "resourceVersion": "9", "annotations": {"metacontroller.k8s.io/decorator-controller": "n"}}
    full = [each | {"metadata": each["metadata"] | stored, "eventTime": None} for each in events]
    return {"Event.v1": {f"default/{name_of(each)}": each for each in full}}
