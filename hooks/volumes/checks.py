"""Whether a claim grows now, and if not, why: an ordered table of checks, and the first that has an answer wins."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from hooks import wire
from hooks.kube.times import format_time
from hooks.volumes import usage
from hooks.volumes.claims import RESIZE_ERRORS, RESIZING, bytes_of
from hooks.volumes.observed import MOST_SKEW, Observed, Pending, show
from hooks.volumes.policy import GIB
from hooks.volumes.usage import Fault, Filesystem, Unavailable

IN_FLIGHT = timedelta(seconds=15)
"""A step that is younger may still be on its way to the claim."""
STUCK_AFTER = timedelta(minutes=30)
"""A resize that takes longer counts as one that does not come, and a wait that is longer as one that is too long."""
LONGEST_WAIT = timedelta(minutes=30)
"""Between two attempts at the same step."""
MOST_DOUBLINGS = 20
MOST_NAMES = 10


class Reason(StrEnum):
    INVALID_SPEC = wire.INVALID_SPEC  # the VolumeAutoscaler cannot be used as it stands; nothing grows
    INVALID_CLAIM = "InvalidClaim"  # the claim's sizes cannot be read
    DELETING = "Deleting"  # the claim is being deleted
    NOT_BOUND = "NotBound"  # the claim has no volume
    BLOCK_VOLUME = "BlockVolume"  # a raw block device has no file system that could fill
    PAUSED = "Paused"  # somebody set the annotation `paused` on the claim
    AMBIGUOUS = "Ambiguous"  # several VolumeAutoscalers select the claim
    RESIZE_FAILED = "ResizeFailed"  # the storage driver says that it cannot
    RESIZE_IN_PROGRESS = "ResizeInProgress"  # the volume is being resized
    NO_STORAGE_CLASS = "NoStorageClass"  # only claims with a StorageClass can grow
    STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound"
    STORAGE_CLASS_NOT_EXPANDABLE = "StorageClassNotExpandable"
    PROMETHEUS_UNREACHABLE = usage.UNREACHABLE
    PROMETHEUS_ERROR = usage.FAILED
    PROMETHEUS_NOT_ALLOWED = usage.NOT_ALLOWED
    NO_METRICS_FOR_ANY_CLAIM = "NoMetricsForAnyClaim"  # the backend knows no claim of the namespace
    NO_METRICS = Fault.NO_METRICS  # the backend knows other claims, but not this one
    METRICS_LOST = "MetricsLost"  # there were metrics, and there are none now
    NEW_CLAIM = "NewClaim"  # so new that the metrics may be of a claim that had its name
    OLD_METRICS = Fault.OLD_METRICS  # the samples are too old
    STALE_METRICS = "StaleMetrics"  # the metrics show the file system from before the last resize
    INVALID_METRICS = Fault.INVALID_METRICS
    SEVERAL_CLUSTERS = Fault.SEVERAL_CLUSTERS
    SHARED_FILESYSTEM = "SharedFilesystem"  # the file system is far larger than the claim: it is not the claim's own
    VOLUME_UNHEALTHY = "VolumeUnhealthy"
    BELOW_THRESHOLD = "BelowThreshold"
    MAX_SIZE_REACHED = "MaxSizeReached"
    EXPAND_REQUESTED = "ExpandRequested"  # a step was decided, now or a moment ago
    EXPAND_FAILED = "ExpandFailed"  # the last step did not reach the claim's request; it is asked for again and again
    COOLDOWN = "Cooldown"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    SELECTED = "Selected"  # full, and its VolumeExpansion is about to be created; decided at the next sync
    WOULD_EXPAND = "WouldExpand"  # mode Observe: a step that is not taken


class Verdict(NamedTuple):
    reason: Reason
    message: str
    size_bytes: int | None = None  # what to grow to, where the answer is to grow
    is_step: bool = False


Check = Callable[[Observed], Verdict | None]


def listed(names: Sequence[str]) -> str:
    """The first ten, and how many more."""
    hidden = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")


def invalid_spec(observed: Observed) -> Verdict | None:
    complaint = observed.policy.complaint
    return Verdict(Reason.INVALID_SPEC, complaint) if complaint else None


def deleting(observed: Observed) -> Verdict | None:
    return Verdict(Reason.DELETING, "the claim is being deleted") if observed.claim.is_deleting else None


def not_bound(observed: Observed) -> Verdict | None:
    claim = observed.claim
    if claim.is_bound:
        return None
    return Verdict(Reason.NOT_BOUND, f"the claim is {claim.status.phase or 'not bound'}: it has no volume yet")


def invalid_claim(observed: Observed) -> Verdict | None:
    if observed.claim.request_bytes and observed.claim.capacity_bytes:
        return None
    return Verdict(Reason.INVALID_CLAIM, "the claim has no readable request or capacity")


def block_volume(observed: Observed) -> Verdict | None:
    if observed.claim.spec.volume_mode != "Block":
        return None
    return Verdict(Reason.BLOCK_VOLUME, "volumeMode Block: there is no file system that could fill")


def paused(observed: Observed) -> Verdict | None:
    message = "somebody paused the claim; remove the annotation volume-autoscaler.io/paused to go on"
    return Verdict(Reason.PAUSED, message) if observed.claim.is_paused else None


def ambiguous(observed: Observed) -> Verdict | None:
    if not observed.rivals:
        return None
    return Verdict(Reason.AMBIGUOUS, f"also selected by {listed(observed.rivals)}: none of them grows it")


def resize_failed(observed: Observed) -> Verdict | None:
    claim = observed.claim
    is_under_way = bool(claim.resize_status) or observed.request_bytes > observed.capacity_bytes
    condition = claim.condition(RESIZE_ERRORS) if is_under_way else None  # one of an earlier resize may be left over
    if not claim.resize_status.endswith("Infeasible") and condition is None:
        return None
    said = (condition.message if condition else "") or claim.resize_status
    wanted, present = show(observed.request_bytes), show(observed.capacity_bytes)
    return Verdict(Reason.RESIZE_FAILED, f"{present} -> {wanted}: {said[:300]}")


def resize_in_progress(observed: Observed) -> Verdict | None:
    """A volume that is asked for more while it grows may run away: each poll would add to the last."""
    claim = observed.claim
    condition = claim.condition(RESIZING)
    if condition is None and not claim.resize_status and observed.request_bytes <= observed.capacity_bytes:
        return None
    doing = {"FileSystemResizePending": "waits for a pod that mounts it", "ModifyingVolume": "is being modified"}
    what = doing.get(condition.type if condition else "", "is being resized")
    since = f" since {format_time(observed.resizing_since)}" if observed.resizing_since else ""
    sizes = f"{show(observed.capacity_bytes)} -> {show(observed.request_bytes)}"
    return Verdict(Reason.RESIZE_IN_PROGRESS, f"{sizes}: the volume {what}{since}")


def storage_class(observed: Observed) -> Verdict | None:
    name = observed.claim.storage_class
    if not name:
        return Verdict(Reason.NO_STORAGE_CLASS, "the claim has no StorageClass: Kubernetes grows no such claim")
    if observed.is_expandable is None:
        return Verdict(Reason.STORAGE_CLASS_NOT_FOUND, f"there is no StorageClass {name}")
    if not observed.is_expandable:
        message = f"StorageClass {name} does not say allowVolumeExpansion: true"
        return Verdict(Reason.STORAGE_CLASS_NOT_EXPANDABLE, message)
    return None


def new_claim(observed: Observed) -> Verdict | None:
    message = "the claim is younger than five minutes: the metrics may be of one that had its name before"
    return Verdict(Reason.NEW_CLAIM, message) if observed.is_new else None


def no_metrics(observed: Observed) -> Verdict | None:
    found = observed.filesystem
    is_lost = found in (None, Fault.NO_METRICS, Fault.OLD_METRICS)
    if isinstance(found, Filesystem) or (is_lost and observed.acts_on_last_sample):
        return None
    if isinstance(found, Unavailable):
        return Verdict(Reason(found.reason), found.message)
    if isinstance(found, Fault) and found is not Fault.NO_METRICS:
        return Verdict(Reason(found.value), FAULTS[found])
    if found is None and not observed.has_others:
        message = "the backend has no volume metrics for any claim of the namespace: does it scrape the kubelets?"
        return Verdict(Reason.NO_METRICS_FOR_ANY_CLAIM, message)
    if last := observed.last_sample:
        since = f" of {format_time(last.at)}" if last.at else ""
        return Verdict(Reason.METRICS_LOST, f"no metrics any more; the last sample{since}: {last.percent}% used")
    return Verdict(Reason.NO_METRICS, "no metrics for this claim: kubelets report only volumes that a pod uses")


FAULTS = {
    Fault.OLD_METRICS: "the backend's samples are more than five minutes old",
    Fault.INVALID_METRICS: "the metrics hold numbers that no file system can have",
    Fault.SEVERAL_CLUSTERS: "several clusters report a claim of this name: set METAHOOKS_PROMETHEUS_MATCHERS",
}


def stale_metrics(observed: Observed) -> Verdict | None:
    """A file system of the size that it had before the last step, or one that is smaller than overhead explains.

    File systems take a part for themselves: up to a tenth of the volume, or half a GiB of a small one.
    """
    capacity, step = observed.capacity_bytes, observed.step
    if not isinstance(observed.filesystem, Filesystem):
        return None
    has_grown = step is not None and capacity >= (bytes_of(step.size) or capacity + 1)
    is_unchanged = step is not None and has_grown and step.filesystem_bytes == observed.filesystem.capacity_bytes
    overhead = max(capacity // 10, min(GIB // 2, capacity // 5))
    if not is_unchanged and capacity - observed.filesystem.capacity_bytes <= overhead:
        return None
    sizes = f"the file system has {show(observed.filesystem.capacity_bytes)}, the volume {show(capacity)}"
    return Verdict(Reason.STALE_METRICS, f"{sizes}: it was not resized yet, or the metrics lag behind")


def shared_filesystem(observed: Observed) -> Verdict | None:
    capacity = observed.capacity_bytes
    if not isinstance(observed.filesystem, Filesystem):
        return None
    if observed.filesystem.capacity_bytes <= capacity + capacity // 2 + GIB:
        return None
    sizes = f"the file system has {show(observed.filesystem.capacity_bytes)}, the volume {show(capacity)}"
    return Verdict(Reason.SHARED_FILESYSTEM, f"{sizes}: it is shared, so to grow the claim would free nothing")


def volume_unhealthy(observed: Observed) -> Verdict | None:
    if not isinstance(observed.filesystem, Filesystem) or not observed.filesystem.is_abnormal:
        return None
    return Verdict(Reason.VOLUME_UNHEALTHY, "kubelet reports the volume as abnormal: look at its Events first")


def below_threshold(observed: Observed) -> Verdict | None:
    return None if observed.is_full else Verdict(Reason.BELOW_THRESHOLD, fullness(observed))


def max_size_reached(observed: Observed) -> Verdict | None:
    if observed.policy.next_size(observed.base_bytes) is not None:
        return None
    limit, base = show(observed.policy.spec.max_size or 0), show(observed.base_bytes)
    return Verdict(Reason.MAX_SIZE_REACHED, f"{fullness(observed)}, and {base} leaves no room below maxSize {limit}")


def expand_failed(observed: Observed) -> Verdict | None:
    """Not on top of a step that is on its way; and not at every poll again after one that came to nothing."""
    pending = observed.pending
    if pending is None or is_attempt_due(observed, pending):
        return None
    sizes = f"{show(observed.request_bytes)} -> {pending.size}, requested at {format_time(pending.at)}"
    if is_on_its_way(observed, pending):
        return Verdict(Reason.EXPAND_REQUESTED, f"{fullness(observed)}: {sizes}")
    return Verdict(Reason.EXPAND_FAILED, f"{sizes}: {why_failed(pending)}")


def is_on_its_way(observed: Observed, pending: Pending) -> bool:
    is_first = observed.step is not None and not observed.step.first_requested_at
    return is_first and observed.now < pending.at + IN_FLIGHT


def is_attempt_due(observed: Observed, pending: Pending) -> bool:
    """After 1, 2, 4, 8... polls, but at least every half hour; at once if it is no longer allowed as it stands."""
    if pending.size_bytes > (observed.policy.spec.max_size or 0):
        return True
    polls: int = 2 ** min(max(observed.step.attempt - 1, 0) if observed.step else 0, MOST_DOUBLINGS)
    wait = max(IN_FLIGHT, min(observed.policy.spec.poll_interval * polls, LONGEST_WAIT))
    return observed.now >= pending.at + wait


def why_failed(pending: Pending) -> str:
    if pending.has_arrived:
        return "the claim took it up, but its request did not change: the admission policy is missing or was not asked"
    return "it did not arrive: a quota or another admission check refused it (the claim's Events tell), or no sync came"


def cooldown(observed: Observed) -> Verdict | None:
    if not observed.steps:
        return None
    until = observed.steps[-1] + observed.policy.spec.cooldown_period
    if observed.now >= until:
        return None
    return Verdict(Reason.COOLDOWN, f"{fullness(observed)}; the next step is possible at {format_time(until)}")


def budget_exhausted(observed: Observed) -> Verdict | None:
    budget = observed.policy.spec.resize_budget
    if budget is None:
        return None
    window = budget.window + MOST_SKEW  # the provider counts from when it began, not from when it was asked
    recent = [at for at in observed.steps if at > observed.now - window]
    if len(recent) < budget.count:
        return None
    free = format_time(recent[-budget.count] + window)
    message = f"{fullness(observed)}; {len(recent)} of {budget.count} resizes are used, the next is possible at {free}"
    return Verdict(Reason.BUDGET_EXHAUSTED, message)


def expand(observed: Observed) -> Verdict:
    size = observed.policy.next_size(observed.base_bytes) or observed.base_bytes
    message = f"{fullness(observed)}: {show(observed.request_bytes)} -> {show(size)}"
    if not observed.policy.applies:
        return Verdict(Reason.WOULD_EXPAND, f"{message} (mode Observe)", size)
    if observed.step is None:
        return without_expansion(observed, message, size)
    if pending := observed.pending:
        message = f"{message}, asked for again since {format_time(observed.failing_since or pending.at)}"
        return Verdict(Reason.EXPAND_FAILED, f"{message}: {why_failed(pending)}", size, is_step=True)
    return Verdict(Reason.EXPAND_REQUESTED, message, size, is_step=True)


def without_expansion(observed: Observed, message: str, size: int) -> Verdict:
    """A VolumeExpansion comes into being within a moment; if it does not, nothing will grow."""
    is_late = observed.before in (Reason.SELECTED, Reason.EXPAND_FAILED)
    if is_late and observed.since and observed.now - observed.since >= IN_FLIGHT:
        return Verdict(Reason.EXPAND_FAILED, f"{message}: its VolumeExpansion is not created", size)
    return Verdict(Reason.SELECTED, message, size)


def fullness(observed: Observed) -> str:
    """62% used of 80%, 12% of inodes."""
    spec = observed.policy.spec
    text = f"{observed.percent}% used, threshold {spec.threshold_percent}%"
    if spec.inode_threshold_percent and observed.inode_percent is not None:
        text += f"; {observed.inode_percent}% of the inodes, threshold {spec.inode_threshold_percent}%"
    is_lost = not isinstance(observed.filesystem, Filesystem) and observed.last_sample
    return f"metrics lost at {text}" if is_lost else text


CHECKS: Sequence[Check] = (
    invalid_spec,
    # The claim: is there a volume that could grow?
    deleting,
    not_bound,
    invalid_claim,
    block_volume,
    paused,
    ambiguous,
    # Its last resize: the driver's own word comes before the mere fact that it is not done.
    resize_failed,
    resize_in_progress,
    # Its StorageClass: the API server would refuse.
    storage_class,
    # The metrics: do they speak about this claim, as it is now?
    new_claim,
    no_metrics,
    stale_metrics,
    shared_filesystem,
    volume_unhealthy,
    # The need: bytes and inodes are separate triggers.
    below_threshold,
    # The brakes.
    max_size_reached,
    expand_failed,
    cooldown,
    budget_exhausted,
)


def decide(observed: Observed) -> Verdict:
    for check in CHECKS:
        if verdict := check(observed):
            return verdict
    return expand(observed)


# What a reason means for the whole

OF_METRICS = frozenset(
    {
        Reason.PROMETHEUS_UNREACHABLE,
        Reason.PROMETHEUS_ERROR,
        Reason.PROMETHEUS_NOT_ALLOWED,
        Reason.NO_METRICS_FOR_ANY_CLAIM,
        Reason.NO_METRICS,
        Reason.METRICS_LOST,
        Reason.OLD_METRICS,
        Reason.INVALID_METRICS,
        Reason.SEVERAL_CLUSTERS,
    }
)
"""Nobody knows how full the claim is."""

FINE = OF_METRICS | {
    Reason.DELETING,
    Reason.NOT_BOUND,
    Reason.BELOW_THRESHOLD,
    Reason.EXPAND_REQUESTED,
    Reason.NEW_CLAIM,
    Reason.SELECTED,
    Reason.WOULD_EXPAND,
}
"""With these, a full claim is not blocked: it grows, or will, or what is wrong is told otherwise."""

PASSING = frozenset({Reason.RESIZE_IN_PROGRESS, Reason.STALE_METRICS})
"""These pass by themselves, unless they do not."""


def is_blocked(observed: Observed, verdict: Verdict) -> bool:
    """Whether the claim is full and cannot grow."""
    if verdict.reason in FINE or not observed.is_full:
        return False
    if verdict.reason is Reason.COOLDOWN:
        return observed.steps[-1] + observed.policy.spec.cooldown_period - observed.now > STUCK_AFTER
    if verdict.reason in PASSING:
        since = observed.resizing_since
        # When it began may not be known at first sight.
        return observed.before == verdict.reason if since is None else observed.now - since > STUCK_AFTER
    return True


def is_unknown(observed: Observed, verdict: Verdict) -> bool:
    """Whether nobody knows how full the claim is, and should: what no pod uses any more cannot fill."""
    is_idle = verdict.reason is Reason.METRICS_LOST and not observed.is_full
    is_unlisted = verdict.reason is Reason.NO_METRICS and not observed.was_listed
    return verdict.reason in OF_METRICS and not is_idle and not is_unlisted


def stuck_seconds(observed: Observed, verdict: Verdict) -> int | None:
    """For how long a step has been asked for without effect; None if none is."""
    if verdict.reason is Reason.EXPAND_FAILED:
        since = observed.failing_since
    elif verdict.reason in (Reason.RESIZE_IN_PROGRESS, Reason.RESIZE_FAILED):
        since = observed.resizing_since
    else:
        return None
    return None if since is None else max(0, int((observed.now - since).total_seconds()))
