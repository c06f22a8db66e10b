"""A world in which the volume autoscaler lives for a simulated week: storage, workloads, metrics, and meddlers.

Nothing here runs by the real clock or by chance: an agenda moves the time from one thing that happens to the next, and
all dice are thrown from a seed. The hooks are called as they are, the rehearsal plays Metacontroller, and `Laws`
watches every answer and every write. `python -m tests.simulation --seeds 1000` lives through many weeks.
"""

import argparse
import heapq
import itertools
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, NamedTuple

import msgspec

from hooks import volume_autoscaler, volume_claim, wire
from hooks.controllers import Controller, read_controllers
from hooks.kube.cluster import Cluster, Conflict, Kind, Kinds, Snapshot
from hooks.kube.duration import format_duration, parse_duration
from hooks.kube.metadata import (
    JsonObject,
    annotations_of,
    compact_json,
    is_deleting,
    labels_of,
    name_of,
    object_key,
    owner_of,
    uid_of,
)
from hooks.kube.quantity import format_binary, whole_bytes
from hooks.kube.times import format_time, parse_time
from hooks.manifests import read_manifests
from hooks.rehearsal import HookFailed, Rehearsal, Round, Sync
from hooks.volume_admission import grown
from hooks.volumes.claims import HISTORY, PAUSED, REQUESTED_AT, REQUESTED_BY, REQUESTED_SIZE, read_history
from hooks.volumes.expansions import CLAIM_LABEL
from hooks.volumes.policy import GIB, MIB
from hooks.volumes.usage import UNREACHABLE, Question, Sample, Unavailable, Usages, read_usages
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


# Workloads, storage and metrics


class Moment(NamedTuple):
    """From here on, usage is a line."""

    at: float
    size: int
    used: float
    rate: float


@dataclass
class Disk:
    """The file system of a claim and the pod that fills it, in bytes and bytes per second."""

    size: int
    used: float = 0
    rate: float = 0
    overhead_percent: int = 3
    inode_percent: int = 0  # of the inodes that are in use; 0 for a file system without a fixed number
    crashes_when_full: bool = False
    copies: Sequence[tuple[Mapping[str, str], float]] = (({"node": "a"}, 75.0),)
    """The series of its metrics: labels, and how many seconds they lag behind."""
    born: float = 0
    past: list[Moment] = field(default_factory=list)

    def at(self, seconds: float) -> Moment:
        """How things were at a time, with the usage of that time."""
        then = next((moment for moment in reversed(self.past) if moment.at <= seconds), self.past[0])
        used = then.used + then.rate * (seconds - then.at)
        return Moment(seconds, then.size, min(max(used, 0), self.room(then.size)), then.rate)

    def room(self, size: int) -> int:
        return size * (100 - self.overhead_percent) // 100

    def change(
        self, now: float, *, size: int | None = None, used: float | None = None, rate: float | None = None
    ) -> None:
        then = self.at(now) if self.past else Moment(now, self.size, self.used, self.rate)
        self.size = then.size if size is None else size
        self.used = min(then.used if used is None else used, self.room(self.size))
        self.rate = then.rate if rate is None else rate
        self.past = [*self.past[-40:], Moment(now, self.size, self.used, self.rate)]

    def percent(self, seconds: float) -> int:
        then = self.at(seconds)
        return int(then.used) * 100 // self.room(then.size)


@dataclass
class Driver:
    """How the storage behind a claim behaves."""

    delay: tuple[float, float] = (20, 60)
    unit: int = GIB
    tells: bool = True  # whether it sets conditions while it works
    says_infeasible: bool = False
    most_per_day: int | None = None
    changes: list[float] = field(default_factory=list)
    refusals: int = 0
    is_busy: bool = False


