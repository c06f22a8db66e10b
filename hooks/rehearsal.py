"""Metacontroller in memory: which requests it would send for a set of objects, and what the answers would change.

From the controller manifests and a snapshot it builds the requests; an answer is carried out through a `Writer`: a
`Cluster` in memory for `plan` and most tests, a live API server for the end-to-end tests. Left out: revisions and
rolling updates, finalize hooks, server-side apply, hook version v1, that a customize answer is asked for again after 20
minutes, and that a conflict of a status is tried again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol

from hooks.controllers import Controller
from hooks.kube.cluster import AlreadyExists, Conflict, Kind, Kinds, NotFound, Snapshot, UnknownKind
from hooks.kube.merge import LAST_APPLIED, CannotMerge, apply, go_json
from hooks.kube.metadata import (
    JsonObject,
    annotations_of,
    compact_json,
    group_key,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    object_key,
    owner_of,
    uid_of,
)
from hooks.kube.selector import InvalidSelector, Selector, parse_selector
from hooks.wire import ObjectRef

DECORATOR_MARK = "metacontroller.k8s.io/decorator-controller"
CONTROLLER_UID = "controller-uid"

Call = Callable[[str, JsonObject], JsonObject]
"""Sends a request body, which it must leave as it is, to a hook's path and returns the answer; raises HookFailed."""


class HookFailed(Exception):
    """A hook did not answer 200, or with something that Metacontroller would refuse."""


FAILURES = (HookFailed, CannotMerge, InvalidSelector, UnknownKind)
"""What ends a sync with an error; Metacontroller writes an Event and tries again later."""

SWALLOWED: Mapping[str, tuple[type[Exception], ...]] = {
    "create": (AlreadyExists,),
    "update": (Conflict, NotFound),
    "update status of": (Conflict, NotFound),
    "delete": (NotFound,),
}
"""Writes that fail in this way are dropped without an error: a later sync will see the newer object."""


class Writer(Protocol):
    """Where answers are carried out. Raises Conflict, NotFound and AlreadyExists of hooks.kube.cluster."""

    def read(self, obj: JsonObject) -> JsonObject | None: ...
    def create(self, obj: JsonObject) -> None: ...
    def update(self, obj: JsonObject) -> JsonObject: ...
    def update_status(self, obj: JsonObject) -> JsonObject: ...
    def delete(self, obj: JsonObject) -> None: ...


@dataclass
class Round:
    """What one pass over all parents did."""

    writes: list[str] = field(default_factory=list)
    swallowed: list[str] = field(default_factory=list)
    """Writes that met a newer object and were dropped, as Metacontroller does."""
    resyncs: dict[str, float] = field(default_factory=dict)
    """The seconds after which a parent asked to be synced again; of several controllers the soonest."""
    errors: list[str] = field(default_factory=list)


