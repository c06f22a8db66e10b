"""Objects as the API server stores them: with all that it keeps about who wrote what."""

from collections.abc import Iterable, Mapping, Sequence

from hooks.kube.metadata import JsonObject, object_key

CREATED = "2026-01-01T00:00:00Z"
KUBECTL, KUBECTL_MANAGER = "kubectl.kubernetes.io/last-applied-configuration", "kubectl-client-side-apply"


def as_stored(
    obj: JsonObject, labels: Mapping[str, str], annotations: Mapping[str, str], fields: Sequence[JsonObject]
) -> JsonObject:
    metadata = obj["metadata"] | {"annotations": dict(annotations), "managedFields": list(fields)}
    metadata |= {"creationTimestamp": CREATED, "resourceVersion": "123456"}
    return obj | {"metadata": metadata | ({"labels": dict(labels)} if labels else {})}


def written_by(manager: str, api_version: str, fields: JsonObject, subresource: str = "") -> JsonObject:
    entry = {"manager": manager, "operation": "Update", "apiVersion": api_version, "time": CREATED}
    entry |= {"subresource": subresource} if subresource else {}
    return entry | {"fieldsType": "FieldsV1", "fieldsV1": fields}


def named_fields(annotations: Sequence[str], labels: Mapping[str, str] | None = None, owner: str = "") -> JsonObject:
    fields: JsonObject = {"f:annotations": {".": {}} | {f"f:{key}": {} for key in annotations}}
    if labels:
        fields["f:labels"] = {".": {}} | {f"f:{key}": {} for key in labels}
    if owner:
        fields["f:ownerReferences"] = {".": {}, f'k:{{"uid":"{owner}"}}': {}}
    return {"f:metadata": fields}


def keyed(objects: Iterable[JsonObject]) -> JsonObject:
    return {object_key(obj): obj for obj in objects}


def make_uid(start: str, number: int) -> str:
    return f"{start}-cee6-4470-920e-{number:012x}"
