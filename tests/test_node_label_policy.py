"""What a NodeLabelPolicy may say, and what each mistake is told."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.kube.metadata import JsonObject
from hooks.node_label_policy import BUILT_IN, PARTS, PROTECTED, Policy, check_key, read_policies
from tests.builders import policy
from tests.policy_verdicts import CRD, PROJECT, VERDICTS, Verdict, annotating, labelling, matching


def speaking(read: Policy) -> Iterator[str]:
    """The rules of a policy that say something."""
    return (rule.where for rule in read.rules if any(rule.values.values()))


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_a_policy(verdict: Verdict) -> None:
    policies, complaints = read_policies({"verdict": verdict.policy})

    where = "policy verdict" if verdict.whole_policy else "policy verdict, rule 1"
    assert complaints == ({where: verdict.hook} if verdict.hook else {})
    usable = [len([*speaking(read)]) for read in policies]
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

    assert [*speaking(policies[0])] == ["policy p, rule 2"]
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
def test_silences_rules_that_see_what_policies_do(
    written: Mapping[str, Sequence[JsonObject]], expected: Mapping[str, str]
) -> None:
    policies, complaints = read_policies({name: policy(name=name, rules=rules) for name, rules in written.items()})

    assert complaints == expected
    left = {where for read in policies for where in speaking(read)}
    assert left == {f"policy {name}, rule {n}" for name in written for n in range(1, len(written[name]) + 1)} - {
        *expected
    }


FIELDS = ["metadata", "name", "spec", "rules", "priority", "conflict", "match", "labels", "annotations", "nameContains"]
FIELDS += ["nameMatches", "nodeSelector", "matchLabels", "matchExpressions", "key", "operator", "values"]
FIELDS += ["a", "In", "x"]
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
    assert all(f"policy {key}" in complaints or key in read for key in written)
    assert all(text and len(text) < 1000 for text in complaints.values())
    for usable in policies:
        for wish in usable.wishes("a-node", {"a": "x"}):
            assert check_key(wish.part, wish.key) is None
