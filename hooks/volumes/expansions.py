"""VolumeExpansions: for each claim that a VolumeAutoscaler looks after, the step that it asks for, and its record.

An expansion exists from the moment that a claim is selected; it has a size from the first step on. What it holds is
read from what was last written, not from what somebody may have edited since: Metacontroller puts that back.
"""

from functools import lru_cache

import msgspec

from hooks import wire
from hooks.kube import names
from hooks.kube.metadata import JsonObject

API_VERSION = "autoscaling.volume-autoscaler.io/v1alpha1"
KIND, RESOURCE = "VolumeExpansion", "volumeexpansions"
OWNER_KIND = "VolumeAutoscaler"
CLAIM_LABEL = "volume-autoscaler.io/claim"
"""By this label a claim finds the expansions that are about it."""
RETIRED = "Retired"
"""The reason of the one expansion that is about no claim: it counts the steps of claims that are gone."""
MOST_LEAVING = 500
"""So many expansions go at once; the others wait for their turn."""


class Step(wire.Model):
    """The spec of a VolumeExpansion."""

    claim_name: str = ""
    claim_uid: str = msgspec.field(default="", name="claimUID")
    from_size: str = ""
    size: str = ""
    reason: str = ""
    message: str = ""
    requested_at: str = ""
    first_requested_at: str = ""  # of the steps that came to nothing and that this one repeats
    filesystem_bytes: int = 0  # the size of the file system then; metrics that still show it are from before
    count: int = 0
    attempt: int = 0
    leaving: dict[str, int] = msgspec.field(default_factory=dict)  # in the record: counts of expansions that go, by UID


class OwnerReference(wire.Model):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ExpansionMetadata(wire.Model):
    name: str
    uid: str = ""
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None


class Expansion(wire.Model, kw_only=True):
    metadata: ExpansionMetadata
    spec: Step = msgspec.field(default_factory=Step)

    @property
    def autoscaler(self) -> str:
        """The VolumeAutoscaler that controls it; empty if none does."""
        group = API_VERSION.partition("/")[0]
        return next(
            (
                owner.name
                for owner in self.metadata.owner_references or ()
                if owner.controller and owner.kind == OWNER_KIND and owner.api_version.partition("/")[0] == group
            ),
            "",
        )

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def written(self) -> Step:
        """What this hook wrote last; what is there, if that cannot be read."""
        applied = (self.metadata.annotations or {}).get(wire.LAST_APPLIED, "")
        try:
            return wire.parse(_Applied, applied.encode()).spec
        except wire.InvalidRequest:
            return self.spec


class _Applied(wire.Model):
    spec: Step


def name_for(autoscaler: str, claim: str) -> str:
    """Remembered, because all are asked for at every sync; unless they are longer than any name can be."""
    is_name = max(len(autoscaler), len(claim)) <= names.DEFAULT.max_length
    return _name_for(autoscaler, claim) if is_name else _name_for.__wrapped__(autoscaler, claim)


@lru_cache(maxsize=4096)
def _name_for(autoscaler: str, claim: str) -> str:
    return names.join_name(names.DEFAULT, autoscaler, claim)


def retired_name(autoscaler: str) -> str:
    return names.join_name(names.DEFAULT, autoscaler, "", RETIRED)


def claim_label(claim: str) -> str:
    """The claim's name, cut to what a label can hold."""
    return claim if len(claim) <= names.SERVICE.max_length else names.join_name(names.SERVICE, claim)


def child(name: str, step: Step) -> JsonObject:
    """The object to return to Metacontroller; what is empty is left out."""
    labels = {CLAIM_LABEL: claim_label(step.claim_name)} if step.claim_name else {}
    fields = msgspec.to_builtins(step)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "labels": labels} if labels else {"name": name},
        "spec": {key: value for key, value in fields.items() if value or key in ("count", "attempt")},
    }
