"""NodeLabelPolicy as the node labeler reads it: rules that choose Nodes, and the labels and annotations that they give.

The CRD refuses most mistakes when a policy is written. A stored policy may still break a rule that a newer CRD would
refuse, so everything is checked again here: a rule that cannot be used is reported, the others work.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
import re2
from pydantic import ConfigDict, Field, ValidationError

from hooks import wire
from hooks.kube.metadata import (
    JsonObject,
    check_annotation_key,
    check_label_key,
    check_label_value,
)
from hooks.kube.selector import InvalidSelector, Selector, parse_selector

API_VERSION, RESOURCE, KIND = "node-labeler.io/v1alpha1", "nodelabelpolicies", "NodeLabelPolicy"

BUILT_IN: JsonObject = {
    "metadata": {"name": "workload-type"},
    "spec": {
        "rules": [
            {"match": {"nameContains": f"-{pool}-"}, "labels": {"workload-type": pool}}
            for pool in ("general", "compute", "database")
        ]
    },
}
"""The shipped policy, for requests that know nothing of policies: a Node sent by hand."""

Part = Literal["labels", "annotations"]
PARTS: tuple[Part, Part] = ("labels", "annotations")

NO_VALUES: Mapping[Part, Mapping[str, str]] = {"labels": {}, "annotations": {}}

PROTECTED: Mapping[Part, str] = {
    # kubelet and cloud controllers write these labels; a second writer would fight them for ever.
    "labels": (
        r"^(kubernetes\.io/(hostname|os|arch)|node\.kubernetes\.io/(instance-type|windows-build)"
        r"|(beta|topology|failure-domain\.beta|kubelet)\.kubernetes\.io/.*)$"
    ),
    # Bookkeeping of this hook, Metacontroller, kubectl, kubeadm, the attach-detach controller and CSI.
    "annotations": (
        r"^(node-labeler\.io|metacontroller\.k8s\.io|kubectl\.kubernetes\.io|node\.alpha\.kubernetes\.io"
        r"|kubeadm\.alpha\.kubernetes\.io|volumes\.kubernetes\.io|csi\.volume\.kubernetes\.io)/.*$"
    ),
}
_PROTECTED = {part: re.compile(pattern) for part, pattern in PROTECTED.items()}
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
_LARGEST_REMEMBERED = 1024 * 1024
_LONGEST_KEY = 253 + 1 + 63
_LONGEST_ANNOTATION = 1024  # all annotations of a Node together may take 256 KiB


class InvalidRule(ValueError):
    """A rule cannot be used as it stands; the message says what is wrong with it."""


class PolicySpec(wire.Spec):
    priority: int = Field(default=0, ge=-(2**31), lt=2**31)
    conflict: Literal["Keep", "Enforce"] = "Keep"
    rules: list[Any] = Field(min_length=1)


class NodeLabelPolicy(wire.Spec):
    spec: PolicySpec


class MatchSpec(wire.Spec):
    # A misspelt field must not turn a narrow rule into one that matches every Node.
    model_config = ConfigDict(extra="forbid", populate_by_name=False)
    name_contains: str | None = Field(default=None, min_length=1, max_length=253)
    name_matches: str | None = Field(default=None, min_length=1, max_length=1024)
    node_selector: JsonObject | None = None


class RuleSpec(wire.Spec):
    model_config = ConfigDict(extra="forbid", populate_by_name=False)
    match: MatchSpec
    labels: dict[str, str] | None = Field(default=None, min_length=1)
    annotations: dict[str, str] | None = Field(default=None, min_length=1)


class Wish(NamedTuple):
    """A value that a rule gives to a key of the Node it matched; or why it cannot."""

    part: Part
    key: str
    value: str
    problem: str | None
    policy: "Policy"
    where: str


@dataclass(frozen=True)
class Rule:
    where: str
    match: MatchSpec
    pattern: Any  # the compiled nameMatches, or None
    selector: Selector | None
    values: Mapping[Part, Mapping[str, str]]

    def captures(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str] | None:
        """None if the Node does not match, else what `${…}` stands for."""
        if self.match.name_contains is not None and self.match.name_contains not in name:
            return None
        if self.selector is not None and not self.selector.matches(labels):
            return None
        if self.pattern is None:
            return {}
        found = self.pattern.fullmatch(name)
        return None if found is None else _captures(found)


@dataclass(frozen=True)
class Policy:
    name: str
    priority: int
    enforce: bool
    rules: Sequence[Rule]

    def wishes(self, name: str, labels: Mapping[str, str]) -> Iterator[Wish]:
        """The first rule that matches speaks for the policy; what later ones would say of the same keys comes after."""
        spoken: set[tuple[Part, str]] | None = None
        for rule in self.rules:
            captures = rule.captures(name, labels)
            if captures is None:
                continue
            wishes = [self._wish(rule, part, key, captures) for part in PARTS for key in rule.values[part]]
            yield from (wish for wish in wishes if spoken is None or (wish.part, wish.key) in spoken)
            if spoken is None:
                spoken = {(wish.part, wish.key) for wish in wishes}

    def _wish(self, rule: Rule, part: Part, key: str, captures: Mapping[str, str]) -> Wish:
        template = rule.values[part][key]
        value = _PLACEHOLDER.sub(lambda found: captures[found[1]], template) if captures else template
        return Wish(part, key, value, check_value(part, value), self, rule.where)


def read_policies(objects: Mapping[str, Any]) -> tuple[Sequence[Policy], Mapping[str, str]]:
    """The policies, highest priority first, and the complaints about them by the place they are about."""
    specs = {
        name: {"spec": policy["spec"]} if isinstance(policy, dict) and "spec" in policy else policy
        for name, policy in objects.items()
    }
    text = msgspec.json.encode(specs, order="deterministic")
    return _read_policies(text) if len(text) <= _LARGEST_REMEMBERED else _read_policies.__wrapped__(text)


@lru_cache(maxsize=8)
def _read_policies(text: bytes) -> tuple[Sequence[Policy], Mapping[str, str]]:
    """Remembered, because all Nodes of a cluster come with the same policies."""
    complaints: dict[str, str] = {}
    policies = []
    for name, policy in msgspec.json.decode(text).items():
        try:
            spec = NodeLabelPolicy.model_validate(policy, strict=True).spec
        except ValidationError as error:
            complaints[f"policy {name}"] = wire.problem(error)
        else:
            rules = tuple(_read_rules(name, spec.rules, complaints))
            policies.append(Policy(name, spec.priority, spec.conflict == "Enforce", rules))
    policies.sort(key=lambda policy: (-policy.priority, policy.name))
    return _without_circles(policies, complaints), complaints


def _read_rules(policy: str, rules: Sequence[Any], complaints: dict[str, str]) -> Iterator[Rule]:
    """A rule whose values cannot be used still speaks for the Nodes that it matches: it says nothing."""
    for number, raw in enumerate(rules, start=1):
        where = f"policy {policy}, rule {number}"
        try:
            spec, pattern, selector = _read_match(raw)
        except InvalidRule as error:
            complaints[where] = str(error)
            continue
        values: Mapping[Part, Mapping[str, str]] = {"labels": spec.labels or {}, "annotations": spec.annotations or {}}
        if complaint := _values_problem(values, pattern):
            complaints[where] = complaint
        yield Rule(where, spec.match, pattern, selector, NO_VALUES if complaint else values)


def _read_match(raw: Any) -> tuple[RuleSpec, Any, Selector | None]:
    try:
        spec = RuleSpec.model_validate(raw, strict=True)
        selector = None if spec.match.node_selector is None else parse_selector(spec.match.node_selector)
    except ValidationError as error:
        raise InvalidRule(wire.problem(error)) from error
    except InvalidSelector as error:
        raise InvalidRule(f"match.nodeSelector: {error}") from error
    if spec.match == MatchSpec():
        raise InvalidRule("match: give nameContains, nameMatches or nodeSelector ({} selects every Node)")
    pattern = None if spec.match.name_matches is None else compile_pattern(spec.match.name_matches)
    return spec, pattern, selector


def _values_problem(values: Mapping[Part, Mapping[str, str]], pattern: Any) -> str:
    if not any(values.values()):
        return "give labels, annotations or both"
    for part in PARTS:
        for key, value in sorted(values[part].items()):
            if complaint := check_key(part, key) or check_template(part, value, pattern):
                return f"{part}.{key[:100]}: {complaint}"
    return ""


@lru_cache(maxsize=64)
def compile_pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise InvalidRule(f"match.nameMatches: not a regular expression that RE2 can read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _captures(found: Any) -> Mapping[str, str]:
    """Groups by number and by name; a group that took no part is empty."""
    numbered = {str(index): group or "" for index, group in enumerate((found.group(0), *found.groups()))}
    return numbered | {name: group or "" for name, group in found.groupdict().items()}


def check_key(part: Part, key: str) -> str | None:
    return "is too long" if len(key) > _LONGEST_KEY else _check_key(part, key)


@lru_cache(maxsize=4096)
def _check_key(part: Part, key: str) -> str | None:
    if _PROTECTED[part].match(key):
        return "is written by Kubernetes itself or by a tool that depends on it"
    return check_label_key(key) if part == "labels" else check_annotation_key(key)


def check_value(part: Part, value: str) -> str | None:
    if part == "labels":
        return check_label_value(value)
    is_long = len(value) > _LONGEST_ANNOTATION
    return f"annotation value is longer than {_LONGEST_ANNOTATION} characters" if is_long else None


def check_template(part: Part, value: str, pattern: Any) -> str | None:
    """Whether every `${…}` names a group of nameMatches and the rest can stand in a value of that kind."""
    known = set() if pattern is None else {str(n) for n in range(pattern.groups + 1)} | set(pattern.groupindex)
    if unknown := sorted(set(_PLACEHOLDER.findall(value)) - known):
        return f"${{{unknown[0]}}} is not a group of match.nameMatches"
    sample = _PLACEHOLDER.sub("0", value)
    if "${" in sample:
        return "${ starts a group of match.nameMatches, such as ${1} or ${name}"
    return check_value(part, sample)


def _without_circles(policies: Sequence[Policy], complaints: dict[str, str]) -> Sequence[Policy]:
    """Silences rules that select by a label which some rule writes: what they see would depend on what they did.

    Without its selector such a rule matches all Nodes that it might match; for them its policy says nothing.
    """
    written = {key for policy in policies for rule in policy.rules for key in rule.values["labels"]}
    clear = []
    for policy in policies:
        rules = []
        for rule in policy.rules:
            if rule.selector and (keys := rule.selector.keys & written):
                complaints[rule.where] = f"match.nodeSelector: selects by {min(keys)}, which a policy writes"
                rule = replace(rule, selector=None, values=NO_VALUES)
            rules.append(rule)
        clear.append(replace(policy, rules=tuple(rules)))
    return clear
