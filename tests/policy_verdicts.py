"""What the API server and the hook say of each rule: VERDICTS, which the unit and the end-to-end tests share."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from hooks.kube.metadata import JsonObject
from hooks.node_label_policy import PARTS, Part
from tests.builders import policy

PROJECT = Path(__file__).resolve().parents[1]
CRD = PROJECT / "deploy" / "crds" / "nodelabelpolicies.yaml"

# What the API server says
GIVE_MATCH = "give nameContains, nameMatches or nodeSelector ({} selects every Node)"
NO_REGEX = "not a regular expression that RE2 can read"
VALUES_OR_NOT = "In and NotIn need values, Exists and DoesNotExist take none"
OWN_LABEL = "a nodeSelector must not name a label that this policy writes"
LABEL_KEY = "a label key is a name of at most 63 characters, after an optional DNS prefix and a slash"
ANNOTATION_KEY = "an annotation key is a name of at most 63 characters, after an optional DNS prefix and a slash"
LABEL_VALUE = "labels.a in body should match"
NEEDS_PATTERN = "${...} needs match.nameMatches: it stands for one of its groups"
GROUP_START = "${ starts a group of match.nameMatches, such as ${1} or ${name}"

# What the hook says
EXPRESSION = "match.nodeSelector: matchExpressions[0]"
SELECTS_OWN = "match.nodeSelector: selects by a, which a policy writes"
EMPTY_MAP = "Dictionary should have at least 1 item after validation, not 0"
NOT_MADE_OF = "is not made of letters, digits, - _ . with a letter or digit at both ends"
TOO_LONG = f'labels.a: label value "{"b" * 35}..." is longer than 63 characters'
NO_DNS = "has a prefix that is not a lower-case DNS name"
TAKEN = "is written by Kubernetes itself or by a tool that depends on it"

# Why one of the two is stricter on purpose
CEL_LIMIT = "a limit for the cost of CEL; the hook could serve more"
CEL_GROUPS = "CEL cannot list the groups of a pattern"


@dataclass(frozen=True)
class Verdict:
    """What the API server (a part of its message) and the hook (the whole message) say of a rule; empty: nothing."""

    rule: Any = None
    api: str = ""
    hook: str = ""
    _: KW_ONLY
    spec: JsonObject = field(default_factory=dict)
    differ: str = ""
    """Why one of the two is stricter on purpose."""

    @property
    def whole_policy(self) -> bool:
        """The complaint is about the spec, and not about its rule."""
        return bool(self.spec and self.hook)

    @property
    def policy(self) -> JsonObject:
        rules = [{"match": {"nameContains": "x"}, "labels": {"a": "b"}} if self.rule is None else self.rule]
        written = policy(name="verdict", rules=())
        return written | {"spec": {"rules": rules} | self.spec}


def matching(**match: Any) -> JsonObject:
    return {"match": match, "labels": {"a": "b"}}


def labelling(labels: Mapping[str, Any], **match: Any) -> JsonObject:
    return {"match": match or {"nameContains": "x"}, "labels": labels}


def annotating(annotations: Mapping[str, Any], **match: Any) -> JsonObject:
    return {"match": match or {"nameContains": "x"}, "annotations": annotations}


def selecting(*expressions: JsonObject, **labels: str) -> JsonObject:
    return matching(
        nodeSelector={"matchLabels": labels} | ({"matchExpressions": [*expressions]} if expressions else {})
    )


def _unknown(path: str, rule: JsonObject) -> Verdict:
    return Verdict(rule, f'unknown field "spec.rules[0].{path}"', f"{path}: Extra inputs are not permitted")


VERDICTS: dict[str, Verdict] = {
    # What can be said
    "a part of the name": Verdict(matching(nameContains="-gpu-")),
    "a pattern": Verdict(matching(nameMatches=r"dc\d+-(?P<rack>r\d+)-.*")),
    "an empty selector selects every Node": Verdict(matching(nodeSelector={})),
    "all three together": Verdict(matching(nameContains="x", nameMatches="x.*", nodeSelector={})),
    "all four operators": Verdict(
        selecting(
            {"key": "c", "operator": "In", "values": ["1", ""]},
            {"key": "d", "operator": "NotIn", "values": ["1"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist", "values": []},
        )
    ),
    "annotations alone": Verdict(annotating({"example.com/Note": "any text, ü, $5, {} and $ at the end $"})),
    "an annotation key may have capitals before the slash": Verdict(annotating({"Example.COM/Note": "x"})),
    "an empty label value": Verdict(labelling({"node-role.kubernetes.io/worker": ""})),
    "a label value of 63 characters": Verdict(labelling({"a": "b" * 63})),
    "a key of 63 characters after a prefix of 253": Verdict(
        labelling({".".join(["p" * 63] * 3) + "." + "p" * 61 + "/" + "k" * 63: "b"})
    ),
    "an annotation of 1024 characters": Verdict(annotating({"a": "b" * 1024})),
    "groups by number and by name": Verdict(labelling({"a": "${0}", "b": "${1}.${two}"}, nameMatches="(x)(?P<two>y)?")),
    "the lowest priority": Verdict(spec={"priority": -(2**31)}),
    "the highest priority": Verdict(spec={"priority": 2**31 - 1}),
    "Enforce": Verdict(spec={"conflict": "Enforce"}),
    "null fields count as not given": Verdict(
        {"match": {"nameContains": "x", "nodeSelector": None}, "labels": {"a": "b"}, "annotations": None}
    ),
    # The policy
    "no rules": Verdict(
        spec={"rules": []},
        api="spec.rules in body should have at least 1 items",
        hook="spec.rules: List should have at least 1 item after validation, not 0",
    ),
    "a priority below 32 bits": Verdict(
        spec={"priority": -(2**31) - 1},
        api="spec.priority",
        hook="spec.priority: Input should be greater than or equal to -2147483648",
    ),
    "a priority above 32 bits": Verdict(
        spec={"priority": 2**31}, api="spec.priority", hook="spec.priority: Input should be less than 2147483648"
    ),
    "a priority that is text": Verdict(
        spec={"priority": "1"},
        api="spec.priority: Invalid value",
        hook="spec.priority: Input should be a valid integer",
    ),
    "another conflict mode": Verdict(
        spec={"conflict": "keep"},
        api='spec.conflict: Unsupported value: "keep"',
        hook="spec.conflict: Input should be 'Keep' or 'Enforce'",
    ),
    "more rules than 64": Verdict(
        spec={"rules": [matching(nameContains="x")] * 65},
        api="spec.rules: Too many: 65: must have at most 64 items",
        differ=CEL_LIMIT,
    ),
    # The match
    "no match": Verdict({"labels": {"a": "b"}}, "spec.rules[0].match: Required value", "match: Field required"),
    "an empty match": Verdict(matching(), GIVE_MATCH, f"match: {GIVE_MATCH}"),
    "a match of nulls": Verdict(matching(nodeSelector=None), GIVE_MATCH, f"match: {GIVE_MATCH}"),
    "an empty part of the name": Verdict(
        matching(nameContains=""),
        "nameContains in body should be at least 1 chars long",
        "match.nameContains: String should have at least 1 character",
    ),
    "a part longer than any name": Verdict(
        matching(nameContains="x" * 254),
        "match.nameContains: Too long",
        "match.nameContains: String should have at most 253 characters",
    ),
    "a misspelt match beside a good one": _unknown("match.nameContain", matching(nameContain="-gpu-", nodeSelector={})),
    "a match in snake case": _unknown("match.name_contains", matching(name_contains="-gpu-")),
    "a misspelt selector": Verdict(
        matching(nodeSelector={"matchLabel": {"c": "d"}}),
        'unknown field "spec.rules[0].match.nodeSelector.matchLabel"',
        'match.nodeSelector: selector: unknown field "matchLabel"',
    ),
    "a match at the level of the rule": _unknown(
        "nameContains", {"match": {"nodeSelector": {}}, "nameContains": "-gpu-", "labels": {"a": "b"}}
    ),
    "a rule that is text": Verdict(
        "x", "spec.rules[0]", "body: Input should be a valid dictionary or instance of RuleSpec"
    ),
    # Patterns
    "a pattern that does not end": Verdict(
        matching(nameMatches="(x"), NO_REGEX, f"match.nameMatches: {NO_REGEX}: missing ): (x"
    ),
    "a look-ahead": Verdict(
        matching(nameMatches="(?=x)"), NO_REGEX, f"match.nameMatches: {NO_REGEX}: invalid perl operator: (?="
    ),
    "a back reference": Verdict(
        matching(nameMatches=r"(x)\1"), NO_REGEX, rf"match.nameMatches: {NO_REGEX}: invalid escape sequence: \1"
    ),
    "a pattern of 1025 characters": Verdict(
        matching(nameMatches="x" * 1025),
        "match.nameMatches: Too long",
        "match.nameMatches: String should have at most 1024 characters",
    ),
    "an empty pattern": Verdict(
        matching(nameMatches=""),
        "nameMatches in body should be at least 1 chars long",
        "match.nameMatches: String should have at least 1 character",
    ),
    "a pattern that takes too much memory": Verdict(
        matching(nameMatches=r"\pL{1000}"),
        hook=f"match.nameMatches: {NO_REGEX}: pattern too large - compile failed",
        differ="Go compiles larger patterns than RE2 does",
    ),
    "a single byte": Verdict(
        matching(nameMatches=r"\C"), NO_REGEX, differ="Go does not know what RE2 knows; it is harmless"
    ),
    # Selectors
    "an operator in lower case": Verdict(
        selecting({"key": "c", "operator": "in", "values": ["d"]}),
        'operator: Unsupported value: "in"',
        f'{EXPRESSION}: operator "in" is not one of In, NotIn, Exists, DoesNotExist',
    ),
    "In without values": Verdict(
        selecting({"key": "c", "operator": "In"}), VALUES_OR_NOT, f"{EXPRESSION}: In needs at least one value"
    ),
    "Exists with values": Verdict(
        selecting({"key": "c", "operator": "Exists", "values": ["d"]}),
        VALUES_OR_NOT,
        f"{EXPRESSION}: Exists takes no values",
    ),
    "a selector key that is no label key": Verdict(
        selecting({"key": "c d", "operator": "Exists"}),
        "matchExpressions[0].key in body should match",
        f'{EXPRESSION}: label key "c d" has a name that {NOT_MADE_OF}',
    ),
    "a selector value that no label has": Verdict(
        selecting({"key": "c", "operator": "In", "values": ["d e"]}),
        "values[0] in body should match",
        f'{EXPRESSION}: values[0]: label value "d e" {NOT_MADE_OF}',
    ),
    "a matchLabels key that is no label key": Verdict(
        matching(nodeSelector={"matchLabels": {"-": "d"}}),
        LABEL_KEY,
        f'match.nodeSelector: matchLabels: label key "-" has a name that {NOT_MADE_OF}',
    ),
    "a matchLabels value that no label has": Verdict(
        selecting(c="d e"),
        "matchLabels.c in body should match",
        f'match.nodeSelector: matchLabels["c"]: label value "d e" {NOT_MADE_OF}',
    ),
    "selects by a label that it writes": Verdict(selecting(a="c"), OWN_LABEL, SELECTS_OWN),
    "selects by the absence of a label that it writes": Verdict(
        selecting({"key": "a", "operator": "DoesNotExist"}), OWN_LABEL, SELECTS_OWN
    ),
    # Labels and annotations
    "neither labels nor annotations": Verdict(
        {"match": {"nameContains": "x"}}, "give labels, annotations or both", "give labels, annotations or both"
    ),
    "no label": Verdict(labelling({}), "labels in body should have at least 1 properties", f"labels: {EMPTY_MAP}"),
    "no annotation": Verdict(
        annotating({}), "annotations in body should have at least 1 properties", f"annotations: {EMPTY_MAP}"
    ),
    "more labels than 16": Verdict(
        labelling({f"l{number}": "" for number in range(17)}),
        "labels: Too many: 17: must have at most 16 items",
        differ=CEL_LIMIT,
    ),
    "a label value that is a number": Verdict(
        labelling({"a": 5}), "labels.a: Invalid value", "labels.a: Input should be a valid string"
    ),
    "an annotation that is true": Verdict(
        annotating({"a": True}), "annotations.a: Invalid value", "annotations.a: Input should be a valid string"
    ),
    # Values and keys that Kubernetes does not take (case 17)
    "a label value of 64 characters": Verdict(
        labelling({"a": "b" * 64}), "a label value has at most 63 characters", TOO_LONG
    ),
    "a label value with a space": Verdict(
        labelling({"a": "b c"}), LABEL_VALUE, f'labels.a: label value "b c" {NOT_MADE_OF}'
    ),
    "a label value that ends in a dash": Verdict(
        labelling({"a": "b-"}), LABEL_VALUE, f'labels.a: label value "b-" {NOT_MADE_OF}'
    ),
    "a value that starts with a dot whatever the group is": Verdict(
        labelling({"a": ".${1}"}, nameMatches="(x)"), LABEL_VALUE, f'labels.a: label value ".0" {NOT_MADE_OF}'
    ),
    "a value that is too long whatever the group is": Verdict(
        labelling({"a": "b" * 63 + "${1}"}, nameMatches="(x)"),
        hook=TOO_LONG,
        differ="CEL cannot take the groups out to count the rest",
    ),
    "a label key with a space": Verdict(
        labelling({"a b": "c"}), LABEL_KEY, f'labels.a b: label key "a b" has a name that {NOT_MADE_OF}'
    ),
    "an empty label key": Verdict(labelling({"": "c"}), LABEL_KEY, 'labels.: label key "" has a name that is empty'),
    "a label key of 64 characters": Verdict(
        labelling({"k" * 64: "c"}),
        LABEL_KEY,
        f'labels.{"k" * 64}: label key "{"k" * 35}..." has a name that is longer than 63 characters',
    ),
    "a label key with two slashes": Verdict(
        labelling({"a/b/c": "d"}), LABEL_KEY, 'labels.a/b/c: label key "a/b/c" has more than one /'
    ),
    "a label key with capitals before the slash": Verdict(
        labelling({"Example.com/a": "b"}), LABEL_KEY, f'labels.Example.com/a: label key "Example.com/a" {NO_DNS}'
    ),
    "a prefix with an empty part": Verdict(
        labelling({"example..com/a": "b"}), LABEL_KEY, f'labels.example..com/a: label key "example..com/a" {NO_DNS}'
    ),
    "a prefix of 254 characters": Verdict(
        annotating({"p" * 254 + "/a": "b"}),
        ANNOTATION_KEY,
        f'annotations.{"p" * 100}: annotation key "{"p" * 35}..." has a prefix that is longer than 253 characters',
    ),
    "an annotation key with a space": Verdict(
        annotating({"a b": "c"}), ANNOTATION_KEY, f'annotations.a b: annotation key "a b" has a name that {NOT_MADE_OF}'
    ),
    "an annotation of 1025 characters": Verdict(
        annotating({"a": "b" * 1025}),
        "annotations.a: Too long",
        "annotations.a: annotation value is longer than 1024 characters",
    ),
    # Groups
    "a group without a pattern": Verdict(
        labelling({"a": "${1}"}), NEEDS_PATTERN, "labels.a: ${1} is not a group of match.nameMatches"
    ),
    "a group number that the pattern does not have": Verdict(
        labelling({"a": "${2}"}, nameMatches="(x)"),
        hook="labels.a: ${2} is not a group of match.nameMatches",
        differ=CEL_GROUPS,
    ),
    "a group name that the pattern does not have": Verdict(
        annotating({"a": "${rakc}"}, nameMatches="(?P<rack>x)"),
        hook="annotations.a: ${rakc} is not a group of match.nameMatches",
        differ=CEL_GROUPS,
    ),
    "a group that is not closed": Verdict(
        annotating({"a": "rack ${1"}, nameMatches="(x)"), GROUP_START, f"annotations.a: {GROUP_START}"
    ),
    "a group with a dash in its name": Verdict(
        annotating({"a": "$${rack-id}"}, nameMatches="(x)"), GROUP_START, f"annotations.a: {GROUP_START}"
    ),
    "a group that is not closed, without a pattern": Verdict(
        annotating({"a": "${"}), NEEDS_PATTERN, f"annotations.a: {GROUP_START}"
    ),
    "a group that is not closed, in a label": Verdict(
        labelling({"a": "b${1"}, nameMatches="(x)"), LABEL_VALUE, f"labels.a: {GROUP_START}"
    ),
}
TAKEN_KEYS: Mapping[Part, Sequence[str]] = {
    "labels": [
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "beta.kubernetes.io/os",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "kubelet.kubernetes.io/anything",
    ],
    "annotations": [
        "node-labeler.io/owned",
        "node-labeler.io/conflicts",
        "metacontroller.k8s.io/last-applied-configuration",
        "kubectl.kubernetes.io/last-applied-configuration",
        "node.alpha.kubernetes.io/ttl",
        "kubeadm.alpha.kubernetes.io/cri-socket",
        "volumes.kubernetes.io/controller-managed-attach-detach",
        "csi.volume.kubernetes.io/nodeid",
    ],
}
_TAKEN_SAYS: Mapping[Part, str] = {
    "labels": "kubelet and cloud controllers write this label",
    "annotations": "Kubernetes or a tool that depends on it writes this annotation",
}
VERDICTS |= {
    f"{part}: {key} is taken": Verdict(
        {"match": {"nameContains": "x"}, part: {key: "x"}}, _TAKEN_SAYS[part], f"{part}.{key}: {TAKEN}"
    )
    for part in PARTS
    for key in TAKEN_KEYS[part]
}
FREE_KEYS: Mapping[Part, Sequence[str]] = {
    "labels": [
        "kubernetes.io/role",
        "node-role.kubernetes.io/control-plane",
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "node-restriction.kubernetes.io/tenant",
        "topology.example.com/zone",
        "xtopology.kubernetes.io/zone",
        "hostname",
        "node-labeler.io/owned",
    ],
    "annotations": ["kubernetes.io/hostname", "cluster-autoscaler.kubernetes.io/scale-down-disabled", "owned"],
}
VERDICTS |= {
    f"{part}: {key} is free": Verdict({"match": {"nameContains": "x"}, part: {key: "x"}})
    for part in PARTS
    for key in FREE_KEYS[part]
}
