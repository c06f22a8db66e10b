"""What all parts of the simulation share: the clock's agenda, kinds, and reading claims."""

import heapq
import itertools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from hooks.kube.cluster import Kinds
from hooks.kube.duration import parse_duration
from hooks.kube.metadata import (
    JsonObject,
    annotations_of,
    name_of,
)
from hooks.kube.quantity import format_binary, whole_bytes
from hooks.manifests import read_manifests
from hooks.volumes.claims import HISTORY, PAUSED, REQUESTED_AT, REQUESTED_BY, REQUESTED_SIZE, read_history
from tests import volumes

START = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
NAMESPACE = "db"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
ALWAYS = float("inf")

KINDS = Kinds.of(read_manifests("deploy/crds"))
AUTOSCALERS = KINDS.by_resource(volumes.API, "volumeautoscalers")
EXPANSIONS = KINDS.by_resource(volumes.API, "volumeexpansions")
CLAIMS = KINDS.by_resource("v1", "persistentvolumeclaims")
CLASSES = KINDS.by_resource("storage.k8s.io/v1", "storageclasses")
EVENTS = KINDS.by_resource("v1", "events")
WATCHED = (AUTOSCALERS, EXPANSIONS, CLAIMS, CLASSES, EVENTS)
MEMORY = (REQUESTED_SIZE, REQUESTED_AT, REQUESTED_BY, HISTORY)
"""The annotations by which a claim remembers its steps."""

Action = Callable[[], None]
Key = tuple[str, str]
"""A parent: its kind, and its own key."""


class Agenda:
    """What happens when. The clock jumps from one entry to the next."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._entries: list[tuple[float, int, Action]] = []
        self._order = itertools.count()

    @property
    def now(self) -> datetime:
        return START + timedelta(milliseconds=round(self.seconds * 1000))

    def after(self, seconds: float, action: Action) -> None:
        heapq.heappush(self._entries, (self.seconds + seconds, next(self._order), action))

    def run(self, seconds: float) -> None:
        until = self.seconds + seconds
        while self._entries and self._entries[0][0] <= until:
            self.seconds, _, action = heapq.heappop(self._entries)
            action()
        self.seconds = until


def seconds_of(duration: str) -> float:
    return parse_duration(duration).total_seconds()


# Claims as JSON


def request_of(claim: JsonObject) -> int:
    return whole_bytes(claim["spec"]["resources"]["requests"]["storage"])


def capacity_of(claim: JsonObject) -> int:
    """0 while there is no volume."""
    return whole_bytes(claim["status"].get("capacity", {}).get("storage", "0"))


def last_step(annotations: Mapping[str, str]) -> str:
    """When the last step that a claim took up was decided."""
    history = read_history(annotations.get(HISTORY, ""))
    return history[-1].step if history else ""


def is_bound(claim: JsonObject) -> bool:
    return bool(claim["status"]["phase"] == "Bound")


def is_paused(claim: JsonObject) -> bool:
    return annotations_of(claim).get(PAUSED, "false") != "false"


def shown(claim: JsonObject) -> str:
    return f"{name_of(claim)} ({format_binary(request_of(claim))} of {format_binary(capacity_of(claim))})"
