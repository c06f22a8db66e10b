"""What a NodeLabelPolicy may say, and what each mistake is told; end-to-end tests put VERDICTS to a real API server."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.kube.metadata import JsonObject
from hooks.node_label_policy import BUILT_IN, PARTS, PROTECTED, Part, Policy, check_key, read_policies
from tests.builders import policy

PROJECT = Path(__file__).resolve().parents[1]
CRD = PROJECT / "deploy" / "crds" / "nodelabelpolicies.yaml"
NAME_RULE = "letters, digits, - _ . with a letter or digit at both ends"
TAKEN = "is written by Kubernetes itself or by a tool that depends on it"
GIVE_MATCH = "match: give nameContains, nameMatches or nodeSelector ({} selects every Node)"
LABEL_KEY = "a label key is a name of at most 63 characters, after an optional DNS prefix and a slash"
ANNOTATION_KEY = "an annotation key is a name of at most 63 characters, after an optional DNS prefix and a slash"
NO_REGEX = "match.nameMatches: not a regular expression that RE2 can read"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the API server (a part of its message) and the hook (the whole message) say of a rule; empty: nothing."""

    rule: Any = None
    spec: JsonObject = field(default_factory=dict)
    api: str = ""
    hook: str = ""
    whole_policy: bool = False
    differ: str = ""
    """Why one of the two is stricter on purpose."""

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


