"""The DaemonSet of a group: built from the template, and read back with what was written down on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from hooks import wire
from hooks.agents.autoscaler import GroupSpec
from hooks.agents.shapes import OS_LABEL, read_amount
from hooks.agents.sizes import Amount, Size
from hooks.agents.template import PARTS, InvalidTemplate, Template
from hooks.kube.merge import merge_key
from hooks.kube.metadata import (
    JsonObject,
    annotations_of,
    compact_json,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
)
from hooks.kube.quantity import format_binary, format_milli
from hooks.kube.selector import Requirement, Selector
from hooks.kube.times import InvalidTime, format_time, parse_time

API_VERSION, KIND, RESOURCE = "apps/v1", "DaemonSet", "daemonsets"
CONTROLLER_UID = "controller-uid"
"""The label that Metacontroller puts on the children of a parent; given here, so that what it wrote can be compared."""
MANAGED_BY, NODE_GROUP = "kubescape.io/managed-by", "kubescape.io/node-group"
MARKS = {MANAGED_BY: "operator-autoscaler"}
ARGO_CD = {
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
    "argocd.argoproj.io/sync-options": "Prune=false",
}
SELECTED_BY = "autoscaling.node-agent.io/daemonset"
SIZED_FOR = "autoscaling.node-agent.io/sized-for"
GROUPED_BY = "autoscaling.node-agent.io/node-group-label"
EMPTY_SINCE = "autoscaling.node-agent.io/empty-since"
GO_MEM_LIMIT = "GOMEMLIMIT"
LINUX = {OS_LABEL: "linux"}
REQUIRED_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Running:
    """A DaemonSet that is there, and what was written down on it when it was last written."""

    object: JsonObject

    @property
    def name(self) -> str:
        return name_of(self.object)

    @property
    def is_deleting(self) -> bool:
        return is_deleting(self.object)

    @cached_property
    def applied(self) -> JsonObject | None:
        """What the hook last returned for it; None if that is not known, as when it was just handed over."""
        found = wire.last_applied(self.object)
        if found is None or (found.get("apiVersion"), found.get("kind")) != (API_VERSION, KIND):
            return None
        return found | {"metadata": _object(found.get("metadata")) | self._identity(labels_of(found))}

    @property
    def is_ours(self) -> bool:
        """Whether it was built here, and not just handed over."""
        return bool(self.grouped_by)

    def kept(self) -> JsonObject:
        """What to return so that it stays as it is.

        Of one that was handed over that is its whole spec: it is then known what to take away when it is built anew.
        """
        if self.applied is not None:
            return self.applied
        found = {"metadata": self._identity({}), "spec": self.object.get("spec")}
        return {"apiVersion": API_VERSION, "kind": KIND, **found}

    def kept_empty(self, since: datetime) -> JsonObject:
        return self._noted({EMPTY_SINCE: format_time(since)})

    def kept_in_use(self) -> JsonObject:
        return self._noted({}) if self._note(EMPTY_SINCE) else self.kept()

    def _noted(self, notes: dict[str, str]) -> JsonObject:
        kept = self.kept()
        annotations = _without(annotations_of(kept), EMPTY_SINCE) | notes
        metadata = _without(kept["metadata"], "annotations") | ({"annotations": annotations} if annotations else {})
        return kept | {"metadata": metadata}

    def _identity(self, labels: dict[str, str]) -> JsonObject:
        """With the label that it has now: it may have been built for another NodeAgentAutoscaler before."""
        uid = labels_of(self.object).get(CONTROLLER_UID, "")
        names = {"name": self.name, "namespace": namespace_of(self.object)}
        return names | {"labels": labels | {CONTROLLER_UID: uid}}

    @cached_property
    def group(self) -> str | None:
        """The label value that it is for; None if it has none."""
        return labels_of(self.applied if self.is_ours else self.object).get(NODE_GROUP)

    @cached_property
    def grouped_by(self) -> str:
        return self._note(GROUPED_BY)

    @property
    def sized_for(self) -> Amount | None:
        """Of which node the size is a part."""
        try:
            noted = msgspec.json.decode(self._note(SIZED_FOR), type=dict[str, str])
        except msgspec.DecodeError:
            return None
        return read_amount(noted.get("cpu", ""), noted.get("memory", ""))

    @property
    def empty_since(self) -> datetime | None:
        try:
            return parse_time(self._note(EMPTY_SINCE))
        except InvalidTime:
            return None

    @property
    def selector(self) -> JsonObject:
        """As the API server checked it."""
        return _object(_object(self.object.get("spec")).get("selector"))

    @property
    def pod_labels(self) -> Mapping[str, str]:
        return labels_of(_object(self.object.get("spec")).get("template"))

    @property
    def rollout(self) -> "Rollout":
        status, spec = _object(self.object.get("status")), _object(self.object.get("spec"))
        generation = _int(self.object.get("metadata", {}).get("generation"))
        return Rollout(
            is_noticed=_int(status.get("observedGeneration")) >= generation,
            is_by_hand=_object(spec.get("updateStrategy")).get("type") == "OnDelete",
            wanted=_int(status.get("desiredNumberScheduled")),
            updated=_int(status.get("updatedNumberScheduled")),
            ready=_int(status.get("numberReady")),
        )

    def written_again(self) -> str:
        """The field that Metacontroller writes at every sync, because the API server stores it otherwise; or empty."""
        return _lacking(self.object.get("spec"), (self.applied or {}).get("spec"), "spec")

    def _note(self, key: str) -> str:
        return annotations_of(self.applied or {}).get(key, "")


@dataclass(frozen=True)
class Rollout:
    is_noticed: bool
    is_by_hand: bool
    """Pods change only when somebody deletes them: to wait for that could take for ever."""
    wanted: int
    updated: int
    ready: int

    @property
    def is_finished(self) -> bool:
        return self.is_by_hand or (self.is_noticed and self.updated >= self.wanted)


def _lacking(stored: Any, wanted: Any, path: str) -> str:
    """The first wanted field that is not stored, or is stored otherwise, as Metacontroller would merge them."""
    if wanted == stored:
        return ""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        pairs = ((f".{key}", stored.get(key), item) for key, item in wanted.items())
    elif isinstance(wanted, list) and isinstance(stored, list) and (key := merge_key([*stored, *wanted])):
        by_key = {item[key]: item for item in stored}
        pairs = ((f"[{item[key]}]", by_key.get(item[key]), item) for item in wanted)
    else:
        return path
    return next((found for place, left, right in pairs if (found := _lacking(left, right, path + place))), "")


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


# Building


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that the DaemonSet of one group is made of."""

    name: str
    namespace: str
    owner_uid: str
    grouped_by: str
    group: str | None
    nodes: Selector
    container: str
    override: GroupSpec
    sized_for: Amount
    size: Size
    running: Running | None

    @property
    def placeholders(self) -> Mapping[str, str]:
        requests, limits = self.size.requests.resources(), self.size.limits.resources()
        return {
            "Name": self.name,
            "NodeGroupLabel": self.group or "",
            "Resources.Requests.CPU": requests["cpu"],
            "Resources.Requests.Memory": requests["memory"],
            "Resources.Limits.CPU": limits["cpu"],
            "Resources.Limits.Memory": limits["memory"],
            "GoMemLimit": self.size.go_mem_limit,
        }

    @property
    def group_label(self) -> dict[str, str]:
        return {} if self.group is None else {NODE_GROUP: self.group}

    @property
    def selector(self) -> JsonObject:
        """It cannot be changed: one that exists keeps its own."""
        return (self.running.selector if self.running else {}) or {"matchLabels": {SELECTED_BY: self.name}}

    @property
    def selected_labels(self) -> dict[str, str]:
        """The labels of pods without which the selector would not find them."""
        keys = [item["key"] for item in self.selector.get("matchExpressions") or []]
        seen = self.running.pod_labels if self.running else {}
        return {key: seen[key] for key in keys if key in seen} | (self.selector.get("matchLabels") or {})


