"""All of the world, with one clock and one source of chance."""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import msgspec

from hooks import volume_autoscaler, volume_claim, wire
from hooks.kube.cluster import Kind
from hooks.kube.metadata import (
    JsonObject,
    annotations_of,
    compact_json,
    uid_of,
)
from hooks.kube.quantity import format_binary, whole_bytes
from hooks.kube.times import format_time, parse_time
from hooks.rehearsal import HookFailed
from tests import volumes
from tests.simulation.ground import (
    ALWAYS,
    AUTOSCALERS,
    CLAIMS,
    DAY,
    EVENTS,
    EXPANSIONS,
    HOUR,
    MINUTE,
    NAMESPACE,
    Action,
    Agenda,
    request_of,
    shown,
)
from tests.simulation.laws import LOST, Laws
from tests.simulation.metacontroller import Metacontroller
from tests.simulation.server import Refused, Server, _is_owned
from tests.simulation.storage import Disk, Driver, Prometheus, Storage


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