class Storage:
    """After a while the capacity of a claim follows its request, unless the driver refuses."""

    RETRY = 5 * MINUTE

    def __init__(self, world: "World") -> None:
        self.world = world
        self.drivers: dict[str, Driver] = {}  # by claim UID
        self.disks: dict[str, Disk] = {}

    def look(self, claim: JsonObject) -> None:
        driver = self.drivers.get(uid_of(claim))
        if driver and is_bound(claim) and not driver.is_busy and request_of(claim) > capacity_of(claim):
            driver.is_busy = True
            self.world.agenda.after(1, partial(self._begin, claim, driver))

    def _begin(self, claim: JsonObject, driver: Driver) -> None:
        current = self.world.again(claim)
        if current is None or request_of(current) <= capacity_of(current):
            driver.is_busy = False
            return
        if why := self._refusal(claim, driver):
            driver.refusals += 1
            self._tell(current, "ControllerResizeError", why, infeasible=driver.says_infeasible)
            self.world.agenda.after(self.RETRY, partial(self._begin, claim, driver))
            return
        driver.changes.append(self.world.seconds)
        if driver.tells:
            self._tell(current, "Resizing")
        size = -(-request_of(current) // driver.unit) * driver.unit
        self.world.agenda.after(self.world.random.uniform(*driver.delay), partial(self._finish, claim, driver, size))

    def _refusal(self, claim: JsonObject, driver: Driver) -> str:
        if self.world.lasts("refuse", uid_of(claim)):
            return "the pool has no space left"
        recent = [at for at in driver.changes if at > self.world.seconds - DAY]
        if driver.most_per_day is not None and len(recent) >= driver.most_per_day:
            return "you have reached the maximum modification rate per volume limit"
        return ""

    def _finish(self, claim: JsonObject, driver: Driver, size: int) -> None:
        current = self.world.again(claim)
        if current is None:
            return
        if self.world.lasts("no pod", uid_of(claim)):
            self._tell(current, "FileSystemResizePending")
            self.world.agenda.after(MINUTE, partial(self._finish, claim, driver, size))
            return
        driver.is_busy = False
        self.disks[uid_of(claim)].change(self.world.seconds, size=size)
        self.world.server.set_status(claim, {"phase": "Bound", "capacity": {"storage": format_binary(size)}})

    def _tell(self, claim: JsonObject, type_: str, message: str = "", *, infeasible: bool = False) -> None:
        if any(condition["type"] == type_ for condition in claim["status"].get("conditions", ())):
            return  # it was said already
        since = format_time(self.world.now)
        said = {"type": type_, "status": "True", "message": message, "lastTransitionTime": since}
        status: JsonObject = {"phase": "Bound", "capacity": claim["status"]["capacity"], "conditions": [said]}
        if infeasible:
            status["allocatedResourceStatuses"] = {"storage": "ControllerResizeInfeasible"}
        self.world.server.set_status(claim, status)


class Prometheus:
    """Volume metrics as kubelets report them: late, several times over, or not at all."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.questions = 0
        self.lingering: list[tuple[float, str, Disk]] = []
        """Until when, claim and disk: the series of claims that are gone."""
        self.fullest: dict[str, tuple[int, int]] = {}
        """By claim UID: the most that was ever reported, in percent of bytes and of inodes."""
        self._remembered: dict[int, tuple[float, Usages]] = {}

    def ask(self, question: Question, replica: int) -> Usages | Unavailable:
        """A replica of the service remembers what it heard for half a poll, at most a minute."""
        asked, remembered = self._remembered.get(replica, (-ALWAYS, Usages()))
        if self.world.seconds - asked < min(question.poll_seconds / 2, MINUTE):
            return remembered
        self.questions += 1
        if self.world.lasts("outage"):
            return Unavailable(UNREACHABLE, "Prometheus at http://prometheus refused the connection")
        if self.world.lasts("empty"):
            return Usages()
        answer = read_usages(self._samples(), now=START.timestamp() + self.world.seconds)
        self._remembered[replica] = self.world.seconds, answer
        return answer

    def forget(self) -> None:
        """The replicas restart."""
        self._remembered.clear()

    def _samples(self) -> Iterable[Sample]:
        for claim in self.world.objects(CLAIMS).values():
            if is_bound(claim) and not self.world.lasts("no series", uid_of(claim)):
                yield from self._of_disk(name_of(claim), uid_of(claim), self.world.storage.disks[uid_of(claim)])
        for until, name, disk in self.lingering:
            if until > self.world.seconds:
                yield from self._of_disk(name, "", disk)

    def _of_disk(self, name: str, uid: str, disk: Disk) -> Iterable[Sample]:
        for labels, lag in disk.copies:
            then = disk.at(self.world.seconds - lag)
            room, used = disk.room(then.size), int(then.used)
            if self.world.seconds - lag < disk.born or (disk.crashes_when_full and used >= room):
                continue
            inodes = room // 16384 if disk.inode_percent else 0
            values = {"capacity_bytes": room, "used_bytes": used, "available_bytes": room - used}
            values |= {"inodes": inodes, "inodes_used": inodes * disk.inode_percent // 100}
            values["health_status_abnormal"] = int(self.world.lasts("abnormal", uid))
            bytes_, inodes_ = self.fullest.get(uid, (0, 0))
            self.fullest[uid] = max(bytes_, used * 100 // room), max(inodes_, disk.inode_percent)
            at = START.timestamp() + self.world.seconds - lag
            of_claim = {"persistentvolumeclaim": name, "namespace": NAMESPACE, **labels}
            yield from (Sample(metric, of_claim, value, at) for metric, value in values.items())


# The API server and Metacontroller


class Refused(HookFailed):
    """The API server says no to a write; for Metacontroller that ends the sync with an error."""


class Crashed(Exception):
    """Metacontroller stops between two writes."""


class Server:
    """The API server: the admission step, the quota, and word to all who watch.

    The methods of `Writer` are for Metacontroller; people and the storage driver use `put`, `set_status` and `remove`.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.cluster = Cluster(KINDS, [volumes.storage_class()])
        self.quota = 0  # of the namespace in bytes, while "quota" lasts
        self.refusals = 0
        self.writes_until_crash = 0
        self.writes: list[str] = []  # by Metacontroller: verb and kind
        self._view: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        if self._view is None:
            self._view = self.cluster.snapshot()
        return self._view

    # For Metacontroller

    def read(self, obj: JsonObject) -> JsonObject | None:
        return self.cluster.read(obj)

    def create(self, obj: JsonObject) -> None:
        self._strain(obj)
        self.cluster.create(obj)
        self._written(None, self.cluster.read(obj), "create")
        self.world.collect_later((owner_of(obj) or {})["uid"])  # if its owner is gone already

    def update(self, obj: JsonObject) -> JsonObject:
        self._strain(obj)
        old = self.cluster.read(obj)
        new = self.cluster.update(self._admitted(old, obj) if old else obj)
        self._written(old, new, "update")
        return new

    def update_status(self, obj: JsonObject) -> JsonObject:
        self._strain(obj)
        old = self.cluster.read(obj)
        new = self.cluster.update_status(obj)
        self._written(old, new, "update status of")
        return new

    def delete(self, obj: JsonObject) -> None:
        if self.world.lasts("no deletes"):
            raise Conflict(object_key(obj))
        old = self.cluster.read(obj)
        self.cluster.delete(obj)
        self._written(old, None, "delete")

    def _strain(self, obj: JsonObject) -> None:
        if self.world.lasts("conflicts") and self.world.random.random() < 0.4:
            raise Conflict(object_key(obj))
        if self.writes_until_crash:
            self.writes_until_crash -= 1
            if not self.writes_until_crash:
                raise Crashed

    # For all others

    def put(self, obj: JsonObject) -> None:
        old = self.cluster.read(obj)
        self.cluster.now = format_time(self.world.now)
        self.cluster.put(self._admitted(old, obj) if old else obj)
        self._written(old, self.cluster.read(obj))

    def set_status(self, obj: JsonObject, status: JsonObject) -> None:
        old = self.world.again(obj)
        if old:
            self._written(old, self.cluster.update_status(old | {"status": status}))

    def remove(self, obj: JsonObject) -> None:
        """What it owned stays: somebody else collects garbage, later."""
        owned = [other for other in self.cluster.snapshot().all().values() if _is_owned(other, uid_of(obj))]
        self.cluster.delete(obj)
        for other in owned:
            self.cluster.put(other)
        self._written(obj, None)

    def _admitted(self, old: JsonObject, obj: JsonObject) -> JsonObject:
        """The admission step, and after it the quota."""
        if obj["kind"] != CLAIMS.kind:
            return obj
        size = None if self.world.lasts("no policy") else grown(old, obj)
        if size is not None:
            resources = {**obj["spec"]["resources"], "requests": {"storage": size}}
            obj = obj | {"spec": {**obj["spec"], "resources": resources}}
        more = request_of(obj) - request_of(old)
        total = sum(request_of(claim) for claim in self.world.objects(CLAIMS).values())
        if more > 0 and self.world.lasts("quota") and total + more > self.quota:
            self.refusals += 1
            raise Refused(f"exceeded quota: requested {format_binary(more)} more")
        return obj

    def _written(self, old: JsonObject | None, new: JsonObject | None, by_loop: str = "") -> None:
        self._view = None
        if by_loop:
            self.writes.append(f"{by_loop} {(new or old or {})['kind']}")
        self.world.laws.written(old, new, by_loop=bool(by_loop))
        self.world.metacontroller.changed(old, new)
        if new and new["kind"] == CLAIMS.kind:
            self.world.storage.look(new)


def _is_owned(obj: JsonObject, owner_uid: str) -> bool:
    owner = owner_of(obj)
    return owner is not None and owner["uid"] == owner_uid


def shipped_controllers(*, events: bool) -> list[Controller]:
    """The manifests that we ship, with or without the component for Events."""
    manifests = [manifest for manifest in read_manifests("metacontroller") if name_of(manifest).startswith("volume-")]
    rule = {"apiVersion": "v1", "resource": "events", "updateStrategy": {"method": "OnDelete"}}
    for manifest in manifests:
        if events and manifest["kind"] == "CompositeController":
            manifest["spec"]["childResources"].append(rule)
    return read_controllers(manifests, KINDS)


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
        for done in rounds:
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


# Laws


class Broken(AssertionError):
    """A law does not hold."""


class Decided(NamedTuple):
    """A step, and the rules of the VolumeAutoscaler that decided it."""

    size: int
    max_size: int
    cooldown: float
    budget: tuple[int, float] | None


class Laws:
    """Watches all answers and writes, and says at once when one of them is against a law."""

    TOLERANCE = 8.0
    """The clocks of replicas differ by up to six seconds, and times are cut to whole ones."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.decided: dict[tuple[str, str, str], Decided] = {}  # by claim UID, time and VolumeAutoscaler
        self.decisions: Counter[str] = Counter()  # by UID of the VolumeAutoscaler
        self.steps: dict[str, list[float]] = {}  # by claim UID: when its request was raised
        self.raises: list[tuple[float, str, str]] = []  # when, claim, size

    def broken(self, law: str) -> Broken:
        recent = "\n  ".join(self.world.log)
        return Broken(f"seed {self.world.seed}, {self.world.clock}: {law}\n  {recent}")

    # Answers

    def answered(self, path: str, body: JsonObject, answer: JsonObject) -> None:
        if path == "/volume-autoscaler/sync":
            steps = [child["spec"] for child in answer["children"] if child["kind"] == EXPANSIONS.kind]
            for step in steps:
                if step.get("size"):
                    self._autoscaler_answered(body, step)
        elif path == "/volume-claim/sync":
            self._claim_answered(body, answer["annotations"])

    def _autoscaler_answered(self, body: JsonObject, step: JsonObject) -> None:
        identity = step["claimUID"], step["requestedAt"], name_of(body["parent"])
        if identity in self.decided:
            return
        spec, size = body["parent"]["spec"], whole_bytes(step["size"])
        budget = spec.get("resizeBudget")
        self.decisions[uid_of(body["parent"])] += 1
        self.decided[identity] = decided = Decided(
            size,
            whole_bytes(spec["maxSize"]),
            seconds_of(spec.get("cooldownPeriod", "5m")),
            (budget["count"], seconds_of(budget["window"])) if budget else None,
        )
        self.world.tell(f"{step['claimName']} {step['fromSize']} -> {step['size']} decided for {step['requestedAt']}")
        self.world.upon_step()
        self._check_decision(body, body["related"][CLAIMS.group_key][f"{NAMESPACE}/{step['claimName']}"], decided)

    def _check_decision(self, body: JsonObject, claim: JsonObject, decided: Decided) -> None:
        spec, rivals = body["parent"]["spec"], body["related"][EXPANSIONS.group_key].values()
        self._check_size(claim, decided)
        self._check_may_grow(claim)
        if spec.get("mode") == "Observe":
            raise self.broken("3: a step was decided in mode Observe")
        if any(rival["spec"].get("claimName") == name_of(claim) and not is_deleting(rival) for rival in rivals):
            raise self.broken("3: a step was decided beside another VolumeAutoscaler")
        percent, inode_percent = self.world.prometheus.fullest.get(uid_of(claim), (0, 0))
        if percent < spec.get("thresholdPercent", 80) and not 0 < spec.get("inodeThresholdPercent", 0) <= inode_percent:
            raise self.broken(f"5: {shown(claim)} was never fuller than {percent}%")

    def _check_size(self, claim: JsonObject, decided: Decided) -> None:
        size = decided.size
        if size <= request_of(claim):
            raise self.broken(f"1: {format_binary(size)} is not above the request of {shown(claim)}")
        if size > decided.max_size:
            raise self.broken(f"1: {format_binary(size)} is above maxSize {format_binary(decided.max_size)}")
        if size % (GIB if size >= GIB else MIB):
            raise self.broken(f"1: {size} is no whole number of GiB, or of MiB below one")

    def _check_may_grow(self, claim: JsonObject) -> None:
        if request_of(claim) > capacity_of(claim):
            raise self.broken(f"3: a step on top of a resize that is under way: {shown(claim)}")
        if is_paused(claim) or is_deleting(claim) or not is_bound(claim):
            raise self.broken(f"3: a step of a claim that is paused, deleted or not bound: {shown(claim)}")

    def _claim_answered(self, body: JsonObject, annotations: JsonObject) -> None:
        claim = body["object"]
        if any(key in annotations and annotations[key] is None for key in MEMORY):
            raise self.broken(f"4: the memory of {shown(claim)} is deleted")
        if REQUESTED_SIZE not in annotations:
            return
        decided = self.decided.get((uid_of(claim), last_step(annotations), annotations[REQUESTED_BY]))
        if decided is None or decided.size != whole_bytes(annotations[REQUESTED_SIZE]):
            raise self.broken(f"1: nobody decided {annotations[REQUESTED_SIZE]} for {shown(claim)}")
        self._check_size(claim, decided)
        self._check_may_grow(claim)
        about = [other for other in body["related"][EXPANSIONS.group_key].values() if not is_deleting(other)]
        if len(about) != 1:
            raise self.broken(f"3: a step of a claim that {len(about)} VolumeExpansions are about")

    def same_bytes(self, first: bytes, second: bytes) -> None:
        if first != second:
            raise self.broken(f"10: two answers to the same request:\n{first!r}\n{second!r}")

    # Writes

    def written(self, old: JsonObject | None, new: JsonObject | None, *, by_loop: bool) -> None:
        kind = (new or old or {})["kind"]
        if kind == CLAIMS.kind and old and new and not by_loop:
            self._claim_edited(old, new)
        elif by_loop and kind in (CLAIMS.kind, AUTOSCALERS.kind):
            if old is None or new is None:
                raise self.broken(f"4: the loop created or deleted a {kind}")
            check = self._claim_written if kind == CLAIMS.kind else self._autoscaler_written
            check(old, new)

    def _claim_edited(self, old: JsonObject, new: JsonObject) -> None:
        """Who destroys a memory has to live with it, and a step that is undone before the claim noted it was none."""
        if any(annotations_of(old).get(key) != annotations_of(new).get(key) for key in MEMORY):
            self.steps.pop(uid_of(old), None)
        history = read_history(annotations_of(old).get(HISTORY, ""))
        if request_of(new) < request_of(old) and history and not history[-1].shown:
            self.steps[uid_of(old)] = self.steps.get(uid_of(old), [])[:-1]

    def _claim_written(self, old: JsonObject, new: JsonObject) -> None:
        if new["metadata"].get("ownerReferences"):
            raise self.broken(f"4: {shown(new)} has an owner")
        if request_of(new) < request_of(old):
            raise self.broken(f"1: the request was lowered from {shown(old)} to {shown(new)}")
        if annotations_of(old).get(REQUESTED_AT) != annotations_of(new).get(REQUESTED_AT):
            self._check_may_grow(old)
        if request_of(new) > request_of(old):
            self._raised(new)

    def _raised(self, claim: JsonObject) -> None:
        said, now = annotations_of(claim), self.world.seconds
        decided = self.decided.get((uid_of(claim), last_step(said), said.get(REQUESTED_BY, "")))
        if decided is None or decided.size != request_of(claim):
            raise self.broken(f"1: nobody decided that {shown(claim)} grows")
        steps = self.steps.setdefault(uid_of(claim), [])
        if steps and now < steps[-1] + decided.cooldown - self.TOLERANCE:
            raise self.broken(f"2: {shown(claim)} grows {now - steps[-1]:.0f} seconds after its last step")
        steps.append(now)
        count, window = decided.budget or (len(steps), 0.0)
        if len([step for step in steps if step > now - window + self.TOLERANCE]) > count:
            raise self.broken(f"2: {shown(claim)} grows more than {count} times in {window} seconds")
        self.raises.append((now, name_of(claim), format_binary(request_of(claim))))
        self.world.tell(f"{shown(claim)} grows")

    def _autoscaler_written(self, old: JsonObject, new: JsonObject) -> None:
        before, after = ((obj.get("status") or {}).get("totalScaleEvents", 0) for obj in (old, new))
        if after < before:
            raise self.broken(f"6: totalScaleEvents fell from {before} to {after}")
        if after > self.decisions[uid_of(new)]:
            raise self.broken(f"6: totalScaleEvents is {after}, and {self.decisions[uid_of(new)]} steps were decided")

    # Syncs

    def synced(self, key: Key, done: Round) -> None:
        """Faults of this world may end a sync with an error; the hooks may not."""
        for error in done.errors:
            if not any(fault in error for fault in ("exceeded quota", LOST, "Conflict")):
                raise self.broken(f"11: the sync of {key[1]} failed: {error}")


LOST = "the reply was lost"


# The world


class World:
    """All of it, with one clock, one source of chance, and the VolumeAutoscaler `db`."""

    def __init__(self, seed: int = 0, *, skews: Sequence[float] = (0,), events: bool = True, **spec: Any) -> None:
        self.seed, self.random, self.skews = seed, Random(seed), skews
        self.agenda = Agenda()
        self.log: deque[str] = deque(maxlen=25)
        self.calls = 0
        self.upon_step: Action = lambda: None
        self._until: dict[tuple[str, str], float] = {}
        self._lives = itertools.count(1)
        self.laws, self.storage, self.prometheus = Laws(self), Storage(self), Prometheus(self)
        self.server, self.metacontroller = Server(self), Metacontroller(self, events=events)
        self.add_autoscaler(**spec)
        self.metacontroller.start()
        self.metacontroller.resync_all_the_time()
        self.agenda.after(HOUR, self._forget_events)

    # Time

    @property
    def seconds(self) -> float:
        return self.agenda.seconds

    @property
    def now(self) -> datetime:
        return self.agenda.now

    @property
    def clock(self) -> str:
        day, rest = divmod(self.seconds, DAY)
        return f"day {int(day)} {timedelta(milliseconds=round(rest * 1000))} ({format_time(self.now)})"

    def run(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        self.agenda.run(days * DAY + hours * HOUR + minutes * MINUTE + seconds)

    def tell(self, what: str) -> None:
        self.log.append(f"{self.clock}: {what}")

    # Faults that last

    def begin(self, fault: str, seconds: float = ALWAYS, *, uid: str = "") -> None:
        self.tell(f"{fault} {uid} for {seconds:.0f} seconds")
        self._until[fault, uid] = self.seconds + seconds

    def end(self, *faults: str) -> None:
        """All, if none is named."""
        self.tell(f"{' and '.join(faults) or 'every fault'} ends")
        self._until = {known: until for known, until in self._until.items() if faults and known[0] not in faults}

    def lasts(self, fault: str, uid: str = "") -> bool:
        return self._until.get((fault, uid), 0.0) > self.seconds

    # Objects

    def objects(self, kind: Kind) -> Mapping[str, JsonObject]:
        return self.server.snapshot().of(kind)

    def has(self, kind: Kind, name: str) -> bool:
        return f"{NAMESPACE}/{name}" in self.objects(kind)

    def again(self, obj: JsonObject) -> JsonObject | None:
        """The same object as it is now; None if it is gone."""
        found = self.server.read(obj)
        return found if found and uid_of(found) == uid_of(obj) else None

    def claim(self, name: str = "data-0") -> JsonObject:
        return dict(self.objects(CLAIMS)[f"{NAMESPACE}/{name}"])

    def disk(self, name: str = "data-0") -> Disk:
        return self.storage.disks[uid_of(self.claim(name))]

    def driver(self, name: str = "data-0") -> Driver:
        return self.storage.drivers[uid_of(self.claim(name))]

    def request(self, name: str = "data-0") -> str:
        return format_binary(request_of(self.claim(name)))

    def sizes(self, name: str = "data-0") -> list[str]:
        """What the loop raised the claim to, one after the other."""
        return [size for _, raised, size in self.laws.raises if raised == name]

    def autoscaler(self, name: str = "db") -> JsonObject:
        return dict(self.objects(AUTOSCALERS)[f"{NAMESPACE}/{name}"])

    def status(self, name: str = "db") -> JsonObject:
        return dict(self.autoscaler(name).get("status") or {})

    def entry(self, claim: str = "data-0", *, of: str = "db") -> JsonObject:
        return next((entry for entry in self.status(of).get("pvcs", []) if entry["name"] == claim), {})

    def reason(self, claim: str = "data-0", *, of: str = "db") -> str:
        return str(self.entry(claim, of=of).get("reason", ""))

    def condition(self, type_: str, *, of: str = "db") -> JsonObject:
        return next((item for item in self.status(of).get("conditions", []) if item["type"] == type_), {})

    # What people do

    def add_claim(
        self,
        name: str = "data-0",
        *,
        size: str = "10Gi",
        percent: float = 50,
        driver: Driver | None = None,
        **disk: Any,
    ) -> None:
        """It is bound a moment later."""
        uid, volume = f"uid-{name}-{next(self._lives)}", whole_bytes(size)
        filesystem = Disk(volume, born=self.seconds, **disk)
        filesystem.change(self.seconds, used=filesystem.room(volume) * percent / 100)
        self.storage.disks[uid], self.storage.drivers[uid] = filesystem, driver or Driver()
        created = format_time(self.now)
        claim = volumes.claim(name=name, uid=uid, request=size, capacity=None, phase="Pending", created=created)
        self.server.put(claim)
        bound = {"phase": "Bound", "capacity": {"storage": size}}
        self.agenda.after(2, partial(self.server.set_status, claim, bound))

    def remove_claim(self, name: str = "data-0", *, series_linger: float = 0) -> None:
        claim = self.claim(name)
        self.tell(f"somebody deletes {shown(claim)}")
        self.prometheus.lingering.append((self.seconds + series_linger, name, self.disk(name)))
        self.server.remove(claim)

    def edit_claim(self, name: str, change: Callable[[JsonObject], None]) -> None:
        claim = self.server.read(self.claim(name)) or {}
        change(claim)
        with suppress(Refused):
            self.server.put(claim)

    def set_request(self, size: str, name: str = "data-0") -> None:
        self.tell(f"somebody sets the request of {shown(self.claim(name))} to {size}")
        self.edit_claim(name, lambda claim: claim["spec"]["resources"]["requests"].update(storage=size))

    def annotate(self, name: str = "data-0", **changes: str | None) -> None:
        """By the last part of the key: `paused`, `requested_at`; None removes one."""

        def change(claim: JsonObject) -> None:
            values = {f"volume-autoscaler.io/{key.replace('_', '-')}": value for key, value in changes.items()}
            annotations = annotations_of(claim) | values
            claim["metadata"]["annotations"] = {key: text for key, text in annotations.items() if text is not None}

        self.tell(f"somebody annotates {name}: {changes}")
        self.edit_claim(name, change)

    def fill(self, percent: float, name: str = "data-0", *, per_hour: float | None = None) -> None:
        """To a part of its present size, and on from there by so many percent of it."""
        disk = self.disk(name)
        room = disk.room(disk.at(self.seconds).size)
        rate = None if per_hour is None else room * per_hour / 100 / HOUR
        disk.change(self.seconds, used=room * percent / 100, rate=rate)

    def add_autoscaler(self, name: str = "db", **spec: Any) -> None:
        self.tell(f"somebody creates {name}: {spec}")
        created = volumes.autoscaler(name=name, uid=f"uid-{name}-{next(self._lives)}", **spec)
        created["metadata"]["creationTimestamp"] = format_time(self.now)
        self.server.put(created)

    def edit_autoscaler(self, name: str = "db", **spec: Any) -> None:
        if self.has(AUTOSCALERS, name):
            self.tell(f"somebody edits {name}: {spec}")
            found = self.autoscaler(name)
            wanted = {key: value for key, value in (found["spec"] | spec).items() if value is not None}
            self.server.put(found | {"spec": wanted})

    def remove_autoscaler(self, name: str = "db", *, garbage_after: float = 30) -> None:
        self.tell(f"somebody deletes {name}")
        found = self.autoscaler(name)
        self.server.remove(found)
        self.collect_later(uid_of(found), garbage_after)

    def collect_later(self, owner_uid: str, seconds: float = 30) -> None:
        if all(uid_of(owner) != owner_uid for owner in self.objects(AUTOSCALERS).values()):
            self.agenda.after(seconds, partial(self._collect, owner_uid))

    def _collect(self, owner_uid: str) -> None:
        for kind in (EXPANSIONS, EVENTS):
            for obj in list(self.objects(kind).values()):
                if _is_owned(obj, owner_uid):
                    self.server.remove(obj)

    def _forget_events(self) -> None:
        for event in list(self.objects(EVENTS).values()):
            if parse_time(event["metadata"]["creationTimestamp"]) < self.now - timedelta(hours=1):
                self.server.remove(event)
        self.agenda.after(HOUR / 4, self._forget_events)

    # The hooks

    def call(self, path: str, body: JsonObject) -> JsonObject:
        """What a replica of the service answers, by its own clock."""
        self.calls += 1
        self.server.cluster.now = format_time(self.now)
        replica = self.random.randrange(len(self.skews))
        encoded = compact_json(body).encode()
        try:
            answer = self._answer(path, encoded, replica)
            again = self._answer(path, encoded, replica) if self.calls % 8 == 0 else answer
        except Exception as error:
            raise self.laws.broken(f"11: {path} failed: {error!r}") from error
        self.laws.same_bytes(answer, again)
        decoded: JsonObject = msgspec.json.decode(answer)
        self.laws.answered(path, body, decoded)
        if self.lasts("lost replies") and self.random.random() < 0.4:
            raise HookFailed(LOST)
        return decoded

    def _answer(self, path: str, body: bytes, replica: int) -> bytes:
        now = self.now + timedelta(seconds=self.skews[replica])
        if path == "/volume-autoscaler/sync":
            request = wire.parse(volume_autoscaler.SyncRequest, body)
            question = volume_autoscaler.question(request, now=now)
            usage = self.prometheus.ask(question, replica) if question else None
            return wire.encode(volume_autoscaler.sync(request, now=now, usage=usage).response)
        if path == "/volume-claim/sync":
            return wire.encode(volume_claim.sync(wire.parse(volume_claim.SyncRequest, body), now=now).response)
        customize = volume_autoscaler.customize if "autoscaler" in path else volume_claim.customize
        return wire.encode(customize(wire.parse(wire.CustomizeRequest, body)).response)


# Chance


class Life(NamedTuple):
    """How long a world is watched, and how often it polls: some 200 to 400 polls."""

    days: float
    poll: float


LIVES = (Life(7, HOUR), Life(7, HOUR / 2), Life(1, 5 * MINUTE), Life(0.25, MINUTE))
SKEWS = (0.0, 2.7, -3.1)
MOST_LAG = 3 * MINUTE

WEATHER = ("outage", "empty", "lost replies", "conflicts", "no deletes", "no policy")
AILMENTS = ("no series", "abnormal", "refuse", "no pod")
"""What befalls one claim."""


class Plot:
    """What happens in one life, by the dice of its seed."""

    def __init__(self, seed: int, *, faults: int = 60) -> None:
        dice = Random(seed)
        self.faults = faults
        self.life = LIVES[0 if seed % 3 else dice.randrange(len(LIVES))]
        self.world = World(
            seed,
            skews=SKEWS if faults else (0,),
            events=self.life.poll > 5 * MINUTE and dice.random() < 0.5,
            **self.a_spec(dice),
        )
        self.dice = self.world.random
        self.names = [f"data-{n}" for n in range(self.dice.randint(1, 3))]
        for name in self.names:
            self.add_claim(name, size=self.dice.choice(["512Mi", "1Gi", "5Gi", "10Gi", "50Gi"]))

    def a_spec(self, dice: Random) -> JsonObject:
        def polls(count: float) -> str:
            return format_duration(timedelta(seconds=round(count * self.life.poll)))

        return {
            "pollInterval": polls(1),
            "cooldownPeriod": polls(dice.choice([0, 0.1, 0.5, 2, 6])),
            "thresholdPercent": dice.choice([70, 80, 90]),
            "increasePercent": dice.choice([5, 10, 20, 50, 100]),
            "increaseMinimum": dice.choice([None, None, "100Mi", "2Gi", "5Gi"]),
            "increaseMaximum": dice.choice([None, None, None, "10Gi"]),
            "maxSize": dice.choice(["30Gi", "100Gi", "1Ti"]),
            "inodeThresholdPercent": dice.choice([0, 90]),
            "resizeBudget": dice.choice(
                [None, None, {"count": 4, "window": polls(24)}, {"count": 2, "window": polls(3)}]
            ),
            "onMetricsLost": dice.choice(["Wait", "StepOnce"]),
        }

    def add_claim(self, name: str, size: str) -> None:
        if self.world.has(CLAIMS, name):
            return
        dice = self.dice
        lags = [dice.uniform(MINUTE, MOST_LAG) for _ in range(dice.choice([1, 1, 2, 3]))]
        driver = Driver(
            delay=dice.choice([(1, 30), (20, 120), (60, 900)]),
            unit=dice.choice([MIB, GIB, 4 * GIB]),
            tells=dice.random() < 0.5,
            says_infeasible=dice.random() < 0.3,
            most_per_day=dice.choice([None, None, 4]),
        )
        self.world.add_claim(
            name,
            size=size,
            percent=dice.uniform(5, 60),
            driver=driver,
            overhead_percent=dice.choice([0, 3, 6]),
            inode_percent=dice.choice([0, 0, 30, 95]),
            crashes_when_full=dice.random() < 0.3,
            copies=[({"replica": str(n)}, lag) for n, lag in enumerate(lags)],
        )
        self._work(name)

    def _work(self, name: str) -> None:
        """The workload of a claim goes on at another pace; now and then it bursts or cleans up."""
        if self.world.has(CLAIMS, name):
            disk, span = self.world.disk(name), self.life.days * DAY
            disk.change(self.world.seconds, rate=self.dice.choice([-2.0, 0.5, 2.0, 8.0, 50.0]) * disk.size / span)
            if self.dice.random() < 0.3:
                self.world.fill(self.dice.uniform(80, 100), name)

    # A life

    def play(self) -> None:
        span = self.life.days * DAY
        for _ in range(self.faults):
            self.world.agenda.after(self.dice.uniform(0, span), self.strike)
        for _ in range(30):
            self.world.agenda.after(self.dice.uniform(0, span), partial(self._work, self.dice.choice(self.names)))
        self.world.upon_step = self._strike_soon
        self.world.run(days=self.life.days)
        self.world.upon_step = lambda: None

    def _strike_soon(self) -> None:
        """Faults hurt most while something is under way."""
        for _ in range(self.dice.choice([0, 1, 2]) if self.faults else 0):
            self.world.agenda.after(self.dice.choice([0.0, 1.0, 10.0, 60.0]) * self.dice.random(), self.strike)

    def strike(self) -> None:
        what = self.dice.choice([*WEATHER, *AILMENTS, *DEEDS])
        if what in WEATHER:
            self.world.begin(what, self.a_while())
        elif what in DEEDS:
            self.world.tell(what)
            DEEDS[what](self)
        elif name := self.a_claim():
            self.world.begin(what, self.a_while(), uid=uid_of(self.world.claim(name)))

    def a_while(self) -> float:
        return self.dice.choice([20.0, MINUTE, self.life.poll, self.dice.uniform(1, 12) * self.life.poll])

    def a_claim(self) -> str:
        """Empty if there is none just now."""
        return self.dice.choice(sorted(map(name_of, self.world.objects(CLAIMS).values())) or [""])


DEEDS: dict[str, Callable[[Plot], None]] = {}
"""All other faults, by what is said about them."""


def deed(do: Callable[[Plot], None]) -> Callable[[Plot], None]:
    DEEDS[do.__name__.replace("_", " ")] = do
    return do


# Machines


@deed
def metacontroller_restarts(plot: Plot) -> None:
    plot.world.metacontroller.start()


@deed
def metacontroller_crashes_between_two_writes(plot: Plot) -> None:
    plot.world.server.writes_until_crash = plot.dice.randint(1, 4)


@deed
def two_metacontrollers_run_at_once(plot: Plot) -> None:
    for key in plot.world.metacontroller.parents():
        plot.world.metacontroller.sync(key, times=2)


@deed
def replicas_restart(plot: Plot) -> None:
    plot.world.prometheus.forget()


@deed
def caches_lag(plot: Plot) -> None:
    for kind in plot.dice.sample([AUTOSCALERS, EXPANSIONS, CLAIMS], plot.dice.randint(1, 3)):
        plot.world.metacontroller.freeze(kind, plot.dice.uniform(1, 90))


@deed
def syncs_come_at_odd_times(plot: Plot) -> None:
    for key in plot.world.metacontroller.parents():
        for n in range(3):
            plot.world.metacontroller.enqueue(key, plot.dice.uniform(0, MINUTE), lane=f"odd {n}")


# People


@deed
def somebody_wipes_the_status(plot: Plot) -> None:
    for autoscaler in plot.world.objects(AUTOSCALERS).values():
        plot.world.server.set_status(autoscaler, {})


@deed
def somebody_restores_an_older_status(plot: Plot) -> None:
    for autoscaler in plot.world.objects(AUTOSCALERS).values():
        later, old = plot.dice.uniform(1, 3 * plot.life.poll), autoscaler.get("status") or {}
        plot.world.agenda.after(later, partial(plot.world.server.set_status, autoscaler, old))


@deed
def the_quota_is_tight(plot: Plot) -> None:
    total = sum(request_of(claim) for claim in plot.world.objects(CLAIMS).values())
    plot.world.server.quota = total + plot.dice.choice([0, GIB, 3 * GIB])
    plot.world.begin("quota", plot.a_while())


@deed
def somebody_raises_a_request(plot: Plot) -> None:
    if name := plot.a_claim():
        size = -(-request_of(plot.world.claim(name)) // GIB) + plot.dice.choice([1, 1, 5])
        plot.world.set_request(f"{size}Gi", name)


@deed
def somebody_lowers_requests(plot: Plot) -> None:
    """Kubernetes allows that while they are above the capacity."""
    for claim in plot.world.objects(CLAIMS).values():
        least, most = capacity_of(claim) // MIB + 1, request_of(claim) // MIB - 1
        if is_bound(claim) and least <= most:
            plot.world.set_request(f"{plot.dice.randint(least, most)}Mi", name_of(claim))


@deed
def somebody_pauses_a_claim(plot: Plot) -> None:
    if name := plot.a_claim():
        plot.world.annotate(name, paused="for a move")
        plot.world.agenda.after(plot.a_while(), partial(unpause, plot))


def unpause(plot: Plot) -> None:
    for claim in plot.world.objects(CLAIMS).values():
        plot.world.annotate(name_of(claim), paused=None)


@deed
def somebody_destroys_annotations(plot: Plot) -> None:
    damages: Sequence[Mapping[str, str | None]] = (
        {"requested_at": None},
        {"requested_size": None},
        {"resize_history": "no JSON"},
        {"resize_history": None, "requested_at": None, "requested_size": None},
        {"requested_at": "2030-01-01T00:00:00Z"},
    )
    if name := plot.a_claim():
        plot.world.annotate(name, **plot.dice.choice(damages))


@deed
def somebody_deletes_expansions(plot: Plot) -> None:
    for expansion in list(plot.world.objects(EXPANSIONS).values()):
        plot.world.server.remove(expansion)


@deed
def somebody_edits_expansions(plot: Plot) -> None:
    for expansion in list(plot.world.objects(EXPANSIONS).values()):
        plot.world.server.put(expansion | {"spec": {**expansion["spec"], "count": 99, "message": "mine"}})


@deed
def somebody_forges_an_expansion_for_a_while(plot: Plot) -> None:
    if name := plot.a_claim():
        at, uid = format_time(plot.world.now), uid_of(plot.world.claim(name))
        forged = volumes.expansion(
            of="forged", owned=False, claim_name=name, claim_uid=uid, from_size="1Ti", size="3Ti", requested_at=at
        )
        plot.world.server.put(forged)
        plot.world.agenda.after(plot.a_while(), partial(remove_forged, plot))


def remove_forged(plot: Plot) -> None:
    for expansion in list(plot.world.objects(EXPANSIONS).values()):
        if owner_of(expansion) is None:
            plot.world.server.remove(expansion)


@deed
def somebody_edits_the_autoscaler(plot: Plot) -> None:
    spec = plot.a_spec(plot.dice)
    name = plot.dice.choice(sorted(spec.keys() - {"pollInterval", "maxSize"}))
    plot.world.edit_autoscaler(**{name: spec[name]})


@deed
def somebody_raises_max_size(plot: Plot) -> None:
    plot.world.edit_autoscaler(maxSize=plot.dice.choice(["200Gi", "2Ti"]))


@deed
def somebody_only_observes_for_a_while(plot: Plot) -> None:
    plot.world.edit_autoscaler(mode="Observe")
    plot.world.agenda.after(plot.a_while(), partial(plot.world.edit_autoscaler, mode="Apply"))


@deed
def the_class_forbids_expansion_for_a_while(plot: Plot) -> None:
    plot.world.server.put(volumes.storage_class(expandable=False))
    plot.world.agenda.after(plot.a_while(), partial(plot.world.server.put, volumes.storage_class()))


@deed
def a_rival_comes_and_goes(plot: Plot) -> None:
    if not plot.world.has(AUTOSCALERS, "rival"):
        plot.world.add_autoscaler("rival", **plot.a_spec(plot.dice))
        plot.world.agenda.after(plot.a_while(), partial(remove_rival, plot))


def remove_rival(plot: Plot) -> None:
    if plot.world.has(AUTOSCALERS, "rival"):
        plot.world.remove_autoscaler("rival", garbage_after=plot.dice.uniform(0, 2 * MINUTE))


@deed
def the_autoscaler_is_recreated(plot: Plot) -> None:
    if plot.world.has(AUTOSCALERS, "db"):
        spec = plot.world.autoscaler()["spec"]
        plot.world.remove_autoscaler(garbage_after=plot.dice.uniform(0, 2 * MINUTE))
        plot.world.agenda.after(plot.a_while(), partial(add_autoscaler, plot, spec))


def add_autoscaler(plot: Plot, spec: JsonObject) -> None:
    if not plot.world.has(AUTOSCALERS, "db"):
        plot.world.add_autoscaler(**spec)


@deed
def a_claim_is_recreated_small(plot: Plot) -> None:
    """A pod that still uses it keeps it for a while."""
    if name := plot.a_claim():
        since = format_time(plot.world.now)
        plot.world.edit_claim(name, lambda claim: claim["metadata"].update(deletionTimestamp=since))
        plot.world.agenda.after(plot.dice.choice([0.0, plot.a_while()]), partial(remove_claims, plot))


def remove_claims(plot: Plot) -> None:
    for claim in list(plot.world.objects(CLAIMS).values()):
        if is_deleting(claim):
            plot.world.remove_claim(name_of(claim), series_linger=plot.dice.choice([0, MINUTE, 2 * MINUTE]))
            size = plot.dice.choice(["1Gi", "5Gi", "10Gi"])
            plot.world.agenda.after(plot.a_while(), partial(plot.add_claim, name_of(claim), size))


# The exam at the end of a life


class Exam:
    """No more faults: does everything grow that should, is it said what cannot, and is it quiet at rest?"""

    def __init__(self, plot: Plot) -> None:
        self.plot, self.world, self.poll = plot, plot.world, plot.life.poll

    def take(self) -> None:
        self.heal()
        self.grows()
        self.grows()
        self.says_what_cannot_grow()
        self.is_quiet()

    def heal(self) -> None:
        world, plot = self.world, self.plot
        world.end()
        world.server.writes_until_crash = 0
        unpause(plot)
        remove_rival(plot)
        remove_forged(plot)
        add_autoscaler(plot, {"pollInterval": f"{self.poll:.0f}s"})
        world.edit_autoscaler(mode="Apply", maxSize="1Pi", resizeBudget=None, thresholdPercent=80)
        world.server.put(volumes.storage_class())
        remove_claims(plot)
        for name in plot.names:
            plot.add_claim(name, "10Gi")
        for driver in world.storage.drivers.values():
            driver.most_per_day = None
        world.run(seconds=MOST_LAG)

    def a_resize(self) -> float:
        """How long one takes, if the driver refused until now."""
        return Storage.RETRY + max(driver.delay[1] for driver in self.world.storage.drivers.values())

    def grows(self) -> None:
        world, names = self.world, self.plot.names
        before = {name: request_of(world.claim(name)) for name in names}
        for name in names:
            world.fill(95, name, per_hour=0)
        cooldown = seconds_of(world.autoscaler()["spec"].get("cooldownPeriod", "5m"))
        world.run(seconds=cooldown + 3 * self.poll + self.a_resize() + 5 * MINUTE)
        for name in names:
            is_full = world.disk(name).percent(world.seconds) >= 80
            if is_full and request_of(world.claim(name)) == before[name]:
                raise world.laws.broken(f"7: {name} is full and does not grow: {world.entry(name)}")

    def says_what_cannot_grow(self) -> None:
        world, names = self.world, self.plot.names
        world.edit_autoscaler(maxSize="512Mi")
        world.run(seconds=self.a_resize() + MINUTE)
        for name in names:
            world.fill(95, name)
        world.run(seconds=2.5 * self.poll + MOST_LAG)
        ready, expandable = world.condition("Ready"), world.condition("Expandable")
        is_said = all(name in condition["message"] for name in names for condition in (ready, expandable))
        if not is_said or (ready["status"], expandable["status"]) != ("False", "False"):
            raise world.laws.broken(f"8: it is not said which claims are full and cannot grow: {ready}, {expandable}")

    def is_quiet(self) -> None:
        """One status per poll, and nothing for syncs in between."""
        world = self.world
        world.run(seconds=3 * self.poll + HOUR)
        before = len(world.server.writes)
        world.run(seconds=4 * self.poll)
        written = world.server.writes[before:]
        if not 3 <= len(written) <= 5 or set(written) != {"update status of VolumeAutoscaler"}:
            raise world.laws.broken(f"9: written at rest in four polls: {written}")
        age = (world.now - parse_time(world.status()["lastPollTime"])).total_seconds()
        world.run(seconds=self.poll + 20 - age)
        for key in [*world.metacontroller.parents()] * 2:
            if writes := world.metacontroller.sync(key):
                raise world.laws.broken(f"9: written by an extra sync: {writes}")


def live(seed: int, *, faults: int = 60) -> World:
    """One life, from its beginning to its exam."""
    plot = Plot(seed, faults=faults)
    plot.play()
    Exam(plot).take()
    return plot.world


def main() -> int:
    parser = argparse.ArgumentParser(description="Live through many simulated weeks, and say which laws were broken.")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    options = parser.parse_args()
    broken = 0
    for seed in range(options.first, options.first + options.seeds):
        began = time.perf_counter()
        try:
            world = live(seed)
            said = f"{len(world.laws.raises)} steps, {world.calls} calls"
        except Broken as error:
            broken, said = broken + 1, str(error)
        sys.stdout.write(f"{seed}: {time.perf_counter() - began:.1f} s: {said}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{options.seeds} lives, {broken} with a broken law\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
