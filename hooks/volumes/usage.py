"""How full the file systems of claims are, from the volume metrics that kubelets export.

One claim may have several series: a pod that moved, a volume on two nodes, two copies of Prometheus. Series that share
all their labels are one reading of one file system; of several readings the fullest counts.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

PREFIX = "kubelet_volume_stats_"
METRICS = ("used_bytes", "capacity_bytes", "available_bytes", "inodes", "inodes_used", "health_status_abnormal")
"""The metrics that are asked for, without their prefix."""
CLAIM_LABEL = "persistentvolumeclaim"
CLUSTER_LABEL = "cluster"
"""One store may hold several clusters: claims of the same name in two of them cannot be told apart."""
OLDEST_SAMPLE_SECONDS = 300
"""Prometheus itself calls a series gone after five minutes."""


@dataclass(frozen=True)
class Question:
    """What a sync needs to know before it can decide."""

    namespace: str
    url: str  # of the backend; empty for the server's default
    poll_seconds: float  # an answer may be half as old


class Sample(NamedTuple):
    metric: str  # without the prefix
    labels: Mapping[str, str]
    value: float
    time: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class Filesystem:
    """One reading of one file system, in whole bytes."""

    capacity_bytes: int
    used_bytes: int
    filled_bytes: int
    """Capacity less what is available: file systems keep a reserve that is neither used nor available."""
    inodes: int = 0  # 0 if unknown, or if the file system has no fixed number
    inodes_used: int = 0
    is_abnormal: bool = False

    @property
    def percent(self) -> int:
        """Rounded down, so that 79.9 never looks like 80."""
        return min(100, self.filled_bytes * 100 // self.capacity_bytes)

    @property
    def inode_percent(self) -> int | None:
        return min(100, self.inodes_used * 100 // self.inodes) if self.inodes else None


class Fault(StrEnum):
    """Why the series of a claim cannot be used, where there are some."""

    NO_METRICS = "NoMetrics"  # the size or the use of the file system is missing
    OLD_METRICS = "OldMetrics"  # the samples are too old
    INVALID_METRICS = "InvalidMetrics"  # numbers that no file system can have
    SEVERAL_CLUSTERS = "SeveralClusters"  # claims of this name in several clusters


@dataclass(frozen=True)
class Usages:
    """What the backend knows of the claims of one namespace."""

    claims: Mapping[str, "Filesystem | Fault"] = field(default_factory=dict)


@dataclass(frozen=True)
class Unavailable:
    """The backend could not be asked, or what it said could not be read. The message is fit for a status."""

    reason: str
    message: str


UNREACHABLE = "PrometheusUnreachable"  # no answer: refused, timed out, no such name, a broken certificate
FAILED = "PrometheusError"  # an answer that is an error, or that cannot be read
NOT_ALLOWED = "PrometheusNotAllowed"  # the autoscaler names a URL that the server does not allow


def read_usages(samples: Iterable[Sample], *, now: float) -> Usages:
    readings: dict[str, dict[frozenset[tuple[str, str]], dict[str, Sample]]] = {}
    for sample in samples:
        if claim := sample.labels.get(CLAIM_LABEL):
            identity = frozenset(item for item in sample.labels.items() if item[0] != "__name__")
            readings.setdefault(claim, {}).setdefault(identity, {})[sample.metric] = sample
    return Usages({claim: _read_claim(of_claim, now) for claim, of_claim in readings.items()})


def _read_claim(readings: Mapping[frozenset[tuple[str, str]], Mapping[str, Sample]], now: float) -> Filesystem | Fault:
    clusters = {dict(identity).get(CLUSTER_LABEL) for identity in readings}
    if len(clusters) > 1:
        return Fault.SEVERAL_CLUSTERS
    read = [_read_filesystem(samples, now) for samples in readings.values()]
    usable = [reading for reading in read if isinstance(reading, Filesystem)]
    if not usable:
        return max((reading for reading in read if isinstance(reading, Fault)), key=list(Fault).index)
    if len(usable) == 1:
        return usable[0]
    fullest, busiest = max(usable, key=_fullness), max(usable, key=_inode_fullness)
    return replace(
        fullest,
        inodes=busiest.inodes,
        inodes_used=busiest.inodes_used,
        is_abnormal=any(reading.is_abnormal for reading in usable),
    )


def _fullness(reading: Filesystem) -> tuple[Fraction, int, int]:
    """Of equally full ones the smaller, so that the order of series does not matter."""
    return Fraction(reading.filled_bytes, reading.capacity_bytes), -reading.capacity_bytes, reading.used_bytes


def _inode_fullness(reading: Filesystem) -> tuple[Fraction, int]:
    return Fraction(reading.inodes_used, reading.inodes) if reading.inodes else Fraction(-1), -reading.inodes


def _read_filesystem(samples: Mapping[str, Sample], now: float) -> Filesystem | Fault:
    fresh = {metric: s.value for metric, s in samples.items() if abs(now - s.time) <= OLDEST_SAMPLE_SECONDS}
    capacity = _whole(fresh.get("capacity_bytes"))
    used, available = _whole(fresh.get("used_bytes")), _whole(fresh.get("available_bytes"))
    if capacity is None or (used is None and available is None):
        return _why_not(samples, fresh)
    if capacity <= 0:
        return Fault.INVALID_METRICS
    filled = capacity - available if available is not None and available <= capacity else used
    if filled is None:
        return Fault.INVALID_METRICS
    return Filesystem(
        capacity_bytes=capacity,
        used_bytes=filled if used is None else used,
        filled_bytes=filled,
        inodes=_whole(fresh.get("inodes")) or 0,
        inodes_used=_whole(fresh.get("inodes_used")) or 0,
        is_abnormal=(_whole(fresh.get("health_status_abnormal")) or 0) > 0,
    )


def _whole(value: float | None) -> int | None:
    """None for what is not there and for what no file system reports: NaN, infinity, less than nothing."""
    return int(value) if value is not None and math.isfinite(value) and value >= 0 else None


def _why_not(samples: Mapping[str, Sample], fresh: Mapping[str, float]) -> Fault:
    needed = [metric for metric in ("capacity_bytes", "used_bytes", "available_bytes") if metric in samples]
    if any(metric in fresh and _whole(fresh[metric]) is None for metric in needed):
        return Fault.INVALID_METRICS
    return Fault.OLD_METRICS if any(metric not in fresh for metric in needed) else Fault.NO_METRICS