VERDICTS: dict[str, Verdict] = {
    # What can be said
    "a part of the name": Verdict(rule=matching(nameContains="-gpu-")),
    "a pattern": Verdict(rule=matching(nameMatches=r"dc\d+-(?P<rack>r\d+)-.*")),
    "an empty selector selects every Node": Verdict(rule=matching(nodeSelector={})),
    "all three together": Verdict(rule=matching(nameContains="x", nameMatches="x.*", nodeSelector={})),
    "all four operators": Verdict(
        rule=selecting(
            {"key": "c", "operator": "In", "values": ["1", ""]},
            {"key": "d", "operator": "NotIn", "values": ["1"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist", "values": []},
        )
    ),
    "annotations alone": Verdict(rule=annotating({"example.com/Note": "any text, ü, $5, {} and $ at the end $"})),
    "an annotation key may have capitals before the slash": Verdict(rule=annotating({"Example.COM/Note": "x"})),
    "an empty label value": Verdict(rule=labelling({"node-role.kubernetes.io/worker": ""})),
    "a label value of 63 characters": Verdict(rule=labelling({"a": "b" * 63})),
    "a key of 63 characters after a prefix of 253": Verdict(
        rule=labelling({".".join(["p" * 63] * 3) + "." + "p" * 61 + "/" + "k" * 63: "b"})
    ),
    "an annotation of 1024 characters": Verdict(rule=annotating({"a": "b" * 1024})),
    "groups by number and by name": Verdict(
        rule=labelling({"a": "${0}", "b": "${1}.${two}"}, nameMatches="(x)(?P<two>y)?")
    ),
    "the lowest priority": Verdict(spec={"priority": -(2**31)}),
    "the highest priority": Verdict(spec={"priority": 2**31 - 1}),
    "Enforce": Verdict(spec={"conflict": "Enforce"}),
    "null fields count as not given": Verdict(
        rule={"match": {"nameContains": "x", "nodeSelector": None}, "labels": {"a": "b"}, "annotations": None}
    ),
    # The policy
    "no rules": Verdict(
        spec={"rules": []},
        whole_policy=True,
        api="spec.rules in body should have at least 1 items",
        hook="spec.rules: List should have at least 1 item after validation, not 0",
    ),
    "a priority below 32 bits": Verdict(
        spec={"priority": -(2**31) - 1},
        whole_policy=True,
        api="spec.priority",
        hook="spec.priority: Input should be greater than or equal to -2147483648",
    ),
    "a priority above 32 bits": Verdict(
        spec={"priority": 2**31},
        whole_policy=True,
        api="spec.priority",
        hook="spec.priority: Input should be less than 2147483648",
    ),
    "a priority that is text": Verdict(
        spec={"priority": "1"},
        whole_policy=True,
        api="spec.priority: Invalid value",
        hook="spec.priority: Input should be a valid integer",
    ),
    "another conflict mode": Verdict(
        spec={"conflict": "keep"},
        whole_policy=True,
        api='spec.conflict: Unsupported value: "keep"',
        hook="spec.conflict: Input should be 'Keep' or 'Enforce'",
    ),
    "more rules than 64": Verdict(
        spec={"rules": [matching(nameContains="x")] * 65},
        api="spec.rules: Too many: 65: must have at most 64 items",
        differ="a limit for the cost of CEL; the hook could serve more",
    ),
    # The match
    "no match": Verdict(
        rule={"labels": {"a": "b"}}, api="spec.rules[0].match: Required value", hook="match: Field required"
    ),
    "an empty match": Verdict(rule=matching(), api=GIVE_MATCH.removeprefix("match: "), hook=GIVE_MATCH),
    "a match of nulls": Verdict(
        rule=matching(nodeSelector=None), api=GIVE_MATCH.removeprefix("match: "), hook=GIVE_MATCH
    ),
    "an empty part of the name": Verdict(
        rule=matching(nameContains=""),
        api="nameContains in body should be at least 1 chars long",
        hook="match.nameContains: String should have at least 1 character",
    ),
    "a part longer than any name": Verdict(
        rule=matching(nameContains="x" * 254),
        api="match.nameContains: Too long",
        hook="match.nameContains: String should have at most 253 characters",
    ),
    "a misspelt match beside a good one": Verdict(
        rule=matching(nameContain="-gpu-", nodeSelector={}),
        api='unknown field "spec.rules[0].match.nameContain"',
        hook="match.nameContain: Extra inputs are not permitted",
    ),
    "a match in snake case": Verdict(
        rule=matching(name_contains="-gpu-"),
        api='unknown field "spec.rules[0].match.name_contains"',
        hook="match.name_contains: Extra inputs are not permitted",
    ),
    "a misspelt selector": Verdict(
        rule=matching(nodeSelector={"matchLabel": {"c": "d"}}),
        api='unknown field "spec.rules[0].match.nodeSelector.matchLabel"',
        hook='match.nodeSelector: selector: unknown field "matchLabel"',
    ),
    "a match at the level of the rule": Verdict(
        rule={"match": {"nodeSelector": {}}, "nameContains": "-gpu-", "labels": {"a": "b"}},
        api='unknown field "spec.rules[0].nameContains"',
        hook="nameContains: Extra inputs are not permitted",
    ),
    "a rule that is text": Verdict(
        rule="x", api="spec.rules[0]", hook="body: Input should be a valid dictionary or instance of RuleSpec"
    ),
    # Patterns
    "a pattern that does not end": Verdict(
        rule=matching(nameMatches="(x"),
        api="not a regular expression that RE2 can read",
        hook=f"{NO_REGEX}: missing ): (x",
    ),
    "a look-ahead": Verdict(
        rule=matching(nameMatches="(?=x)"),
        api="not a regular expression that RE2 can read",
        hook=f"{NO_REGEX}: invalid perl operator: (?=",
    ),
    "a back reference": Verdict(
        rule=matching(nameMatches=r"(x)\1"),
        api="not a regular expression that RE2 can read",
        hook=rf"{NO_REGEX}: invalid escape sequence: \1",
    ),
    "a pattern of 1025 characters": Verdict(
        rule=matching(nameMatches="x" * 1025),
        api="match.nameMatches: Too long",
        hook="match.nameMatches: String should have at most 1024 characters",
    ),
    "an empty pattern": Verdict(
        rule=matching(nameMatches=""),
        api="nameMatches in body should be at least 1 chars long",
        hook="match.nameMatches: String should have at least 1 character",
    ),
    "a pattern that takes too much memory": Verdict(
        rule=matching(nameMatches=r"\pL{1000}"),
        hook=f"{NO_REGEX}: pattern too large - compile failed",
        differ="Go compiles larger patterns than RE2 does",
    ),
    "a single byte": Verdict(
        rule=matching(nameMatches=r"\C"),
        api="not a regular expression that RE2 can read",
        differ="Go does not know what RE2 knows; it is harmless",
    ),
    # Selectors
    "an operator in lower case": Verdict(
        rule=selecting({"key": "c", "operator": "in", "values": ["d"]}),
        api='operator: Unsupported value: "in"',
        hook='match.nodeSelector: matchExpressions[0]: operator "in" is not one of In, NotIn, Exists, DoesNotExist',
    ),
    "In without values": Verdict(
        rule=selecting({"key": "c", "operator": "In"}),
        api="In and NotIn need values, Exists and DoesNotExist take none",
        hook="match.nodeSelector: matchExpressions[0]: In needs at least one value",
    ),
    "Exists with values": Verdict(
        rule=selecting({"key": "c", "operator": "Exists", "values": ["d"]}),
        api="In and NotIn need values, Exists and DoesNotExist take none",
        hook="match.nodeSelector: matchExpressions[0]: Exists takes no values",
    ),
    "a selector key that is no label key": Verdict(
        rule=selecting({"key": "c d", "operator": "Exists"}),
        api="matchExpressions[0].key in body should match",
        hook=f'match.nodeSelector: matchExpressions[0]: label key "c d" has a name that is not made of {NAME_RULE}',
    ),
    "a selector value that no label has": Verdict(
        rule=selecting({"key": "c", "operator": "In", "values": ["d e"]}),
        api="values[0] in body should match",
        hook=f'match.nodeSelector: matchExpressions[0]: values[0]: label value "d e" is not made of {NAME_RULE}',
    ),
    "a matchLabels key that is no label key": Verdict(
        rule=matching(nodeSelector={"matchLabels": {"-": "d"}}),
        api=LABEL_KEY,
        hook=f'match.nodeSelector: matchLabels: label key "-" has a name that is not made of {NAME_RULE}',
    ),
    "a matchLabels value that no label has": Verdict(
        rule=selecting(c="d e"),
        api="matchLabels.c in body should match",
        hook=f'match.nodeSelector: matchLabels["c"]: label value "d e" is not made of {NAME_RULE}',
    ),
    "selects by a label that it writes": Verdict(
        rule=selecting(a="c"),
        api="a nodeSelector must not name a label that this policy writes",
        hook="match.nodeSelector: selects by a, which a policy writes",
    ),
    "selects by the absence of a label that it writes": Verdict(
        rule=selecting({"key": "a", "operator": "DoesNotExist"}),
        api="a nodeSelector must not name a label that this policy writes",
        hook="match.nodeSelector: selects by a, which a policy writes",
    ),
    # Labels and annotations
    "neither labels nor annotations": Verdict(
        rule={"match": {"nameContains": "x"}},
        api="give labels, annotations or both",
        hook="give labels, annotations or both",
    ),
    "no label": Verdict(
        rule=labelling({}),
        api="labels in body should have at least 1 properties",
        hook="labels: Dictionary should have at least 1 item after validation, not 0",
    ),
    "no annotation": Verdict(
        rule=annotating({}),
        api="annotations in body should have at least 1 properties",
        hook="annotations: Dictionary should have at least 1 item after validation, not 0",
    ),
    "more labels than 16": Verdict(
        rule=labelling({f"l{number}": "" for number in range(17)}),
        api="labels: Too many: 17: must have at most 16 items",
        differ="a limit for the cost of CEL; the hook could serve more",
    ),
    "a label value that is a number": Verdict(
        rule=labelling({"a": 5}), api="labels.a: Invalid value", hook="labels.a: Input should be a valid string"
    ),
    "an annotation that is true": Verdict(
        rule=annotating({"a": True}),
        api="annotations.a: Invalid value",
        hook="annotations.a: Input should be a valid string",
    ),
    "a label value of 64 characters": Verdict(  # case 17
        rule=labelling({"a": "b" * 64}),
        api="a label value has at most 63 characters",
        hook='labels.a: label value "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb..." is longer than 63 characters',
    ),
    "a label value with a space": Verdict(  # case 17
        rule=labelling({"a": "b c"}),
        api="labels.a in body should match",
        hook=f'labels.a: label value "b c" is not made of {NAME_RULE}',
    ),
    "a label value that ends in a dash": Verdict(
        rule=labelling({"a": "b-"}),
        api="labels.a in body should match",
        hook=f'labels.a: label value "b-" is not made of {NAME_RULE}',
    ),
    "a value that starts with a dot whatever the group is": Verdict(
        rule=labelling({"a": ".${1}"}, nameMatches="(x)"),
        api="labels.a in body should match",
        hook=f'labels.a: label value ".0" is not made of {NAME_RULE}',
    ),
    "a value that is too long whatever the group is": Verdict(
        rule=labelling({"a": "b" * 63 + "${1}"}, nameMatches="(x)"),
        hook='labels.a: label value "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb..." is longer than 63 characters',
        differ="CEL cannot take the groups out to count the rest",
    ),
    "a label key with a space": Verdict(  # case 17
        rule=labelling({"a b": "c"}),
        api=LABEL_KEY,
        hook=f'labels.a b: label key "a b" has a name that is not made of {NAME_RULE}',
    ),
    "an empty label key": Verdict(
        rule=labelling({"": "c"}), api=LABEL_KEY, hook='labels.: label key "" has a name that is empty'
    ),
    "a label key of 64 characters": Verdict(
        rule=labelling({"k" * 64: "c"}),
        api=LABEL_KEY,
        hook=f'labels.{"k" * 64}: label key "{"k" * 35}..." has a name that is longer than 63 characters',
    ),
    "a label key with two slashes": Verdict(
        rule=labelling({"a/b/c": "d"}), api=LABEL_KEY, hook='labels.a/b/c: label key "a/b/c" has more than one /'
    ),
    "a label key with capitals before the slash": Verdict(
        rule=labelling({"Example.com/a": "b"}),
        api=LABEL_KEY,
        hook='labels.Example.com/a: label key "Example.com/a" has a prefix that is not a lower-case DNS name',
    ),
    "a prefix with an empty part": Verdict(
        rule=labelling({"example..com/a": "b"}),
        api=LABEL_KEY,
        hook='labels.example..com/a: label key "example..com/a" has a prefix that is not a lower-case DNS name',
    ),
    "a prefix of 254 characters": Verdict(
        rule=annotating({"p" * 254 + "/a": "b"}),
        api=ANNOTATION_KEY,
        hook=f'annotations.{"p" * 100}: annotation key "{"p" * 35}..." has a prefix that is longer than 253 characters',
    ),
    "an annotation key with a space": Verdict(
        rule=annotating({"a b": "c"}),
        api=ANNOTATION_KEY,
        hook=f'annotations.a b: annotation key "a b" has a name that is not made of {NAME_RULE}',
    ),
    "an annotation of 1025 characters": Verdict(
        rule=annotating({"a": "b" * 1025}),
        api="annotations.a: Too long",
        hook="annotations.a: annotation value is longer than 1024 characters",
    ),
    # Groups
    "a group without a pattern": Verdict(
        rule=labelling({"a": "${1}"}),
        api="${...} needs match.nameMatches: it stands for one of its groups",
        hook="labels.a: ${1} is not a group of match.nameMatches",
    ),
    "a group number that the pattern does not have": Verdict(
        rule=labelling({"a": "${2}"}, nameMatches="(x)"),
        hook="labels.a: ${2} is not a group of match.nameMatches",
        differ="CEL cannot list the groups of a pattern",
    ),
    "a group name that the pattern does not have": Verdict(
        rule=annotating({"a": "${rakc}"}, nameMatches="(?P<rack>x)"),
        hook="annotations.a: ${rakc} is not a group of match.nameMatches",
        differ="CEL cannot list the groups of a pattern",
    ),
    "a group that is not closed": Verdict(
        rule=annotating({"a": "rack ${1"}, nameMatches="(x)"),
        api="${ starts a group of match.nameMatches, such as ${1} or ${name}",
        hook="annotations.a: ${ starts a group of match.nameMatches, such as ${1} or ${name}",
    ),
    "a group with a dash in its name": Verdict(
        rule=annotating({"a": "$${rack-id}"}, nameMatches="(x)"),
        api="${ starts a group of match.nameMatches, such as ${1} or ${name}",
        hook="annotations.a: ${ starts a group of match.nameMatches, such as ${1} or ${name}",
    ),
    "a group that is not closed, without a pattern": Verdict(
        rule=annotating({"a": "${"}),
        api="${...} needs match.nameMatches: it stands for one of its groups",
        hook="annotations.a: ${ starts a group of match.nameMatches, such as ${1} or ${name}",
    ),
    "a group that is not closed, in a label": Verdict(
        rule=labelling({"a": "b${1"}, nameMatches="(x)"),
        api="labels.a in body should match",
        hook="labels.a: ${ starts a group of match.nameMatches, such as ${1} or ${name}",
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
        rule={"match": {"nameContains": "x"}, part: {key: "x"}},
        api=_TAKEN_SAYS[part],
        hook=f"{part}.{key}: {TAKEN}",
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
    f"{part}: {key} is free": Verdict(rule={"match": {"nameContains": "x"}, part: {key: "x"}})
    for part in PARTS
    for key in FREE_KEYS[part]
}


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_a_policy(verdict: Verdict) -> None:
    policies, complaints = read_policies({"verdict": verdict.policy})

    where = "policy verdict" if verdict.whole_policy else "policy verdict, rule 1"
    assert complaints == ({where: verdict.hook} if verdict.hook else {})
    usable = [len(read.rules) for read in policies]
    assert usable == ([] if verdict.whole_policy else [0] if verdict.hook else [len(verdict.policy["spec"]["rules"])])


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_the_api_server_and_the_hook_agree_unless_the_table_says_why(verdict: Verdict) -> None:
    assert (bool(verdict.api) != bool(verdict.hook)) == bool(verdict.differ)


def test_the_crd_and_the_hook_protect_the_same_keys() -> None:
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rule = schema["properties"]["spec"]["properties"]["rules"]["items"]
    for part in PARTS:
        checks = [check["rule"] for check in rule["properties"][part]["x-kubernetes-validations"]]
        refused = [
            found[1] for check in checks if (found := re.fullmatch(r"!self\.exists\(k, k\.matches\('(.*)'\)\)", check))
        ]
        assert [text.replace(r"\\", "\\") for text in refused] == [PROTECTED[part]]


def test_the_built_in_policy_is_the_shipped_one() -> None:
    shipped = yaml.safe_load((PROJECT / "deploy" / "base" / "workload-type.yaml").read_text())

    assert shipped["metadata"]["name"] == BUILT_IN["metadata"]["name"]
    assert shipped["spec"] == BUILT_IN["spec"]
    assert read_policies({"workload-type": BUILT_IN})[1] == {}


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "examples" / "node-labeler").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_hook_can_use_the_example(path: Path) -> None:
    example = yaml.safe_load(path.read_text())

    policies, complaints = read_policies({example["metadata"]["name"]: example})

    assert complaints == {}
    assert [len(read.rules) for read in policies] == [len(example["spec"]["rules"])]


NOT_A_DICT = "body: Input should be a valid dictionary or instance of NodeLabelPolicy"


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        pytest.param(None, NOT_A_DICT, id="null"),
        pytest.param("spec", NOT_A_DICT, id="text"),
        pytest.param([{"spec": {}}], NOT_A_DICT, id="a list"),
        pytest.param(7, NOT_A_DICT, id="a number"),
        pytest.param({}, "spec: Field required", id="an empty object"),
        pytest.param(
            {"spec": None}, "spec: Input should be a valid dictionary or instance of PolicySpec", id="a spec of null"
        ),
        pytest.param({"spec": {}}, "spec.rules: Field required", id="an empty spec"),
        pytest.param(
            {"spec": {"rules": {}}}, "spec.rules: Input should be a valid list", id="rules that are an object"
        ),
        pytest.param(
            {"metadata": ["name"], "spec": {"rules": None}},
            "spec.rules: Input should be a valid list",
            id="rules of null",
        ),
    ],
)
def test_a_policy_that_is_no_policy_is_named_by_its_key(written: Any, complaint: str) -> None:
    assert read_policies({"odd": written}) == ([], {"policy odd": complaint})


