"""Metadata of Kubernetes objects: the rules for labels and annotations, and reading raw JSON objects.

The readers never raise: an odd shape reads as if the part were absent.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hooks.kube.quote import quote

JsonObject = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SUBDOMAIN_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_NAME_MAX = 63
_SUBDOMAIN_MAX = 253
_NAME_RULE = "letters, digits, - _ . with a letter or digit at both ends"


def check_label_key(key: str) -> str | None:
    """A sentence saying what is wrong with the key, or None."""
    problem = _qualified_name_problem(key)
    return problem and f"label key {quote(key)} {problem}"


def check_annotation_key(key: str) -> str | None:
    """As check_label_key, except that upper case is fine in the prefix too."""
    problem = _qualified_name_problem(key.lower())
    return problem and f"annotation key {quote(key)} {problem}"


def check_label_value(value: str) -> str | None:
    """A sentence saying what is wrong with the value, or None."""
    problem = _name_problem(value) if value else None
    return problem and f"label value {quote(value)} {problem}"


def labels_of(obj: object) -> dict[str, str]:
    return _strings(_metadata(obj).get("labels"))


def annotations_of(obj: object) -> dict[str, str]:
    return _strings(_metadata(obj).get("annotations"))


def name_of(obj: object) -> str:
    return _text(_metadata(obj).get("name"))


def namespace_of(obj: object) -> str:
    """Empty for cluster-scoped objects."""
    return _text(_metadata(obj).get("namespace"))


def uid_of(obj: object) -> str:
    return _text(_metadata(obj).get("uid"))


def owner_of(obj: object) -> Mapping[str, Any] | None:
    """The ownerReference of the controller: there is at most one."""
    references = _metadata(obj).get("ownerReferences")
    candidates = references if isinstance(references, list) else []
    return next((ref for ref in candidates if isinstance(ref, Mapping) and ref.get("controller") is True), None)


def is_deleting(obj: object) -> bool:
    return bool(_metadata(obj).get("deletionTimestamp"))


def group_key(api_version: str, kind: str) -> str:
    """How Metacontroller keys a group of objects: Deployment.apps/v1, Pod.v1."""
    return f"{kind}.{api_version}"


def object_key(obj: object) -> str:
    """How Metacontroller keys an object within its group: namespace/name, or name if cluster-scoped."""
    namespace = namespace_of(obj)
    return f"{namespace}/{name_of(obj)}" if namespace else name_of(obj)


def compact_json(value: object) -> str:
    """The same text for the same value, whatever the order of its keys."""
    return msgspec.json.encode(value, order="deterministic").decode()


def _qualified_name_problem(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return "has more than one /"
    if slash and (problem := _subdomain_problem(prefix)):
        return f"has a prefix that {problem}"
    if problem := _name_problem(name):
        return f"has a name that {problem}"
    return None


def _name_problem(name: str) -> str | None:
    if not name:
        return "is empty"
    if len(name) > _NAME_MAX:
        return f"is longer than {_NAME_MAX} characters"
    return None if _NAME.fullmatch(name) else f"is not made of {_NAME_RULE}"


def _subdomain_problem(prefix: str) -> str | None:
    if not prefix:
        return "is empty"
    if len(prefix) > _SUBDOMAIN_MAX:
        return f"is longer than {_SUBDOMAIN_MAX} characters"
    is_valid = all(_SUBDOMAIN_LABEL.fullmatch(label) for label in prefix.split("."))
    return None if is_valid else "is not a lower-case DNS name"


def _metadata(obj: object) -> Mapping[str, Any]:
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    return metadata if isinstance(metadata, Mapping) else {}


def _strings(value: object) -> dict[str, str]:
    items = value.items() if isinstance(value, Mapping) else ()
    return {key: item for key, item in items if isinstance(key, str) and isinstance(item, str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
