"""What a claim takes up of the VolumeExpansion that is about it, and what it never does."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks import volume_claim, wire
from hooks.kube.metadata import JsonObject, compact_json
from hooks.kube.quantity import whole_bytes
from hooks.kube.times import format_time
from hooks.volumes.claims import CONFLICT, HISTORY, PAUSED, REQUESTED_AT, REQUESTED_BY, REQUESTED_SIZE, read_history
from tests.volumes import NOW, ask_claim, body_of, claim, expansion

AT = "2026-11-16T02:59:58Z"
STEP: dict[str, Any] = {
    "from_size": "10Gi",
    "size": "12Gi",
    "requested_at": AT,
    "message": "90% used: 10Gi -> 12Gi",
    "count": 1,
    "attempt": 1,
}
TAKEN = {
    REQUESTED_SIZE: "12Gi",
    REQUESTED_AT: "2026-11-16T03:00:00Z",
    REQUESTED_BY: "db",
    HISTORY: '[{"at":"2026-11-16T03:00:00Z","from":"10Gi","step":"2026-11-16T02:59:58Z","to":"12Gi"}]',
}


@dataclass(frozen=True)
class Case:
    reason: str
    message: str
    annotations: dict[str, str | None] = field(default_factory=dict)
    claim: dict[str, Any] = field(default_factory=dict)
    step: dict[str, Any] = field(default_factory=dict)
    others: tuple[JsonObject, ...] = ()


CASES = {
    "a step": Case("Requested", "90% used: 10Gi -> 12Gi", dict(TAKEN)),
    "a step without a word": Case("Requested", "10Gi -> 12Gi", dict(TAKEN), step={"message": ""}),
    "being deleted": Case("Deleting", "the claim is being deleted", claim={"deleting": True}),
    "two autoscalers": Case(
        "Conflict",
        "wanted by all, db: none of them grows it",
        {CONFLICT: "all, db"},
        others=(expansion(of="all", owner_uid="uid-all", **STEP),),
    ),
    "two autoscalers, known": Case(
        "Conflict",
        "wanted by all, db: none of them grows it",
        claim={"annotations": {CONFLICT: "all, db"}},
        others=(expansion(of="all", owner_uid="uid-all"),),
    ),
    "one autoscaler and somebody's own expansion": Case(
        "Conflict",
        "wanted by db, forged-data-0-67b3696b: none of them grows it",
        {CONFLICT: "db, forged-data-0-67b3696b"},
        others=(expansion(of="forged", owned=False, **STEP),),
    ),
    "one autoscaler left of two": Case(
        "ConflictOver",
        "at most one VolumeAutoscaler wants it now",
        {CONFLICT: None},
        claim={"annotations": {CONFLICT: "all, db"}},
    ),
    "an expansion of nobody": Case(
        "NotOwned", "no VolumeAutoscaler controls the VolumeExpansion db-data-0-b2fb5f5c", step={"owned": False}
    ),
    "a claim that is gone": Case(
        "OtherClaim", "the VolumeExpansion is for a claim of this name that is gone", step={"claim_uid": "before"}
    ),
    "an unreadable size": Case("InvalidExpansion", "its sizes or its time cannot be read", step={"size": "much"}),
    "an unreadable former size": Case(
        "InvalidExpansion", "its sizes or its time cannot be read", step={"from_size": ""}
    ),
    "an unreadable time": Case(
        "InvalidExpansion", "its sizes or its time cannot be read", step={"requested_at": "now"}
    ),
    "decided too long ago": Case(
        "Expired", "it was decided more than an hour ago", step={"requested_at": "2026-11-16T01:59:59Z"}
    ),
    "not bound": Case("NotBound", "the claim has no volume", claim={"phase": "Pending"}),
    "paused": Case("Paused", "somebody paused the claim", claim={"annotations": {PAUSED: "true"}}),
    "grown by somebody else": Case(
        "Outgrown", "the request is no longer the 10Gi that the step was decided for", claim={"request": "11Gi"}
    ),
    "lowered by somebody since": Case("Requested", "90% used: 10Gi -> 12Gi", dict(TAKEN), claim={"request": "9Gi"}),
}
QUIET = {
    "no expansion": ({}, None),
    "no step yet": ({}, expansion()),
    "the annotations are there": ({"annotations": dict(TAKEN)}, expansion(**STEP)),
    "somebody removed the annotations but for the history": (
        {"annotations": {HISTORY: TAKEN[HISTORY]}},
        expansion(**STEP),
    ),
    "as large as is asked for": ({"request": "12Gi"}, expansion(**STEP)),
    "larger than is asked for": ({"request": "20Gi"}, expansion(**STEP)),
    "no request": ({"request": None}, expansion(**STEP)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_decides(case: Case) -> None:
    outcome = ask_claim(obj=claim(**case.claim), related=[expansion(**(STEP | case.step)), *case.others])

    (decision,) = outcome.decisions
    assert (decision.reason, decision.message) == (case.reason, case.message)
    assert str(decision.object) == "PersistentVolumeClaim/db/data-0"
    assert decision.changes == bool(case.annotations)
    expected = {"labels": {}, "annotations": case.annotations, "attachments": []}
    assert body_of(outcome) == expected | ({"resyncAfterSeconds": 5} if case.annotations else {})


@pytest.mark.parametrize(("obj", "related"), QUIET.values(), ids=QUIET.keys())
def test_has_nothing_to_say(obj: dict[str, Any], related: JsonObject | None) -> None:
    outcome = ask_claim(obj=claim(**obj), related=[related] if related else [])

    assert body_of(outcome) == {"labels": {}, "annotations": {}, "attachments": []}
    assert outcome.decisions == ()


@pytest.mark.parametrize(("seconds", "resync"), [(0, 5), (10, 5), (60, 30), (3600, 1800)])
def test_a_step_that_is_refused_is_tried_more_and_more_rarely(seconds: int, resync: int) -> None:
    decided = format_time(NOW - timedelta(seconds=seconds))

    assert body_of(ask_claim(related=[expansion(**(STEP | {"requested_at": decided}))]))["resyncAfterSeconds"] == resync


def test_marks_the_step_that_the_request_shows() -> None:
    """From then on, whoever lowers the request means to."""
    outcome = ask_claim(obj=claim(request="12Gi", annotations=TAKEN), related=[expansion(**STEP)])
    (change,) = body_of(outcome)["annotations"].items()

    assert change == (HISTORY, TAKEN[HISTORY].replace('"step"', '"shown":true,"step"'))
    marked = claim(request="12Gi", annotations=TAKEN | dict([change]))
    lowered = claim(request="11Gi", annotations=TAKEN | dict([change]))
    for obj in (marked, lowered):
        assert body_of(ask_claim(obj=obj, related=[expansion(**STEP)]))["annotations"] == {}


def test_marks_it_too_when_nobody_looks_after_the_claim_any_more() -> None:
    assert HISTORY in body_of(ask_claim(obj=claim(request="12Gi", annotations=TAKEN), related=[]))["annotations"]


def test_a_step_without_effect_is_replaced_by_the_next() -> None:
    """The admission policy was missing: that was no growth."""
    later = STEP | {"requested_at": "2026-11-16T02:59:59Z"}
    outcome = ask_claim(obj=claim(annotations=TAKEN), related=[expansion(**later)])

    (only,) = read_history(body_of(outcome)["annotations"][HISTORY])
    assert (only.step, only.shown) == ("2026-11-16T02:59:59Z", False)


def test_the_annotations_stay_when_the_autoscaler_is_gone() -> None:
    """They are the memory of cooldown and budget."""
    assert body_of(ask_claim(obj=claim(annotations=TAKEN), related=[]))["annotations"] == {}


def test_ignores_expansions_of_claims_with_a_similar_label() -> None:
    assert body_of(ask_claim(related=[expansion(claim_name="data-1", **STEP)]))["annotations"] == {}


def test_an_expansion_on_its_way_out_is_no_rival() -> None:
    leaving = expansion(of="all", owner_uid="uid-all", **STEP)
    leaving["metadata"]["deletionTimestamp"] = AT

    assert body_of(ask_claim(related=[expansion(**STEP), leaving]))["annotations"] == TAKEN


def test_remembers_the_last_ten_steps() -> None:
    before = [{"at": f"2026-11-{day:02}T00:00:00Z", "from": "1Gi", "to": "2Gi", "shown": True} for day in range(1, 13)]
    outcome = ask_claim(obj=claim(annotations={HISTORY: compact_json(before)}), related=[expansion(**STEP)])

    written = read_history(body_of(outcome)["annotations"][HISTORY])
    assert [step.at for step in written] == [*(step["at"] for step in before[-9:]), "2026-11-16T03:00:00Z"]


def test_relates_to_the_expansions_that_carry_its_name() -> None:
    outcome = volume_claim.customize(wire.CustomizeRequest(parent=claim(name="data-0", namespace="db")))

    assert body_of(outcome) == {
        "relatedResources": [
            {
                "apiVersion": "autoscaling.volume-autoscaler.io/v1alpha1",
                "resource": "volumeexpansions",
                "namespace": "db",
                "labelSelector": {"matchLabels": {"volume-autoscaler.io/claim": "data-0"}},
            }
        ]
    }


def test_relates_by_a_shortened_name_where_a_label_cannot_hold_it() -> None:
    name = "a" * 200
    outcome = volume_claim.customize(wire.CustomizeRequest(parent=claim(name=name)))

    (rule,) = body_of(outcome)["relatedResources"]
    (label,) = rule["labelSelector"]["matchLabels"].values()
    assert len(label) <= 63
    assert expansion(claim_name=name)["metadata"]["labels"] == {"volume-autoscaler.io/claim": label}


def test_asks_again_later_if_expansions_are_not_wired() -> None:
    request = wire.parse(volume_claim.SyncRequest, compact_json({"object": claim()}).encode())

    with pytest.raises(wire.RetryLater, match="no related VolumeExpansions"):
        volume_claim.sync(request, now=NOW)


SIZES = st.sampled_from(["", "0", "-1Gi", "1Gi", "10Gi", "10737418241", "11Gi", "12Gi", "1Ti", "much", "8Ei"])
TIMES = st.sampled_from(["", AT, "2026-11-16T04:00:00Z", "soon", "9999-12-31T23:59:59Z"])
TEXTS = st.sampled_from(["", "false", "true", "[]", "{", '[{"at":1}]', '[{"at":"2026-11-16T03:00:00Z"}]', "12Gi", AT])


@given(
    annotations=st.dictionaries(
        st.sampled_from([PAUSED, CONFLICT, HISTORY, REQUESTED_AT, REQUESTED_SIZE]), TEXTS, max_size=5
    ),
    request=SIZES,
    phase=st.sampled_from(["Bound", "Pending", "Lost", ""]),
    deleting=st.booleans(),
    steps=st.lists(
        st.fixed_dictionaries(
            {
                "of": st.sampled_from(["db", "all"]),
                "owned": st.booleans(),
                "claim_uid": st.sampled_from(["uid-data-0", "before"]),
                "from_size": SIZES,
                "size": SIZES,
                "requested_at": TIMES,
            }
        ),
        max_size=3,
    ),
)
def test_never_asks_for_less_nor_on_behalf_of_somebody_else(
    annotations: dict[str, str], request: str, phase: str, deleting: bool, steps: list[dict[str, Any]]
) -> None:
    obj = claim(annotations=annotations, request=request, phase=phase, deleting=deleting)
    related = list({step["of"]: expansion(**step) for step in steps}.values())
    answer = body_of(ask_claim(obj=obj, related=related))

    assert answer == body_of(ask_claim(obj=obj, related=related))
    assert answer["attachments"] == []
    assert answer["annotations"].keys() <= {REQUESTED_SIZE, REQUESTED_AT, REQUESTED_BY, HISTORY, CONFLICT}
    if REQUESTED_SIZE not in answer["annotations"]:
        return
    (only,) = related
    assert whole_bytes(answer["annotations"][REQUESTED_SIZE]) > whole_bytes(request)
    assert whole_bytes(request) <= whole_bytes(only["spec"]["fromSize"])
    assert only["metadata"]["ownerReferences"][0]["kind"] == "VolumeAutoscaler"
    assert only["spec"]["claimUID"] == "uid-data-0"
    assert phase == "Bound"
    assert not deleting
    assert annotations.get(PAUSED, "") in ("", "false")
