"""What an expansion holds next, from what was decided about its claim."""

import msgspec

from hooks.kube.times import format_time
from hooks.volumes.checks import Reason, Verdict
from hooks.volumes.expansions import Step
from hooks.volumes.observed import Asked, Observed, show

MOST_DOUBLINGS = 20
WITHDRAWN = "Withdrawn"


def next_step(observed: Observed, verdict: Verdict, recorded: Step | None) -> Step:
    step, claim = observed.step, observed.claim
    if step is None:
        return Step(claim_name=claim.name, claim_uid=claim.uid, count=recorded.count if recorded else 0)
    if verdict.is_step:
        return new_step(observed, step, verdict)
    asked = observed.outstanding
    if asked is None or asked.has_arrived:
        return step
    if verdict.reason is Reason.EXPAND_FAILED and is_next_attempt_due(observed, step, asked):
        return msgspec.structs.replace(step, attempt=step.attempt + 1)
    if verdict.reason in (Reason.BELOW_THRESHOLD, Reason.PAUSED):
        return withdrawn(step, verdict)
    return step


def new_step(observed: Observed, step: Step, verdict: Verdict) -> Step:
    return Step(
        claim_name=step.claim_name,
        claim_uid=step.claim_uid,
        from_size=show(observed.request_bytes),
        size=show(verdict.size_bytes or 0),
        reason=verdict.reason,
        message=verdict.message,
        requested_at=format_time(observed.now),
        count=step.count if is_repeat(observed) else step.count + 1,
        attempt=1,
    )


def is_repeat(observed: Observed) -> bool:
    """Whether a new step takes the place of one that came to nothing: that is one growth, not two."""
    step = observed.step
    return step is not None and bool(step.requested_at) and (observed.outstanding is not None or not step.size)


def is_next_attempt_due(observed: Observed, step: Step, asked: Asked) -> bool:
    """After 1, 2, 4, 8... polls: a changed expansion makes Metacontroller sync the claim again."""
    polls: int = 2 ** min(max(step.attempt - 1, 0), MOST_DOUBLINGS)
    wait = observed.policy.spec.poll_interval.total_seconds() * polls
    return (observed.now - asked.at).total_seconds() >= wait


def withdrawn(step: Step, verdict: Verdict) -> Step:
    """Otherwise it would be carried out whenever what refused it gives way, needed or not."""
    message = f"{step.from_size} -> {step.size} did not arrive and is no longer wanted: {verdict.message}"
    return msgspec.structs.replace(step, from_size="", size="", reason=WITHDRAWN, message=message, attempt=0)
