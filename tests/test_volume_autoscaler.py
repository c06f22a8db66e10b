"""A VolumeAutoscaler's sync: when it polls, what it reports, which expansions it keeps, what it counts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from hooks import volume_autoscaler, wire
from hooks.kube.metadata import JsonObject, compact_json
from hooks.kube.times import format_time
from hooks.volumes import usage
from hooks.volumes.claims import REQUESTED_AT, REQUESTED_SIZE
from hooks.volumes.expansions import MOST_LEAVING
from hooks.volumes.report import MOST_ENTRIES
from hooks.volumes.usage import Question, Unavailable
from tests.volumes import (
    CONTROLLER,
    EXPANSIONS,
    NOW,
    ask_autoscaler,
    autoscaler,
    autoscaler_request,
    body_of,
    children_of,
    claim,
    condition_of,
    entry_of,
    expansion,
    filesystem,
    said_of,
    status_of,
    step_of,
    usages,
)

DOWN = Unavailable(usage.UNREACHABLE, "Prometheus refused the connection")


def polled(seconds: float = 0, *, entries: Sequence[JsonObject] = (), generation: int = 1, **more: Any) -> JsonObject:
    """A status that an earlier poll reported."""
    at = format_time(NOW - timedelta(seconds=seconds))
    return {"lastPollTime": at, "observedGeneration": generation, "pvcs": list(entries)} | more


def question(now: datetime = NOW, **parts: Any) -> Question | None:
    request = wire.parse(volume_autoscaler.SyncRequest, compact_json(autoscaler_request(**parts)).encode())
    return volume_autoscaler.question(request, now=now)


def own_steps(outcome: wire.Outcome) -> list[JsonObject]:
    return [child["spec"] for child in children_of(outcome, "VolumeExpansion")]


# When it polls


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        pytest.param(None, {}, id="never polled"),
        pytest.param({"lastPollTime": "garbage"}, {}, id="an unreadable time"),
        pytest.param(polled(60), {}, id="after one interval"),
        pytest.param(polled(10), {"pollInterval": "10s"}, id="after its own interval"),
        pytest.param(polled(-30), {}, id="polled in the future"),
        pytest.param(polled(5, generation=7), {}, id="the spec changed"),
        pytest.param(
            polled(5, entries=[{"name": "data-0", "reason": "Selected"}]), {}, id="a claim waits for its expansion"
        ),
        pytest.param(polled(60), {"pollInterval": "0s"}, id="an unusable interval: the default"),
    ],
)
def test_asks_for_the_usage(status: JsonObject | None, spec: dict[str, Any]) -> None:
    parent = autoscaler(status=status, prometheusURL="http://mimir.svc/prometheus", **spec)
    seconds = 10 if spec.get("pollInterval") == "10s" else 60

    assert question(parent=parent) == Question("db", "http://mimir.svc/prometheus", seconds)


@pytest.mark.parametrize(
    ("parts", "spec"),
    [
        pytest.param({}, {}, id="polled a moment ago"),
        pytest.param({"claims": []}, {}, id="no claim"),
        pytest.param({}, {"target": {}}, id="no target"),
        pytest.param({"own": []}, {"mode": "Observe"}, id="Observe needs no expansions"),
    ],
)
def test_asks_nothing(parts: dict[str, Any], spec: dict[str, Any]) -> None:
    assert question(parent=autoscaler(status=polled(59), **spec), **parts) is None


def test_polls_at_once_for_a_claim_that_has_just_appeared() -> None:
    assert question(parent=autoscaler(status=polled(5)), claims=[claim(), claim(name="data-1")]) is not None


def test_extra_syncs_get_the_answer_of_the_last_poll() -> None:
    """Nothing is asked, so nothing may change; the next sync comes when the poll is due."""
    first = ask_autoscaler()
    stored = status_of(first) | {"observedGeneration": 1}
    own = [expansion(**_fields(step)) for step in own_steps(first)]
    second = ask_autoscaler(
        parent=autoscaler(status=stored), own=own, usage=usages({}), now=NOW + timedelta(seconds=20.5)
    )

    assert status_of(second) == status_of(first)
    assert own_steps(second) == own_steps(first)
    assert body_of(first)["resyncAfterSeconds"] == 60
    assert body_of(second)["resyncAfterSeconds"] == 40
    assert (second.decisions, second.measurements, second.gauges) == ((), (), None)


def _fields(spec: JsonObject) -> dict[str, Any]:
    names = {
        "fromSize": "from_size",
        "requestedAt": "requested_at",
        "firstRequestedAt": "first_requested_at",
        "filesystemBytes": "filesystem_bytes",
    }
    skipped = ("claimName", "claimUID")
    return {names.get(key, key): value for key, value in spec.items() if key not in skipped}


def test_an_autoscaler_on_its_way_out_keeps_all_as_it_is() -> None:
    parent = autoscaler(status=polled(600, claims=1))
    parent["metadata"]["deletionTimestamp"] = format_time(NOW)
    outcome = ask_autoscaler(parent=parent, own=[expansion(count=2)])

    rested = {"lastPollTime": "2026-11-16T02:50:00Z", "pvcs": [], "claims": 1, "totalScaleEvents": 2}
    assert status_of(outcome) == rested
    assert own_steps(outcome) == [{"claimName": "data-0", "claimUID": "uid-data-0", "count": 2, "attempt": 0}]


# Which expansions it keeps


def test_a_new_claim_gets_an_expansion_without_a_size() -> None:
    outcome = ask_autoscaler(own=[])

    (child,) = children_of(outcome, "VolumeExpansion")
    assert child == {
        "apiVersion": "autoscaling.volume-autoscaler.io/v1alpha1",
        "kind": "VolumeExpansion",
        "metadata": {"name": "db-data-0-b2fb5f5c", "labels": {"volume-autoscaler.io/claim": "data-0"}},
        "spec": {"claimName": "data-0", "claimUID": "uid-data-0", "count": 0, "attempt": 0},
    }


def test_a_step_is_recorded_with_all_that_led_to_it() -> None:
    assert step_of(ask_autoscaler(own=[expansion(count=4, attempt=2)])) == {
        "claimName": "data-0",
        "claimUID": "uid-data-0",
        "fromSize": "10Gi",
        "size": "12Gi",
        "reason": "ExpandRequested",
        "message": "90% used, threshold 80%: 10Gi -> 12Gi",
        "requestedAt": "2026-11-16T03:00:00Z",
        "filesystemBytes": 10737418240,
        "count": 5,
        "attempt": 1,
    }


def test_a_claim_recreated_under_its_name_starts_without_a_step() -> None:
    old = expansion(
        claim_uid="before", from_size="40Gi", size="50Gi", requested_at=format_time(NOW), count=3, attempt=1
    )

    assert step_of(ask_autoscaler(own=[old])) == {
        "claimName": "data-0",
        "claimUID": "uid-data-0",
        "count": 3,
        "attempt": 0,
    }


def test_reads_what_it_wrote_and_not_what_somebody_made_of_it() -> None:
    edited = expansion(count=7)
    edited["spec"] |= {"size": "90Gi", "count": 0}

    assert step_of(ask_autoscaler(own=[edited], usage=usages({"data-0": filesystem(10)}))) == {
        "claimName": "data-0",
        "claimUID": "uid-data-0",
        "count": 7,
        "attempt": 0,
    }


def test_reads_what_is_there_if_what_it_wrote_is_gone() -> None:
    bare = expansion(count=7)
    bare["metadata"]["annotations"] = {}

    assert own_steps(ask_autoscaler(own=[bare], usage=usages({"data-0": filesystem(10)})))[0]["count"] == 7


@pytest.mark.parametrize(
    ("age", "attempt", "expected"),
    [(59, 1, 1), (60, 1, 2), (119, 2, 2), (120, 2, 3), (239, 3, 3), (240, 3, 4), (1799, 9, 9), (1800, 9, 10)],
)
def test_a_step_that_comes_to_nothing_is_asked_for_again_ever_more_rarely(
    age: int, attempt: int, expected: int
) -> None:
    at = format_time(NOW - timedelta(seconds=age))
    late = expansion(from_size="10Gi", size="12Gi", requested_at=at, count=1, attempt=attempt)
    step = step_of(ask_autoscaler(own=[late]))

    assert step is not None
    assert (step["attempt"], step["count"]) == (expected, 1)
    assert step["requestedAt"] == (at if expected == attempt else "2026-11-16T03:00:00Z")
    assert step.get("firstRequestedAt") == (None if expected == attempt else at)


def test_a_refused_step_never_looks_healthy_however_long_the_poll() -> None:
    """Also if the next poll comes only when the step may be asked for again."""
    late = expansion(
        from_size="10Gi", size="12Gi", requested_at=format_time(NOW - timedelta(minutes=5)), count=1, attempt=1
    )
    spec: dict[str, Any] = {"pollInterval": "5m", "cooldownPeriod": "5m"}
    first = ask_autoscaler(parent=autoscaler(**spec), own=[late])
    step = step_of(first)
    assert step is not None
    second = ask_autoscaler(
        parent=autoscaler(status=status_of(first), **spec),
        own=[expansion(**_fields(step))],
        now=NOW + timedelta(minutes=10),
    )

    for outcome in (first, second):
        assert said_of(outcome)[0] == "ExpandFailed"
        assert (ready(outcome)[0], expandable(outcome)[0]) == ("False", "False")
    assert len(happened(first)) == 2
    assert happened(second) == set()
    assert outcome.gauges is not None
    stuck = [value.value for value in outcome.gauges.values if value.metric == "volume_autoscaler_stuck_seconds"]
    assert stuck == [900]


def test_an_expansion_that_is_never_created_is_a_failure() -> None:
    waiting = polled(15, entries=[{"name": "data-0", "reason": "Selected"}])
    soon = polled(14, entries=[{"name": "data-0", "reason": "Selected"}])
    failed = ask_autoscaler(parent=autoscaler(status=waiting), own=[])

    assert said_of(failed) == (
        "ExpandFailed",
        "90% used, threshold 80%: 10Gi -> 12Gi: its VolumeExpansion is not created",
    )
    assert expandable(failed)[0] == "False"
    assert said_of(ask_autoscaler(parent=autoscaler(status=soon), own=[]))[0] == "Selected"


def test_a_step_in_place_of_a_refused_one_is_the_same_growth() -> None:
    at = format_time(NOW - timedelta(minutes=6))
    refused = expansion(from_size="10Gi", size="12Gi", requested_at=at, count=1, attempt=3)
    outcome = ask_autoscaler(own=[refused])
    step = step_of(outcome)

    assert step is not None
    assert (step["requestedAt"], step["count"], step["attempt"]) == ("2026-11-16T03:00:00Z", 1, 4)
    assert status_of(outcome)["totalScaleEvents"] == 1
    assert all(measured.metric != "volume_autoscaler_scale_events_total" for measured in outcome.measurements)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"usage": usages({"data-0": filesystem(10)})}, id="no longer full"),
        pytest.param({"claims": [claim(annotations={"volume-autoscaler.io/paused": "true"})]}, id="paused"),
        pytest.param({"parent": autoscaler(maxSize="10Gi")}, id="at the limit"),
        pytest.param({"parent": autoscaler(mode="Observe")}, id="Observe"),
        pytest.param({"parent": autoscaler(pollInterval="0s")}, id="a spec that cannot be used"),
        pytest.param({"rivals": [expansion(of="all", owner_uid="uid-all")]}, id="contested"),
    ],
)
def test_a_step_that_came_to_nothing_is_withdrawn_when_it_is_not_wanted_any_more(parts: dict[str, Any]) -> None:
    """Otherwise it would grow the claim as soon as the quota is raised: days later, or beyond a new maxSize."""
    at = format_time(NOW - timedelta(minutes=2))
    late = expansion(from_size="10Gi", size="12Gi", requested_at=at, count=1, attempt=2)
    step = step_of(ask_autoscaler(own=[late], **parts))

    assert step is not None
    assert "size" not in step
    assert (step["reason"], step["requestedAt"], step["count"]) == ("Withdrawn", at, 1)


def test_in_doubt_a_step_that_came_to_nothing_stays() -> None:
    at = format_time(NOW - timedelta(minutes=2))
    late = expansion(from_size="10Gi", size="12Gi", requested_at=at, count=1, attempt=2)

    assert step_of(ask_autoscaler(own=[late], usage=DOWN)) == late["spec"]


def test_the_steps_of_claims_that_are_gone_are_still_counted() -> None:
    """The record holds what an expansion counted, then the expansion goes, then the record adds it up."""
    present, gone = expansion(count=1), expansion(claim_name="gone", size="12Gi", count=4)
    uid = gone["metadata"]["uid"]
    held = ask_autoscaler(own=[present, gone])
    let_go = ask_autoscaler(own=[present, gone, _stored(held, "retired")])
    added = ask_autoscaler(own=[present, _stored(let_go, "retired")])

    assert step_of(held, "gone") == {"claimName": "gone", "claimUID": "uid-gone", "count": 4, "attempt": 0}
    assert step_of(let_go, "gone") is step_of(added, "gone") is None
    assert _record(held) == _record(let_go) == {"count": 0, "leaving": {uid: 4}}
    assert _record(added) == {"count": 4}
    assert [status_of(outcome)["totalScaleEvents"] for outcome in (held, let_go, added)] == [6, 6, 6]


def test_expansions_go_a_part_at_a_time_if_they_are_many() -> None:
    """The record has a limit: what it has no room for stays until it has."""
    own = [expansion(claim_name=f"gone-{number:03}", count=1) for number in range(MOST_LEAVING + 2)]
    held = ask_autoscaler(claims=[], own=own)
    let_go = ask_autoscaler(claims=[], own=[*own, _stored(held, "retired")])

    assert len(_record(held)["leaving"]) == MOST_LEAVING
    assert [step["claimName"] for step in own_steps(let_go) if "claimName" in step] == ["gone-500", "gone-501"]
    assert status_of(held)["totalScaleEvents"] == status_of(let_go)["totalScaleEvents"] == MOST_LEAVING + 2


def _record(outcome: wire.Outcome) -> JsonObject:
    step = next(step for step in own_steps(outcome) if step.get("reason") == "Retired")
    return {key: value for key, value in step.items() if key in ("count", "leaving")}


def _stored(outcome: wire.Outcome, part: str) -> JsonObject:
    child = next(child for child in children_of(outcome, "VolumeExpansion") if part in child["metadata"]["name"])
    metadata = child["metadata"] | {"namespace": "db", "annotations": {wire.LAST_APPLIED: compact_json(child)}}
    return child | {"metadata": metadata}


def test_an_expansion_on_its_way_out_is_not_counted_twice() -> None:
    leaving = expansion(claim_name="gone", count=4)
    leaving["metadata"]["deletionTimestamp"] = format_time(NOW)
    outcome = ask_autoscaler(own=[expansion(count=1), leaving], usage=usages({"data-0": filesystem(10)}))

    assert status_of(outcome)["totalScaleEvents"] == 1


def test_the_total_never_falls_below_what_was_reported() -> None:
    outcome = ask_autoscaler(parent=autoscaler(status=polled(60, totalScaleEvents=9)))

    assert status_of(outcome)["totalScaleEvents"] == 9


@pytest.mark.parametrize("spec", [{"mode": "Observe"}, {"maxSize": None}, {"target": {}}])
def test_keeps_the_expansions_when_it_observes_or_cannot_be_used(spec: dict[str, Any]) -> None:
    own = [expansion(count=2), expansion(claim_name="gone", count=1)]
    outcome = ask_autoscaler(parent=autoscaler(**spec), own=own)

    assert own_steps(outcome) == [item["spec"] for item in own]


def test_observe_creates_nothing_and_shows_the_size_it_would_ask_for() -> None:
    outcome = ask_autoscaler(parent=autoscaler(mode="Observe"), own=[])

    assert own_steps(outcome) == []
    assert entry_of(outcome)["desiredSize"] == "12Gi"
    assert condition_of(outcome, "Ready")["status"] == "True"


def test_observe_has_no_rivals() -> None:
    rival = expansion(of="all", owner_uid="uid-all")
    outcome = ask_autoscaler(parent=autoscaler(mode="Observe"), own=[], rivals=[rival])

    assert said_of(outcome)[0] == "WouldExpand"


def test_a_claim_on_its_way_out_gets_no_new_expansion() -> None:
    assert own_steps(ask_autoscaler(claims=[claim(deleting=True)], own=[])) == []


# What it reports


def test_reports_a_claim_with_all_that_is_known() -> None:
    at = format_time(NOW - timedelta(hours=2))
    history = compact_json([{"at": at, "from": "8Gi", "to": "10Gi"}])
    annotations = {"volume-autoscaler.io/resize-history": history, REQUESTED_AT: at, REQUESTED_SIZE: "10Gi"}
    outcome = ask_autoscaler(
        claims=[claim(annotations=annotations)], usage=usages({"data-0": filesystem(50, inodes=(1, 4))})
    )

    assert status_of(outcome) == {
        "lastPollTime": "2026-11-16T03:00:00Z",
        "claims": 1,
        "fullestPercent": 50,
        "claimsByReason": {"BelowThreshold": 1},
        "totalScaleEvents": 0,
        "conditions": [
            {
                "type": "Expandable",
                "status": "True",
                "reason": "NothingBlocked",
                "message": "no claim is full that cannot grow",
                "lastTransitionTime": "2026-11-16T03:00:00Z",
            },
            {
                "type": "Ready",
                "status": "True",
                "reason": "Polling",
                "message": "polling 1 claim",
                "lastTransitionTime": "2026-11-16T03:00:00Z",
            },
        ],
        "pvcs": [
            {
                "name": "data-0",
                "uid": "uid-data-0",
                "currentSize": "10Gi",
                "usageBytes": 5368709120,
                "usagePercent": 50,
                "inodePercent": 25,
                "lastScaleTime": at,
                "lastScaleSize": "10Gi",
                "reason": "BelowThreshold",
                "message": "50% used, threshold 80%",
            }
        ],
    }


def test_shows_the_size_that_is_under_way() -> None:
    late = expansion(
        from_size="10Gi", size="12Gi", requested_at=format_time(NOW - timedelta(seconds=5)), count=1, attempt=1
    )

    assert entry_of(ask_autoscaler(own=[late]))["requestedSize"] == "12Gi"


def test_a_resize_that_was_undone_is_not_the_last_one() -> None:
    history = [
        {"at": "2026-11-01T00:00:00Z", "from": "8Gi", "to": "10Gi"},
        {"at": "2026-11-02T00:00:00Z", "from": "10Gi", "to": "12Gi"},
    ]
    obj = claim(annotations={"volume-autoscaler.io/resize-history": compact_json(history)})

    entry = entry_of(ask_autoscaler(claims=[obj]))
    assert (entry["lastScaleTime"], entry["lastScaleSize"]) == ("2026-11-01T00:00:00Z", "10Gi")


def test_keeps_the_last_usage_while_the_backend_is_down() -> None:
    """Case 19, and the original's first defect: an outage must not lose what is known."""
    entries = [
        {
            "name": "data-0",
            "uid": "uid-data-0",
            "usageBytes": 5,
            "usagePercent": 97,
            "inodePercent": 3,
            "reason": "MaxSizeReached",
        }
    ]
    first = ask_autoscaler(parent=autoscaler(status=polled(60, entries=entries)), usage=DOWN)
    later = ask_autoscaler(parent=autoscaler(status=status_of(first)), usage=DOWN, now=NOW + timedelta(seconds=60))

    for outcome in (first, later):
        entry = entry_of(outcome)
        assert (entry["usageBytes"], entry["usagePercent"], entry["inodePercent"]) == (5, 97, 3)
        assert entry["lastSampleTime"] == "2026-11-16T02:59:00Z"
        assert (entry["reason"], entry["message"]) == ("PrometheusUnreachable", "Prometheus refused the connection")


