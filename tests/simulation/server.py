"""The API server of the simulation: the admission step, the quota, and word to all who watch."""

from typing import TYPE_CHECKING

from hooks.controllers import Controller, read_controllers
from hooks.kube.cluster import Cluster, Conflict, Snapshot
from hooks.kube.metadata import (
    JsonObject,
    name_of,
    object_key,
    owner_of,
    uid_of,
)
from hooks.kube.quantity import format_binary
from hooks.kube.times import format_time
from hooks.manifests import read_manifests
from hooks.rehearsal import HookFailed
from hooks.volume_admission import grown
from tests import volumes
from tests.simulation.ground import CLAIMS, KINDS, request_of

if TYPE_CHECKING:
    from tests.simulation.world import World


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
        is_unlucky = self.world.lasts("conflicts") and self.world.random.random() < 0.4
        if is_unlucky or self.world.lasts("conflicts", name_of(obj)):
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