class Rehearsal:
    """Plays Metacontroller for a set of controllers. Remembers customize answers by UID and generation, as it does."""

    def __init__(self, controllers: Sequence[Controller], kinds: Kinds, call: Call) -> None:
        self.controllers, self.kinds, self.call = controllers, kinds, call
        self._customized: dict[tuple[str, str, str, int], Sequence[JsonObject]] = {}

    def forget(self) -> None:
        """Metacontroller restarts: nothing is cached."""
        self._customized.clear()

    def round(self, seen: Snapshot, writer: Writer, *, parents: Snapshot | None = None) -> Round:
        """Syncs every parent once, with children and related objects as `seen`.

        `parents` may be an older snapshot, and so may `seen` itself: caches lag behind what was just written.
        """
        done = Round()
        for controller in self.controllers:
            for parent in self.parents(controller, parents or seen):
                Sync(self, controller, parent, seen, writer, done).run()
        return done

    def parents(self, controller: Controller, seen: Snapshot) -> Iterator[JsonObject]:
        for rule in {rule.kind: rule for rule in controller.parents}.values():  # the last rule for a kind counts
            labels, annotations = parse_selector(rule.label_selector), parse_selector(rule.annotation_selector)
            for parent in seen.of(rule.kind).values():
                if labels.matches(labels_of(parent)) and annotations.matches(annotations_of(parent)):
                    yield parent

    def request(self, controller: Controller, parent: JsonObject, seen: Snapshot) -> JsonObject:
        """The body of a sync request."""
        return {
            "controller": controller.manifest,
            "parent" if controller.is_composite else "object": parent,
            "children" if controller.is_composite else "attachments": self.children(controller, parent, seen),
            "related": self.related(controller, parent, seen),
            "finalizing": False,
        }

    def children(self, controller: Controller, parent: JsonObject, seen: Snapshot) -> dict[str, dict[str, JsonObject]]:
        """Owned objects of the declared kinds, and orphans to adopt; a kind without any is an empty map."""
        is_child = _ownership(controller, parent)
        return {
            rule.kind.group_key: {
                key: child for key, child in seen.of(rule.kind, namespace_of(parent)).items() if is_child(child)
            }
            for rule in controller.children
        }

    def related(self, controller: Controller, parent: JsonObject, seen: Snapshot) -> dict[str, dict[str, JsonObject]]:
        found: dict[str, dict[str, JsonObject]] = {}
        for rule in self.related_rules(controller, parent):
            kind = self.kinds.by_resource(rule["apiVersion"], rule["resource"])
            found.setdefault(kind.group_key, {}).update(_chosen(rule, kind, seen, self.kinds))
        return found

    def related_rules(self, controller: Controller, parent: JsonObject) -> Sequence[JsonObject]:
        if not controller.path("customize"):
            return []
        known = (controller.manifest["kind"], controller.name, uid_of(parent), parent["metadata"].get("generation", 0))
        if known not in self._customized:
            answer = self.ask(controller, "customize", {"controller": controller.manifest, "parent": parent})
            self._customized[known] = answer.get("relatedResources") or []
        return self._customized[known]

    def ask(self, controller: Controller, action: str, body: JsonObject) -> JsonObject:
        path = controller.path(action)
        if not path:
            raise HookFailed(f"{controller.name} has no {action} hook")
        answer = self.call(path, body)
        if problem := controller.problem_of(action, answer):
            raise HookFailed(f"{path}: {problem}")
        return answer


def _ownership(controller: Controller, parent: JsonObject) -> Callable[[JsonObject], bool]:
    """Tells the children of this parent, among the objects that it owns, from those of other controllers."""
    selector = _child_selector(controller, parent) if controller.is_composite else None

    def is_child(obj: JsonObject) -> bool:
        owner = owner_of(obj)
        if selector is not None and owner is None:
            return selector.matches(labels_of(obj)) and not is_deleting(obj) and not is_deleting(parent)
        if owner is None or owner.get("uid") != uid_of(parent):
            return False
        if selector is not None:
            return selector.matches(labels_of(obj))
        return annotations_of(obj).get(DECORATOR_MARK) == controller.name

    return is_child


def _child_selector(controller: Controller, parent: JsonObject) -> Selector:
    if controller.manifest["spec"].get("generateSelector"):
        return parse_selector({"matchLabels": {CONTROLLER_UID: uid_of(parent)}})
    selector = parse_selector((parent.get("spec") or {}).get("selector") or {})
    if not selector.requirements:
        raise HookFailed(f"{controller.name}: spec.selector of the parent is empty, and generateSelector is not set")
    return selector


def _chosen(rule: JsonObject, kind: Kind, seen: Snapshot, kinds: Kinds) -> Mapping[str, JsonObject]:
    """The objects that a rule of a customize answer selects (hook version v2: any namespace)."""
    names, namespace = rule.get("names") or [], rule.get("namespace") or ""
    labels, namespaces = rule.get("labelSelector"), rule.get("namespaceSelector")
    if names and (labels is not None or namespaces is not None):
        raise HookFailed("a related rule gives names together with a selector")
    if namespace and namespaces is not None:
        raise HookFailed("a related rule gives a namespace together with a namespaceSelector")
    if namespaces is not None and not kind.namespaced:
        raise HookFailed(f"a related rule gives a namespaceSelector for {kind.resource}, which are in no namespace")
    selector = parse_selector({} if labels is None else labels)
    found = {
        key: obj
        for key, obj in seen.of(kind, namespace).items()
        if (not names or name_of(obj) in names) and selector.matches(labels_of(obj))
    }
    if namespaces is None:
        return found
    chosen = parse_selector(namespaces)
    spaces = seen.of(kinds.by_resource("v1", "namespaces"))
    allowed = {name for name, space in spaces.items() if chosen.matches(labels_of(space))}
    return {key: obj for key, obj in found.items() if namespace_of(obj) in allowed}


