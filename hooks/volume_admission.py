"""The admission step: when a claim is annotated with a larger size, the same update raises its request to that size.

Claims only grow here, and no update is ever refused. Kubernetes 1.36 and newer does this by itself, by a policy
(deploy/components/admission-policy); for older ones this is a webhook. One table of cases is run against both.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hooks import wire
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, is_deleting
from hooks.kube.quantity import InvalidQuantity, canonical, parse_quantity
from hooks.volumes.claims import REQUESTED_AT, REQUESTED_SIZE

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"

LONGEST_SIZE = 32
SIZE = r"([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
"""What is read as a size: a quantity without a sign. The policy holds the same expression."""
TOO_LARGE = "8Ei"
"""Go's quantities hold no more than 64 bits of this notation."""


class AdmissionRequest(wire.Model, kw_only=True):
    uid: str
    operation: str = ""
    object: JsonObject | None = None
    old_object: JsonObject | None = None


class AdmissionReview(wire.Model, kw_only=True):
    """What the API server asks before it stores a claim."""

    request: AdmissionRequest


@dataclass(frozen=True)
class AdmissionResponse:
    response: JsonObject

    def body(self) -> JsonObject:
        return {"apiVersion": API_VERSION, "kind": KIND, "response": self.response}


def admit(review: AdmissionReview) -> wire.Outcome:
    """The answer: yes, and the larger size if there is one."""
    request = review.request
    size = grown(request.old_object or {}, request.object or {}) if request.operation == "UPDATE" else None
    response: JsonObject = {"uid": request.uid, "allowed": True}
    if size is not None:
        patch = [{"op": "replace", "path": "/spec/resources/requests/storage", "value": size}]
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(compact_json(patch).encode()).decode()}
    return wire.Outcome(response=AdmissionResponse(response))


def grown(old: JsonObject, new: JsonObject) -> str | None:
    """The size that an update of a claim from old to new shall request instead; None if it stays as it is.

    Whether the claim is bound or on its way out is read from the old object: the new one is what a client sent, which
    may lack both.
    """
    if not _is_asked(annotations_of(old), annotations_of(new)) or not _is_bound(old) or is_deleting(old):
        return None
    wanted, requested = annotations_of(new).get(REQUESTED_SIZE, ""), _request(new)
    return canonical(wanted) if _is_size(wanted) and _is_larger(wanted, requested) else None


def _is_asked(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether this update asks: who lowers a request on purpose is not overruled by an annotation from before."""
    return any(key in new and new[key] != old.get(key) for key in (REQUESTED_SIZE, REQUESTED_AT))


def _is_bound(claim: JsonObject) -> bool:
    return _part(claim, "status").get("phase") == "Bound"


def _request(claim: JsonObject) -> object:
    return _part(_part(_part(claim, "spec"), "resources"), "requests").get("storage")


def _part(of: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = of.get(name)
    return part if isinstance(part, Mapping) else {}


def _is_size(text: str) -> bool:
    return len(text) <= LONGEST_SIZE and re.fullmatch(SIZE, text) is not None


def _is_larger(wanted: str, requested: object) -> bool:
    if not isinstance(requested, str):
        return False
    try:
        return parse_quantity(requested) < parse_quantity(wanted) < parse_quantity(TOO_LARGE)
    except InvalidQuantity:
        return False