def test_one_unusable_rule_does_not_stop_the_others() -> None:
    """Case 17."""
    rules = [labelling({"a": "b c"}), matching(nameContains="y"), labelling({"bad key": "c"})]

    policies, complaints = read_policies({"p": policy(name="p", rules=rules)})

    assert [rule.where for rule in policies[0].rules] == ["policy p, rule 2"]
    assert list(complaints) == ["policy p, rule 1", "policy p, rule 3"]


def test_the_highest_priority_comes_first_and_then_the_first_name() -> None:
    written = [
        policy(name=name, priority=rank) for name, rank in (("d", -1), ("c", None), ("b", 5), ("a", 0), ("e", 5))
    ]

    policies, _ = read_policies({each["metadata"]["name"]: each for each in written})

    assert [read.name for read in policies] == ["b", "e", "a", "c", "d"]


def only(*rules: JsonObject) -> Policy:
    policies, complaints = read_policies({"p": policy(name="p", rules=rules)})
    assert complaints == {}
    return policies[0]


def wishes(*rules: JsonObject, name: str = "node", labels: Mapping[str, str] | None = None) -> dict[str, str]:
    return {wish.key: wish.value for wish in reversed([*only(*rules).wishes(name, labels or {})])}


@pytest.mark.parametrize(
    ("pattern", "name", "template", "value"),
    [
        pytest.param(r"a-(\w+)-(\d+)", "a-gpu-07", "${2}.${1}", "07.gpu", id="by number"),
        pytest.param(r"a-(?P<pool>\w+)-\d+", "a-gpu-07", "${pool}", "gpu", id="by name"),
        pytest.param(r"a-(?<pool>\w+)-\d+", "a-gpu-07", "${pool}${1}", "gpugpu", id="a named group has a number too"),
        pytest.param(r".*", "a-gpu-07", "${0}", "a-gpu-07", id="zero is the whole name"),
        pytest.param(r"a(-gpu)?(?P<n>-\d)?", "a", "x${1}${n}y", "xy", id="a group that took no part is empty"),
        pytest.param(r"(a)", "a", "${1}{1}$1", "a{1}$1", id="only ${...} stands for a group"),
        pytest.param(r"(.*)", "${1}", "${1}", "${1}", id="what a group holds is not looked at again"),
        pytest.param(r"(x)((((((((((y))))))))))", "xy", "${11}${1}", "yx", id="two digits"),
        pytest.param(r"(?i)NODE-(.)", "node-a", "${1}", "a", id="flags"),
    ],
)
def test_groups_become_values(pattern: str, name: str, template: str, value: str) -> None:
    assert wishes(annotating({"k": template}, nameMatches=pattern), name=name) == {"k": value}


