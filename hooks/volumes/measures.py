"""What the volume autoscaler counts: the original's metrics, under their names, and its own."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hooks.volumes.checks import Reason, stuck_seconds
from hooks.volumes.policy import Policy
from hooks.volumes.report import Judged, Previous
from hooks.volumes.steps import is_repeat
from hooks.volumes.usage import Filesystem
from hooks.wire import Gauges, Measurement


def counts(
    owner: Mapping[str, str], policy: Policy, judged: Sequence[Judged], previous: Previous
) -> Iterator[Measurement]:
    for item in judged:
        if item.verdict.is_step and not is_repeat(item.observed):
            yield Measurement("volume_autoscaler_scale_events_total", 1, {**owner, "pvc": item.name})
    refused = [item for item in judged if item.verdict.reason is Reason.EXPAND_FAILED]
    failures = {
        "resolve_pvcs": int(policy.target is None or bool(policy.target.name and not judged)),
        "prometheus_query": sum(item.is_unknown for item in judged),
        "patch_pvc": sum(
            previous.reason(item.name) != Reason.EXPAND_FAILED and previous.knows(item.name) for item in refused
        ),
    }
    for reason, count in failures.items():
        if count:
            yield Measurement("volume_autoscaler_poll_errors_total", count, {**owner, "reason": reason})


def gauges(owner: Mapping[str, str], policy: Policy, judged: Sequence[Judged]) -> Gauges:
    reasons = Counter(str(item.verdict.reason) for item in judged)
    return Gauges(
        source="/".join(owner.values()),
        lasts_seconds=2 * policy.spec.poll_interval.total_seconds(),
        values=[
            *(
                Measurement("volume_autoscaler_claims", n, {**owner, "reason": why})
                for why, n in sorted(reasons.items())
            ),
            *(measurement for item in judged for measurement in _of_claim(owner, item)),
        ],
    )


def _of_claim(owner: Mapping[str, str], item: Judged) -> Iterator[Measurement]:
    labels = {**owner, "pvc": item.name}
    if isinstance(item.observed.filesystem, Filesystem):
        yield Measurement("volume_autoscaler_pvc_usage_percent", item.observed.filesystem.percent, labels)
    stuck = stuck_seconds(item.observed, item.verdict)
    if stuck is not None:
        yield Measurement("volume_autoscaler_stuck_seconds", stuck, labels)
