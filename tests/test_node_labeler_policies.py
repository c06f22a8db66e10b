"""Several policies for one Node: who wins and who is told, selectors, and rules that are not all known."""

import pytest

from hooks import wire
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of
from hooks.node_labeler import CONFLICTS, LONGEST_CONFLICTS, OWNED, RESYNC_SECONDS, SyncRequest, sync
from tests.builders import node, policy
from tests.labelling import (
    NOBODY,
    NOW,
    POLICIES,
    UNCHANGED,
    UNUSABLE,
    answer,
    ask,
    obeyed,
    reasons,
    record,
    rule,
    said,
    setting,
)

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


# Selectors


def test_a_selector_does_not_see_what_this_hook_wrote_for_a_policy_that_is_gone() -> None:
    """Else tier would be added in one answer, and removed in the next because gpu has gone meanwhile."""
    left = node(labels={"gpu": "yes"}, annotations=record(labels={"gpu": "yes"}))
    follower = policy(name="p", rules=[rule({"tier": "1"}, nodeSelector={"matchLabels": {"gpu": "yes"}})])

    outcome = ask(left, [follower])

    assert said(outcome) == [("Removed", f"label gpu=yes removed: {NOBODY}")]
    assert answer(ask(obeyed(left, outcome), [follower])) == UNCHANGED
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

    assert answer(outcome) == UNCHANGED
    assert said(outcome) == [
        ("InvalidSpec", "policy p, rule 1: match.nodeSelector: selects by gpu, which a policy writes"),
        ("Kept", "label gpu=yes kept: somebody else set it, and policy q, rule 1, which wants 'maybe', says Keep"),
        ("RemovalHeld", "label tier=1 stays: policy p, rule 1 cannot be used"),
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

    assert answer(outcome) == UNCHANGED
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

    assert answer(outcome) == UNCHANGED
    assert reasons(outcome) == ["InvalidSpec", "RemovalHeld"]


def test_a_rule_whose_values_cannot_be_used_keeps_its_nodes_from_the_catch_all() -> None:
    """`${2}` passes the CRD, which cannot count groups. Production Nodes must not become `other` for it."""
    rules: list[JsonObject] = [
        {"match": {"nameMatches": "(.*)-prod-.*"}, "labels": {"env": "prod${2}"}},
        {"match": {"nodeSelector": {}}, "labels": {"env": "other"}},
    ]
    environment = policy(name="environment", rules=rules)

    assert answer(ask(node(name="x-prod-1", labels={}), [environment])) == UNCHANGED
    assert answer(ask(node(name="x-test-1", labels={}), [environment]))["labels"] == {"env": "other"}


def test_a_value_that_a_node_cannot_have_wins_over_nobody() -> None:
    p = policy(name="p", priority=5, rules=[{"match": {"nameMatches": "(.*)1"}, "labels": {"env": "${1}"}}])
    q = policy(name="q", rules=[rule({"env": "ok"})])

    outcome = ask(node(name="x-prod-1", labels={}), [p, q])

    assert answer(outcome) == UNCHANGED
    assert [reason for reason, _ in said(outcome)] == ["InvalidSpec"]