@pytest.mark.parametrize(
    ("match", "name", "matches"),
    [
        pytest.param({"nameMatches": "gpu"}, "gpu", True, id="a pattern is for the whole name"),
        pytest.param({"nameMatches": "gpu"}, "gpu-1", False, id="and not for its start"),
        pytest.param({"nameMatches": "gpu"}, "a-gpu", False, id="nor for its end"),
        pytest.param({"nameMatches": "a|gpu"}, "gpu-a", False, id="nor is an alternative"),
        pytest.param({"nameMatches": "gpu"}, "gpu\n", False, id="nor up to a line end"),
        pytest.param({"nameMatches": ".*"}, "", True, id="an empty name can match"),
        pytest.param({"nameMatches": "(a+)+$"}, "a" * 250 + "!", False, id="case 19: nested repeats are bounded"),
        pytest.param({"nameMatches": "(a|aa)+$"}, "a" * 250 + "b", False, id="case 19: ambiguous repeats are bounded"),
        pytest.param({"nameMatches": "(.*)*x(.*)*y"}, "a" * 5000, False, id="case 19: nested stars are bounded"),
        pytest.param({"nameContains": "-gpu-"}, "a-gpu-1", True, id="a part of the name"),
        pytest.param({"nameContains": "-gpu-"}, "a-GPU-1", False, id="capitals count"),
        pytest.param({"nameContains": ".*"}, "a-gpu-1", False, id="a part is no pattern"),
        pytest.param({"nameContains": "gpu", "nameMatches": "a.*"}, "a-gpu", True, id="both hold"),
        pytest.param({"nameContains": "gpu", "nameMatches": "b.*"}, "a-gpu", False, id="one of both is not enough"),
        pytest.param({"nameContains": "x", "nodeSelector": {}}, "a-gpu", False, id="every Node, but for the name"),
    ],
)
def test_matches_names(match: JsonObject, name: str, matches: bool) -> None:
    assert wishes(matching(**match), name=name) == ({"a": "b"} if matches else {})


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param({}, ["none", "empty", "ssd", "hdd"], id="empty selects all"),
        pytest.param({"matchLabels": {"disk": "ssd"}}, ["ssd"], id="matchLabels"),
        pytest.param({"matchLabels": {"disk": ""}}, ["empty"], id="an empty value is not absence"),
        pytest.param(("In", ["ssd", "hdd"]), ["ssd", "hdd"], id="In"),
        pytest.param(("In", [""]), ["empty"], id="In with an empty value"),
        pytest.param(("NotIn", ["ssd"]), ["none", "empty", "hdd"], id="NotIn holds without the label"),
        pytest.param(("Exists", None), ["empty", "ssd", "hdd"], id="Exists holds for an empty value"),
        pytest.param(("DoesNotExist", None), ["none"], id="DoesNotExist"),
    ],
)
def test_selects_by_labels(selector: JsonObject | tuple[str, list[str] | None], chosen: list[str]) -> None:
    if isinstance(selector, tuple):
        operator, values = selector
        expression = {"key": "disk", "operator": operator} | ({"values": values} if values else {})
        selector = {"matchExpressions": [expression]}
    nodes = {"none": {}, "empty": {"disk": ""}, "ssd": {"disk": "ssd"}, "hdd": {"disk": "hdd"}}

    assert [name for name, labels in nodes.items() if wishes(matching(nodeSelector=selector), labels=labels)] == chosen