def test_metrics_that_were_there_and_are_gone_are_lost() -> None:
    """Case 29."""
    entries = [{"name": "data-0", "uid": "uid-data-0", "usagePercent": 97, "reason": "Cooldown"}]
    outcome = ask_autoscaler(
        parent=autoscaler(status=polled(60, entries=entries)), usage=usages({"other": filesystem(5)})
    )

    said = "no metrics any more; the last sample of 2026-11-16T02:59:00Z: 97% used"
    assert said_of(outcome) == ("MetricsLost", said)
    assert "size" not in (step_of(outcome) or {})


@pytest.mark.parametrize(
    ("percent", "expected"),
    [pytest.param(79, "True", id="there was room"), pytest.param(80, "False", id="it was full")],
)
def test_a_claim_that_no_pod_uses_is_fine_unless_it_was_full(percent: int, expected: str) -> None:
    """Kubelets report no volume that is not mounted: what runs once an hour must not raise an alarm once an hour."""
    entries = [{"name": "data-0", "uid": "uid-data-0", "usagePercent": percent}]
    parent = autoscaler(status=polled(60, entries=entries))
    outcome = ask_autoscaler(parent=parent, usage=usages({"other": filesystem(5)}))

    assert said_of(outcome)[0] == "MetricsLost"
    assert condition_of(outcome, "Ready")["status"] == expected
    assert len(children_of(outcome, "Event")) == (0 if expected == "True" else 3)
    assert bool(outcome.measurements) == (expected == "False")


