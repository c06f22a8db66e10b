"""Why a claim grows or does not: one row per case, with the whole reason, message and size."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from hooks.kube.metadata import JsonObject, compact_json
from hooks.kube.times import format_time
from hooks.volumes import usage
from hooks.volumes.checks import Reason
from hooks.volumes.claims import HISTORY, PAUSED, REQUESTED_AT, REQUESTED_SIZE
from hooks.volumes.usage import Fault, Unavailable, Usages
from tests.volumes import (
    NOW,
    ask_autoscaler,
    autoscaler,
    claim,
    expansion,
    filesystem,
    said_of,
    size_of,
    storage_class,
    usages,
)


def ago(**parts: float) -> str:
    return format_time(NOW - timedelta(**parts))


def history(*steps: str) -> str:
    return compact_json([{"at": at, "from": "1Gi", "to": "2Gi"} for at in steps])


def taken(at: str, step: str, *, to: str = "12Gi", shown: bool = False) -> str:
    return compact_json([{"at": at, "step": step, "from": "10Gi", "to": to, "shown": shown}])


def condition(type_: str, message: str = "", status: str = "True", since: str = "") -> JsonObject:
    return {"type": type_, "status": status, "message": message} | ({"lastTransitionTime": since} if since else {})


def sees(percent: float = 90, **of_filesystem: Any) -> Usages:
    return usages({"data-0": filesystem(percent, **of_filesystem), "other": filesystem(5)})


@dataclass(frozen=True)
class Case:
    reason: str
    message: str
    size: str | None = None  # of a step that is decided now
    claim: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    step: dict[str, Any] | None = field(default_factory=dict)  # None: there is no expansion yet
    usage: Usages | Unavailable = field(default_factory=sees)
    more: dict[str, Any] = field(default_factory=dict)


LATE = {"from_size": "10Gi", "size": "12Gi", "count": 1, "attempt": 1}
FULL = "90% used, threshold 80%"
NOT_ARRIVED = (
    "it did not arrive: a quota or another admission check refused it (the claim's Events tell), or no sync came"
)
NO_EFFECT = "the claim took it up, but its request did not change: the admission policy is missing or was not asked"

CASES = {
    "case 1: over the threshold": Case("ExpandRequested", f"{FULL}: 10Gi -> 12Gi", "12Gi"),
    "case 11: 79.5 % of 80": Case("BelowThreshold", "79% used, threshold 80%", usage=sees(79.5)),
    "case 11: 80.0 % of 80": Case("ExpandRequested", "80% used, threshold 80%: 10Gi -> 12Gi", "12Gi", usage=sees(80)),
    "case 13: used beyond capacity": Case(
        "ExpandRequested", "100% used, threshold 80%: 10Gi -> 12Gi", "12Gi", usage=sees(130)
    ),
    "case 14: 98.9 % of 99": Case(
        "BelowThreshold", "98% used, threshold 99%", spec={"thresholdPercent": 99}, usage=sees(98.9)
    ),
    "case 14: 1 % of 1": Case(
        "ExpandRequested", "1% used, threshold 1%: 10Gi -> 12Gi", "12Gi", spec={"thresholdPercent": 1}, usage=sees(1)
    ),
    # The metrics
    "case 19: no series for this claim": Case(
        "NoMetrics",
        "no metrics for this claim: kubelets report only volumes that a pod uses",
        usage=usages({"other": filesystem(5)}),
    ),
    "no series for any claim": Case(
        "NoMetricsForAnyClaim",
        "the backend has no volume metrics for any claim of the namespace: does it scrape the kubelets?",
        usage=usages({}),
    ),
    "case 20: half of the series": Case(
        "NoMetrics",
        "no metrics for this claim: kubelets report only volumes that a pod uses",
        usage=usages({"data-0": Fault.NO_METRICS}),
    ),
    "case 22: capacity 0": Case(
        "InvalidMetrics",
        "the metrics hold numbers that no file system can have",
        usage=usages({"data-0": Fault.INVALID_METRICS}),
    ),
    "case 23: the backend fails": Case(
        "PrometheusError",
        "Prometheus answered HTTP 503",
        usage=Unavailable(usage.FAILED, "Prometheus answered HTTP 503"),
    ),
    "the backend cannot be reached": Case(
        "PrometheusUnreachable",
        "refused the connection",
        usage=Unavailable(usage.UNREACHABLE, "refused the connection"),
    ),
    "case 59: the URL is not allowed": Case(
        "PrometheusNotAllowed", "not allowed", usage=Unavailable(usage.NOT_ALLOWED, "not allowed")
    ),
    "case 25: samples too old": Case(
        "OldMetrics",
        "the backend's samples are more than five minutes old",
        usage=usages({"data-0": Fault.OLD_METRICS}),
    ),
    "several clusters": Case(
        "SeveralClusters",
        "several clusters report a claim of this name: set METAHOOKS_PROMETHEUS_MATCHERS",
        usage=usages({"data-0": Fault.SEVERAL_CLUSTERS}),
    ),
    "case 26: the file system lags behind the volume": Case(
        "StaleMetrics",
        "the file system has 10Gi, the volume 20Gi: it was not resized yet, or the metrics lag behind",
        claim={"request": "20Gi", "capacity": "20Gi"},
    ),
    "case 28: the overhead of a file system is normal": Case(
        "ExpandRequested",
        f"{FULL}: 28160Mi -> 33Gi",
        "33Gi",
        claim={"request": "27.5Gi", "capacity": "27.5Gi"},
        usage=sees(90, size="27Gi"),
    ),
    "a tenth less than the volume is overhead": Case(
        "ExpandRequested", f"{FULL}: 10Gi -> 12Gi", "12Gi", usage=sees(90, size="9Gi")
    ),
    "more than a tenth less is not": Case(
        "StaleMetrics",
        "the file system has 9215Mi, the volume 10Gi: it was not resized yet, or the metrics lag behind",
        usage=sees(90, size="9215Mi"),
    ),
    "a fifth of a small volume may be overhead": Case(
        "ExpandRequested",
        f"{FULL}: 100Mi -> 2Gi",
        "2Gi",
        claim={"request": "100Mi", "capacity": "100Mi"},
        usage=sees(90, size="80Mi"),
    ),
    "a shared file system": Case(
        "SharedFilesystem",
        "the file system has 500Gi, the volume 10Gi: it is shared, so to grow the claim would free nothing",
        usage=sees(90, size="500Gi"),
    ),
    "somewhat larger than the volume is not shared": Case(
        "ExpandRequested", f"{FULL}: 10Gi -> 12Gi", "12Gi", usage=sees(90, size="16Gi")
    ),
    # Inodes and health
    "case 31: out of inodes": Case(
        "ExpandRequested",
        "10% used, threshold 80%; 95% of the inodes, threshold 90%: 10Gi -> 12Gi",
        "12Gi",
        spec={"inodeThresholdPercent": 90},
        usage=sees(10, inodes=(95, 100)),
    ),
    "inodes at the threshold": Case(
        "ExpandRequested",
        "10% used, threshold 80%; 90% of the inodes, threshold 90%: 10Gi -> 12Gi",
        "12Gi",
        spec={"inodeThresholdPercent": 90},
        usage=sees(10, inodes=(90, 100)),
    ),
    "inodes just below": Case(
        "BelowThreshold",
        "10% used, threshold 80%; 89% of the inodes, threshold 90%",
        spec={"inodeThresholdPercent": 90},
        usage=sees(10, inodes=(899, 1000)),
    ),
    "case 32: inodes do not count at 0": Case(
        "BelowThreshold", "10% used, threshold 80%", usage=sees(10, inodes=(100, 100))
    ),
    "missing inodes never block bytes": Case(
        "ExpandRequested", f"{FULL}: 10Gi -> 12Gi", "12Gi", spec={"inodeThresholdPercent": 90}
    ),
    "case 34: abnormal": Case(
        "VolumeUnhealthy",
        "kubelet reports the volume as abnormal: look at its Events first",
        usage=sees(90, abnormal=True),
    ),
    # The claim
    "case 35: Resizing": Case(
        "ResizeInProgress",
        "10Gi -> 10Gi: the volume is being resized",
        claim={"conditions": [condition("Resizing")]},
    ),
    "case 35: FileSystemResizePending": Case(
        "ResizeInProgress",
        "10Gi -> 12Gi: the volume waits for a pod that mounts it since 2026-11-16T02:50:00Z",
        claim={"request": "12Gi", "conditions": [condition("FileSystemResizePending", since=ago(minutes=10))]},
    ),
    "case 35: ModifyingVolume": Case(
        "ResizeInProgress",
        "10Gi -> 10Gi: the volume is being modified",
        claim={"conditions": [condition("ModifyingVolume")]},
    ),
    "a condition that is over": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        claim={"conditions": [condition("Resizing", status="False"), condition("ControllerResizeError", "old")]},
    ),
    "allocatedResourceStatuses": Case(
        "ResizeInProgress",
        "10Gi -> 10Gi: the volume is being resized",
        claim={"allocated": {"storage": "NodeResizeInProgress"}},
    ),
    "case 37: a person's larger request is never lowered": Case(
        "ResizeInProgress", "10Gi -> 50Gi: the volume is being resized", claim={"request": "50Gi"}
    ),
    "case 38: the driver gave more than was asked for": Case(
        "ExpandRequested", f"{FULL}: 1Gi -> 12Gi", "12Gi", claim={"request": "1Gi"}
    ),
    "case 40: Lost": Case("NotBound", "the claim is Lost: it has no volume yet", claim={"phase": "Lost"}),
    "case 40: Pending": Case(
        "NotBound", "the claim is Pending: it has no volume yet", claim={"phase": "Pending", "capacity": None}
    ),
    "case 40: being deleted": Case("Deleting", "the claim is being deleted", claim={"deleting": True}),
    "case 41: a block device": Case(
        "BlockVolume",
        "volumeMode Block: there is no file system that could fill",
        claim={"mode": "Block"},
        usage=usages({}),
    ),
    "paused": Case(
        "Paused",
        "somebody paused the claim; remove the annotation volume-autoscaler.io/paused to go on",
        claim={"annotations": {PAUSED: "true"}},
    ),
    "paused with any text but false": Case(
        "Paused",
        "somebody paused the claim; remove the annotation volume-autoscaler.io/paused to go on",
        claim={"annotations": {PAUSED: "until Monday"}},
    ),
    "not paused": Case("ExpandRequested", f"{FULL}: 10Gi -> 12Gi", "12Gi", claim={"annotations": {PAUSED: "false"}}),
    "no capacity though bound": Case(
        "InvalidClaim", "the claim has no readable request or capacity", claim={"capacity": None}
    ),
    "case 43: infeasible": Case(
        "ResizeFailed",
        "10Gi -> 20Gi: out of quota in zone b",
        claim={
            "request": "20Gi",
            "allocated": {"storage": "ControllerResizeInfeasible"},
            "conditions": [condition("ControllerResizeError", "out of quota in zone b")],
        },
    ),
    "infeasible without a word of the driver": Case(
        "ResizeFailed",
        "10Gi -> 20Gi: NodeResizeInfeasible",
        claim={"request": "20Gi", "allocated": {"storage": "NodeResizeInfeasible"}},
    ),
    "two autoscalers": Case(
        "Ambiguous",
        "also selected by all: none of them grows it",
        more={"rivals": [expansion(of="all", owner_uid="uid-all")]},
    ),
    "an expansion of nobody": Case(
        "Ambiguous",
        "also selected by VolumeExpansion forged-data-0-67b3696b: none of them grows it",
        more={"rivals": [expansion(of="forged", owned=False)]},
    ),
    # The StorageClass
    "no StorageClass": Case(
        "NoStorageClass",
        "the claim has no StorageClass: Kubernetes grows no such claim",
        claim={"storage_class": None},
    ),
    "an empty StorageClass": Case(
        "NoStorageClass",
        "the claim has no StorageClass: Kubernetes grows no such claim",
        claim={"storage_class": ""},
    ),
    "a StorageClass that is gone": Case(
        "StorageClassNotFound", "there is no StorageClass slow", claim={"storage_class": "slow"}
    ),
    "not expandable": Case(
        "StorageClassNotExpandable",
        "StorageClass fast does not say allowVolumeExpansion: true",
        more={"classes": [storage_class(expandable=False)]},
    ),
    "expandable not said": Case(
        "StorageClassNotExpandable",
        "StorageClass fast does not say allowVolumeExpansion: true",
        more={"classes": [storage_class(expandable=None)]},
    ),
    # Limits
    "case 44: at the limit": Case(
        "MaxSizeReached", f"{FULL}, and 10Gi leaves no room below maxSize 10Gi", spec={"maxSize": "10Gi"}
    ),
    "case 7: less than a GiB below the limit": Case(
        "MaxSizeReached",
        f"{FULL}, and 10137Mi leaves no room below maxSize 10Gi",
        claim={"request": "10137Mi", "capacity": "10137Mi"},
        spec={"maxSize": "10Gi"},
    ),
    "clamped": Case("ExpandRequested", f"{FULL}: 10Gi -> 11Gi", "11Gi", spec={"maxSize": "11Gi"}),
    # Cooldown
    "case 47: one second before the cooldown ends": Case(
        "Cooldown",
        f"{FULL}; the next step is possible at 2026-11-16T03:00:01Z",
        claim={"annotations": {REQUESTED_AT: ago(minutes=4, seconds=59), REQUESTED_SIZE: "10Gi"}},
    ),
    "case 47: the cooldown ends": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        claim={"annotations": {REQUESTED_AT: ago(minutes=5), REQUESTED_SIZE: "10Gi"}},
    ),
    "case 47: an hour in the future is a broken clock": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        claim={"annotations": {REQUESTED_AT: ago(hours=-1), REQUESTED_SIZE: "10Gi"}},
    ),
    "a few seconds in the future is another clock": Case(
        "Cooldown",
        f"{FULL}; the next step is possible at 2026-11-16T03:05:03Z",
        claim={"annotations": {REQUESTED_AT: ago(seconds=-3), REQUESTED_SIZE: "10Gi"}},
    ),
    "the cooldown is remembered by the expansion if somebody wiped the claim's annotations": Case(
        "Cooldown",
        f"{FULL}; the next step is possible at 2026-11-16T03:04:00Z",
        step={"from_size": "8Gi", "size": "10Gi", "requested_at": ago(minutes=1), "count": 1, "attempt": 1},
    ),
    "and by the history": Case(
        "Cooldown",
        f"{FULL}; the next step is possible at 2026-11-16T03:04:00Z",
        claim={"annotations": {HISTORY: history(ago(minutes=1))}},
    ),
    "no cooldown at all": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        spec={"cooldownPeriod": "0s"},
        claim={"annotations": {REQUESTED_AT: ago(seconds=1), REQUESTED_SIZE: "10Gi"}},
    ),
    "unreadable annotations are no annotations": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        claim={"annotations": {REQUESTED_AT: "yesterday", REQUESTED_SIZE: "much", HISTORY: "[{]"}},
    ),
    # Budget
    "case 53: the budget is spent": Case(
        "BudgetExhausted",
        f"{FULL}; 2 of 2 resizes are used, the next is possible at 2026-11-16T04:01:00Z",
        spec={"resizeBudget": {"count": 2, "window": "24h"}},
        claim={"annotations": {HISTORY: history(ago(hours=30), ago(hours=23), ago(hours=2))}},
    ),
    "one is left": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        spec={"resizeBudget": {"count": 2, "window": "24h"}},
        claim={"annotations": {HISTORY: history(ago(hours=24, minutes=1), ago(hours=2))}},
    ),
    # Steps under way, refused, and asked for again
    "on its way": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi, requested at 2026-11-16T02:59:46Z",
        step=LATE | {"requested_at": ago(seconds=14)},
    ),
    "it did not arrive": Case(
        "ExpandFailed",
        f"10Gi -> 12Gi, requested at 2026-11-16T02:59:45Z: {NOT_ARRIVED}",
        step=LATE | {"requested_at": ago(seconds=15)},
    ),
    "it arrived without effect": Case(
        "ExpandFailed",
        f"10Gi -> 12Gi, requested at 2026-11-16T02:59:30Z: {NO_EFFECT}",
        step=LATE | {"requested_at": ago(seconds=30)},
        claim={"annotations": {REQUESTED_AT: ago(seconds=29), HISTORY: taken(ago(seconds=29), ago(seconds=30))}},
    ),
    "asked for again after a poll": Case(
        "ExpandFailed",
        f"{FULL}: 10Gi -> 12Gi, asked for again since 2026-11-16T02:59:00Z: {NOT_ARRIVED}",
        "12Gi",
        step=LATE | {"requested_at": ago(minutes=1)},
    ),
    "asked for again as it is needed now": Case(
        "ExpandFailed",
        f"{FULL}: 11Gi -> 14Gi, asked for again since 2026-11-16T02:00:00Z: {NO_EFFECT}",
        "14Gi",
        claim={
            "request": "11Gi",
            "capacity": "11Gi",
            "annotations": {HISTORY: taken(ago(minutes=31), ago(minutes=31))},
        },
        step=LATE | {"attempt": 7, "requested_at": ago(minutes=31), "first_requested_at": ago(hours=1)},
        usage=sees(90, size="11Gi"),
    ),
    "at once if maxSize was lowered meanwhile": Case(
        "ExpandFailed",
        f"{FULL}: 10Gi -> 11Gi, asked for again since 2026-11-16T02:59:59Z: {NOT_ARRIVED}",
        "11Gi",
        spec={"maxSize": "11Gi"},
        step=LATE | {"requested_at": ago(seconds=1)},
    ),
    "the next attempt is not on its way to a better end": Case(
        "ExpandFailed",
        f"10Gi -> 12Gi, requested at 2026-11-16T02:59:59Z: {NOT_ARRIVED}",
        step=LATE | {"requested_at": ago(seconds=1), "first_requested_at": ago(hours=1)},
    ),
    "a person lowered it": Case(
        "Cooldown",
        f"{FULL}; the next step is possible at 2026-11-16T03:04:00Z",
        step=LATE | {"requested_at": ago(minutes=1)},
        claim={"annotations": {HISTORY: taken(ago(minutes=1), ago(minutes=1), shown=True)}},
    ),
    "a person lowered it, a cooldown ago": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        step=LATE | {"requested_at": ago(minutes=5)},
        claim={"annotations": {HISTORY: taken(ago(minutes=5), ago(minutes=5), shown=True)}},
    ),
    "the cooldown runs from when the claim took the step up": Case(
        "Cooldown",
        f"{FULL}; the next step is possible at 2026-11-16T03:04:00Z",
        step={"from_size": "8Gi", "size": "10Gi", "requested_at": ago(minutes=20), "count": 1, "attempt": 1},
        claim={"annotations": {HISTORY: taken(ago(minutes=1), ago(minutes=20), to="10Gi")}},
    ),
    "a step without effect is no growth to wait for": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        spec={"resizeBudget": {"count": 1, "window": "24h"}},
        claim={"annotations": {REQUESTED_AT: ago(minutes=1), HISTORY: taken(ago(minutes=1), "gone")}},
    ),
    "restored with old annotations": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        claim={"annotations": {REQUESTED_AT: ago(days=9), REQUESTED_SIZE: "40Gi", HISTORY: history(ago(days=9))}},
    ),
    "metrics from before a small step": Case(
        "StaleMetrics",
        "the file system has 10Gi, the volume 10752Mi: it was not resized yet, or the metrics lag behind",
        claim={"request": "10.5Gi", "capacity": "10.5Gi"},
        step={"size": "10.5Gi", "requested_at": ago(hours=1), "filesystem_bytes": 10 * 2**30},
    ),
    "a new claim under an old autoscaler": Case(
        "NewClaim",
        "the claim is younger than five minutes: the metrics may be of one that had its name before",
        claim={"created": ago(minutes=4, seconds=59)},
    ),
    "a claim of five minutes": Case(
        "ExpandRequested", f"{FULL}: 10Gi -> 12Gi", "12Gi", claim={"created": ago(minutes=5)}
    ),
    # Before the first step, and modes
    "its StorageClass as it was named long ago": Case(
        "ExpandRequested",
        f"{FULL}: 10Gi -> 12Gi",
        "12Gi",
        claim={"storage_class": None, "annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}},
    ),
    "there is no expansion yet": Case("Selected", f"{FULL}: 10Gi -> 12Gi", step=None),
    "the expansion is for a claim that is gone": Case(
        "Selected", f"{FULL}: 10Gi -> 12Gi", step={"claim_uid": "another", "count": 3}
    ),
    "case 65: mode Observe": Case(
        "WouldExpand", f"{FULL}: 10Gi -> 12Gi (mode Observe)", spec={"mode": "Observe"}, step=None
    ),
    "an autoscaler that cannot be used": Case("InvalidSpec", "maxSize: Field required", spec={"maxSize": None}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_decides(case: Case) -> None:
    outcome = ask_autoscaler(
        parent=autoscaler(**case.spec),
        claims=[claim(**case.claim)],
        own=[] if case.step is None else [expansion(**case.step)],
        usage=case.usage,
        **case.more,
    )

    assert said_of(outcome) == (case.reason, case.message)
    before = (case.step or {}).get("size") if (case.step or {}).get("claim_uid") is None else None
    assert size_of(outcome) == (case.size or before)


def test_every_reason_has_a_case() -> None:
    """Metrics that were lost need an earlier poll: tests/test_volume_autoscaler.py."""
    assert {case.reason for case in CASES.values()} | {Reason.METRICS_LOST} == set(Reason)
