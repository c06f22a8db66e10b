"""The node labeler: what it answers for which Node and policies, and the laws that hold for all of them.

Case numbers are those of the list of edge cases that the hook was designed by.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hooks import wire
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of
from hooks.node_label_policy import PARTS, Part
from hooks.node_labeler import CONFLICTS, LONGEST_CONFLICTS, OWNED, RESYNC_SECONDS, SyncRequest, customize, sync
from tests.builders import node, policy

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DATA = Path(__file__).parent / "data"
POLICIES = "NodeLabelPolicy.node-labeler.io/v1alpha1"
LISTS_EVENTS = {"spec": {"attachments": [{"apiVersion": "v1", "resource": "events"}]}}
UNUSABLE = policy(name="zz-unusable", rules=[{"match": {"nameMatches": "("}, "labels": {"zz": "1"}}])

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

    assert answer(second) == {"labels": {}, "annotations": {}, "attachments": []}
    assert (said(second), second.measurements) == ([], [])


def test_a_node_without_rules_for_it_is_left_alone() -> None:
    outcome = ask(node(name="random-node"), [policy()])

    assert answer(outcome) == {"labels": {}, "annotations": {}, "attachments": []}
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

    assert answer(outcome) == {"labels": {}, "annotations": {}, "attachments": []}
    assert not outcome.decisions
    assert not outcome.measurements


def test_a_node_that_came_back_under_its_name_is_labelled_again() -> None:
    first = ask(node(uid="1"), [policy()])

    assert wire.encode(ask(node(uid="2"), [policy()]).response) == wire.encode(first.response)


# Values of others, values of ours


class Turn(NamedTuple):
    value: str | None  # what the Node holds
    owned: str | None  # what the record says
    wanted: str | None
    conflict: str | None
    after: str | None
    owned_after: str | None
    told: tuple[str, str] | None


WHERE = "policy p, rule 1"
NOBODY = "no rule asks for it any more"
KEEPS = f"somebody else set it, and {WHERE}, which wants '1', says Keep"
TURNS: Mapping[str, Turn] = {
    "adds": Turn(None, None, "1", None, "1", "1", ("Labeled", f"label tier=1 added: {WHERE}")),
    "adds an empty value": Turn(None, None, "", None, "", "", ("Labeled", f"label tier= added: {WHERE}")),
    "case 13: brings back what a person removed": Turn(
        None, "1", "1", None, "1", "1", ("Labeled", f"label tier=1 added: {WHERE}")
    ),
    "leaves what it wrote": Turn("1", "1", "1", None, "1", "1", None),
    "does not claim what others set alike": Turn("1", None, "1", None, "1", None, None),
    "does not claim what others set alike, with Enforce": Turn("1", None, "1", "Enforce", "1", None, None),
    "keeps what others set": Turn("2", None, "1", None, "2", None, ("Kept", f"label tier=2 kept: {KEEPS}")),
    "case 10: an empty value is a value": Turn("", None, "1", "Keep", "", None, ("Kept", f"label tier= kept: {KEEPS}")),
    "case 10: unless the policy enforces": Turn(
        "", None, "1", "Enforce", "1", "1", ("Changed", f"label tier changed from '' to '1': {WHERE}")
    ),
    "replaces what others set, with Enforce": Turn(
        "2", None, "1", "Enforce", "1", "1", ("Changed", f"label tier changed from '2' to '1': {WHERE}")
    ),
    "case 13: a person's edit stays": Turn("2", "1", "1", "Keep", "2", None, ("Kept", f"label tier=2 kept: {KEEPS}")),
    "case 13: a person's edit is undone with Enforce": Turn(
        "2", "1", "1", "Enforce", "1", "1", ("Changed", f"label tier changed from '2' to '1': {WHERE}")
    ),
    "follows a changed rule": Turn(
        "2", "2", "1", "Keep", "1", "1", ("Changed", f"label tier changed from '2' to '1': {WHERE}")
    ),
    "a person did by hand what the changed rule wants": Turn("1", "2", "1", "Keep", "1", None, None),
    "case 14: takes off what it wrote": Turn(
        "1", "1", None, None, None, None, ("Removed", f"label tier=1 removed: {NOBODY}")
    ),
    "case 14: takes off an empty value that it wrote": Turn(
        "", "", None, None, None, None, ("Removed", f"label tier= removed: {NOBODY}")
    ),
    "case 14: leaves what it never wrote": Turn("1", None, None, None, "1", None, None),
    "leaves what a person made of it": Turn("2", "1", None, None, "2", None, None),
    "forgets what is gone already": Turn(None, "1", None, None, None, None, None),
}


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS.keys())
@pytest.mark.parametrize("part", PARTS)
def test_a_label_or_annotation_is(part: Part, turn: Turn) -> None:
    held = {} if turn.value is None else {"tier": turn.value}
    owned = {} if turn.owned is None else record(**{part: {"tier": turn.owned}})
    before = node(labels=held, annotations=owned) if part == "labels" else node(labels={}, annotations=held | owned)
    wish = (
        rule(**{part: {"tier": turn.wanted or ""}})
        if turn.wanted is not None
        else rule({"other": ""}, nameContains="@")
    )

    outcome = ask(before, [policy(name="p", conflict=turn.conflict, rules=[wish])])

    after = obeyed(before, outcome)
    assert (labels_of(after) if part == "labels" else foreign(after)).get("tier") == turn.after
    recorded = None if turn.owned_after is None else compact_json({part: {"tier": turn.owned_after}})
    assert annotations_of(after).get(OWNED) == recorded
    assert said(outcome) == ([] if turn.told is None else [in_words_of(part, turn.told)])
    assert answer(outcome).get("resyncAfterSeconds", 0) == (RESYNC_SECONDS if after != obeyed(before, NOTHING) else 0)


NOTHING = wire.Outcome(response=wire.DecoratorResponse())


def in_words_of(part: Part, told: tuple[str, str]) -> tuple[str, str]:
    if part == "labels":
        return told
    return told[0].replace("Labeled", "Annotated"), told[1].replace("label ", "annotation ", 1)


def test_a_label_and_an_annotation_of_one_name_are_two_things() -> None:
    both = policy(name="p", rules=[rule({"tier": "1"}, annotations={"tier": "2"})])
    labelled = node(labels={"tier": "1"}, annotations={"tier": "2"} | record(labels={"tier": "1"}))

    assert labels_of(obeyed(labelled, ask(labelled, []))) == {}
    assert foreign(obeyed(labelled, ask(labelled, []))) == {"tier": "2"}
    assert answer(ask(node(), [both]))["annotations"] == {
        "tier": "2",
        OWNED: '{"annotations":{"tier":"2"},"labels":{"tier":"1"}}',
    }


def test_a_rule_that_moves_a_value_from_label_to_annotation_moves_it() -> None:
    labelled = obeyed(node(labels={}), ask(node(labels={}), [setting("1")]))

    after = obeyed(labelled, ask(labelled, [policy(name="p", rules=[rule(annotations={"tier": "1"})])]))

    assert (labels_of(after), foreign(after)) == ({}, {"tier": "1"})


# The record

DEEP = "[" * 100_000
UNREADABLE = {
    "empty": "",
    "not JSON": "workload-type=compute",
    "cut": '{"labels":{"tier":"1"',
    "more than one value": '{"labels":{"tier":"1"}} {}',
    "null": "null",
    "a list": '["tier"]',
    "a list of lists": '[["labels",{"tier":"1"}]]',
    "text": '"tier"',
    "a number": "17",
    "a number of 5000 digits": "1" * 5000,
    "not a number": "NaN",
    "labels that are null": '{"labels":null}',
    "labels that are a list": '{"labels":["tier"]}',
    "labels that are text": '{"labels":"tier"}',
    "a number as value": '{"labels":{"tier":1}}',
    "null as value": '{"labels":{"tier":null}}',
    "true as value": '{"labels":{"tier":true}}',
    "an object as value": '{"labels":{"tier":{"tier":"1"}}}',
    "one good part and one bad": '{"labels":{"tier":"1"},"annotations":[]}',
    "half a surrogate pair": '{"labels":{"tier":"1","\\ud800":"\\ud800"}}',
    "nested without end": DEEP,
    "nested objects without end": '{"labels":' * 50_000,
    "huge": '{"labels":{"tier":1},"x":"' + "x" * 250_000 + '"}',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_record_that_cannot_be_read_owns_nothing(text: str) -> None:
    """Case 16."""
    before = node(labels={"tier": "1", "1": "tier", "NaN": "nan"}, annotations={OWNED: text, "tier": "1"})

    outcome = ask(before, [])

    assert answer(outcome)["labels"] == {}
    assert answer(outcome)["annotations"] == {OWNED: None}
    assert said(outcome) == []
    kept = ask(before, [setting("2")])
    assert reasons(kept) == ["Kept"]


def test_a_record_may_be_written_by_a_person() -> None:
    before = node(labels={"tier": "1"}, annotations={OWNED: '{ "labels": {"tier": "1"}, "note": "mine" }'})

    assert answer(ask(before, [setting("1")]))["annotations"] == {OWNED: '{"labels":{"tier":"1"}}'}


@pytest.mark.parametrize(
    ("part", "key"),
    [
        pytest.param("labels", "kubernetes.io/hostname", id="a label of kubelet's"),
        pytest.param("labels", "topology.kubernetes.io/zone", id="a label of the cloud's"),
        pytest.param("annotations", "csi.volume.kubernetes.io/nodeid", id="an annotation of CSI's"),
        pytest.param("annotations", CONFLICTS, id="our own bookkeeping"),
        pytest.param("labels", "not a key", id="no key"),
    ],
)
def test_a_record_of_what_we_never_write_removes_nothing(part: Part, key: str) -> None:
    before = node(labels={}, annotations=record(**{part: {key: "x"}}))
    before["metadata"].setdefault(part, {})[key] = "x"

    outcome = ask(before, [])

    assert said(outcome) == []
    assert answer(outcome)["labels"] == {}
    assert answer(outcome)["annotations"] == {OWNED: None} | ({CONFLICTS: None} if key == CONFLICTS else {})


def test_a_record_that_names_the_conflicts_annotation_does_not_make_it_flicker() -> None:
    rivals = [setting("1", name="p"), setting("2", name="q")]
    settled = obeyed(node(), ask(node(), rivals))
    text = settled["metadata"]["annotations"][CONFLICTS]
    settled["metadata"]["annotations"] |= record(labels={"tier": "1"}, annotations={CONFLICTS: text})

    assert answer(ask(settled, rivals))["annotations"] == {OWNED: '{"labels":{"tier":"1"}}'}


# Several policies


def test_the_higher_priority_wins_and_the_loser_is_told() -> None:
    outcome = ask(node(), [setting("1", name="a"), setting("2", name="b", priority=10)])

    lost = 'label tier: policy b, rule 1 (priority 10, "2") wins over policy a, rule 1 (priority 0, "1")'
    assert said(outcome) == [("Labeled", "label tier=2 added: policy b, rule 1"), ("Conflict", lost)]
    assert answer(outcome)["labels"] == {"tier": "2"}
    assert answer(outcome)["annotations"][CONFLICTS] == lost


def test_at_equal_priority_the_first_name_wins() -> None:
    outcome = ask(node(), [setting("2", name="b", priority=3), setting("1", name="a", priority=3)])

    assert answer(outcome)["labels"] == {"tier": "1"}
    assert reasons(outcome) == ["Labeled", "Conflict"]


def test_the_winner_says_whether_to_keep() -> None:
    foreigner = node(labels={"tier": "0"})
    keep, enforce = setting("1", name="a", priority=1), setting("2", name="b", conflict="Enforce")

    assert answer(ask(foreigner, [keep, enforce]))["labels"] == {}
    assert answer(ask(foreigner, [enforce | {"spec": enforce["spec"] | {"priority": 2}}, keep]))["labels"] == {
        "tier": "2"
    }


def test_every_loser_is_told_but_those_who_agree_are_not() -> None:
    outcome = ask(
        node(), [setting(value, name=name) for name, value in (("a", "1"), ("b", "2"), ("c", "1"), ("d", "3"))]
    )

    winner = 'label tier: policy a, rule 1 (priority 0, "1") wins over'
    assert answer(outcome)["annotations"][CONFLICTS] == (
        f'{winner} policy b, rule 1 (priority 0, "2"); {winner} policy d, rule 1 (priority 0, "3")'
    )


def test_policies_that_agree_are_no_conflict_though_a_later_rule_of_one_disagrees() -> None:
    talkative = policy(name="b", rules=[rule({"tier": "1"}), rule({"tier": "2"})])

    outcome = ask(node(), [setting("1", name="a"), talkative])

    overlap = 'label tier: policy b, rule 1 (priority 0, "1") wins over policy b, rule 2 (priority 0, "2")'
    assert said(outcome)[1:] == [("RuleOverlap", overlap)]
    assert CONFLICTS not in answer(outcome)["annotations"]


def test_policies_that_differ_in_priority_only_are_no_conflict() -> None:
    outcome = ask(node(), [setting("1", name="a"), setting("1", name="b", priority=9)])

    assert reasons(outcome) == ["Labeled"]


def test_the_conflicts_annotation_goes_when_they_agree() -> None:
    rivals = [setting("1", name="a"), setting("2", name="b")]
    settled = obeyed(node(), ask(node(), rivals))

    outcome = ask(settled, rivals[:1])

    assert answer(outcome) == {
        "labels": {},
        "annotations": {CONFLICTS: None},
        "attachments": [],
        "resyncAfterSeconds": RESYNC_SECONDS,
    }


def test_the_conflicts_annotation_does_not_grow_without_end() -> None:
    """The API server refuses a Node with more than 256 KiB of annotations, and with it the labels."""
    rivals = [policy(name=f"p{n}", rules=[rule(annotations={"note": f"{n}" * 300})]) for n in range(200)]

    outcome = ask(node(), rivals)

    assert len(answer(outcome)["annotations"][CONFLICTS]) == LONGEST_CONFLICTS
    assert reasons(outcome).count("Conflict") == 199
    assert answer(ask(obeyed(node(), outcome), rivals))["annotations"] == {}


def test_policies_are_united() -> None:
    gpu = policy(name="gpu", rules=[rule({"gpu": "yes"}, annotations={"note": "x"}, nameContains="compute")])

    assert answer(ask(node(), [gpu, policy()]))["labels"] == {"gpu": "yes", "workload-type": "compute"}


def test_when_the_winner_goes_the_loser_gets_its_way() -> None:
    high, low = setting("2", name="b", priority=10), setting("1", name="a")
    settled = obeyed(node(), ask(node(), [high, low]))

    after = obeyed(settled, ask(settled, [low]))

    assert (labels_of(after)["tier"], annotations_of(after)) == ("1", record(labels={"tier": "1"}))


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


# Selectors


def test_a_selector_does_not_see_what_this_hook_wrote_for_a_policy_that_is_gone() -> None:
    """Else tier would be added in one answer, and removed in the next because gpu has gone meanwhile."""
    left = node(labels={"gpu": "yes"}, annotations=record(labels={"gpu": "yes"}))
    follower = policy(name="p", rules=[rule({"tier": "1"}, nodeSelector={"matchLabels": {"gpu": "yes"}})])

    outcome = ask(left, [follower])

    assert said(outcome) == [("Removed", f"label gpu=yes removed: {NOBODY}")]
    assert answer(ask(obeyed(left, outcome), [follower])) == {"labels": {}, "annotations": {}, "attachments": []}
    assert labels_of(obeyed(node(), ask(node(labels={"gpu": "yes"}), [follower])))["tier"] == "1"


def test_enforce_with_a_selector_follows_the_selected_label() -> None:
    gpu = policy(
        name="p", conflict="Enforce", rules=[rule({"tier": "1"}, nodeSelector={"matchLabels": {"gpu": "yes"}})]
    )
    before = node(labels={"gpu": "yes", "tier": "9"})
    settled = obeyed(before, ask(before, [gpu]))
    settled["metadata"]["labels"]["gpu"] = "no"

    assert labels_of(obeyed(settled, ask(settled, [gpu]))) == {"gpu": "no"}


def test_a_circular_selector_is_told_and_nothing_is_removed_on_its_account() -> None:
    """Policy q is new: it writes what p selects by."""
    p = policy(name="p", rules=[rule({"tier": "1"}, nodeSelector={"matchLabels": {"gpu": "yes"}}), rule({"tier": "2"})])
    q = policy(name="q", rules=[rule({"gpu": "maybe"})])
    before = node(labels={"gpu": "yes"})
    settled = obeyed(before, ask(before, [p]))

    outcome = ask(settled, [p, q])

    assert answer(outcome) == {"labels": {}, "annotations": {}, "attachments": []}
    assert said(outcome) == [
        ("InvalidSpec", "policy p, rule 1: match.nodeSelector: selects by gpu, which a policy writes"),
        ("Kept", "label gpu=yes kept: somebody else set it, and policy q, rule 1, which wants 'maybe', says Keep"),
        ("ChangeHeld", "label tier=1 stays, though policy p, rule 2 wants '2': policy p, rule 1 cannot be used"),
    ]


# Rules that are not all known


def test_an_unusable_rule_holds_removals_and_changes_but_not_additions() -> None:
    ours = {"gone": "1", "tier": "1"}
    before = node(labels=ours | {"theirs": "1"}, annotations=record(labels=ours))
    others = policy(name="p", conflict="Enforce", rules=[rule({"tier": "2", "new": "2", "theirs": "2"})])

    outcome = ask(before, [others, UNUSABLE])

    assert answer(outcome)["labels"] == {"new": "2", "theirs": "2"}
    assert said(outcome) == [
        (
            "InvalidSpec",
            "policy zz-unusable, rule 1: match.nameMatches: not a regular expression that RE2 can read: missing ): (",
        ),
        ("RemovalHeld", "label gone=1 stays: policy zz-unusable, rule 1 cannot be used"),
        ("Labeled", "label new=2 added: policy p, rule 1"),
        ("Changed", "label theirs changed from '1' to '2': policy p, rule 1"),
        (
            "ChangeHeld",
            "label tier=1 stays, though policy p, rule 1 wants '2': policy zz-unusable, rule 1 cannot be used",
        ),
    ]
    after = obeyed(before, outcome)
    assert labels_of(obeyed(after, ask(after, [others]))) == {"tier": "2", "new": "2", "theirs": "2"}


def test_a_rule_that_cannot_be_used_does_not_hand_its_nodes_to_the_next() -> None:
    gpu, rest = rule({"tier": "gpu"}, nameContains="compute"), rule({"tier": "rest"})
    settled = obeyed(node(), ask(node(), [policy(name="p", rules=[gpu, rest])]))
    misspelt = {"match": {"nameContain": "compute"}, "labels": {"tier": "gpu"}}

    outcome = ask(settled, [policy(name="p", rules=[misspelt, rest])])

    assert answer(outcome)["labels"] == {}
    assert reasons(outcome) == ["InvalidSpec", "ChangeHeld"]


@pytest.mark.parametrize(
    "related",
    [{}, None, {POLICIES: None}, {"NodeLabelPolicy.example.com/v1": {}}],
    ids=["nothing related", "null", "policies of null", "policies of another group"],
)
def test_without_policies_in_the_request_the_built_in_one_only_adds(related: object) -> None:
    ours = {"gone": "1", "workload-type": "gpu"}
    before = node(labels=ours, annotations=record(labels=ours))

    outcome = ask(before, None, related=related)

    assert answer(outcome) == {"labels": {}, "annotations": {}, "attachments": []}
    assert said(outcome) == [
        ("RemovalHeld", "label gone=1 stays: the request names no policies"),
        (
            "ChangeHeld",
            "label workload-type=gpu stays, though policy workload-type, rule 2 wants 'compute': "
            "the request names no policies",
        ),
    ]
    assert answer(ask(node(), None, related=related))["labels"] == {"workload-type": "compute"}


def test_a_node_sent_by_hand_is_enough() -> None:
    outcome = sync(wire.parse(SyncRequest, b'{"object":{"metadata":{"name":"a-compute-1"}}}'), now=NOW)

    assert answer(outcome)["labels"] == {"workload-type": "compute"}


def test_without_any_policy_in_the_cluster_what_we_wrote_goes() -> None:
    before = node(labels={"tier": "1", "theirs": "1"}, annotations=record(labels={"tier": "1"}))

    outcome = ask(before, [])

    assert answer(outcome) == {
        "labels": {"tier": None},
        "annotations": {OWNED: None},
        "attachments": [],
        "resyncAfterSeconds": RESYNC_SECONDS,
    }
    assert said(outcome) == [("Removed", f"label tier=1 removed: {NOBODY}")]


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, {"spec": None}, {"spec": {"rules": [None]}}], ids=compact_json)
def test_a_policy_that_is_none_holds_removals(odd: object) -> None:
    before = node(labels={"tier": "1"}, annotations=record(labels={"tier": "1"}))

    outcome = ask(before, None, related={POLICIES: {"odd": odd}})

    assert answer(outcome) == {"labels": {}, "annotations": {}, "attachments": []}
    assert reasons(outcome) == ["InvalidSpec", "RemovalHeld"]


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


def observed_events(*events: JsonObject) -> JsonObject:
    """As the API server gives them back."""
    stored = {"uid": "e1", "resourceVersion": "9", "annotations": {"metacontroller.k8s.io/decorator-controller": "n"}}
    full = [each | {"metadata": each["metadata"] | stored, "eventTime": None} for each in events]
    return {"Event.v1": {f"default/{name_of(each)}": each for each in full}}


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

    assert answer(outcome) == {"labels": {}, "annotations": {}, "attachments": []}
    assert said(outcome) == [
        ("InvalidSpec", "policy workload-type, rule 1: match: Field required"),
        ("InvalidSpec", "policy workload-type, rule 2: match: Field required"),
    ]
    request["related"][POLICIES]["workload-type"]["spec"] = policy()["spec"]
    labelled = sync(wire.parse(SyncRequest, json.dumps(request).encode()), now=NOW)
    assert answer(labelled)["labels"] == {"workload-type": "compute"}


# The laws

KEYS = st.sampled_from(["a", "b", "workload-type", "example.com/c"])
VALUES = st.sampled_from(["", "1", "2", "compute"])
HELD = st.dictionaries(KEYS, VALUES, max_size=4)
TEMPLATES = st.sampled_from(["", "1", "2", "${0}", "${1}", "x-${1}"])
SELECTORS = st.sampled_from(
    [
        {},
        {"matchLabels": {"a": "1"}},
        {"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1", "2"]}]},
        {"matchExpressions": [{"key": "workload-type", "operator": "In", "values": ["", "compute"]}]},
    ]
)
NAMES = st.sampled_from(["n-compute-1", "n-general-1.example.com", "x", "compute-database-"])
PATTERNS = st.sampled_from([r"(\w*).*", r"n-(?P<pool>[a-z]+)-(\d)?.*", "(x)?", ".*(-)"])
ANYTHING_KEPT = st.sampled_from(
    ["not JSON", "[]", '{"labels":{"a":1}}', '{"annotations":{"node-labeler.io/conflicts":"x"}}']
)


@st.composite
def nodes(draw: st.DrawFn) -> JsonObject:
    """Nodes with labels and annotations of others, and a record that fits them, does not, or is none."""
    parts: Mapping[Part, dict[str, str]] = {"labels": draw(HELD), "annotations": draw(HELD)}
    truthful = {part: {key: value for key, value in parts[part].items() if draw(st.booleans())} for part in PARTS}
    written = draw(st.none() | st.just(compact_json(truthful)) | st.builds(compact_json, RECORDS) | ANYTHING_KEPT)
    own = {OWNED: written, CONFLICTS: draw(st.none() | st.just("x"))}
    annotations = parts["annotations"] | {key: text for key, text in own.items() if text is not None}
    return node(name=draw(NAMES), labels=parts["labels"], annotations=annotations)


RECORDS = st.fixed_dictionaries({"labels": HELD, "annotations": HELD})


@st.composite
def rules(draw: st.DrawFn) -> JsonObject:
    match = draw(
        st.fixed_dictionaries({"nodeSelector": SELECTORS})
        | st.fixed_dictionaries({"nameContains": st.sampled_from(["-", "x", "compute"])})
        | st.fixed_dictionaries({"nameMatches": PATTERNS}, optional={"nodeSelector": SELECTORS})
    )
    templates = TEMPLATES if "nameMatches" in match else VALUES
    given = {part: draw(st.dictionaries(KEYS, templates, max_size=2)) for part in PARTS}
    return {"match": match} | ({part: values for part, values in given.items() if values} or {"labels": {"b": "1"}})


BROKEN_RULES = st.sampled_from(
    [
        None,
        {},
        {"match": {}, "labels": {"a": "1"}},
        {"match": {"nameContain": "x"}, "labels": {"a": "1"}},
        {"match": {"nameMatches": "("}, "labels": {"b": "1"}},
        {"match": {"nodeSelector": {}}, "labels": {"a": "not a value"}},
        {"match": {"nodeSelector": {}}, "labels": {"kubernetes.io/os": "linux"}},
        {"match": {"nodeSelector": {}}, "annotations": {OWNED: "{}"}},
    ]
)


def policies(rule: st.SearchStrategy[Any], conflict: Sequence[str] = ("Keep", "Enforce")) -> st.SearchStrategy[Any]:
    one = st.builds(
        lambda priority, mode, given: policy(priority=priority, conflict=mode, rules=given),
        st.sampled_from([0, 0, 1]),
        st.sampled_from(conflict),
        st.lists(rule, min_size=1, max_size=3).map(lambda given: [each for each in given if each is not None] or [{}]),
    )
    return st.lists(one, max_size=3).map(
        lambda several: [each | {"metadata": {"name": f"p{n}"}} for n, each in enumerate(several)]
    )


SOUND = policies(rules())
ANY_RULES = policies(rules() | BROKEN_RULES)
WIRED_OR_NOT = st.none() | SOUND | ANY_RULES
laws = settings(deadline=None, max_examples=60)  # they held for 4,000 too; few keep the run short


def owned_by(of: JsonObject) -> Mapping[Part, Mapping[str, str]]:
    """What the record says, as far as it says something that we could have written."""
    try:
        written = json.loads(annotations_of(of).get(OWNED, "{}"))
        owned = {part: dict(written.get(part, {})) for part in PARTS}
    except (ValueError, AttributeError):
        return {part: {} for part in PARTS}
    is_readable = all(isinstance(value, str) for values in owned.values() for value in values.values())
    return owned if is_readable else {part: {} for part in PARTS}


def parts_of(of: JsonObject) -> Mapping[Part, Mapping[str, str]]:
    return {"labels": labels_of(of), "annotations": foreign(of)}


def other_way_round(value: Any) -> Any:
    """The same JSON with every object's keys in another order."""
    if isinstance(value, dict):
        return {key: other_way_round(item) for key, item in reversed(value.items())}
    return [other_way_round(item) for item in value] if isinstance(value, list) else value