def test_reports_the_worst_claims_first_and_at_most_five_hundred() -> None:
    names = [f"c{number:03}" for number in range(600)]
    claims = [claim(name=name) for name in names]
    own = [expansion(claim_name=name) for name in names]
    known = {name: filesystem(number / 10) for number, name in enumerate(names)}
    known["c005"] = filesystem(99, size="900Gi")  # full, and cannot grow
    del known["c007"]
    outcome = ask_autoscaler(claims=claims, own=own, usage=usages(known))

    listed = [entry["name"] for entry in status_of(outcome)["pvcs"]]
    assert listed[:4] == ["c005", "c007", "c590", "c591"]
    assert len(listed) == MOST_ENTRIES
    assert status_of(outcome)["claims"] == 600
    assert sum(status_of(outcome)["claimsByReason"].values()) == 600
    assert len(own_steps(outcome)) == 600


# Conditions


def ready(outcome: wire.Outcome) -> tuple[str, str, str]:
    found = condition_of(outcome, "Ready")
    return found["status"], found["reason"], found["message"]


def expandable(outcome: wire.Outcome) -> tuple[str, str, str]:
    found = condition_of(outcome, "Expandable")
    return found["status"], found["reason"], found["message"]


AT_LIMIT = "data-0: MaxSizeReached: 90% used, threshold 80%, and 10Gi leaves no room below maxSize 10Gi"


