"""Metacontroller in the simulation: which parents are synced when, and with how old a view."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hooks.kube.cluster import Kind, Snapshot
from hooks.kube.metadata import (
    JsonObject,
    labels_of,
    object_key,
)
from hooks.rehearsal import Rehearsal, Round, Sync
from hooks.volumes.expansions import CLAIM_LABEL
from tests.simulation.ground import ALWAYS, AUTOSCALERS, CLAIMS, EXPANSIONS, KINDS, NAMESPACE, WATCHED, Key
from tests.simulation.server import Crashed, shipped_controllers

if TYPE_CHECKING:
    from tests.simulation.world import World


class Metacontroller:
    """Which parents are synced when, and with how old a view of the cluster."""

    RESYNC = 600.0
    LONGEST_BACKOFF = 1000.0

    def __init__(self, world: "World", *, events: bool) -> None:
        self.world = world
        controllers = shipped_controllers(events=events)
        self.rehearsal = Rehearsal(controllers, KINDS, world.call)
        self.controllers = {controller.parents[0].kind.kind: controller for controller in controllers}
        self._frozen: dict[Kind, tuple[float, Mapping[str, JsonObject]]] = {}
        self._missed: list[tuple[JsonObject | None, JsonObject | None]] = []
        self._due: dict[tuple[str, Key], float] = {}
        self._failures: Counter[Key] = Counter()
        self._idle: dict[Key, Sequence[str]] = {}
        self.is_second = False  # another one has just carried out the same sync: this one writes an older status

    def start(self) -> None:
        """Also after a restart: nothing is remembered, and all parents are synced."""
        self.rehearsal.forget()
        for memory in (self._frozen, self._missed, self._due, self._failures, self._idle):
            memory.clear()
        for key in self.parents():
            self.enqueue(key, self.world.random.uniform(0.1, 2), lane="soon")

    def resync_all_the_time(self) -> None:
        for key in self.parents():
            self.enqueue(key, self.world.random.uniform(0, 30), lane="resync")
        self.world.agenda.after(self.RESYNC, self.resync_all_the_time)

    def parents(self) -> list[Key]:
        return [(kind.kind, key) for kind in (AUTOSCALERS, CLAIMS) for key in self.world.objects(kind)]

    # What is seen

    def freeze(self, kind: Kind, seconds: float) -> None:
        """The cache of a kind falls behind; what changes meanwhile is noticed when it has caught up."""
        if kind not in self._frozen:
            self._frozen[kind] = self.world.seconds + seconds, dict(self.world.objects(kind))
            self.world.agenda.after(seconds, self._thaw)

    def _thaw(self) -> None:
        self._frozen = {kind: view for kind, view in self._frozen.items() if view[0] > self.world.seconds}
        missed, self._missed = self._missed, []
        for old, new in missed:
            self.changed(old, new)

    def seen(self) -> Snapshot:
        live = self.world.server.snapshot()
        if not self._frozen:
            return live
        views = {kind: self._frozen[kind][1] if kind in self._frozen else live.of(kind) for kind in WATCHED}
        return Snapshot({kind.group_key: objects for kind, objects in views.items()})

    # What is queued

    def changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if KINDS.of_object(new or old or {}) in self._frozen:
            self._missed.append((old, new))
            return
        for key in self._concerned(old, new):
            self.enqueue(key, self.world.random.uniform(0.02, 0.5), lane="soon")

    def _concerned(self, old: JsonObject | None, new: JsonObject | None) -> Iterable[Key]:
        obj = new or old or {}
        kind = obj["kind"]
        if kind == AUTOSCALERS.kind:
            is_status = old and new and old["metadata"]["generation"] == new["metadata"]["generation"]
            return [] if is_status else [(kind, object_key(obj))]
        everybody = [(AUTOSCALERS.kind, key) for key in self.world.objects(AUTOSCALERS)]
        if kind == CLAIMS.kind:
            return [(kind, object_key(obj)), *everybody]
        if kind == EXPANSIONS.kind and CLAIM_LABEL in labels_of(obj):
            return [(CLAIMS.kind, f"{NAMESPACE}/{labels_of(obj)[CLAIM_LABEL]}"), *everybody]
        return everybody

    def enqueue(self, key: Key, seconds: float, *, lane: str) -> None:
        """In each lane the soonest time counts."""
        at = self.world.seconds + seconds
        if at < self._due.get((lane, key), ALWAYS):
            self._due[lane, key] = at
            self.world.agenda.after(seconds, partial(self._fire, lane, key, at))

    def _fire(self, lane: str, key: Key, at: float) -> None:
        if self._due.get((lane, key)) == at:
            del self._due[lane, key]
            if lane != "resync" or self._idle.get(key) != self._versions(key):
                self.sync(key)

    def _versions(self, key: Key) -> Sequence[str]:
        """What must change before a sync that wrote nothing can write something; for the next poll there is a lane."""
        seen, kinds = self.seen(), (CLAIMS, EXPANSIONS) if key[0] == CLAIMS.kind else WATCHED
        return [obj["metadata"]["resourceVersion"] for kind in kinds for obj in seen.of(kind).values()]

    # A sync

    def sync(self, key: Key, *, times: int = 1) -> list[str]:
        """One parent, with what is seen now; twice if two Metacontrollers run at once. Returns what was written."""
        controller, seen = self.controllers[key[0]], self.seen()
        parent = seen.of(controller.parents[0].kind).get(key[1])
        rounds = [Round() for _ in range(times if parent else 0)]
        for n, done in enumerate(rounds):
            self.is_second = n > 0
            try:
                Sync(self.rehearsal, controller, parent or {}, seen, self.world.server, done).run()
            except Crashed:
                self.world.tell("Metacontroller crashed between two writes")
                self.start()
                break
            self._schedule(key, done)
        return [write for done in rounds for write in done.writes]

    def _schedule(self, key: Key, done: Round) -> None:
        self.world.laws.synced(key, done)
        for seconds in done.resyncs.values():
            self.enqueue(key, seconds, lane="later")
        if done.errors:
            self._failures[key] += 1
            self.enqueue(key, min(2.0 ** min(self._failures[key], 10), self.LONGEST_BACKOFF), lane="retry")
            return
        self._failures.pop(key, None)
        if not done.writes and not done.swallowed:
            self._idle[key] = self._versions(key)