@laws
@given(before=nodes(), several=WIRED_OR_NOT)
def test_the_same_question_has_the_same_answer(before: JsonObject, several: Policies) -> None:
    """Cases 22 and 23: any replica, any order of keys."""
    once = ask(before, several, controller=LISTS_EVENTS)
    again = ask(other_way_round(before), several and other_way_round([*reversed(several)]), controller=LISTS_EVENTS)

    assert wire.encode(once.response) == wire.encode(again.response)
    assert said(once) == said(again)


@laws
@given(before=nodes(), several=WIRED_OR_NOT)
@example(  # a policy is gone while another selects by the label that it wrote
    before=node(labels={"a": "1"}, annotations=record(labels={"a": "1"})),
    several=[policy(rules=[rule({"b": "1"}, nodeSelector={"matchLabels": {"a": "1"}})])],
)
def test_one_answer_settles_it(before: JsonObject, several: Policies) -> None:
    first = ask(before, several)

    second = ask(obeyed(before, first), several)

    assert answer(second) == {"labels": {}, "annotations": {}, "attachments": []}
    assert not any(decision.changes for decision in second.decisions)


@laws
@given(before=nodes(), several=WIRED_OR_NOT)
def test_asks_to_be_called_again_when_something_changes_and_only_then(before: JsonObject, several: Policies) -> None:
    outcome = ask(before, several)

    is_changed = obeyed(before, outcome) != obeyed(before, NOTHING)
    assert answer(outcome).get("resyncAfterSeconds", 0) == (RESYNC_SECONDS if is_changed else 0)
    assert any(decision.changes for decision in outcome.decisions) == (
        parts_of(obeyed(before, outcome)) != parts_of(before)
    )