def test_the_first_rule_that_matches_speaks_for_the_policy() -> None:
    first, second = labelling({"a": "1"}, nameContains="n"), labelling({"a": "2", "b": "2"}, nodeSelector={})

    assert wishes(first, second) == {"a": "1"}
    assert wishes(second, first) == {"a": "2", "b": "2"}
    assert wishes(first, second, name="other") == {"a": "2", "b": "2"}


def test_later_rules_are_heard_about_the_keys_of_the_first_only() -> None:
    rules = [labelling({key: "1"}, nodeSelector={}) for key in ("a", "b", "b", "a")]

    heard = [(wish.key, wish.where) for wish in only(*rules).wishes("node", {})]

    assert heard == [("a", "policy p, rule 1"), ("a", "policy p, rule 4")]


CIRCLES: Mapping[str, tuple[Mapping[str, Sequence[JsonObject]], Mapping[str, str]]] = {
    "a rule that selects by what another policy writes": (
        {"p": [labelling({"b": "1"}, nodeSelector={"matchLabels": {"a": "1"}})], "q": [labelling({"a": "1"})]},
        {"policy p, rule 1": "match.nodeSelector: selects by a, which a policy writes"},
    ),
    "two rules that select by each other": (
        {
            "p": [labelling({"b": "1"}, nodeSelector={"matchLabels": {"a": "1"}})],
            "q": [labelling({"a": "1"}, nodeSelector={"matchLabels": {"b": "1"}})],
        },
        {
            "policy p, rule 1": "match.nodeSelector: selects by a, which a policy writes",
            "policy q, rule 1": "match.nodeSelector: selects by b, which a policy writes",
        },
    ),
    "a rule in the middle of its policy": (
        {
            "p": [
                labelling({"c": "1"}, nodeSelector={"matchLabels": {"d": "1"}}),
                labelling({"c": "2"}, nodeSelector={"matchLabels": {"a": "1"}}),
                labelling({"a": "3"}, nodeSelector={}),
            ]
        },
        {"policy p, rule 2": "match.nodeSelector: selects by a, which a policy writes"},
    ),
    "an annotation of that name is another thing": (
        {"p": [labelling({"b": "1"}, nodeSelector={"matchLabels": {"a": "1"}})], "q": [annotating({"a": "1"})]},
        {},
    ),
    "a label that nobody writes": (
        {"p": [labelling({"b": "1"}, nodeSelector={"matchLabels": {"a": "1"}})], "q": [labelling({"c": "1"})]},
        {},
    ),
}


