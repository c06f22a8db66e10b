"""What an expansion holds next, from what was decided about its claim."""

from hooks.kube.times import format_time
from hooks.volumes.checks import OF_METRICS, Reason, Verdict
from hooks.volumes.expansions import Step
from hooks.volumes.observed import Observed, show
from hooks.volumes.usage import Filesystem

WITHDRAWN = "Withdrawn"
STILL_WANTED = OF_METRICS | {Reason.EXPAND_REQUESTED, Reason.EXPAND_FAILED}
"""With these a step that came to nothing stays: it is needed, or nobody knows. The claim takes up no old ones."""


def next_step(observed: Observed, verdict: Verdict, recorded: Step | None) -> Step:
    step, claim = observed.step, observed.claim
    if step is None:
        return Step(claim_name=claim.name, claim_uid=claim.uid, count=recorded.count if recorded else 0)
    if verdict.is_step:
        return new_step(observed, step, verdict)
    return kept_step(observed, verdict, step)


def new_step(observed: Observed, step: Step, verdict: Verdict) -> Step:
    is_again = observed.pending is not None
    return Step(
        claim_name=step.claim_name,
        claim_uid=step.claim_uid,
        from_size=show(observed.request_bytes),
        size=show(verdict.size_bytes or 0),
        reason=verdict.reason,
        message=verdict.message,
        requested_at=format_time(observed.now),
        first_requested_at=(step.first_requested_at or step.requested_at) if is_again else "",
        filesystem_bytes=observed.filesystem.capacity_bytes if isinstance(observed.filesystem, Filesystem) else 0,
        count=step.count if is_repeat(observed) else step.count + 1,
        attempt=step.attempt + 1 if is_again else 1,
    )


def is_repeat(observed: Observed) -> bool:
    """Whether a new step takes the place of one that came to nothing: that is one growth, not two."""
    step = observed.step
    return step is not None and bool(step.requested_at) and (observed.pending is not None or not step.size)


def kept_step(observed: Observed, verdict: Verdict, step: Step) -> Step:
    """As it is, unless it came to nothing and is not wanted any more.

    Otherwise it would be carried out as soon as what refused it gives way.
    """
    if observed.pending is None or verdict.reason in STILL_WANTED:
        return step
    message = f"{step.from_size} -> {step.size} came to nothing and is no longer wanted: {verdict.message}"
    return Step(
        claim_name=step.claim_name,
        claim_uid=step.claim_uid,
        reason=WITHDRAWN,
        message=message,
        requested_at=step.requested_at,
        count=step.count,
    )


def leaving_step(step: Step) -> Step:
    """Of an expansion that goes as soon as its count is recorded: nothing is asked for any more."""
    return Step(claim_name=step.claim_name, claim_uid=step.claim_uid, count=step.count)
