"""Events (core v1) that `kubectl describe` shows under the object they are about."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from hooks.kube import names
from hooks.kube.metadata import JsonObject, name_of, namespace_of, uid_of
from hooks.kube.times import format_time

_LONGEST_MESSAGE = 1024
_GAP = " ... "


def event(
    *,
    involved: Mapping[str, Any],
    reason: str,
    message: str,
    type_: Literal["Normal", "Warning"],
    component: str,
    now: datetime,
    identity: Sequence[str] = (),
) -> JsonObject:
    """The name depends on what happened to whom, never on when: the same news is the same Event."""
    timestamp = format_time(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": _name(involved, reason, identity),
            "namespace": namespace_of(involved) or "default",  # where the API server wants them if cluster-scoped
        },
        "involvedObject": _reference(involved),
        "type": type_,
        "reason": reason,
        "message": _cut(message),
        "count": 1,
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
    }


def with_earlier(earlier: Mapping[str, JsonObject] | None, news: Iterable[JsonObject]) -> list[JsonObject]:
    """Earlier Events as they are, and the new ones: to leave one out would delete it, to change one would repeat it."""
    sent = {name_of(old): old for _, old in sorted((earlier or {}).items())}
    for new in news:
        sent.setdefault(name_of(new), new)
    return list(sent.values())


def _name(involved: Mapping[str, Any], reason: str, identity: Sequence[str]) -> str:
    """Name and reason first, for the reader; the hash covers all of it even where the text is cut."""
    whom = name_of(involved), reason, namespace_of(involved), uid_of(involved)
    return names.join_name(names.DEFAULT, *whom, *identity)


def _reference(involved: Mapping[str, Any]) -> JsonObject:
    reference = {
        "apiVersion": involved.get("apiVersion"),
        "kind": involved.get("kind"),
        "name": name_of(involved),
        "namespace": namespace_of(involved),
        "uid": uid_of(involved),
    }
    return {field: value for field, value in reference.items() if isinstance(value, str) and value}


def _cut(message: str) -> str:
    """The ends of a long message say more than its middle."""
    if len(message) <= _LONGEST_MESSAGE:
        return message
    kept = _LONGEST_MESSAGE - len(_GAP)
    return message[: kept - kept // 2] + _GAP + message[-(kept // 2) :]
