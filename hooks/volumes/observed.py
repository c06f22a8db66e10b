"""All that is known about one claim when its VolumeAutoscaler decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple

from hooks.kube.quantity import format_binary
from hooks.volumes.claims import REQUESTED_AT, RESIZE_ERRORS, RESIZING, Claim, bytes_of, time_of
from hooks.volumes.expansions import Step
from hooks.volumes.policy import Policy
from hooks.volumes.usage import Fault, Filesystem, Unavailable

MOST_SKEW = timedelta(minutes=1)
"""How far clocks may differ."""
LINGERING = timedelta(minutes=5)
"""For so long after a claim was deleted, the metrics of its volume may still be there, under its name."""


class LastSample(NamedTuple):
    """What an earlier poll saw of a claim that has no metrics now."""

    percent: int
    inode_percent: int | None
    at: datetime | None  # None if the volume was being resized then: it may be of before


class Pending(NamedTuple):
    """A step that is asked for and that the claim's request has never shown."""

    size_bytes: int
    size: str
    at: datetime
    has_arrived: bool  # the claim has taken it up


@dataclass(frozen=True, kw_only=True)
class Observed:
    claim: Claim
    policy: Policy
    now: datetime
    step: Step | None  # what its expansion holds, if there is one for this very claim
    rivals: Sequence[str] = ()  # other VolumeAutoscalers that want it
    is_expandable: bool | None = None  # what its StorageClass says; None if there is no such class
    filesystem: Filesystem | Fault | Unavailable | None = None
    has_others: bool = False  # whether the backend knows other claims of the namespace
    last_sample: LastSample | None = None
    was_listed: bool = True  # the last poll had room for it in its report
    before: str = ""  # what the last poll reported as the reason
    since: datetime | None = None  # when that was
    watched_since: datetime | None = None  # when the VolumeAutoscaler was created

    @cached_property
    def request_bytes(self) -> int:
        return self.claim.request_bytes or 0

    @cached_property
    def capacity_bytes(self) -> int:
        return self.claim.capacity_bytes or 0

    @property
    def base_bytes(self) -> int:
        """Drivers may give more than was asked for, and people may ask for more than there is yet."""
        return max(self.request_bytes, self.capacity_bytes)

    @property
    def percent(self) -> int | None:
        if isinstance(self.filesystem, Filesystem):
            return self.filesystem.percent
        return self.last_sample.percent if self.last_sample else None

    @property
    def inode_percent(self) -> int | None:
        if isinstance(self.filesystem, Filesystem):
            return self.filesystem.inode_percent
        return self.last_sample.inode_percent if self.last_sample else None

    @cached_property
    def is_full(self) -> bool:
        """By bytes or by inodes, as far as is known."""
        threshold = self.policy.spec.inode_threshold_percent
        is_out_of_inodes = threshold > 0 and (self.inode_percent or 0) >= threshold
        return is_out_of_inodes or (self.percent or 0) >= self.policy.spec.threshold_percent

    @cached_property
    def pending(self) -> Pending | None:
        size, at = (bytes_of(self.step.size), time_of(self.step.requested_at)) if self.step else (None, None)
        if self.step is None or size is None or at is None or size <= self.request_bytes:
            return None
        taken = next((resize for resize in self.claim.history if resize.step == self.step.requested_at), None)
        if taken and taken.shown:
            return None
        return Pending(size, self.step.size, min(at, self.now), has_arrived=taken is not None)

    @property
    def failing_since(self) -> datetime | None:
        """When the first of the steps was asked for that came to nothing."""
        first = time_of(self.step.first_requested_at) if self.step else None
        return first or (self.pending.at if self.pending else None)

    @cached_property
    def steps(self) -> Sequence[datetime]:
        """When the claim grew, oldest first, as far as it remembers; a step without effect is none.

        A time ahead of the clock by more than a cooldown is of a broken clock: to wait for it could take for ever.
        """
        history, step = self.claim.history, self.step
        idle = {resize.at for resize in history if not self.claim.has_effect(resize)}
        texts = {resize.at for resize in history} | {self.claim.annotation(REQUESTED_AT)}
        is_forgotten = step is not None and all(resize.step != step.requested_at for resize in history)
        if step and is_forgotten and (bytes_of(step.size) or 2**64) <= self.request_bytes:
            texts |= {step.requested_at}  # somebody wiped the claim's annotations
        latest = self.now + max(MOST_SKEW, self.policy.spec.cooldown_period)
        return sorted(at for at in map(time_of, texts - idle) if at and at <= latest)

    @property
    def resizing_since(self) -> datetime | None:
        """When the resize began that is under way: ours by its step, another by its condition, if it has one yet."""
        last = self.claim.history[-1] if self.claim.history else None
        is_under_way = self.request_bytes > self.capacity_bytes
        if last and is_under_way and bytes_of(last.to) == self.request_bytes:
            return time_of(last.at)
        if condition := self.claim.condition((*RESIZING, *RESIZE_ERRORS)):
            return time_of(condition.last_transition_time)
        return None if is_under_way or not self.steps else self.steps[-1]

    @property
    def is_new(self) -> bool:
        """Whether it appeared so lately that the metrics may be of a claim that had its name before."""
        created = time_of(self.claim.metadata.creation_timestamp)
        if created is None or self.watched_since is None or created <= self.watched_since:
            return False
        return self.now - created < LINGERING

    @property
    def acts_on_last_sample(self) -> bool:
        """StepOnce: metrics vanish when a full disk crashes its pod. One step, on the last sample since the last step.

        Not if the backend knows no other claim: then it is the metrics that are broken.
        """
        last = self.last_sample
        if self.policy.spec.on_metrics_lost != "StepOnce" or last is None or last.at is None or not self.has_others:
            return False
        return self.is_full and (not self.steps or last.at > self.steps[-1])


@lru_cache(maxsize=4096)
def show(n_bytes: int) -> str:
    """10Gi. Remembered: the claims of a cluster have few different sizes."""
    return format_binary(n_bytes) if n_bytes < 2**63 else f"{n_bytes} bytes"