def test_a_full_volume_that_cannot_grow_never_looks_healthy() -> None:
    outcome = ask_autoscaler(parent=autoscaler(maxSize="10Gi"))

    assert expandable(outcome) == ("False", "ClaimsBlocked", AT_LIMIT)
    assert ready(outcome) == ("False", "ClaimsBlocked", AT_LIMIT)


def test_a_claim_that_cannot_grow_is_fine_while_there_is_room() -> None:
    outcome = ask_autoscaler(parent=autoscaler(maxSize="10Gi"), usage=usages({"data-0": filesystem(10)}))

    assert ready(outcome) == ("True", "Polling", "polling 1 claim")


@pytest.mark.parametrize(
    ("minutes", "status"), [pytest.param(29, "True", id="not stuck yet"), pytest.param(31, "False", id="stuck")]
)
def test_a_resize_that_does_not_end_is_a_block(minutes: int, status: str) -> None:
    at = format_time(NOW - timedelta(minutes=minutes))
    history = compact_json([{"at": at, "from": "10Gi", "to": "12Gi", "shown": True}])
    obj = claim(request="12Gi", annotations={"volume-autoscaler.io/resize-history": history})
    outcome = ask_autoscaler(claims=[obj])

    assert expandable(outcome)[0] == ready(outcome)[0] == status


