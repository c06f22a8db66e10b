"""Status conditions (metav1.Condition)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from hooks.kube.metadata import JsonObject
from hooks.kube.times import InvalidTime, format_time, parse_time

Status = Literal["True", "False", "Unknown"]


def condition(
    type_: str,
    status: Status,
    reason: str,
    message: str,
    *,
    now: datetime,
    observed: Sequence[Mapping[str, Any]] = (),
) -> JsonObject:
    """lastTransitionTime moves only when the status flips: otherwise every sync would be a write."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _unchanged_since(observed, type_, status) or format_time(now),
    }


def _unchanged_since(observed: Sequence[Mapping[str, Any]], type_: str, status: Status) -> str | None:
    previous = next((item for item in observed if isinstance(item, Mapping) and item.get("type") == type_), None)
    if previous is None or previous.get("status") != status:
        return None
    since = previous.get("lastTransitionTime")
    return since if isinstance(since, str) and _is_time(since) else None


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except InvalidTime:
        return False
    return True
