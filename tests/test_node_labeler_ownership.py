"""Whose a value is: what the node labeler keeps, changes and takes off, and the record it goes by.

Case numbers are those of the list of edge cases that the hook was designed by.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from hooks.kube.metadata import annotations_of, compact_json, labels_of
from hooks.node_label_policy import PARTS, Part
from hooks.node_labeler import CONFLICTS, OWNED, RESYNC_SECONDS
from tests.builders import node, policy
from tests.labelling import NOBODY, NOTHING, answer, ask, foreign, obeyed, reasons, record, rule, said, setting

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
KEEPS = f"somebody else set it, and {WHERE}, which wants '1', says Keep"
ADDED = ("Labeled", f"label tier=1 added: {WHERE}")
CHANGED = ("Changed", f"label tier changed from '2' to '1': {WHERE}")
KEPT = ("Kept", f"label tier=2 kept: {KEEPS}")
TURNS: Mapping[str, Turn] = {
    "adds": Turn(None, None, "1", None, "1", "1", ADDED),
    "adds an empty value": Turn(None, None, "", None, "", "", ("Labeled", f"label tier= added: {WHERE}")),
    "case 13: brings back what a person removed": Turn(None, "1", "1", None, "1", "1", ADDED),
    "leaves what it wrote": Turn("1", "1", "1", None, "1", "1", None),
    "does not claim what others set alike": Turn("1", None, "1", None, "1", None, None),
    "does not claim what others set alike, with Enforce": Turn("1", None, "1", "Enforce", "1", None, None),
    "keeps what others set": Turn("2", None, "1", None, "2", None, KEPT),
    "case 10: an empty value is a value": Turn("", None, "1", "Keep", "", None, ("Kept", f"label tier= kept: {KEEPS}")),
    "case 10: unless the policy enforces": Turn(
        "", None, "1", "Enforce", "1", "1", ("Changed", f"label tier changed from '' to '1': {WHERE}")
    ),
    "replaces what others set, with Enforce": Turn("2", None, "1", "Enforce", "1", "1", CHANGED),
    "case 13: a person's edit stays": Turn("2", "1", "1", "Keep", "2", None, KEPT),
    "case 13: a person's edit is undone with Enforce": Turn("2", "1", "1", "Enforce", "1", "1", CHANGED),
    "follows a changed rule": Turn("2", "2", "1", "Keep", "1", "1", CHANGED),
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
