"""What people read about a VolumeAutoscaler: its status, its conditions, and Events about what changed.

The status is a report, never a memory: Metacontroller may overwrite it with an older one, and people may wipe it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hooks import wire
from hooks.kube.conditions import Status, condition
from hooks.kube.events import event
from hooks.kube.metadata import JsonObject, name_of
from hooks.kube.times import format_time
from hooks.volumes import claims, policy
from hooks.volumes.checks import MOST_NAMES, Reason, Verdict, is_blocked, is_unknown, listed
from hooks.volumes.claims import Resize, bytes_of, time_of
from hooks.volumes.observed import LastSample, Observed, show
from hooks.volumes.policy import Policy
from hooks.volumes.usage import Filesystem

MOST_ENTRIES = 500
"""An entry takes some 350 bytes, and the whole list is written at every poll."""
READY, EXPANDABLE = "Ready", "Expandable"
COMPONENT = "volume-autoscaler"
NEWS = timedelta(hours=1)
"""The API server forgets Events after an hour: one about something older would come again and again."""

POLLING, NO_PVCS_FOUND, PROMETHEUS_UNAVAILABLE, CLAIMS_BLOCKED = (
    "Polling",
    "NoPVCsFound",
    "PrometheusUnavailable",
    "ClaimsBlocked",
)

SETTLED = frozenset(
    {
        Reason.BELOW_THRESHOLD,
        Reason.BUDGET_EXHAUSTED,
        Reason.COOLDOWN,
        Reason.EXPAND_FAILED,
        Reason.EXPAND_REQUESTED,
        Reason.MAX_SIZE_REACHED,
        Reason.SELECTED,
        Reason.WOULD_EXPAND,
    }
)
"""With these, the usage was that of the volume as it was then, and not of one that was being resized."""

WORTH_AN_EVENT = frozenset(
    {
        Reason.AMBIGUOUS,
        Reason.BUDGET_EXHAUSTED,
        Reason.EXPAND_FAILED,
        Reason.MAX_SIZE_REACHED,
        Reason.METRICS_LOST,
        Reason.RESIZE_FAILED,
        Reason.SHARED_FILESYSTEM,
        Reason.STORAGE_CLASS_NOT_EXPANDABLE,
        Reason.VOLUME_UNHEALTHY,
    }
)
EXPANDED = "Expanded"


class Judged(NamedTuple):
    observed: Observed
    verdict: Verdict

    @property
    def name(self) -> str:
        return self.observed.claim.name

    @property
    def is_blocked(self) -> bool:
        return is_blocked(self.observed, self.verdict)

    @property
    def is_unknown(self) -> bool:
        return is_unknown(self.observed, self.verdict)

    @property
    def last_resize(self) -> Resize | None:
        """The last step that the claim shows."""
        request = self.observed.request_bytes
        shown = (r for r in reversed(self.observed.claim.history) if (bytes_of(r.to) or 2**64) <= request)
        return next(shown, None)


@dataclass(frozen=True)
class Previous:
    """What an earlier sync reported, as far as it can be read."""

    status: JsonObject
    entries: Mapping[str, JsonObject]

    @classmethod
    def of(cls, status: Any) -> "Previous":
        try:
            usable = wire.without_nulls(status) if isinstance(status, dict) else {}
        except TypeError:
            usable = {}
        listed = usable.get("pvcs")
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        return cls(usable, {str(entry.get("name")): entry for entry in entries})

    @property
    def last_poll(self) -> datetime | None:
        text = self.status.get("lastPollTime")
        return time_of(text) if isinstance(text, str) else None

    @property
    def total(self) -> int:
        return _int(self.status.get("totalScaleEvents")) or 0

    @property
    def conditions(self) -> Sequence[JsonObject]:
        listed = self.status.get("conditions")
        return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []

    @property
    def ready_reason(self) -> str:
        return next((str(item.get("reason")) for item in self.conditions if item.get("type") == READY), "")

    def reason(self, claim: str) -> str:
        return str(self.entries.get(claim, {}).get("reason", ""))

    def knows(self, claim: str) -> bool:
        """Whether it would have listed the claim, had it seen it."""
        return claim in self.entries or len(self.entries) < MOST_ENTRIES

    def last_sample(self, claim: str, uid: str) -> LastSample | None:
        """When it was taken: the entry says so if metrics were lost before, else it was at the last poll."""
        entry = self.entries.get(claim, {})
        if entry.get("uid") != uid:
            return None  # of another claim that had this name
        percent, at = _int(entry.get("usagePercent")), entry.get("lastSampleTime")
        if at is None and entry.get("reason") in SETTLED:
            at = self.status.get("lastPollTime")
        time = time_of(at) if isinstance(at, str) else None
        return None if percent is None else LastSample(percent, _int(entry.get("inodePercent")), time)


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# The status


def status(of_policy: Policy, judged: Sequence[Judged], previous: Previous, *, total: int, now: datetime) -> JsonObject:
    worst = sorted(judged, key=_severity)
    percents = [item.observed.percent for item in judged if item.observed.percent is not None]
    return {
        "lastPollTime": format_time(now),
        "conditions": conditions(of_policy, worst, previous, now),
        "claims": len(judged),
        "fullestPercent": max(percents, default=None),
        "claimsByReason": dict(Counter(str(item.verdict.reason) for item in judged)) or None,
        "totalScaleEvents": max(total, previous.total),
        "pvcs": [entry(item, previous) for item in worst[:MOST_ENTRIES]],
    }


def _severity(item: Judged) -> tuple[bool, bool, int, str]:
    return not item.is_blocked, not item.is_unknown, -(item.observed.percent or 0), item.name


def entry(item: Judged, previous: Previous) -> JsonObject:
    observed, verdict, last = item.observed, item.verdict, item.last_resize
    pending = observed.pending
    return {
        "name": item.name,
        "uid": observed.claim.uid or None,
        "currentSize": show(observed.capacity_bytes) if observed.capacity_bytes else None,
        **_usage(observed, previous),
        "lastScaleTime": last.at if last and time_of(last.at) else None,
        "lastScaleSize": last.to if last else None,
        "desiredSize": show(verdict.size_bytes) if verdict.size_bytes else None,
        "requestedSize": pending.size if pending and not verdict.is_step else None,
        "reason": str(verdict.reason),
        "message": verdict.message,
    }


def _usage(observed: Observed, previous: Previous) -> JsonObject:
    """What is known now; else what was known last, and since when."""
    found = observed.filesystem
    if isinstance(found, Filesystem):
        return {
            "usageBytes": found.used_bytes,
            "usagePercent": found.percent,
            "inodePercent": found.inode_percent,
        }
    if observed.last_sample is None:
        return {}
    old = previous.entries.get(observed.claim.name, {})
    kept = {key: _int(old.get(key)) for key in ("usageBytes", "usagePercent", "inodePercent")}
    return kept | {"lastSampleTime": format_time(observed.last_sample.at) if observed.last_sample.at else None}


# Conditions


def conditions(of_policy: Policy, worst: Sequence[Judged], previous: Previous, now: datetime) -> Sequence[JsonObject]:
    blocked = [item for item in worst if item.is_blocked]
    why = readiness(of_policy, worst, blocked)
    is_ready: Status = "True" if why[0] == POLLING else "False"
    can_grow, *why_grow = growth(worst, blocked, why)
    return [
        condition(EXPANDABLE, can_grow, *why_grow, now=now, observed=previous.conditions),
        condition(READY, is_ready, *why, now=now, observed=previous.conditions),
    ]


def growth(worst: Sequence[Judged], blocked: Sequence[Judged], why: tuple[str, str]) -> tuple[Status, str, str]:
    if blocked:
        return "False", CLAIMS_BLOCKED, reasons(blocked)
    if not worst:
        return "Unknown", *why
    if any(item.is_unknown for item in worst):
        return "Unknown", "UsageUnknown", "how full some of the claims are is not known"
    return "True", "NothingBlocked", "no claim is full that cannot grow"


def ready(reported: JsonObject) -> JsonObject:
    """The condition Ready of a status."""
    found: JsonObject = next(item for item in reported["conditions"] if item["type"] == READY)
    return found


def readiness(of_policy: Policy, worst: Sequence[Judged], blocked: Sequence[Judged]) -> tuple[str, str]:
    """The first that holds. Ready is False whenever a claim is full and cannot grow."""
    contested = [item for item in worst if item.verdict.reason is Reason.AMBIGUOUS]
    unknown = [item for item in worst if item.is_unknown]
    if of_policy.complaint:
        return wire.INVALID_SPEC, of_policy.complaint
    if not worst:
        return NO_PVCS_FOUND, _nothing_found(of_policy)
    if contested:
        return Reason.AMBIGUOUS, reasons(contested)
    if blocked:
        return CLAIMS_BLOCKED, reasons(blocked)
    if unknown:
        return PROMETHEUS_UNAVAILABLE, reasons(unknown)
    everything = " (the selector is empty: all of the namespace)" if _is_everything(of_policy) else ""
    return POLLING, f"polling {len(worst)} {'claim' if len(worst) == 1 else 'claims'}{everything}"


def _nothing_found(of_policy: Policy) -> str:
    if of_policy.target and of_policy.target.name:
        return f"there is no claim {of_policy.target.name}"
    return "the selector selects no claim"


def _is_everything(of_policy: Policy) -> bool:
    return of_policy.target is not None and of_policy.target.is_everything


def reasons(items: Sequence[Judged]) -> str:
    """Who and why: a sentence that several claims share is said once."""
    by_sentence: dict[tuple[Reason, str], list[str]] = {}
    for item in items:
        by_sentence.setdefault((item.verdict.reason, item.verdict.message), []).append(item.name)
    parts = [f"{listed(names)}: {reason}: {sentence}" for (reason, sentence), names in by_sentence.items()]
    hidden = len(parts) - MOST_NAMES
    return "; ".join(parts[:MOST_NAMES]) + (f"; and {hidden} more" if hidden > 0 else "")


# Events


def events(
    autoscaler: JsonObject, judged: Sequence[Judged], previous: Previous, reported: JsonObject, now: datetime
) -> Iterator[JsonObject]:
    """One per change, not per poll: on the claim it is about, and all of a kind together on the VolumeAutoscaler."""
    news: dict[str, list[tuple[Judged, str, str]]] = {}
    for item in judged:
        for reason, message, identity in _news(item, previous, now):
            news.setdefault(reason, []).append((item, message, identity))
            yield _event(_claim_ref(item, autoscaler), reason, message, now, [name_of(autoscaler), identity])
    for reason, about in sorted(news.items()):
        whom = [f"{item.name} {identity}" for item, _, identity in about]
        message = "; ".join(f"{item.name}: {message}" for item, message, _ in about[:MOST_NAMES])
        hidden = f"; and {len(about) - MOST_NAMES} more claims" if len(about) > MOST_NAMES else ""
        yield _event(autoscaler, reason, message + hidden, now, whom)
    whole = ready(reported)
    if whole["reason"] in (wire.INVALID_SPEC, PROMETHEUS_UNAVAILABLE) and whole["reason"] != previous.ready_reason:
        yield _event(autoscaler, whole["reason"], whole["message"], now, [whole["message"]])


def _news(item: Judged, previous: Previous, now: datetime) -> Iterator[tuple[str, str, str]]:
    last = item.last_resize
    at = time_of(last.at) if last else None
    if last and at and at != time_of(_scaled_at(previous, item.name)) and now - at < NEWS:
        yield EXPANDED, f"{last.from_} -> {last.to}", last.at
    verdict, observed = item.verdict, item.observed
    is_idle = verdict.reason is Reason.METRICS_LOST and not item.is_unknown
    is_change = verdict.reason != previous.reason(item.name) and previous.knows(item.name)
    if verdict.reason in WORTH_AN_EVENT and is_change and not is_idle:
        since = observed.failing_since
        yield verdict.reason, verdict.message, f"{observed.base_bytes} {format_time(since) if since else ''}"


def _scaled_at(previous: Previous, claim: str) -> str:
    return str(previous.entries.get(claim, {}).get("lastScaleTime", ""))


def _claim_ref(item: Judged, autoscaler: JsonObject) -> JsonObject:
    namespace = autoscaler["metadata"]["namespace"]
    metadata = {"name": item.name, "namespace": namespace, "uid": item.observed.claim.uid}
    return {"apiVersion": claims.API_VERSION, "kind": claims.KIND, "metadata": metadata}


def autoscaler_ref(name: str, namespace: str, uid: str) -> JsonObject:
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    return {"apiVersion": policy.API_VERSION, "kind": policy.KIND, "metadata": metadata}


def _event(involved: JsonObject, reason: str, message: str, now: datetime, identity: Sequence[str]) -> JsonObject:
    return event(
        involved=involved,
        reason=str(reason),
        message=message,
        type_="Normal" if reason == EXPANDED else "Warning",
        component=COMPONENT,
        now=now,
        identity=[str(part) for part in identity],
    )