def test_a_resize_that_began_nobody_knows_when_is_a_block_at_second_sight() -> None:
    seen = polled(60, entries=[{"name": "data-0", "reason": "ResizeInProgress"}])

    assert expandable(ask_autoscaler(claims=[claim(request="12Gi")]))[0] == "True"
    assert expandable(ask_autoscaler(claims=[claim(request="12Gi")], parent=autoscaler(status=seen)))[0] == "False"


def test_the_resize_of_a_person_is_timed_by_its_condition() -> None:
    began = {"type": "Resizing", "status": "True", "lastTransitionTime": format_time(NOW - timedelta(minutes=5))}
    outcome = ask_autoscaler(claims=[claim(request="12Gi", conditions=[began])])

    assert said_of(outcome)[1] == "10Gi -> 12Gi: the volume is being resized since 2026-11-16T02:55:00Z"
    assert expandable(outcome)[0] == "True"


@pytest.mark.parametrize(("period", "status"), [("30m", "True"), ("31m", "False")])
def test_a_long_cooldown_is_a_block(period: str, status: str) -> None:
    obj = claim(annotations={REQUESTED_AT: format_time(NOW), REQUESTED_SIZE: "10Gi"})
    outcome = ask_autoscaler(claims=[obj], parent=autoscaler(cooldownPeriod=period))

    assert said_of(outcome)[0] == "Cooldown"
    assert ready(outcome)[0] == expandable(outcome)[0] == status


def test_three_of_five_failing_leaves_two_processed_and_names_the_three() -> None:
    """Case 62."""
    names = ["a", "b", "c", "d", "e"]
    outcome = ask_autoscaler(
        claims=[claim(name=name) for name in names],
        own=[expansion(claim_name=name) for name in names],
        usage=usages({"b": filesystem(90), "d": filesystem(10)}),
    )

    message = "a, c, e: NoMetrics: no metrics for this claim: kubelets report only volumes that a pod uses"
    assert ready(outcome) == ("False", "PrometheusUnavailable", message)
    assert expandable(outcome) == ("Unknown", "UsageUnknown", "how full some of the claims are is not known")
    assert [said_of(outcome, name)[0] for name in names] == [
        "NoMetrics", "ExpandRequested", "NoMetrics", "BelowThreshold", "NoMetrics",
    ]  # fmt: skip


def test_names_ten_claims_at_most() -> None:
    names = [f"c{number:02}" for number in range(25)]
    outcome = ask_autoscaler(claims=[claim(name=name) for name in names], own=[], usage=DOWN)

    named = "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 15 more"
    message = f"{named}: PrometheusUnreachable: Prometheus refused the connection"
    assert ready(outcome) == ("False", "PrometheusUnavailable", message)


