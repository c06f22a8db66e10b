"""The laws of the volume autoscaler, for any claims, usages and histories."""

import itertools
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hooks import volume_autoscaler, wire
from hooks.kube.metadata import JsonObject, compact_json, name_of, uid_of
from hooks.kube.quantity import whole_bytes
from hooks.kube.times import format_time, parse_time
from hooks.volumes import expansions, usage
from hooks.volumes.checks import Reason
from hooks.volumes.claims import HISTORY, PAUSED, REQUESTED_AT, REQUESTED_SIZE
from hooks.volumes.policy import read_policy
from hooks.volumes.usage import Fault, Filesystem, Unavailable, Usages
from tests.volumes import (
    NOW,
    ask_autoscaler,
    autoscaler,
    autoscaler_request,
    children_of,
    claim,
    expansion,
    filesystem,
    status_of,
    storage_class,
)

NAMES = ["data-0", "data-1", "data-2"]
SIZES = st.sampled_from(["1Mi", "900Mi", "1Gi", "10Gi", "10G", "11Gi", "12Gi", "99Gi", "100Gi", "1Ti", "1Ei"])
ODD_SIZES = SIZES | st.sampled_from(["", "0", "-1Gi", "much", "9Ei", "1e30"])
AGES = st.integers(-7200, 90_000) | st.sampled_from([0, 1, 9, 10, 59, 60, 299, 300, 301, 3600, 86_400])
TIMES = AGES.map(lambda age: format_time(NOW - timedelta(seconds=age)))
ODD_TIMES = TIMES | st.sampled_from(["", "soon", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
ENTRIES = st.fixed_dictionaries({"at": TIMES, "step": TIMES, "from": SIZES, "to": SIZES, "shown": st.booleans()})
HISTORIES = st.lists(ENTRIES, max_size=12).map(compact_json)
ODD_HISTORIES = ["[", "{}", '[{"at":5}]']
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        REQUESTED_SIZE: ODD_SIZES,
        REQUESTED_AT: ODD_TIMES,
        HISTORY: HISTORIES | st.sampled_from(ODD_HISTORIES),
        PAUSED: st.sampled_from(["true", "false", ""]),
    },
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Resizing", "FileSystemResizePending", "ControllerResizeError", "Other"]),
            "status": st.sampled_from(["True", "False"]),
            "message": st.sampled_from(["", "no space"]),
            "lastTransitionTime": ODD_TIMES,
        }
    ),
    max_size=2,
)
SPECS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"maxSize": ODD_SIZES},
    optional={
        "thresholdPercent": st.sampled_from([0, 1, 50, 80, 99, 200]),
        "increasePercent": st.sampled_from([1, 20, 100]),
        "increaseMinimum": ODD_SIZES,
        "increaseMaximum": ODD_SIZES,
        "cooldownPeriod": st.sampled_from(["0s", "1s", "5m", "24h", "-5m", "x"]),
        "pollInterval": st.sampled_from(["10s", "60s", "0s"]),
        "inodeThresholdPercent": st.sampled_from([0, 90]),
        "mode": st.sampled_from(["Apply", "Observe"]),
        "resizeBudget": st.sampled_from([{"count": 1, "window": "1h"}, {"count": 4, "window": "24h"}, {"count": 0}]),
        "onMetricsLost": st.sampled_from(["Wait", "StepOnce"]),
        "target": st.sampled_from([{"pvcName": "data-1"}, {"selector": {}}, {}]),
    },
)
READINGS = st.builds(
    Filesystem,
    capacity_bytes=st.integers(1, 2**62),
    used_bytes=st.integers(0, 2**62),
    filled_bytes=st.integers(0, 2**62),
    inodes=st.integers(0, 100),
    inodes_used=st.integers(0, 100),
    is_abnormal=st.booleans(),
)
TIGHT = st.sampled_from(["1Gi", "10Gi", "12Gi", "99Gi"]).map(
    lambda size: Filesystem(whole_bytes(size), whole_bytes(size) * 9 // 10, whole_bytes(size) * 9 // 10)
)
USAGES = st.builds(
    Usages, st.dictionaries(st.sampled_from([*NAMES, "other"]), TIGHT | READINGS | st.sampled_from(Fault))
) | st.sampled_from([Unavailable(usage.UNREACHABLE, "down"), None])


@st.composite
def claims_of(draw: st.DrawFn, name: str) -> JsonObject:
    return claim(
        name=name,
        request=draw(SIZES),
        capacity=draw(SIZES | st.none()),
        phase=draw(st.sampled_from(["Bound", "Bound", "Bound", "Pending", "Lost"])),
        storage_class=draw(st.sampled_from(["fast", "fast", "slow", "", None])),
        mode=draw(st.sampled_from(["Filesystem", "Filesystem", "Block"])),
        annotations=draw(ANNOTATIONS),
        conditions=draw(CONDITIONS),
        allocated=draw(st.none() | st.just({"storage": "NodeResizeInProgress"})),
        deleting=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def steps_of(draw: st.DrawFn, name: str) -> JsonObject:
    return expansion(
        claim_name=name,
        claim_uid=draw(st.sampled_from([f"uid-{name}", f"uid-{name}", "before"])),
        from_size=draw(ODD_SIZES),
        size=draw(ODD_SIZES),
        requested_at=draw(ODD_TIMES),
        first_requested_at=draw(st.just("") | ODD_TIMES),
        filesystem_bytes=draw(st.just(0) | st.integers(1, 2**62)),
        count=draw(st.integers(0, 5)),
        attempt=draw(st.integers(0, 80)),
    )


@st.composite
def statuses(draw: st.DrawFn) -> JsonObject | None:
    if draw(st.booleans()):
        return None
    entries = [
        {
            "name": name,
            "usagePercent": draw(st.integers(0, 100)),
            "inodePercent": draw(st.integers(0, 100)),
            "reason": draw(st.sampled_from(Reason)).value,
        }
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]
    return {
        "lastPollTime": draw(ODD_TIMES),
        "observedGeneration": draw(st.sampled_from([0, 1])),
        "totalScaleEvents": draw(st.integers(0, 9)),
        "pvcs": entries,
    }


@st.composite
def requests(draw: st.DrawFn) -> JsonObject:
    present = draw(st.lists(st.sampled_from(NAMES), unique=True))
    managed = draw(st.lists(st.sampled_from(NAMES), unique=True))
    rivals = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=1))
    return autoscaler_request(
        parent=autoscaler(status=draw(statuses()), **draw(SPECS)),
        claims=[draw(claims_of(name)) for name in present],
        own=[draw(steps_of(name)) for name in managed],
        rivals=[expansion(of="all", claim_name=name) for name in rivals],
        classes=[storage_class(), storage_class(name="slow", expandable=False)],
    )