@laws
@given(before=nodes(), several=WIRED_OR_NOT)
def test_nothing_goes_but_what_is_recorded_and_still_as_recorded(before: JsonObject, several: Policies) -> None:
    after = obeyed(before, ask(before, several))

    for part in PARTS:
        for key in parts_of(before)[part].keys() - parts_of(after)[part].keys():
            assert owned_by(before)[part][key] == parts_of(before)[part][key]


@laws
@given(before=nodes(), several=policies(rules() | BROKEN_RULES, conflict=["Keep"]))
def test_with_keep_what_others_set_stays(before: JsonObject, several: Policies) -> None:
    after = obeyed(before, ask(before, several))

    for part in PARTS:
        for key, value in parts_of(before)[part].items():
            if owned_by(before)[part].get(key) != value:
                assert parts_of(after)[part][key] == value


@laws
@given(before=nodes(), several=SOUND, wired=st.booleans())
def test_with_unknown_rules_nothing_goes_and_nothing_of_ours_changes(
    before: JsonObject, several: Sequence[JsonObject], wired: bool
) -> None:
    outcome = ask(before, [*several, UNUSABLE] if wired else None)

    after = obeyed(before, outcome)
    for part in PARTS:
        assert parts_of(before)[part].keys() <= parts_of(after)[part].keys()
        for key, value in parts_of(before)[part].items():
            if owned_by(before)[part].get(key) == value:
                assert parts_of(after)[part][key] == value
    assert "Removed" not in reasons(outcome)