def test_no_claim_is_found() -> None:
    """Case 61: old entries are cleared."""
    old = polled(60, entries=[{"name": "gone", "usagePercent": 50}], fullestPercent=50)
    outcome = ask_autoscaler(parent=autoscaler(status=old), claims=[], own=[])

    assert ready(outcome) == ("False", "NoPVCsFound", "the selector selects no claim")
    assert expandable(outcome)[:2] == ("Unknown", "NoPVCsFound")
    assert status_of(outcome)["pvcs"] == []
    assert status_of(outcome)["claims"] == 0
    assert "fullestPercent" not in status_of(outcome)


def test_the_named_claim_is_missing() -> None:
    outcome = ask_autoscaler(parent=autoscaler(target={"pvcName": "data-9"}), own=[])

    assert ready(outcome) == ("False", "NoPVCsFound", "there is no claim data-9")
    assert [m.labels["reason"] for m in outcome.measurements] == ["resolve_pvcs"]


def test_contested_claims_are_named() -> None:
    outcome = ask_autoscaler(rivals=[expansion(of="all", owner_uid="uid-all")])

    message = "data-0: Ambiguous: also selected by all: none of them grows it"
    assert ready(outcome) == ("False", "Ambiguous", message)
    assert expandable(outcome)[0] == "False"


def test_an_empty_selector_means_every_claim_of_the_namespace_and_says_so() -> None:
    """Case 55."""
    everywhere = [
        claim(labels={}),
        claim(name="other", labels={"x": "y"}),
        claim(name="foreign", namespace="elsewhere"),
    ]
    outcome = ask_autoscaler(
        parent=autoscaler(target={"selector": {}}),
        claims=everywhere,
        own=[expansion(), expansion(claim_name="other")],
        usage=usages({"data-0": filesystem(1), "other": filesystem(1)}),
    )

    assert ready(outcome)[2] == "polling 2 claims (the selector is empty: all of the namespace)"
    assert {entry["name"] for entry in status_of(outcome)["pvcs"]} == {"data-0", "other"}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"target": {}}, "target: give exactly one of pvcName and selector"),
        ({"target": {"pvcName": "a", "selector": {}}}, "target: give exactly one of pvcName and selector"),
        (
            {"target": {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}},
            'target.selector: matchExpressions[0]: operator "Like" is not one of In, NotIn, Exists, DoesNotExist',
        ),
        ({"maxSize": "0"}, "maxSize: must be a quantity above zero and below 8Ei, such as 10Gi"),
        ({"maxSize": "ten"}, 'maxSize: "ten" is not a quantity such as 10Gi, 250m or 1.5'),
        ({"pollInterval": "5s"}, "pollInterval: must be at least 10s, and at most ten years"),
        ({"cooldownPeriod": "1d"}, 'cooldownPeriod: "1d" is not a duration such as 90s, 5m or 1h30m'),
        ({"increaseMinimum": "5Gi", "increaseMaximum": "2Gi"}, "increaseMinimum: 5Gi is above increaseMaximum 2Gi"),
        (
            {"resizeBudget": {"count": 11, "window": "24h"}},
            "resizeBudget.count: Input should be less than or equal to 10",
        ),
        ({"thresholdPercent": 0}, "thresholdPercent: Input should be greater than or equal to 1"),
        ({"mode": "Watch"}, "mode: Input should be 'Apply' or 'Observe'"),
    ],
)
def test_what_cannot_be_used_is_reported_and_polling_goes_on(spec: dict[str, Any], complaint: str) -> None:
    outcome = ask_autoscaler(parent=autoscaler(**spec))

    assert ready(outcome)[:2] == ("False", "InvalidSpec")
    assert ready(outcome)[2].startswith(complaint)
    assert body_of(outcome)["resyncAfterSeconds"] == 60
    assert outcome.decisions[0].reason == "InvalidSpec"
    assert "size" not in (step_of(outcome) or {})


def test_usage_is_shown_though_the_spec_cannot_be_used() -> None:
    outcome = ask_autoscaler(parent=autoscaler(pollInterval="0s"))

    assert entry_of(outcome)["usagePercent"] == 90
    assert said_of(outcome)[0] == "InvalidSpec"
    assert expandable(outcome)[0] == "False"


def test_a_condition_keeps_its_time_until_it_flips() -> None:
    stored = status_of(ask_autoscaler())
    later = NOW + timedelta(seconds=90)
    same = ask_autoscaler(parent=autoscaler(status=stored), now=later, usage=usages({"data-0": filesystem(10)}))
    flipped = ask_autoscaler(parent=autoscaler(status=stored), now=later, usage=DOWN)

    assert condition_of(same, "Ready")["lastTransitionTime"] == "2026-11-16T03:00:00Z"
    assert condition_of(flipped, "Ready")["lastTransitionTime"] == "2026-11-16T03:01:30Z"


# Metrics lost with StepOnce


def lost(percent: int = 97, *, status: JsonObject | None = None, **parts: Any) -> wire.Outcome:
    entries = [{"name": "data-0", "uid": "uid-data-0", "usagePercent": percent, "reason": "Cooldown"}]
    parent = autoscaler(status=status or polled(60, entries=entries), onMetricsLost="StepOnce")
    return ask_autoscaler(parent=parent, **({"usage": usages({"other": filesystem(5)})} | parts))


def test_step_once_takes_one_step_on_the_last_sample() -> None:
    outcome = lost()

    assert said_of(outcome) == ("ExpandRequested", "metrics lost at 97% used, threshold 80%: 10Gi -> 12Gi")


