"""The laws of the node labeler, for any Node and any policies."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hooks import wire
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of
from hooks.node_label_policy import PARTS, Part
from hooks.node_labeler import CONFLICTS, OWNED, RESYNC_SECONDS
from tests.builders import node, policy
from tests.labelling import (
    LISTS_EVENTS,
    NOTHING,
    NOW,
    POLICIES,
    UNCHANGED,
    UNUSABLE,
    Policies,
    answer,
    ask,
    foreign,
    obeyed,
    observed_events,
    reasons,
    record,
    rule,
    said,
)

KEYS = st.sampled_from(["a", "b", "workload-type", "example.com/c"])
VALUES = st.sampled_from(["", "1", "2", "compute"])
HELD = st.dictionaries(KEYS, VALUES, max_size=4)
RECORDS = st.fixed_dictionaries({"labels": HELD, "annotations": HELD})
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

    assert answer(second) == UNCHANGED
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

    assert answer(ask(after, None, related={POLICIES: odd})) == UNCHANGED
    if "InvalidSpec" in reasons(first):
        assert all(parts_of(before)[part].keys() <= parts_of(after)[part].keys() for part in PARTS)
