"""Metacontroller's CompositeController and DecoratorController manifests, as far as a rehearsal reads them.

Also the shape of the answers that Metacontroller takes from their hooks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.kube.cluster import Kind, Kinds
from hooks.kube.metadata import JsonObject, name_of

_Shape = type | tuple[type, ...]
_COMMON: dict[str, _Shape] = {"status": dict, "resyncAfterSeconds": (int, float), "finalized": bool}
ANSWER_FIELDS: dict[str, dict[str, _Shape]] = {
    "DecoratorController": {"labels": dict, "annotations": dict, "attachments": list, **_COMMON},
    "CompositeController": {"children": list, **_COMMON},
}
"""What a sync hook may answer: Metacontroller refuses any other field, and a value of another type."""
CUSTOMIZE_FIELDS: dict[str, _Shape] = {"relatedResources": list}
RULE_FIELDS: dict[str, _Shape] = {
    "apiVersion": str,
    "resource": str,
    "namespace": str,
    "names": list,
    "labelSelector": dict,
    "namespaceSelector": dict,
}


@dataclass(frozen=True)
class ParentRule:
    kind: Kind
    label_selector: JsonObject
    annotation_selector: JsonObject


@dataclass(frozen=True)
class ChildRule:
    kind: Kind
    method: str


@dataclass(frozen=True)
class Controller:
    manifest: JsonObject
    parents: Sequence[ParentRule]
    children: Sequence[ChildRule]

    @property
    def name(self) -> str:
        return name_of(self.manifest)

    @property
    def is_composite(self) -> bool:
        return bool(self.manifest["kind"] == "CompositeController")

    def path(self, action: str) -> str:
        """The path of a hook's webhook, given as a URL or as a service and a path; empty if there is none."""
        hook: JsonObject = (self.manifest["spec"].get("hooks") or {}).get(action) or {}
        webhook: JsonObject = hook.get("webhook") or {}
        url = str(webhook.get("url") or "")
        return "/" + url.partition("//")[2].partition("/")[2] if url else str(webhook.get("path") or "")

    def problem_of(self, action: str, answer: Any) -> str:
        """Why Metacontroller would refuse what a hook answered, or empty."""
        if action == "customize":
            rules = _items(answer, "relatedResources")
            return _problem(answer, CUSTOMIZE_FIELDS) or next(filter(None, map(_rule_problem, rules)), "")
        children = _items(answer, "children" if self.is_composite else "attachments")
        return (
            _problem(answer, ANSWER_FIELDS[self.manifest["kind"]])
            or next(filter(None, (_strings_problem(answer, part) for part in ("labels", "annotations"))), "")
            or next(filter(None, map(_child_problem, children)), "")
        )

    def method(self, kind: Kind) -> str:
        return next((rule.method for rule in self.children if rule.kind == kind), "OnDelete")


def read_controllers(manifests: Iterable[JsonObject], kinds: Kinds) -> list[Controller]:
    """The Composite- and DecoratorControllers among the manifests."""
    return [_read_controller(manifest, kinds) for manifest in manifests if manifest.get("kind") in ANSWER_FIELDS]


def _read_controller(manifest: JsonObject, kinds: Kinds) -> Controller:
    spec = manifest["spec"]
    composite = manifest["kind"] == "CompositeController"
    parents = [spec["parentResource"]] if composite else spec["resources"]
    children = spec.get("childResources" if composite else "attachments") or []
    return Controller(
        manifest,
        [_parent_rule(rule, kinds) for rule in parents],
        [
            ChildRule(
                kinds.by_resource(rule["apiVersion"], rule["resource"]),
                (rule.get("updateStrategy") or {}).get("method") or "OnDelete",
            )
            for rule in children
        ],
    )


def _parent_rule(rule: JsonObject, kinds: Kinds) -> ParentRule:
    annotations = rule.get("annotationSelector") or {}
    as_labels = {
        "matchLabels": annotations.get("matchAnnotations") or {},
        "matchExpressions": annotations.get("matchExpressions") or [],
    }
    kind = kinds.by_resource(rule["apiVersion"], rule["resource"])
    return ParentRule(kind, rule.get("labelSelector") or {}, as_labels)


def _problem(answer: Any, fields: dict[str, _Shape]) -> str:
    if not isinstance(answer, dict):
        return "the answer is not an object"
    if unknown := answer.keys() - fields.keys():
        return f"unknown field {min(unknown)} in the answer"
    wrong = (name for name, value in answer.items() if value is not None and not isinstance(value, fields[name]))
    return next((f"{name} in the answer has the wrong type" for name in wrong), "")


def _items(answer: Any, name: str) -> list[Any]:
    items = answer.get(name) if isinstance(answer, dict) else None
    return items if isinstance(items, list) else []


def _strings_problem(answer: JsonObject, part: str) -> str:
    values = (answer.get(part) or {}).values()
    fine = all(value is None or isinstance(value, str) for value in values)
    return "" if fine else f"{part} in the answer hold something else than text and null"


def _child_problem(child: Any) -> str:
    kind = child.get("kind") if isinstance(child, dict) else None
    if not isinstance(kind, str) or not isinstance(child.get("apiVersion"), str) or not name_of(child):
        return "a child in the answer has no kind, apiVersion or metadata.name"
    return ""


def _rule_problem(rule: Any) -> str:
    if problem := _problem(rule, RULE_FIELDS):
        return f"relatedResources: {problem}"
    return "" if rule.get("apiVersion") and rule.get("resource") else "a related rule names no apiVersion or resource"