@dataclass
class Sync:
    """One parent: ask, then carry out the answer step by step as Metacontroller does."""

    rehearsal: Rehearsal
    controller: Controller
    parent: JsonObject
    seen: Snapshot
    writer: Writer
    done: Round

    def run(self) -> None:
        try:
            request = self.rehearsal.request(self.controller, self.parent, self.seen)
            self._claim_children()
            answer = self.rehearsal.ask(self.controller, "sync", request)
            self._schedule(answer.get("resyncAfterSeconds") or 0)
            self.carry_out(answer, request["children" if self.controller.is_composite else "attachments"])
        except FAILURES as error:
            self._fail(error)

    def _claim_children(self) -> None:
        """A composite adopts orphans that have the labels of its children, and releases children that lost them."""
        if not self.controller.is_composite or is_deleting(self.parent):
            return
        selector, uid = _child_selector(self.controller, self.parent), uid_of(self.parent)
        for rule in self.controller.children:
            for obj in self.seen.of(rule.kind, namespace_of(self.parent)).values():
                owner, is_match = owner_of(obj), selector.matches(labels_of(obj))
                if owner is None and is_match and not is_deleting(obj):
                    self._write_owner(obj, [self._owner_reference()])
                elif owner and owner.get("uid") == uid and not is_match:
                    self._write_owner(obj, [])

    def _write_owner(self, obj: JsonObject, reference: Sequence[JsonObject]) -> None:
        """On the object as it is now: what the hook sees is older, and an update of it in this sync is dropped."""
        current = self.writer.read(obj)
        if current is not None and uid_of(current) == uid_of(obj):
            metadata = current["metadata"]
            others = [ref for ref in metadata.get("ownerReferences") or [] if ref.get("uid") != uid_of(self.parent)]
            metadata = {key: value for key, value in metadata.items() if key != "ownerReferences"}
            if owners := [*others, *reference]:
                metadata["ownerReferences"] = owners
            self._attempt("update", current | {"metadata": metadata}, self.writer.update)

    def _owner_reference(self) -> JsonObject:
        return {
            "apiVersion": self.parent["apiVersion"],
            "kind": self.parent["kind"],
            "name": name_of(self.parent),
            "uid": uid_of(self.parent),
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def _schedule(self, seconds: float) -> None:
        if seconds > 0:
            ref = str(_ref(self.parent))
            self.done.resyncs[ref] = min(seconds, self.done.resyncs.get(ref, seconds))

    def _fail(self, error: object) -> None:
        self.done.errors.append(f"{_ref(self.parent)}: {error}")

    def carry_out(self, answer: JsonObject, observed: Mapping[str, Mapping[str, JsonObject]]) -> None:
        if self.controller.is_composite:
            self._manage_children(self._by_key(answer.get("children") or []), observed)
            self._write_parent_status(answer.get("status") or {})
        elif self._write_parent(answer):
            self._manage_children(self._by_key(answer.get("attachments") or []), observed)

    # The parent

    def _write_parent(self, answer: JsonObject) -> bool:
        """A decorator's parent: one update if anything differs. False if it was dropped: then the children wait too."""
        updated = {**self.parent, "metadata": {**self.parent["metadata"]}}
        for part in ("labels", "annotations"):
            _set_strings(updated["metadata"], part, answer.get(part) or {})
        if answer.get("status") is not None:
            updated["status"] = answer["status"]
        if _same(updated, self.parent):
            return True
        has_status = self.rehearsal.kinds.of_object(self.parent).has_status
        if has_status and not _same(updated.get("status"), self.parent.get("status")):
            written = self._attempt("update status of", updated, self.writer.update_status)
            if written is None:
                return False
            updated["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"]
        return self._attempt("update", updated, self.writer.update) is not None

    def _write_parent_status(self, status: JsonObject) -> None:
        """A composite's status overwrites whatever is there now, not only what the hook saw."""
        current = self.writer.read(self.parent)
        if current is None or uid_of(current) != uid_of(self.parent):
            return
        wanted = status | {"observedGeneration": self.parent["metadata"].get("generation", 0)}
        if _same(current.get("status"), wanted):
            return
        kind = self.rehearsal.kinds.of_object(self.parent)
        write = self.writer.update_status if kind.has_status else self.writer.update
        self._attempt("update status of", current | {"status": wanted}, write)

    # Its children

    def _manage_children(
        self, wanted: Mapping[str, Mapping[str, JsonObject]], observed: Mapping[str, Mapping[str, JsonObject]]
    ) -> None:
        """An error at one child does not keep the others from being managed."""
        if is_deleting(self.parent):
            return
        for group, children in observed.items():
            for key, child in children.items():
                if key not in wanted.get(group, {}) and not is_deleting(child):
                    self._attempt("delete", child, self.writer.delete)
        for group, children in wanted.items():
            for key, child in children.items():
                try:
                    self._apply(child, observed.get(group, {}).get(key))
                except FAILURES as error:
                    self._fail(error)

    def _by_key(self, desired: Sequence[JsonObject]) -> dict[str, dict[str, JsonObject]]:
        wanted: dict[str, dict[str, JsonObject]] = {}
        for child in desired:
            marked = deepcopy(child)
            metadata = marked["metadata"]
            if not namespace_of(marked):
                metadata.pop("namespace", None)
                metadata |= {"namespace": namespace_of(self.parent)} if namespace_of(self.parent) else {}
            self._mark(metadata)
            wanted.setdefault(group_key(marked["apiVersion"], marked["kind"]), {})[object_key(marked)] = marked
        return wanted

    def _mark(self, metadata: JsonObject) -> None:
        """The label or annotation by which Metacontroller knows its children again."""
        if not self.controller.is_composite:
            _strings(metadata, "annotations")[DECORATOR_MARK] = self.controller.name
            return
        if self.controller.manifest["spec"].get("generateSelector"):
            _strings(metadata, "labels").setdefault(CONTROLLER_UID, uid_of(self.parent))
        if not _child_selector(self.controller, self.parent).matches(metadata.get("labels") or {}):
            raise HookFailed(f"labels on child {metadata['name']} do not match the parent's selector")

    def _apply(self, desired: JsonObject, observed: JsonObject | None) -> None:
        if observed is None:
            self._attempt("create", self._new_child(desired), self.writer.create)
            return
        updated = apply(observed, desired)
        if _same(updated, observed) or is_deleting(observed):
            return
        method = self.controller.method(self.rehearsal.kinds.of_object(desired))
        if method in ("InPlace", "RollingInPlace"):
            self._attempt("update", updated, self.writer.update)
        elif method in ("Recreate", "RollingRecreate"):
            self._attempt("delete", observed, self.writer.delete)

    def _new_child(self, desired: JsonObject) -> JsonObject:
        new = deepcopy(desired)
        _strings(new["metadata"], "annotations")[LAST_APPLIED] = go_json(desired)
        owners = new["metadata"].get("ownerReferences") or []
        if all(ref.get("uid") != uid_of(self.parent) for ref in owners):
            new["metadata"]["ownerReferences"] = [*owners, self._owner_reference()]
        return new

    def _attempt(
        self, verb: str, obj: JsonObject, write: Callable[[JsonObject], JsonObject | None]
    ) -> JsonObject | None:
        what = f"{verb} {_ref(obj)}"
        try:
            written = write(obj)
        except SWALLOWED[verb] as error:
            self.done.swallowed.append(f"{what}: {type(error).__name__}")
            return None
        except (Conflict, NotFound, AlreadyExists) as error:
            self._fail(f"cannot {what}: {type(error).__name__}")
            return None
        self.done.writes.append(what)
        return written or {}


def _strings(metadata: JsonObject, part: str) -> dict[str, str]:
    """Labels or annotations, to write into."""
    metadata[part] = metadata.get(part) or {}
    values: dict[str, str] = metadata[part]
    return values


def _set_strings(metadata: JsonObject, part: str, changes: Mapping[str, Any]) -> None:
    values = dict(metadata.get(part) or {})
    for key, value in changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    if values or part in metadata:
        metadata[part] = values


def _same(left: Any, right: Any) -> bool:
    """As Go compares: 1, 1.0 and true are three different things."""
    return compact_json(left) == compact_json(right)


def _ref(obj: JsonObject) -> ObjectRef:
    return ObjectRef(str(obj.get("kind")), name_of(obj), namespace_of(obj))
