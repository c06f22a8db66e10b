"""The three-way merge by which Metacontroller applies a partial object to an observed one.

Fields that were applied before and are no longer desired go; desired fields are set; all others stay. Lists of objects
that share a well-known key are merged item by item, other lists are replaced whole. Where an object or a list is
observed and something else was applied or is desired, that counts as nothing: as in the original, it is not an error.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hooks.kube.metadata import JsonObject, annotations_of, compact_json, object_key

LAST_APPLIED = "metacontroller.k8s.io/last-applied-configuration"
"""Where Metacontroller keeps what a hook returned for a child: the base of the merge."""
SYSTEM_METADATA = (
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)

MERGE_KEYS = ("containerPort", "port", "mountPath", "name", "uid", "ip", "path")
"""Tried in this order: the first that all items of all three lists have identifies an item."""


class CannotMerge(ValueError):
    """What was applied last cannot be read."""


def apply(observed: JsonObject, desired: JsonObject) -> JsonObject:
    """The object as Metacontroller would write it: merged, with system fields and status as observed."""
    wanted = deepcopy(desired)
    (wanted["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
    updated = merge(observed, _last_applied(observed), wanted)
    for name in SYSTEM_METADATA:
        _revert(name, observed["metadata"], updated["metadata"])
    _revert("status", observed, updated)
    annotations = updated["metadata"].get("annotations") or {}
    updated["metadata"]["annotations"] = annotations | {LAST_APPLIED: go_json(wanted)}
    return updated


def go_json(value: JsonObject) -> str:
    """JSON as Go writes it: sorted, compact, with characters that matter in HTML escaped. Floats would differ."""
    text = compact_json(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def merge(observed: JsonObject, last_applied: JsonObject, desired: JsonObject) -> JsonObject:
    merged: JsonObject = _merge(deepcopy(observed), last_applied, desired)
    return merged


def _last_applied(observed: JsonObject) -> JsonObject:
    try:
        applied = json.loads(annotations_of(observed).get(LAST_APPLIED) or "{}")
    except (ValueError, RecursionError):
        applied = ""
    if applied is not None and not isinstance(applied, dict):
        raise CannotMerge(f"the annotation {LAST_APPLIED} of {object_key(observed)} is not a JSON object")
    return applied or {}


def _revert(name: str, observed: JsonObject, updated: JsonObject) -> None:
    if name in observed:
        updated[name] = observed[name]
    else:
        updated.pop(name, None)


def _merge(observed: Any, last_applied: Any, desired: Any) -> Any:
    if isinstance(observed, dict):
        return _merge_objects(observed, _object(last_applied), _object(desired))
    if isinstance(observed, list):
        return _merge_lists(observed, _list(last_applied), _list(desired))
    return deepcopy(desired)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _merge_objects(observed: JsonObject, last_applied: JsonObject, desired: JsonObject) -> JsonObject:
    for key in last_applied.keys() - desired.keys():
        observed.pop(key, None)
    for key, wanted in desired.items():
        observed[key] = _merge(observed.get(key), last_applied.get(key), wanted)
    return observed


def _merge_lists(observed: list[Any], last_applied: list[Any], desired: list[Any]) -> list[Any]:
    key = merge_key([*observed, *last_applied, *desired])
    if key is None:
        return deepcopy(desired)
    by_key = [{_text(item[key]): item for item in items} for items in (observed, last_applied, desired)]
    merged = _merge_objects(*by_key)
    # An item that is observed twice stays twice: two ports of one number and different protocols lose one, as there.
    kept = [name for item in observed if (name := _text(item[key])) in merged]
    added = dict.fromkeys(name for item in desired if (name := _text(item[key])) not in kept)
    return [merged[name] for name in [*kept, *added]]


def merge_key(items: Sequence[Any]) -> str | None:
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    return next((key for key in MERGE_KEYS if all(key in item for item in items)), None)


def _text(value: Any) -> str:
    """The number 80 and the text 80 are the same key."""
    return value if isinstance(value, str) else compact_json(value)