@pytest.mark.parametrize(("written", "expected"), CIRCLES.values(), ids=CIRCLES.keys())
def test_leaves_out_rules_that_see_what_policies_do(
    written: Mapping[str, Sequence[JsonObject]], expected: Mapping[str, str]
) -> None:
    policies, complaints = read_policies({name: policy(name=name, rules=rules) for name, rules in written.items()})

    assert complaints == expected
    left = {rule.where for read in policies for rule in read.rules}
    assert left == {f"policy {name}, rule {n}" for name in written for n in range(1, len(written[name]) + 1)} - {
        *expected
    }


FIELDS = ["metadata", "name", "spec", "rules", "priority", "conflict", "match", "labels", "annotations", "nameContains"]
FIELDS += [
    "nameMatches",
    "nodeSelector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "a",
    "In",
    "x",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
GARBAGE = st.recursive(
    SCALARS | st.sampled_from([*FIELDS, "(", "${1}", "Keep", "Exists"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
RULE_LIKE = st.fixed_dictionaries(
    {"match": st.fixed_dictionaries({}, optional={"nameMatches": st.text(max_size=12), "nodeSelector": GARBAGE})},
    optional={part: st.dictionaries(st.text(max_size=6), GARBAGE, max_size=2) for part in PARTS},
)
POLICY_LIKE = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {"rules": st.lists(RULE_LIKE | GARBAGE, max_size=3)}, optional={"priority": GARBAGE}
        )
    }
)


@settings(deadline=None)
@given(written=st.dictionaries(st.text(max_size=4), GARBAGE | POLICY_LIKE, max_size=3))
def test_any_json_is_read_or_complained_about(written: JsonObject) -> None:
    policies, complaints = read_policies(written)

    read = {policy.name for policy in policies}
    assert all(f"policy {key}" in complaints or key in read or isinstance(written[key], dict) for key in written)
    assert all(text and len(text) < 1000 for text in complaints.values())
    for usable in policies:
        for wish in usable.wishes("a-node", {"a": "x"}):
            assert check_key(wish.part, wish.key) is None
