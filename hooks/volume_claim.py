"""The claim's side of the volume autoscaler: it takes up the step that the claim's VolumeExpansion asks for.

The step is written as annotations; a policy in the API server turns the requested size into the claim's request. The
annotations are also the memory of the volume autoscaler, so they stay when everything else is gone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from hooks import wire
from hooks.kube.metadata import group_key, name_of, namespace_of
from hooks.kube.times import format_time
from hooks.volumes import claims, expansions
from hooks.volumes.checks import listed
from hooks.volumes.claims import CONFLICT, HISTORY, REQUESTED_AT, REQUESTED_BY, REQUESTED_SIZE, Claim, Resize
from hooks.volumes.expansions import Expansion

RESYNC_SECONDS = 5
"""Metacontroller drops a write that meets a newer claim and does not try again: look once more after every change."""
LONGEST_WAIT = timedelta(hours=1)
"""How old a decision may be; a VolumeAutoscaler that still wants it asks again every half hour."""


class Reason(StrEnum):
    REQUESTED = "Requested"  # the claim gets the annotations of a new step
    DELETING = "Deleting"  # the claim is being deleted
    CONFLICT = "Conflict"  # several VolumeAutoscalers want the claim
    CONFLICT_OVER = "ConflictOver"
    NOT_MANAGED = "NotManaged"  # no VolumeAutoscaler selects the claim
    NOT_OWNED = "NotOwned"  # no VolumeAutoscaler controls the expansion: anybody may have written it
    OTHER_CLAIM = "OtherClaim"  # the expansion is for a claim of this name that is gone
    NOTHING_REQUESTED = "NothingRequested"
    INVALID_EXPANSION = "InvalidExpansion"  # its sizes or its time cannot be read
    ALREADY_REQUESTED = "AlreadyRequested"
    SHOWN = "Shown"  # the request shows the last step: who lowers it from now on means to
    EXPIRED = "Expired"  # decided too long ago; the VolumeAutoscaler asks again if it is still needed
    NOT_BOUND = "NotBound"
    PAUSED = "Paused"
    LARGE_ENOUGH = "LargeEnough"  # the request is at or above the size that is asked for
    OUTGROWN = "Outgrown"  # somebody changed the request since the step was decided


class Related(wire.Model):
    expansions: dict[str, Expansion] | None = msgspec.field(
        default=None, name=group_key(expansions.API_VERSION, expansions.KIND)
    )


class SyncRequest(wire.DecoratorRequest, kw_only=True):
    object: Claim
    related: Related = msgspec.field(default_factory=Related)


@dataclass(frozen=True)
class Observed:
    claim: Claim
    expansions: Sequence[Expansion]  # those that are about a claim of this name
    now: datetime

    @property
    def only(self) -> Expansion:
        return self.expansions[0]


class Verdict(NamedTuple):
    reason: Reason
    message: str
    annotations: Mapping[str, str | None] = {}


Check = Callable[[Observed], Verdict | None]


def customize(request: wire.CustomizeRequest) -> wire.Outcome:
    """The expansions that are about it. Claims have no generation: the answer may depend on the name only."""
    rule = wire.RelatedRule(
        api_version=expansions.API_VERSION,
        resource=expansions.RESOURCE,
        namespace=namespace_of(request.parent),
        label_selector={"matchLabels": {expansions.CLAIM_LABEL: expansions.claim_label(name_of(request.parent))}},
    )
    return wire.Outcome(response=wire.CustomizeResponse([rule]))


def sync(request: SyncRequest, *, now: datetime) -> wire.Outcome:
    observed = observe(request, now)
    return report(observed, decide(observed))


def observe(request: SyncRequest, now: datetime) -> Observed:
    if request.related.expansions is None:
        raise wire.RetryLater("the request has no related VolumeExpansions, not even an empty map of them", seconds=60)
    claim = request.object
    about = [
        expansion
        for _, expansion in sorted(request.related.expansions.items())
        if expansion.spec.claim_name == claim.name and not expansion.is_deleting
    ]
    return Observed(claim, about, now)


def deleting(observed: Observed) -> Verdict | None:
    return Verdict(Reason.DELETING, "the claim is being deleted") if observed.claim.is_deleting else None


def shown(observed: Observed) -> Verdict | None:
    """A step that never shows was not carried out: it may be asked for again, and is no growth to wait for."""
    history = observed.claim.history
    if not history or history[-1].shown or not observed.claim.has_effect(history[-1]):
        return None
    marked = [*history[:-1], msgspec.structs.replace(history[-1], shown=True)]
    return Verdict(Reason.SHOWN, f"the request is at {history[-1].to}", {HISTORY: claims.format_history(marked)})


def conflict(observed: Observed) -> Verdict | None:
    if len(observed.expansions) < 2:
        return None
    rivals = listed(sorted(rival.autoscaler or rival.metadata.name for rival in observed.expansions))
    change = {} if observed.claim.annotation(CONFLICT) == rivals else {CONFLICT: rivals}
    return Verdict(Reason.CONFLICT, f"wanted by {rivals}: none of them grows it", change)


def conflict_over(observed: Observed) -> Verdict | None:
    """First the annotation goes; what the one that is left asks for comes with the next sync."""
    if not observed.claim.annotation(CONFLICT):
        return None
    return Verdict(Reason.CONFLICT_OVER, "at most one VolumeAutoscaler wants it now", {CONFLICT: None})


def not_managed(observed: Observed) -> Verdict | None:
    return None if observed.expansions else Verdict(Reason.NOT_MANAGED, "no VolumeAutoscaler selects the claim")


def not_owned(observed: Observed) -> Verdict | None:
    if observed.only.autoscaler:
        return None
    name = observed.only.metadata.name
    return Verdict(Reason.NOT_OWNED, f"no VolumeAutoscaler controls the VolumeExpansion {name}")


def other_claim(observed: Observed) -> Verdict | None:
    if observed.only.spec.claim_uid == observed.claim.uid:
        return None
    return Verdict(Reason.OTHER_CLAIM, "the VolumeExpansion is for a claim of this name that is gone")


def nothing_requested(observed: Observed) -> Verdict | None:
    return None if observed.only.spec.size else Verdict(Reason.NOTHING_REQUESTED, "no step is asked for")


def invalid_expansion(observed: Observed) -> Verdict | None:
    step = observed.only.spec
    is_readable = claims.bytes_of(step.size) and claims.bytes_of(step.from_size) and claims.time_of(step.requested_at)
    return None if is_readable else Verdict(Reason.INVALID_EXPANSION, "its sizes or its time cannot be read")


def already_requested(observed: Observed) -> Verdict | None:
    """Whoever removes the other annotations to undo a step is not overruled: the history tells that it was taken."""
    at = observed.only.spec.requested_at
    if all(resize.step != at for resize in observed.claim.history):
        return None
    return Verdict(Reason.ALREADY_REQUESTED, f"the step of {at} is on the claim")


def expired(observed: Observed) -> Verdict | None:
    decided = claims.time_of(observed.only.spec.requested_at)
    if decided is None or observed.now - decided <= LONGEST_WAIT:
        return None
    return Verdict(Reason.EXPIRED, "it was decided more than an hour ago")


def not_bound(observed: Observed) -> Verdict | None:
    return None if observed.claim.is_bound else Verdict(Reason.NOT_BOUND, "the claim has no volume")


def paused(observed: Observed) -> Verdict | None:
    return Verdict(Reason.PAUSED, "somebody paused the claim") if observed.claim.is_paused else None


def large_enough(observed: Observed) -> Verdict | None:
    request, size = observed.claim.request_bytes, claims.bytes_of(observed.only.spec.size) or 0
    if request is not None and request < size:
        return None
    return Verdict(Reason.LARGE_ENOUGH, f"the request is not below {observed.only.spec.size}")


def outgrown(observed: Observed) -> Verdict | None:
    step = observed.only.spec
    if (observed.claim.request_bytes or 0) <= (claims.bytes_of(step.from_size) or 0):
        return None
    return Verdict(Reason.OUTGROWN, f"the request is no longer the {step.from_size} that the step was decided for")


def requested(observed: Observed) -> Verdict:
    step = observed.only.spec
    now = format_time(observed.now)
    kept = [resize for resize in observed.claim.history if observed.claim.has_effect(resize)]
    history = [*kept, Resize(now, step.requested_at, step.from_size, step.size)]
    annotations = {
        REQUESTED_SIZE: step.size,
        REQUESTED_AT: now,
        REQUESTED_BY: observed.only.autoscaler,
        HISTORY: claims.format_history(history),
    }
    return Verdict(Reason.REQUESTED, step.message or f"{step.from_size} -> {step.size}", annotations)


CHECKS: Sequence[Check] = (
    deleting,
    shown,
    # Whose claim is it?
    conflict,
    conflict_over,
    not_managed,
    not_owned,
    other_claim,
    # Is there a step to take?
    nothing_requested,
    invalid_expansion,
    already_requested,
    expired,
    # May it be taken?
    not_bound,
    paused,
    large_enough,
    outgrown,
)


def decide(observed: Observed) -> Verdict:
    """The first check that has an answer wins."""
    for check in CHECKS:
        if verdict := check(observed):
            return verdict
    return requested(observed)


def report(observed: Observed, verdict: Verdict) -> wire.Outcome:
    changes = bool(verdict.annotations)
    response = wire.DecoratorResponse(
        annotations=verdict.annotations, resync_after_seconds=resync_seconds(observed, verdict) if changes else 0
    )
    if verdict.reason in QUIET:
        return wire.Outcome(response=response)
    metadata = observed.claim.metadata
    decision = wire.Decision(
        reason=verdict.reason,
        message=verdict.message,
        object=wire.ObjectRef(claims.KIND, metadata.name, metadata.namespace),
        changes=changes,
        field=f"annotations.{next(iter(verdict.annotations))}" if changes else "",
    )
    return wire.Outcome(response=response, decisions=[decision])


def resync_seconds(observed: Observed, verdict: Verdict) -> int:
    """Soon, but the more rarely the longer a step has been refused: each time, the claim gets a Warning Event."""
    if verdict.reason is not Reason.REQUESTED:
        return RESYNC_SECONDS
    step = observed.only.spec
    since = claims.time_of(step.first_requested_at) or claims.time_of(step.requested_at) or observed.now
    waited = (observed.now - since).total_seconds()
    return max(RESYNC_SECONDS, int(waited / 2))


QUIET = (Reason.SHOWN, Reason.NOT_MANAGED, Reason.NOTHING_REQUESTED, Reason.ALREADY_REQUESTED, Reason.LARGE_ENOUGH)
"""The usual state of a claim: nothing to tell."""
