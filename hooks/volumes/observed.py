"""All that is known about one claim when its VolumeAutoscaler decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from hooks.kube.quantity import format_binary
from hooks.volumes.claims import (
    REQUESTED_AT,
    REQUESTED_SIZE,
    RESIZE_ERRORS,
    RESIZING,
    Claim,
    bytes_of,
    time_of,
)
from hooks.volumes.expansions import Step
from hooks.volumes.policy import Policy
from hooks.volumes.usage import Fault, Filesystem, Unavailable

MOST_SKEW = timedelta(minutes=1)
"""Times further in the future come from a broken clock: to wait for them could take for ever."""


class LastSample(NamedTuple):
    """What an earlier poll saw of a claim that has no metrics now."""

    percent: int
    at: datetime


class Asked(NamedTuple):
    """The last step that was asked for."""

    size_bytes: int
    size: str
    at: datetime
    has_arrived: bool  # the claim carries it in its annotations


@dataclass(frozen=True, kw_only=True, slots=True)
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

    @property
    def request_bytes(self) -> int:
        return self.claim.request_bytes or 0

    @property
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
        return self.filesystem.inode_percent if isinstance(self.filesystem, Filesystem) else None

    @property
    def is_full(self) -> bool:
        """By bytes or by inodes, as far as is known."""
        threshold = self.policy.spec.inode_threshold_percent
        is_out_of_inodes = threshold > 0 and (self.inode_percent or 0) >= threshold
        return is_out_of_inodes or (self.percent or 0) >= self.policy.spec.threshold_percent

    @property
    def asked(self) -> Asked | None:
        """The later of what the expansion and what the claim's annotations say."""
        on_claim = self.claim.annotation(REQUESTED_AT)
        carried = _asked(self, self.claim.annotation(REQUESTED_SIZE), on_claim, has_arrived=True)
        if self.step is None or self.step.requested_at == on_claim:
            return carried
        is_recorded = any(resize.at == self.step.requested_at for resize in self.claim.history)
        wanted = _asked(self, self.step.size, self.step.requested_at, has_arrived=is_recorded)
        return max(filter(None, (carried, wanted)), key=lambda asked: asked.at, default=None)

    @property
    def outstanding(self) -> Asked | None:
        """A step that the claim's request does not show."""
        asked = self.asked
        return asked if asked and asked.size_bytes > self.request_bytes else None

    @property
    def steps(self) -> Sequence[datetime]:
        """When steps were asked for, oldest first, as far as they are remembered."""
        texts = {resize.at for resize in self.claim.history}
        texts |= {self.claim.annotation(REQUESTED_AT), self.step.requested_at if self.step else ""}
        return sorted(at for at in map(time_of, texts) if at and at <= self.now + MOST_SKEW)

    @property
    def resizing_since(self) -> datetime | None:
        """When the resize began that is under way, as far as is known: ours by its step, another by its condition."""
        asked = self.asked
        if asked and asked.size_bytes >= self.request_bytes:
            return asked.at
        condition = self.claim.condition((*RESIZING, *RESIZE_ERRORS))
        return time_of(condition.last_transition_time) if condition else None

    @property
    def acts_on_last_sample(self) -> bool:
        """StepOnce: metrics vanish when a full disk crashes its pod. One step, on the last sample since the last step.

        Not if the backend knows no other claim: then it is the metrics that are broken.
        """
        if self.policy.spec.on_metrics_lost != "StepOnce" or self.last_sample is None or not self.has_others:
            return False
        return not self.steps or self.last_sample.at > self.steps[-1]


def _asked(observed: Observed, size: str, at: str, *, has_arrived: bool) -> Asked | None:
    n_bytes, time = bytes_of(size), time_of(at)
    if n_bytes is None or time is None or time > observed.now + MOST_SKEW:
        return None
    return Asked(n_bytes, size, time, has_arrived)


@lru_cache(maxsize=4096)
def show(n_bytes: int) -> str:
    """10Gi. Remembered: the claims of a cluster have few different sizes."""
    return format_binary(n_bytes) if n_bytes < 2**63 else f"{n_bytes} bytes"