@laws
@given(before=nodes(), several=WIRED_OR_NOT)
def test_the_record_holds_nothing_that_the_node_does_not(before: JsonObject, several: Policies) -> None:
    after = obeyed(before, ask(before, several))

    for part in PARTS:
        assert owned_by(after)[part].items() <= parts_of(after)[part].items()
    untouched = OWNED not in answer(ask(before, several))["annotations"]
    assert untouched or annotations_of(after).get(OWNED) != compact_json({"labels": {}, "annotations": {}})


@laws
@given(before=nodes(), several=WIRED_OR_NOT)
def test_nothing_becomes_ours_but_what_this_answer_writes(before: JsonObject, several: Policies) -> None:
    outcome = ask(before, several)

    after = obeyed(before, outcome)
    for part in PARTS:
        for key, value in owned_by(after)[part].items():
            assert owned_by(before)[part].get(key) == value or answer(outcome)[part].get(key) == value


@laws
@given(
    labels=HELD,
    annotations=HELD,
    name=NAMES,
    history=st.lists(policies(rules() | BROKEN_RULES, conflict=["Keep"]) | st.none(), max_size=3),
)
def test_when_all_policies_are_gone_the_node_is_as_it_was(
    labels: dict[str, str], annotations: dict[str, str], name: str, history: Sequence[Policies]
) -> None:
    before = node(name=name, labels=labels, annotations=annotations)

    now = before
    for several in [*history, []]:
        now = obeyed(now, ask(now, several))

    assert parts_of(now) == parts_of(before)
    assert annotations_of(now) == foreign(now)


