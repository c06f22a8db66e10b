"""The node labeler: what it answers for which Node, which Events it sends, and what it asks Metacontroller for.

Case numbers are those of the list of edge cases that the hook was designed by.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hooks import wire
from hooks.kube.metadata import JsonObject
from hooks.node_labeler import CONFLICTS, OWNED, RESYNC_SECONDS, SyncRequest, customize, sync
from tests.builders import node, policy
from tests.labelling import (
    LISTS_EVENTS,
    NOW,
    POLICIES,
    UNCHANGED,
    Policies,
    answer,
    ask,
    obeyed,
    observed_events,
    reasons,
    record,
    rule,
    said,
    setting,
)

DATA = Path(__file__).parent / "data"

# The three rules of the original

WORKLOAD_TYPES: Mapping[str, tuple[str, str | None]] = {
    "case 1: a general node": ("rke2-prod-general-abc12-def34", "general"),
    "case 2: a compute node": ("rke2-prod-compute-abc12-def34", "compute"),
    "case 2: a database node": ("rke2-prod-database-abc12-def34", "database"),
    "a control plane node": ("rke2-prod-cp-abc12", None),
    "case 4: an empty name": ("", None),
    "case 4: another name": ("random-node", None),
    "case 5: no dash after the pool": ("prod-general", None),
    "case 5: no dash before the pool": ("general-01", None),
    "capitals": ("prod-General-1", None),
    "case 7: a fully qualified name": ("a-compute-b.ec2.internal", "compute"),
    "case 8: two pools, the first rule wins": ("a-database-compute-1", "compute"),
}


@pytest.mark.parametrize("policies", [[policy()], None], ids=["as a policy", "built in"])
@pytest.mark.parametrize(("name", "pool"), WORKLOAD_TYPES.values(), ids=WORKLOAD_TYPES.keys())
def test_the_name_gives_the_workload_type(name: str, pool: str | None, policies: Policies) -> None:
    labels = answer(ask(node(name=name), policies))["labels"]

    assert labels == ({"workload-type": pool} if pool else {})


def test_a_new_label_is_recorded_told_counted_and_looked_at_again() -> None:
    """Case 1."""
    outcome = ask(node(name="a-compute-1"), [policy()])

    assert answer(outcome) == {
        "labels": {"workload-type": "compute"},
        "annotations": {OWNED: '{"labels":{"workload-type":"compute"}}'},
        "attachments": [],
        "resyncAfterSeconds": RESYNC_SECONDS,
    }
    assert outcome.decisions == [
        wire.Decision(
            reason="Labeled",
            message="label workload-type=compute added: policy workload-type, rule 2",
            object=wire.ObjectRef("Node", "a-compute-1"),
            changes=True,
            field="labels.workload-type",
        )
    ]
    assert outcome.measurements == [wire.Measurement("node_labeler_labels_applied_total", 1)]


def test_at_rest_the_answer_is_empty() -> None:
    """Case 22."""
    first = ask(node(), [policy()])

    second = ask(obeyed(node(), first), [policy()])

    assert answer(second) == UNCHANGED
    assert (said(second), second.measurements) == ([], [])


def test_a_node_without_rules_for_it_is_left_alone() -> None:
    outcome = ask(node(name="random-node"), [policy()])

    assert answer(outcome) == UNCHANGED
    assert (said(outcome), outcome.measurements) == ([], [])


def test_overlapping_rules_are_told() -> None:
    """Case 8."""
    outcome = ask(node(name="a-database-compute-1"), [policy()])

    assert said(outcome) == [
        ("Labeled", "label workload-type=compute added: policy workload-type, rule 2"),
        (
            "RuleOverlap",
            'label workload-type: policy workload-type, rule 2 (priority 0, "compute") wins over '
            'policy workload-type, rule 3 (priority 0, "database")',
        ),
    ]
    assert CONFLICTS not in answer(outcome)["annotations"]


@pytest.mark.parametrize("labels", [None, {}], ids=["null", "empty"])
@pytest.mark.parametrize("annotations", [None, {}], ids=["null", "empty"])
def test_a_node_may_come_without_labels_and_annotations(labels: object, annotations: object) -> None:
    """Case 11."""
    bare = {"metadata": {"name": "a-compute-1", "labels": labels, "annotations": annotations}}

    assert answer(ask(bare, [policy()]))["labels"] == {"workload-type": "compute"}


def test_a_node_that_is_being_deleted_is_left_alone() -> None:
    """Case 20."""
    leaving = node(deleting=True, labels={"tier": "1"}, annotations=record(labels={"tier": "1"}) | {CONFLICTS: "old"})
    outcome = ask(leaving, [policy()], controller=LISTS_EVENTS)

    assert answer(outcome) == UNCHANGED
    assert not outcome.decisions
    assert not outcome.measurements


def test_a_node_that_came_back_under_its_name_is_labelled_again() -> None:
    first = ask(node(uid="1"), [policy()])

    assert wire.encode(ask(node(uid="2"), [policy()]).response) == wire.encode(first.response)


# Values from the name


def test_a_value_that_one_node_cannot_have_holds_that_key_only() -> None:
    split = policy(name="p", rules=[rule({"rack": "${1}", "row": "${2}"}, nameMatches=r"(.*)-r(\d)")])
    odd = node(name="rack.-r7", labels={"rack": "7"}, annotations=record(labels={"rack": "7"}))

    outcome = ask(odd, [split])

    assert answer(outcome)["labels"] == {"row": "7"}
    assert answer(outcome)["annotations"] == {OWNED: '{"labels":{"rack":"7","row":"7"}}'}
    assert said(outcome) == [
        (
            "InvalidSpec",
            'label rack: policy p, rule 1: label value "rack." is not made of '
            "letters, digits, - _ . with a letter or digit at both ends",
        ),
        ("Labeled", "label row=7 added: policy p, rule 1"),
    ]


@pytest.mark.parametrize(("length", "held"), [(63, False), (64, True)])
def test_a_name_of_more_than_63_characters_is_no_label_value(length: int, held: bool) -> None:
    whole = policy(name="p", rules=[rule({"name": "${0}"}, nameMatches=".*")])

    outcome = ask(node(name="n" * length), [whole])

    assert reasons(outcome) == (["InvalidSpec"] if held else ["Labeled"])
    assert answer(outcome)["labels"] == ({} if held else {"name": "n" * length})


@pytest.mark.parametrize(("length", "held"), [(1024 // 4, False), (1024 // 4 + 1, True)])
def test_groups_do_not_blow_up_an_annotation(length: int, held: bool) -> None:
    whole = policy(name="p", rules=[rule(annotations={"name": "${0}" * 4}, nameMatches=".*")])

    outcome = ask(node(name="n" * length), [whole])

    assert reasons(outcome) == (["InvalidSpec"] if held else ["Annotated"])


def test_a_group_that_took_no_part_gives_an_empty_value() -> None:
    optional = policy(name="p", rules=[rule({"zone": "${zone}"}, nameMatches=r"n\d(-(?P<zone>\w))?")])

    assert answer(ask(node(name="n1"), [optional]))["labels"] == {"zone": ""}


def test_a_catastrophic_pattern_is_answered() -> None:
    """Case 19. A backtracking engine would try 2^200 ways."""
    evil = policy(name="p", rules=[rule({"evil": "yes"}, nameMatches="(a+)+$"), rule({"evil": "no"})])

    assert answer(ask(node(name="a" * 200 + "!"), [evil]))["labels"] == {"evil": "no"}
    assert answer(ask(node(name="a" * 200), [evil]))["labels"] == {"evil": "yes"}


# Events


def test_an_event_tells_which_labels_came() -> None:
    two = policy(name="p", rules=[rule({"a": "1", "b": "2"}, annotations={"note": "x"})])

    (sent,) = answer(ask(node(name="n1", uid="u1"), [two], controller=LISTS_EVENTS))["attachments"]

    assert (sent["kind"], sent["type"], sent["reason"]) == ("Event", "Normal", "Labeled")
    assert sent["message"] == "label a=1 added: policy p, rule 1; label b=2 added: policy p, rule 1"
    assert sent["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}
    assert sent["source"] == {"component": "node-labeler"}
    assert (sent["metadata"]["namespace"], sent["lastTimestamp"]) == ("default", "2026-03-01T12:00:00Z")


@pytest.mark.parametrize(
    "controller",
    [
        {},
        {"spec": {}},
        {"spec": {"attachments": None}},
        {"spec": {"attachments": [{"apiVersion": "v1", "resource": "configmaps"}]}},
        {"spec": {"attachments": [{"apiVersion": "events.k8s.io/v1", "resource": "events"}]}},
    ],
    ids=["no spec", "no attachments", "null", "another kind", "events of another group"],
)
def test_no_event_unless_the_manifest_lists_them(controller: JsonObject) -> None:
    assert answer(ask(node(), [policy()], controller=controller))["attachments"] == []


def test_an_event_is_returned_unchanged_once_it_is_there() -> None:
    first = ask(node(), [policy()], controller=LISTS_EVENTS)
    there = observed_events(*answer(first)["attachments"])

    later: Any = {"now": NOW + timedelta(minutes=5), "controller": LISTS_EVENTS, "attachments": there}
    at_rest = ask(obeyed(node(), first), [policy()], **later)
    label_lost_again = ask(node(), [policy()], **later)

    (unchanged,) = [wire.without_nulls(each) for each in there["Event.v1"].values()]
    assert answer(at_rest) == {"labels": {}, "annotations": {}, "attachments": [unchanged]}
    assert answer(label_lost_again)["attachments"] == [unchanged]


def test_other_labels_are_other_news() -> None:
    first = ask(node(), [setting("1")], controller=LISTS_EVENTS)
    there = observed_events(*answer(first)["attachments"])

    second = ask(node(), [setting("2")], controller=LISTS_EVENTS, attachments=there)

    assert [each["message"] for each in answer(second)["attachments"]] == [
        "label tier=1 added: policy p, rule 1",
        "label tier=2 added: policy p, rule 1",
    ]


@pytest.mark.parametrize(
    "before",
    [node(labels={"tier": "2"}, annotations=record(labels={"tier": "2"})), node(labels={"tier": "1"})],
    ids=["a changed label", "a label that is there"],
)
def test_no_event_unless_a_label_comes(before: JsonObject) -> None:
    outcome = ask(before, [setting("1")], controller=LISTS_EVENTS)

    assert (answer(outcome)["attachments"], outcome.measurements) == ([], [])


def test_labels_are_counted_and_annotations_are_not() -> None:
    two = policy(name="p", rules=[rule({"a": "1", "b": "2"}, annotations={"note": "x"})])

    assert ask(node(), [two]).measurements == [wire.Measurement("node_labeler_labels_applied_total", 2)]


# Metacontroller


def test_every_node_relates_to_every_policy_whatever_it_is() -> None:
    """The answer is cached by UID: it may not depend on labels."""
    parents = [node(), node(name="", labels={"a": "b"}, deleting=True), {}]

    answers = {wire.encode(customize(wire.CustomizeRequest(parent=parent)).response) for parent in parents}

    assert answers == {
        b'{"relatedResources":[{"apiVersion":"node-labeler.io/v1alpha1","resource":"nodelabelpolicies"}]}'
    }


def recorded(name: str) -> JsonObject:
    request: JsonObject = json.loads((DATA / name).read_text())["request"]
    return request


def test_reads_what_metacontroller_sends_to_customize() -> None:
    recording = json.loads((DATA / "decorator-customize-node.json").read_text())

    outcome = customize(wire.parse(wire.CustomizeRequest, json.dumps(recording["request"]).encode()))

    assert answer(outcome) == recording["response"]


def test_metacontroller_sends_an_empty_map_if_there_are_no_policies() -> None:
    request = recorded("decorator-sync-node-no-policies.json")

    request["object"]["metadata"]["annotations"] = record(labels={"workload-type": "compute"})

    assert reasons(sync(wire.parse(SyncRequest, json.dumps(request).encode()), now=NOW)) == ["Removed"]


def test_a_policy_of_another_shape_labels_nothing() -> None:
    """The recording is of a toy whose rules had no match: they must not read as rules for every Node."""
    request = recorded("decorator-sync-node-one-policy.json")

    outcome = sync(wire.parse(SyncRequest, json.dumps(request).encode()), now=NOW)

    assert answer(outcome) == UNCHANGED
    assert said(outcome) == [
        ("InvalidSpec", "policy workload-type, rule 1: match: Field required"),
        ("InvalidSpec", "policy workload-type, rule 2: match: Field required"),
    ]
    request["related"][POLICIES]["workload-type"]["spec"] = policy()["spec"]
    labelled = sync(wire.parse(SyncRequest, json.dumps(request).encode()), now=NOW)
    assert answer(labelled)["labels"] == {"workload-type": "compute"}