def ask(body: JsonObject, known: Usages | Unavailable | None) -> wire.Outcome:
    request = wire.parse(volume_autoscaler.SyncRequest, compact_json(body).encode())
    return volume_autoscaler.sync(request, now=NOW, usage=known)


def by_claim(outcome: wire.Outcome) -> dict[str, JsonObject]:
    children = outcome.response.body()["children"]
    return {
        child["spec"]["claimName"]: child["spec"]
        for child in children
        if child["kind"] == "VolumeExpansion" and "claimName" in child["spec"]
    }


def new_steps(body: JsonObject, outcome: wire.Outcome) -> list[tuple[JsonObject, JsonObject]]:
    """The claims that this answer asks to grow, each with the step."""
    before = {item["spec"]["claimName"]: item["spec"] for item in _own(body)}
    claims = {item["metadata"]["name"]: item for item in body["related"]["PersistentVolumeClaim.v1"].values()}
    fields = ("size", "requestedAt", "claimUID")
    return [
        (claims[name], step)
        for name, step in by_claim(outcome).items()
        if step.get("size") and any(step.get(key) != before.get(name, {}).get(key) for key in fields)
    ]


def _own(body: JsonObject) -> list[JsonObject]:
    group = next(group for group in body["children"] if group.startswith("VolumeExpansion"))
    return list(body["children"][group].values())


LAWS = settings(max_examples=100)


@LAWS
@given(requests(), USAGES)
def test_a_step_is_larger_than_all_there_is_and_never_above_the_limit(body: JsonObject, known: Any) -> None:
    for obj, step in new_steps(body, ask(body, known)):
        size = whole_bytes(step["size"])
        assert size > whole_bytes(obj["spec"]["resources"]["requests"]["storage"])
        assert size > whole_bytes(obj["status"]["capacity"]["storage"])
        assert size <= whole_bytes(body["parent"]["spec"]["maxSize"])
        assert whole_bytes(step["fromSize"]) == whole_bytes(obj["spec"]["resources"]["requests"]["storage"])


@LAWS
@given(requests(), USAGES)
def test_no_step_within_a_cooldown_nor_beyond_the_budget(body: JsonObject, known: Any) -> None:
    """But for times that lie further ahead than a cooldown: those are of a broken clock."""
    spec = read_policy(body["parent"]["spec"]).spec
    latest = NOW + max(timedelta(minutes=1), spec.cooldown_period)
    for obj, _ in new_steps(body, ask(body, known)):
        taken = {at for at in _growths(obj) if at <= latest}
        assert all(NOW - at >= spec.cooldown_period for at in taken)
        if spec.resize_budget:
            window = spec.resize_budget.window
            assert sum(NOW - at < window for at in taken) < spec.resize_budget.count


def _growths(obj: JsonObject) -> set[Any]:
    """The steps that the claim remembers and that its request shows, or did."""
    history = obj["metadata"]["annotations"].get(HISTORY, "[]")
    entries = [] if history in ODD_HISTORIES else json.loads(history)[-10:]
    request = whole_bytes(obj["spec"]["resources"]["requests"]["storage"])
    return {parse_time(entry["at"]) for entry in entries if entry["shown"] or whole_bytes(entry["to"]) <= request}