@laws
@given(before=nodes(), several=SOUND, edits=st.lists(HELD, min_size=1, max_size=3))
def test_people_who_edit_meanwhile_do_not_unsettle_it(
    before: JsonObject, several: Policies, edits: Sequence[Mapping[str, str]]
) -> None:
    now = before
    for edit in edits:
        now = obeyed(now, ask(now, several))
        now["metadata"]["labels"] = dict(edit)
        settled = obeyed(now, ask(now, several))
        assert obeyed(settled, ask(settled, several)) == settled
        kept = {key for key, value in edit.items() if labels_of(settled).get(key) == value}
        changed = edit.keys() - kept
        enforced = any(each["spec"]["conflict"] == "Enforce" for each in several or [])
        assert enforced or all(owned_by(now)["labels"].get(key) == edit[key] for key in changed)


@laws
@given(before=nodes(), several=SOUND)
def test_never_two_events_of_the_same(before: JsonObject, several: Policies) -> None:
    first = ask(before, several, controller=LISTS_EVENTS)
    sent = answer(first)["attachments"]
    assert len(sent) == ("Labeled" in reasons(first))

    stale = ask(
        before, several, controller=LISTS_EVENTS, attachments=observed_events(*sent), now=NOW + timedelta(hours=1)
    )
    unseen = ask(before, several, controller=LISTS_EVENTS, now=NOW + timedelta(hours=1))

    assert [name_of(each) for each in answer(stale)["attachments"]] == [name_of(each) for each in sent]
    assert [name_of(each) for each in answer(unseen)["attachments"]] == [name_of(each) for each in sent]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
ODD_POLICIES = st.dictionaries(
    st.sampled_from(["p", "q"]),
    JSON
    | st.fixed_dictionaries({"spec": JSON})
    | st.fixed_dictionaries({"spec": st.fixed_dictionaries({"rules": JSON | st.lists(rules() | JSON, max_size=2)})}),
    min_size=1,
)


@laws
@given(before=nodes(), odd=ODD_POLICIES)
def test_any_json_as_policies_is_answered_and_settles(before: JsonObject, odd: JsonObject) -> None:
    first = ask(before, None, related={POLICIES: odd})

    after = obeyed(before, first)

    assert answer(ask(after, None, related={POLICIES: odd})) == {"labels": {}, "annotations": {}, "attachments": []}
    if "InvalidSpec" in reasons(first):
        assert all(parts_of(before)[part].keys() <= parts_of(after)[part].keys() for part in PARTS)