def build(template: Template, plan: Plan) -> JsonObject:
    """Raises InvalidTemplate if the template cannot be used for this group."""
    given = template.render(plan.placeholders)
    spec, pod = given["spec"], given["spec"]["template"]["spec"]
    pod_metadata = spec["template"].get("metadata") or {}
    labels = _without(labels_of(given), NODE_GROUP) | MARKS | plan.group_label | {CONTROLLER_UID: plan.owner_uid}
    annotations = _without(annotations_of(given), wire.LAST_APPLIED, EMPTY_SINCE) | ARGO_CD
    notes = {GROUPED_BY: plan.grouped_by, SIZED_FOR: compact_json(_noted(plan.sized_for))}
    pod_labels = _without(pod_metadata.get("labels") or {}, NODE_GROUP) | plan.group_label | plan.selected_labels
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": labels,
            "annotations": annotations | notes,
        },
        "spec": {
            **_without(spec, "selector", "template", "templateGeneration"),
            **({"updateStrategy": plan.override.update_strategy} if plan.override.update_strategy else {}),
            "selector": plan.selector,
            "template": {
                "metadata": {
                    **({"annotations": found} if (found := pod_metadata.get("annotations")) else {}),
                    "labels": pod_labels,
                },
                "spec": _pod(pod, plan, sizes_are_placed=template.places_sizes),
            },
        },
    }


