"""PersistentVolumeClaims as the volume autoscaler reads them, and the annotations by which it remembers its steps.

The annotations outlive the VolumeAutoscaler, its status and this service: cooldown and budget are read from them.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import msgspec

from hooks import wire
from hooks.kube.metadata import compact_json
from hooks.kube.quantity import InvalidQuantity, whole_bytes
from hooks.kube.times import InvalidTime, parse_time

API_VERSION, KIND, RESOURCE = "v1", "PersistentVolumeClaim", "persistentvolumeclaims"

REQUESTED_SIZE = "volume-autoscaler.io/requested-size"
"""The size that the admission step raises the claim's request to."""
REQUESTED_AT = "volume-autoscaler.io/requested-at"
REQUESTED_BY = "volume-autoscaler.io/requested-by"
HISTORY = "volume-autoscaler.io/resize-history"
"""JSON: the last steps that the claim took up, oldest first, each with its time and sizes."""
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Where claims from before Kubernetes 1.6 name their StorageClass."""
CONFLICT = "volume-autoscaler.io/conflict"
"""Which VolumeAutoscalers want this claim, where there are several: none of them grows it."""
PAUSED = "volume-autoscaler.io/paused"
"""Set by people: the claim is left alone, unless the value is `false`."""

LONGEST_REMEMBERED = 2048
LONGEST_HISTORY = 10
"""The largest budget is ten steps: older ones decide nothing any more."""

RESIZING = ("Resizing", "FileSystemResizePending", "ModifyingVolume")
RESIZE_ERRORS = ("ControllerResizeError", "NodeResizeError")


class Resources(wire.Model):
    requests: dict[str, str] | None = None


class ClaimSpec(wire.Model):
    storage_class_name: str | None = None
    volume_mode: str | None = None
    resources: Resources | None = None


class ClaimCondition(wire.Model):
    type: str = ""
    status: str = ""
    message: str | None = None
    last_transition_time: str | None = None


class ClaimStatus(wire.Model):
    phase: str = ""
    capacity: dict[str, str] | None = None
    conditions: list[ClaimCondition] | None = None
    allocated_resource_statuses: dict[str, str] | None = None


class Resize(wire.Model, omit_defaults=True):
    """One entry of the history: a step that the claim took up."""

    at: str
    step: str = ""  # when the step was decided, by which its VolumeExpansion is known again
    from_: str = msgspec.field(default="", name="from")
    to: str = ""
    shown: bool = False  # the request was seen at this size: whoever lowered it since meant to


class Claim(wire.Model, kw_only=True):
    metadata: wire.Metadata
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_bound(self) -> bool:
        return self.status.phase == "Bound"

    @property
    def is_paused(self) -> bool:
        return self.annotation(PAUSED) not in ("", "false")

    @property
    def request_bytes(self) -> int | None:
        requests = self.spec.resources.requests if self.spec.resources else None
        return bytes_of((requests or {}).get("storage"))

    @property
    def capacity_bytes(self) -> int | None:
        return bytes_of((self.status.capacity or {}).get("storage"))

    @property
    def storage_class(self) -> str:
        return self.spec.storage_class_name or self.annotation(BETA_CLASS)

    @property
    def history(self) -> Sequence[Resize]:
        return read_history(self.annotation(HISTORY))

    def has_effect(self, resize: Resize) -> bool:
        """Whether the request shows it, or did. One that cannot be read counts: it may have."""
        size = bytes_of(resize.to)
        return resize.shown or size is None or size <= (self.request_bytes or 0)

    def annotation(self, key: str) -> str:
        return (self.metadata.annotations or {}).get(key, "")

    def condition(self, types: Sequence[str]) -> ClaimCondition | None:
        """The first of the conditions that is True."""
        return next((c for c in self.status.conditions or () if c.type in types and c.status == "True"), None)

    @property
    def resize_status(self) -> str:
        """How far the driver got, such as NodeResizeInProgress; empty if nothing is under way."""
        return (self.status.allocated_resource_statuses or {}).get("storage", "")


@lru_cache(maxsize=4096)
def _bytes(text: str) -> int | None:
    try:
        return whole_bytes(text)
    except InvalidQuantity:
        return None


def bytes_of(text: str | None) -> int | None:
    """None for what is absent or no quantity. Remembered: the claims of a cluster have few different sizes."""
    return _bytes(text) if text and len(text) <= 128 else None


def time_of(text: str | None) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except InvalidTime:
        return None


def read_history(text: str) -> Sequence[Resize]:
    """What cannot be read counts as no history: people can edit annotations."""
    return _read_history(text) if len(text) <= LONGEST_REMEMBERED else _read_history.__wrapped__(text)


@lru_cache(maxsize=4096)
def _read_history(text: str) -> Sequence[Resize]:
    """Remembered, because it is looked at several times in a sync."""
    try:
        history = msgspec.json.decode(text or "[]", type=list[Resize])
    except (msgspec.DecodeError, RecursionError):
        return []
    return history[-LONGEST_HISTORY:]


def format_history(history: Sequence[Resize]) -> str:
    return compact_json([msgspec.to_builtins(resize) for resize in history[-LONGEST_HISTORY:]])
