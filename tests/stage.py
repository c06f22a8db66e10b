"""A stage for rehearsals: toy kinds, objects and controllers, and a cluster where one function answers all hooks."""

from collections.abc import Callable, Iterable
from typing import Any

from hooks.controllers import Controller, read_controllers
from hooks.kube.cluster import Cluster, Kind, Kinds, Snapshot
from hooks.kube.metadata import JsonObject
from hooks.rehearsal import Rehearsal, Round

TOY = Kind("toys.io/v1", "Toy", "toys")
PART = Kind("toys.io/v1", "Part", "parts")
GLOBAL = Kind("toys.io/v1", "Global", "globals", namespaced=False)
CORE = Kinds.of([])
CONFIG_MAP, NAMESPACE, NODE = (CORE.by_resource("v1", name) for name in ("configmaps", "namespaces", "nodes"))
KINDS = Kinds([TOY, PART, GLOBAL, CONFIG_MAP, NAMESPACE, NODE])
MARK = {"metacontroller.k8s.io/decorator-controller": "toys"}
LABEL = {"controller-uid": "toy-uid"}

Hook = Callable[[JsonObject], JsonObject]


def obj(kind: Kind, name: str, *, namespace: str = "ns", uid: str = "", **fields: Any) -> JsonObject:
    metadata: JsonObject = {"name": name, **({"namespace": namespace} if kind.namespaced else {})}
    metadata |= {"uid": uid} if uid else {}
    metadata |= {key: fields.pop(key) for key in ("labels", "annotations", "deletionTimestamp") if key in fields}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def toy(**fields: Any) -> JsonObject:
    return obj(TOY, "t", uid="toy-uid", **fields)


def part(name: str = "p", **fields: Any) -> JsonObject:
    """As a hook returns it: without a namespace, which Metacontroller fills in."""
    return {"apiVersion": "toys.io/v1", "kind": "Part", "metadata": {"name": name}, **fields}


def owned(name: str, *, uid: str = "toy-uid", controller: bool = True, **fields: Any) -> JsonObject:
    child = obj(PART, name, **fields)
    child["metadata"]["ownerReferences"] = [{"uid": uid, "controller": controller}]
    return child


def _hooks(customize: bool) -> JsonObject:
    return {
        action: {"version": "v2", "webhook": {"url": f"http://host/{action}"}}
        for action in ("sync", "customize")
        if action == "sync" or customize
    }


def composite(*, method: str = "InPlace", customize: bool = False, **spec: Any) -> Controller:
    rules = [{"apiVersion": "toys.io/v1", "resource": "parts", "updateStrategy": {"method": method}}]
    default = {"childResources": rules, "generateSelector": True, "hooks": _hooks(customize)}
    parent = {"apiVersion": "toys.io/v1", "resource": "toys"}
    spec = {"parentResource": parent, **default, **spec}
    return read_controllers([{"kind": "CompositeController", "metadata": {"name": "toys"}, "spec": spec}], KINDS)[0]


def decorator(*, name: str = "toys", method: str = "InPlace", customize: bool = False, **spec: Any) -> Controller:
    rules = [{"apiVersion": "toys.io/v1", "resource": "parts", "updateStrategy": {"method": method}}]
    default = {"attachments": rules, "hooks": _hooks(customize)}
    spec = {"resources": [{"apiVersion": "toys.io/v1", "resource": "toys"}], **default, **spec}
    return read_controllers([{"kind": "DecoratorController", "metadata": {"name": name}, "spec": spec}], KINDS)[0]


class Stage:
    """A cluster with some controllers, and one function that answers for all their hooks."""

    def __init__(self, hook: Hook, *controllers: Controller, objects: Iterable[JsonObject] = ()) -> None:
        self.cluster = Cluster(KINDS, objects)
        self.related: JsonObject | Exception = {}
        self.asked: list[tuple[str, JsonObject]] = []
        self._hook = hook
        self.rehearsal = Rehearsal(controllers, KINDS, self._call)

    def _call(self, path: str, body: JsonObject) -> JsonObject:
        self.asked.append((path, body))
        if path == "/sync":
            return self._hook(body)
        if isinstance(self.related, Exception):
            raise self.related
        return self.related

    def round(self, *, seen: Snapshot | None = None, parents: Snapshot | None = None) -> Round:
        self.asked.clear()
        return self.rehearsal.round(seen or self.cluster.snapshot(), self.cluster, parents=parents)

    def quiet(self) -> None:
        """Two more rounds that write nothing."""
        for _ in range(2):
            done = self.round()
            noise = [*done.writes, *done.swallowed, *done.errors]
            assert not noise, noise

    def get(self, kind: Kind, name: str) -> JsonObject:
        return dict(self.cluster.snapshot().of(kind))[f"ns/{name}" if kind.namespaced else name]

    def names(self, kind: Kind) -> set[str]:
        return set(self.cluster.snapshot().of(kind))


def always(answer: JsonObject) -> Hook:
    return lambda request: answer


def parts_of_spec(request: JsonObject) -> JsonObject:
    """A composite hook: one Part for each entry of the parent's spec."""
    wanted = request["parent"].get("spec") or {}
    return {"status": {"parts": len(wanted)}, "children": [part(name, spec=wanted[name]) for name in wanted]}


def labels_of_spec(request: JsonObject) -> JsonObject:
    """A decorator hook: the parent's spec as labels, and one Part that counts them."""
    wanted = request["object"].get("spec") or {}
    return {"labels": wanted, "attachments": [part(spec={"count": len(wanted)})]}