def test_step_once_takes_no_second_step_until_metrics_return() -> None:
    first = lost()
    step = step_of(first)
    assert step is not None
    grown = claim(
        request="12Gi", capacity="12Gi", annotations={REQUESTED_AT: step["requestedAt"], REQUESTED_SIZE: "12Gi"}
    )
    later = lost(
        status=status_of(first), claims=[grown], own=[expansion(**_fields(step))], now=NOW + timedelta(hours=1)
    )

    assert said_of(later)[0] == "MetricsLost"


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"usage": usages({})}, id="no other claim has series"),
        pytest.param({"usage": DOWN}, id="the backend is down"),
        pytest.param({"percent": 79}, id="the last sample was below the threshold"),
        pytest.param({"status": polled(60)}, id="there is no last sample"),
        pytest.param({"own": [expansion(claim_uid="before")]}, id="the sample is of a claim that is gone"),
        pytest.param(
            {
                "status": polled(
                    60,
                    entries=[{"name": "data-0", "uid": "uid-data-0", "usagePercent": 97, "reason": "ResizeInProgress"}],
                )
            },
            id="the volume was being resized",
        ),
    ],
)
def test_step_once_takes_no_step(parts: dict[str, Any]) -> None:
    assert "size" not in (step_of(lost(**parts)) or {})


def test_step_once_counts_inodes_too() -> None:
    entries = [{"name": "data-0", "uid": "uid-data-0", "usagePercent": 10, "inodePercent": 95, "reason": "Cooldown"}]
    parent = autoscaler(status=polled(60, entries=entries), onMetricsLost="StepOnce", inodeThresholdPercent=90)
    outcome = ask_autoscaler(parent=parent, usage=usages({"other": filesystem(5)}))

    assert said_of(outcome)[0] == "ExpandRequested"


# Events


def happened(outcome: wire.Outcome) -> set[tuple[str, str, str, str]]:
    return {
        (event["involvedObject"]["kind"], event["type"], event["reason"], event["message"])
        for event in children_of(outcome, "Event")
    }


def test_tells_once_that_a_claim_reached_its_limit() -> None:
    first = ask_autoscaler(parent=autoscaler(maxSize="10Gi"))
    again = ask_autoscaler(parent=autoscaler(maxSize="10Gi", status=status_of(first)), now=NOW + timedelta(minutes=1))

    message = AT_LIMIT.removeprefix("data-0: MaxSizeReached: ")
    assert happened(first) == {
        ("PersistentVolumeClaim", "Warning", "MaxSizeReached", message),
        ("VolumeAutoscaler", "Warning", "MaxSizeReached", f"data-0: {message}"),
    }
    assert happened(again) == set()


def test_returns_earlier_events_as_they_are() -> None:
    first = ask_autoscaler(parent=autoscaler(maxSize="10Gi"))
    stored = children_of(first, "Event")
    again = ask_autoscaler(
        parent=autoscaler(maxSize="10Gi", status=status_of(first)), events=stored, now=NOW + timedelta(minutes=1)
    )
    between = ask_autoscaler(
        parent=autoscaler(maxSize="10Gi", status=status_of(first) | {"observedGeneration": 1}),
        events=stored,
        now=NOW + timedelta(seconds=1),
    )

    by_name = sorted(stored, key=lambda event: str(event["metadata"]["name"]))
    assert children_of(again, "Event") == by_name
    assert sorted(children_of(between, "Event"), key=lambda event: str(event["metadata"]["name"])) == by_name


def test_a_wiped_status_does_not_repeat_an_event() -> None:
    first = ask_autoscaler(parent=autoscaler(maxSize="10Gi"))
    again = ask_autoscaler(
        parent=autoscaler(maxSize="10Gi"), events=children_of(first, "Event"), now=NOW + timedelta(minutes=5)
    )

    assert len(children_of(again, "Event")) == 2


def test_tells_when_the_claim_shows_the_step() -> None:
    at = format_time(NOW - timedelta(seconds=30))
    history = compact_json([{"at": at, "from": "10Gi", "to": "12Gi"}])
    grown = claim(request="12Gi", annotations={"volume-autoscaler.io/resize-history": history})
    before = {"name": "data-0", "reason": "ExpandRequested"}
    outcome = ask_autoscaler(claims=[grown], parent=autoscaler(status=polled(60, entries=[before])))

    assert happened(outcome) == {
        ("PersistentVolumeClaim", "Normal", "Expanded", "10Gi -> 12Gi"),
        ("VolumeAutoscaler", "Normal", "Expanded", "data-0: 10Gi -> 12Gi"),
    }
    told = {"name": "data-0", "reason": "ExpandRequested", "lastScaleTime": at}
    assert happened(ask_autoscaler(claims=[grown], parent=autoscaler(status=polled(60, entries=[told])))) == set()


def test_does_not_tell_of_what_is_long_past() -> None:
    history = compact_json([{"at": format_time(NOW - timedelta(hours=1)), "from": "8Gi", "to": "10Gi"}])
    obj = claim(annotations={"volume-autoscaler.io/resize-history": history})

    assert happened(ask_autoscaler(claims=[obj], usage=usages({"data-0": filesystem(10)}))) == set()


def test_tells_once_that_the_backend_is_down() -> None:
    first = ask_autoscaler(usage=DOWN)
    again = ask_autoscaler(usage=DOWN, parent=autoscaler(status=status_of(first)), now=NOW + timedelta(minutes=1))

    message = "data-0: PrometheusUnreachable: Prometheus refused the connection"
    assert happened(first) == {("VolumeAutoscaler", "Warning", "PrometheusUnavailable", message)}
    assert happened(again) == set()