def _noted(amount: Amount) -> JsonObject:
    """Exactly: a rounded one would give another size."""
    return {"cpu": format_milli(amount.cpu_milli), "memory": format_binary(amount.memory_bytes)}


def _without(fields: Mapping[str, Any], *keys: str) -> JsonObject:
    return {key: value for key, value in fields.items() if key not in keys}


def _pod(pod: JsonObject, plan: Plan, *, sizes_are_placed: bool) -> JsonObject:
    wanted_os = (pod.get("nodeSelector") or {}).get(OS_LABEL, "linux")
    if wanted_os != "linux":
        raise InvalidTemplate(
            f"spec.template.spec.nodeSelector: asks for {OS_LABEL} {wanted_os}; only linux is managed"
        )
    extra: JsonObject = {}
    if plan.override.tolerations:
        extra["tolerations"] = _united(pod.get("tolerations") or [], plan.override.tolerations)
    if plan.override.priority_class_name:
        extra["priorityClassName"] = plan.override.priority_class_name
    return {
        **pod,
        **extra,
        "nodeSelector": (pod.get("nodeSelector") or {}) | LINUX,
        "affinity": _affinity(pod.get("affinity") or {}, plan),
        "containers": _containers(pod["containers"], plan, sizes_are_placed=sizes_are_placed),
    }


def _united(given: Sequence[JsonObject], more: Sequence[JsonObject]) -> Sequence[JsonObject]:
    return [*given, *(item for item in more if item not in given)]


def _containers(containers: Sequence[JsonObject], plan: Plan, *, sizes_are_placed: bool) -> Sequence[JsonObject]:
    names = [container["name"] for container in containers]
    chosen = plan.container or names[0]
    if chosen not in names:
        raise InvalidTemplate(f"there is no container {chosen}, only {', '.join(names)}")
    is_sized = bool(plan.container) or not sizes_are_placed
    return [
        _sized(container, plan, is_sized=is_sized) if container["name"] == chosen else container
        for container in containers
    ]


def _sized(container: JsonObject, plan: Plan, *, is_sized: bool) -> JsonObject:
    ours = [{"name": GO_MEM_LIMIT, "value": plan.size.go_mem_limit}] if is_sized else []
    env = {item["name"]: item for item in [*(container.get("env") or []), *ours, *plan.override.env]}
    sized = {**container, **({"env": list(env.values())} if env else {})}
    if not is_sized:
        return sized
    given, ours_by_part = container.get("resources") or {}, plan.size.resources()
    resources = {part: (given.get(part) or {}) | ours_by_part[part] for part in PARTS}
    return {**sized, "resources": {**given, **resources}}


def _affinity(affinity: JsonObject, plan: Plan) -> JsonObject:
    """Every term asks for the group as well: terms are alternatives, so to add one of our own would ask for less."""
    nodes = affinity.get("nodeAffinity") or {}
    given = (nodes.get(REQUIRED_AFFINITY) or {}).get("nodeSelectorTerms") or [{"matchExpressions": []}]
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), *_expressions(plan)]}
        for term in given
        if term  # an empty term stands for no node at all
    ]
    if not terms:
        raise InvalidTemplate("spec.template.spec.affinity.nodeAffinity: its terms are empty, which is for no node")
    return {**affinity, "nodeAffinity": {**nodes, REQUIRED_AFFINITY: {"nodeSelectorTerms": terms}}}


def _expressions(plan: Plan) -> Sequence[JsonObject]:
    group: JsonObject = {"key": plan.grouped_by, "operator": "DoesNotExist"}
    if plan.group is not None:
        group = {"key": plan.grouped_by, "operator": "In", "values": [plan.group]}
    return [group, *(_expression(requirement) for requirement in plan.nodes.requirements)]


def _expression(requirement: Requirement) -> JsonObject:
    if requirement.values is None:
        return {"key": requirement.key, "operator": "DoesNotExist" if requirement.is_negated else "Exists"}
    operator = "NotIn" if requirement.is_negated else "In"
    return {"key": requirement.key, "operator": operator, "values": sorted(requirement.values)}