@LAWS
@given(requests(), USAGES)
def test_no_step_where_it_could_do_harm(body: JsonObject, known: Any) -> None:
    rivals = {
        item["spec"]["claimName"] for item in body["related"][f"VolumeExpansion.{expansion()['apiVersion']}"].values()
    }
    for obj, _ in new_steps(body, ask(body, known)):
        metadata, status = obj["metadata"], obj["status"]
        assert body["parent"]["spec"].get("mode") != "Observe"
        assert status["phase"] == "Bound"
        assert "deletionTimestamp" not in metadata
        assert metadata["annotations"].get(PAUSED, "") in ("", "false")
        assert metadata["name"] not in rivals
        assert "allocatedResourceStatuses" not in status
        assert obj["spec"].get("storageClassName") == "fast"
        request, capacity = obj["spec"]["resources"]["requests"]["storage"], status["capacity"]["storage"]
        assert whole_bytes(request) <= whole_bytes(capacity)


@LAWS
@given(requests(), USAGES)
def test_the_same_question_gets_the_same_bytes(body: JsonObject, known: Any) -> None:
    first, second = (wire.encode(ask(body, known).response) for _ in range(2))
    shuffled = body | {
        part: {group: dict(reversed(list(objects.items()))) for group, objects in body[part].items()}
        for part in ("children", "related")
    }

    assert first == second == wire.encode(ask(shuffled, known).response)


@LAWS
@given(requests(), USAGES)
def test_claims_are_never_children_and_expansions_are_never_dropped_for_a_wrong_spec(
    body: JsonObject, known: Any
) -> None:
    outcome = ask(body, known)
    children = outcome.response.body()["children"]

    assert {child["kind"] for child in children} <= {"VolumeExpansion", "Event"}
    if read_policy(body["parent"]["spec"]).complaint or body["parent"]["spec"].get("mode") == "Observe":
        before = {item["spec"]["claimName"]: item["spec"] for item in _own(body)}
        after = by_claim(outcome)
        assert before.keys() == after.keys()
        assert all(step == before[name] or step["reason"] == "Withdrawn" for name, step in after.items())


@LAWS
@given(requests(), USAGES)
def test_every_answer_comes_back_and_ready_is_false_whenever_expandable_is(body: JsonObject, known: Any) -> None:
    answer = ask(body, known).response.body()

    assert 1 <= answer["resyncAfterSeconds"] <= 60
    conditions = {item["type"]: item["status"] for item in answer["status"].get("conditions", [])}
    if conditions.get("Expandable") == "False":
        assert conditions["Ready"] == "False"


@LAWS
@given(requests(), USAGES)
def test_the_total_never_falls(body: JsonObject, known: Any) -> None:
    answer = ask(body, known).response.body()
    before = sum(item["spec"]["count"] for item in _own(body))

    if "conditions" in answer["status"]:  # it polled
        reported = (body["parent"].get("status") or {}).get("totalScaleEvents", 0)
        assert answer["status"]["totalScaleEvents"] >= max(before, reported)
        after = sum(child["spec"]["count"] for child in answer["children"] if child["kind"] == "VolumeExpansion")
        assert after >= before


SYNCS = st.lists(
    st.tuples(
        st.sampled_from(["", "uid-data-0", "uid-data-0-again"]),  # the UID of the claim, if there is one
        st.sets(st.sampled_from([expansions.name_for("db", "data-0"), expansions.retired_name("db")])),
        st.booleans(),
    ),
    max_size=12,
)
"""Each with the writes that are dropped, and whether what is seen lags behind."""


@LAWS
@given(SYNCS)
def test_the_steps_of_a_claim_count_once_whichever_writes_are_dropped(
    syncs: list[tuple[str, set[str], bool]],
) -> None:
    first = expansion(count=4)
    states = [{name_of(first): first}]
    for uid, dropped, is_late in [*syncs, *[("", set[str](), False)] * 3]:
        seen = states[-2 if is_late and len(states) > 1 else -1]
        answer = ask_autoscaler(
            own=[*seen.values()],
            claims=[claim(uid=uid)] if uid else [],
            usage=Usages({"data-0": filesystem(50)}),
        )
        assert status_of(answer)["totalScaleEvents"] == 4
        wanted = {name_of(child): child for child in children_of(answer, "VolumeExpansion")}
        states.append(_written(states[-1], seen, wanted, dropped=dropped))

    (record,) = states[-1].values()
    assert record["spec"]["count"] == 4
    assert "leaving" not in record["spec"]


def _written(
    present: Mapping[str, JsonObject], seen: Mapping[str, JsonObject], wanted: JsonObject, *, dropped: set[str]
) -> dict[str, JsonObject]:
    """As Metacontroller writes: an update must meet what was seen, a deletion the same UID."""
    after = dict(present)
    for name in (present.keys() | wanted.keys()) - dropped:
        old, known = present.get(name), seen.get(name)
        if name in wanted and old == known:
            uid = uid_of(old) if old else f"uid-{next(UIDS)}"
            applied = {"uid": uid, "namespace": "db", "annotations": {wire.LAST_APPLIED: compact_json(wanted[name])}}
            after[name] = wanted[name] | {"metadata": wanted[name]["metadata"] | applied}
        elif name not in wanted and old and known and uid_of(old) == uid_of(known):
            del after[name]
    return after


UIDS = itertools.count()