def test_many_claims_share_one_event_on_the_autoscaler() -> None:
    names = [f"c{number:02}" for number in range(12)]
    outcome = ask_autoscaler(
        parent=autoscaler(maxSize="10Gi"),
        claims=[claim(name=name) for name in names],
        own=[expansion(claim_name=name) for name in names],
        usage=usages({name: filesystem(90) for name in names}),
    )

    about = [event for event in children_of(outcome, "Event") if event["involvedObject"]["kind"] == "VolumeAutoscaler"]
    assert len(about) == 1
    assert about[0]["message"].endswith("; and 2 more claims")
    assert len(children_of(outcome, "Event")) == 13


def test_writes_no_events_if_the_manifest_lists_none() -> None:
    bare = {"spec": {"childResources": CONTROLLER["spec"]["childResources"][:1]}}

    assert children_of(ask_autoscaler(parent=autoscaler(maxSize="10Gi"), controller=bare), "Event") == []


# What it counts


def counted(outcome: wire.Outcome) -> dict[str, int]:
    return {
        f"{measured.metric} {measured.labels.get('reason', measured.labels.get('pvc'))}": measured.value
        for measured in outcome.measurements
    }


def test_counts_a_step() -> None:
    assert ask_autoscaler().measurements == [
        wire.Measurement(
            "volume_autoscaler_scale_events_total", 1, {"namespace": "db", "volumeautoscaler": "db", "pvc": "data-0"}
        )
    ]


def test_counts_claims_whose_usage_is_not_known() -> None:
    assert counted(ask_autoscaler(usage=DOWN)) == {"volume_autoscaler_poll_errors_total prometheus_query": 1}


def test_counts_a_refused_step_once() -> None:
    late = expansion(
        from_size="10Gi", size="12Gi", requested_at=format_time(NOW - timedelta(minutes=1)), count=1, attempt=1
    )
    first = ask_autoscaler(own=[late])
    again = ask_autoscaler(own=[late], parent=autoscaler(status=status_of(first)), now=NOW + timedelta(minutes=1))

    assert counted(first) == {"volume_autoscaler_poll_errors_total patch_pvc": 1}
    assert counted(again) == {}


def test_shows_usage_and_reasons_for_two_polls() -> None:
    late = expansion(
        from_size="10Gi", size="12Gi", requested_at=format_time(NOW - timedelta(seconds=50)), count=1, attempt=1
    )
    gauges = ask_autoscaler(own=[late]).gauges

    owner = {"namespace": "db", "volumeautoscaler": "db"}
    assert gauges == wire.Gauges(
        source="db/db",
        lasts_seconds=120,
        values=[
            wire.Measurement("volume_autoscaler_claims", 1, owner | {"reason": "ExpandFailed"}),
            wire.Measurement("volume_autoscaler_pvc_usage_percent", 90, owner | {"pvc": "data-0"}),
            wire.Measurement("volume_autoscaler_stuck_seconds", 50, owner | {"pvc": "data-0"}),
        ],
    )


# Wiring


def test_relates_to_the_claims_it_selects() -> None:
    parent = autoscaler(target={"selector": {"matchLabels": {"app": "db"}}})
    outcome = volume_autoscaler.customize(wire.CustomizeRequest(parent=parent))

    foreign = {"matchExpressions": [{"key": "controller-uid", "operator": "NotIn", "values": ["uid-db"]}]}
    assert body_of(outcome) == {
        "relatedResources": [
            {
                "apiVersion": "v1",
                "resource": "persistentvolumeclaims",
                "namespace": "db",
                "labelSelector": {"matchLabels": {"app": "db"}},
            },
            {"apiVersion": "storage.k8s.io/v1", "resource": "storageclasses"},
            {
                "apiVersion": "autoscaling.volume-autoscaler.io/v1alpha1",
                "resource": "volumeexpansions",
                "namespace": "db",
                "labelSelector": foreign,
            },
        ]
    }


def test_relates_to_the_claim_it_names() -> None:
    outcome = volume_autoscaler.customize(wire.CustomizeRequest(parent=autoscaler(target={"pvcName": "data-0"})))

    assert body_of(outcome)["relatedResources"][0] == {
        "apiVersion": "v1",
        "resource": "persistentvolumeclaims",
        "namespace": "db",
        "names": ["data-0"],
    }


def test_relates_to_no_claim_if_the_target_cannot_be_used() -> None:
    outcome = volume_autoscaler.customize(wire.CustomizeRequest(parent=autoscaler(target={})))

    assert [rule["resource"] for rule in body_of(outcome)["relatedResources"]] == ["storageclasses", "volumeexpansions"]


@pytest.mark.parametrize(
    ("part", "group", "message"),
    [
        ("related", "PersistentVolumeClaim.v1", "no related PersistentVolumeClaims"),
        ("related", "StorageClass.storage.k8s.io/v1", "no related StorageClasses"),
        ("related", EXPANSIONS, "no related VolumeExpansions"),
        ("children", EXPANSIONS, "no children VolumeExpansions"),
    ],
)
def test_asks_again_later_if_a_kind_is_not_wired(part: str, group: str, message: str) -> None:
    """To go on would drop expansions, or take claims for gone."""
    body = autoscaler_request()
    del body[part][group]
    request = wire.parse(volume_autoscaler.SyncRequest, compact_json(body).encode())

    with pytest.raises(wire.RetryLater, match=message):
        volume_autoscaler.sync(request, now=NOW, usage=usages())
