"""`python -m hooks plan`: what the hooks would change in a set of objects, and why, without a cluster."""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import yaml

from hooks import storage_nodes, volume_admission, wire
from hooks.agents import report as agents
from hooks.agents import shapes
from hooks.app import HOOKS
from hooks.controllers import read_controllers
from hooks.kube.cluster import Cluster, Kinds, Snapshot, UnknownKind
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of, namespace_of
from hooks.manifests import Unreadable, read_manifests, read_objects
from hooks.rehearsal import HookFailed, Rehearsal
from hooks.samples import Unusable, ask_backend, ask_nobody, ask_samples
from hooks.service.endpoint import Action, Ask
from hooks.storage import classes as storage_classes
from hooks.volumes import claims

MOST_ROUNDS = 10
"""Hooks feed each other: what one writes, another reads. More rounds than the longest such chain."""
COPIES = shapes.KIND
"""One for each Node, saying what the Node says: they would hide what matters."""
UNUSABLE = {wire.INVALID_SPEC, str(agents.Reason.TEMPLATE_INVALID), str(agents.Reason.TEMPLATE_MISSING)}
STORAGE = {(storage_classes.API_VERSION, kind) for kind in (storage_classes.CLASS, storage_classes.POOL)}
SYMBOLS = {"add": "+", "change": "~", "delete": "-"}


class CannotPlan(Exception):
    """A hook refuses the input or never comes to rest; the message says which and why."""


@dataclass(frozen=True)
class Change:
    action: str  # add, change or delete
    object: str
    field: str  # a label, an annotation, status, or empty for the whole object
    before: Any
    after: Any
    reason: str = ""
    why: str = ""


@dataclass(frozen=True)
class Note:
    """A decision that changes nothing: somebody else's value that is kept, a conflict, a rule that cannot be used."""

    object: str
    reason: str
    why: str


@dataclass(frozen=True)
class Plan:
    changes: Sequence[Change]
    notes: Sequence[Note] = ()
    hints: Sequence[str] = ()
    """Why the plan may say less than expected."""

    @property
    def is_usable(self) -> bool:
        """Whether all that people wrote could be used."""
        said = {change.reason for change in self.changes} | {note.reason for note in self.notes}
        return not said & UNUSABLE

    def count(self, action: str) -> int:
        return sum(change.action == action for change in self.changes)

    @property
    def summary(self) -> str:
        return f"Plan: {self.count('add')} to add, {self.count('change')} to change, {self.count('delete')} to delete"


def make_plan(objects: Sequence[JsonObject], *, now: datetime, ask: Ask = ask_nobody) -> Plan:
    """Lets the hooks act on the objects in memory until nothing changes any more, and compares before and after."""
    if not objects:
        raise CannotPlan("the input holds no objects")
    definitions = read_manifests("deploy/crds")
    kinds = Kinds.of(crd for crd in [*definitions, *objects] if crd.get("kind") == "CustomResourceDefinition")
    cluster = Cluster(kinds, [obj for obj in objects if _is_known(kinds, obj)], admit=admit)
    with asyncio.Runner() as runner:
        caller = Caller(now, ask, runner)
        rehearsal = Rehearsal(read_controllers(controllers_for(objects), kinds), kinds, caller)
        before = cluster.snapshot()
        run_until_rest(rehearsal, cluster)
    changes = [*explain(compare(before, cluster.snapshot()), caller.decisions)]
    return Plan(changes, notes(caller.decisions, changes), hints(rehearsal, caller))


def controllers_for(objects: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """What `deploy/overlays/default` installs; where there is replicated storage, what `storage-nodes` adds to it.

    Without the delay of removals: a plan says what they come to.
    """
    installed = read_manifests("metacontroller")
    if not any((obj.get("apiVersion"), obj.get("kind")) in STORAGE for obj in objects):
        return installed
    guarded = {"annotations": {storage_nodes.DATA_GUARD: "Enabled", storage_nodes.REMOVAL_DELAY: "0s"}}
    added = [*read_manifests("metacontroller/storage-nodes"), *read_manifests("metacontroller/storage-data")]
    return [*installed, *(manifest | {"metadata": manifest["metadata"] | guarded} for manifest in added)]


def admit(old: JsonObject, new: JsonObject) -> JsonObject:
    """What the admission policy for claims does in the API server."""
    size = volume_admission.grown(old, new) if new["kind"] == claims.KIND else None
    if size is not None:
        new["spec"]["resources"]["requests"]["storage"] = size
    return new


def notes(decisions: Sequence[wire.Decision], changes: Iterable[Change]) -> Sequence[Note]:
    """Decisions that change nothing, each once, though the hooks are asked several times.

    Not those that a later decision overtook, nor those that are told already: by the same reason for a change of the
    same field, or by whatever is said of a changed status or a new object.
    """
    explained = {(change.object, change.field): change.reason for change in changes}
    overtaken = {_subject(decision): number for number, decision in enumerate(decisions) if decision.changes}
    found: dict[tuple[str, str, str], Note] = {}
    for number, decision in enumerate(decisions):
        reason = explained.get(_subject(decision))
        is_whole = decision.field in ("", "status") and str(decision.reason) not in UNUSABLE
        is_told = reason is not None and (is_whole or reason == str(decision.reason))
        is_past = number < overtaken.get(_subject(decision), 0)
        if decision.changes or is_told or is_past or decision.object.kind == COPIES:
            continue
        # What is wrong with a policy is said once, not for every Node.
        about = "" if decision.reason == wire.INVALID_SPEC else str(decision.object)
        note = Note(str(decision.object), str(decision.reason), decision.message)
        found[about, note.reason, note.why] = note
    return list(found.values())


def _subject(decision: wire.Decision) -> tuple[str, str]:
    return str(decision.object), decision.field


def run_until_rest(rehearsal: Rehearsal, cluster: Cluster) -> None:
    for _ in range(MOST_ROUNDS):
        done = rehearsal.round(cluster.snapshot(), cluster)
        if done.errors:
            raise CannotPlan(done.errors[0])
        if not done.writes:
            return
    raise CannotPlan(f"the hooks do not come to rest: after {MOST_ROUNDS} rounds they still {done.writes[0]}")


def hints(rehearsal: Rehearsal, caller: "Caller") -> Sequence[str]:
    if not caller.related:
        kinds = sorted({rule.kind.kind for controller in rehearsal.controllers for rule in controller.parents})
        return [f"the input holds no object that a hook looks after ({', '.join(kinds)})"]
    own = {rule.kind.group_key for controller in rehearsal.controllers for rule in controller.children}
    return [
        f"the input holds no {group.partition('.')[0]}: {name} decides by them, so include them in the dump"
        for name, groups in caller.related.items()
        for group, is_present in groups.items()
        if not is_present and group not in own  # what the hooks write themselves may well be absent
    ]


def _is_known(kinds: Kinds, obj: JsonObject) -> bool:
    """A dump may hold kinds that no hook looks at."""
    try:
        return bool(kinds.of_object(obj))
    except UnknownKind:
        return False


class Caller:
    """Calls the hooks in this process and remembers what they decided."""

    def __init__(self, now: datetime, ask: Ask, runner: asyncio.Runner) -> None:
        self.now, self.ask, self.runner = now, ask, runner
        self.decisions: list[wire.Decision] = []
        self.related: dict[str, dict[str, bool]] = {}
        """For each hook that was asked, the kinds that its objects relate to, and whether there were any."""
        self._hooks = {hook.name: hook for hook in HOOKS}

    def __call__(self, path: str, body: JsonObject) -> JsonObject:
        name, _, action = path.removeprefix("/").partition("/")
        wanted: Action = "customize" if action == "customize" else "sync"
        if name not in self._hooks:
            raise HookFailed(f"a controller asks {path}, but there is no hook {name}")
        try:
            answering = self._hooks[name].answer(wanted, json.dumps(body).encode(), now=self.now, ask=self.ask)
            outcome = self.runner.run(answering)
        except (wire.InvalidRequest, wire.RetryLater) as error:
            raise HookFailed(str(error)) from error
        self.decisions.extend(outcome.decisions)
        if wanted == "sync":
            groups = self.related.setdefault(name, {})
            groups |= {group: groups.get(group, False) or bool(found) for group, found in body["related"].items()}
        answer: JsonObject = json.loads(wire.encode(outcome.response))
        return answer


# Comparing


def compare(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = before.all(), after.all()
    for key in sorted(old.keys() | new.keys()):
        obj = new.get(key) or old[key]
        if obj["kind"] == COPIES:
            continue
        ref = str(_ref(obj))
        if key not in old:
            yield Change("add", ref, "", None, new[key])
        elif key not in new:
            yield Change("delete", ref, "", old[key], None)
        else:
            yield from _differences(ref, old[key], new[key])


def _differences(ref: str, old: JsonObject, new: JsonObject) -> Iterator[Change]:
    yield from _changed_strings(ref, "labels", labels_of(old), labels_of(new))
    yield from _changed_strings(ref, "annotations", annotations_of(old), annotations_of(new))
    for field in sorted((old.keys() | new.keys()) - {"apiVersion", "kind", "metadata"}):
        if compact_json(old.get(field)) != compact_json(new.get(field)):
            yield _change(ref, *_narrowed(field, old.get(field), new.get(field)))


def _narrowed(field: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """The innermost field that holds all of the difference: spec.resources.requests.storage rather than spec.

    A status is one report: it stays whole.
    """
    if field == "status" or not isinstance(old, dict) or not isinstance(new, dict):
        return field, old, new
    differing = [key for key in old.keys() | new.keys() if compact_json(old.get(key)) != compact_json(new.get(key))]
    if len(differing) != 1:
        return field, old, new
    return _narrowed(f"{field}.{differing[0]}", old.get(differing[0]), new.get(differing[0]))


def _changed_strings(ref: str, part: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for key in sorted((old.keys() | new.keys()) - {wire.LAST_APPLIED}):
        if old.get(key) != new.get(key):
            yield _change(ref, f"{part}.{key}", old.get(key), new.get(key))


def _change(ref: str, field: str, old: Any, new: Any) -> Change:
    action = "add" if old is None else "delete" if new is None else "change"
    return Change(action, ref, field, old, new)


def explain(changes: Iterable[Change], decisions: Iterable[wire.Decision]) -> Iterator[Change]:
    """Each change with the last decision that changes this field, else the last about it, else the first on the object.

    An annotation that no decision is about is the hook's own bookkeeping.
    """
    by_field: dict[tuple[str, str], wire.Decision] = {}
    by_object: dict[str, wire.Decision] = {}
    for decision in sorted(decisions, key=lambda decision: decision.changes):
        by_field[str(decision.object), decision.field] = decision
        if decision.changes:
            by_object.setdefault(str(decision.object), decision)
    for change in changes:
        if decided := by_field.get((change.object, change.field)):
            yield replace(change, reason=str(decided.reason), why=decided.message)
        elif change.field.startswith("annotations."):
            yield replace(change, reason="Recorded", why="the hook's own record")
        elif decided := by_object.get(change.object):
            yield replace(change, reason=str(decided.reason), why=decided.message)
        else:
            yield change


def _ref(obj: JsonObject) -> wire.ObjectRef:
    return wire.ObjectRef(str(obj["kind"]), name_of(obj), namespace_of(obj))


# Printing


def render(plan: Plan, output: str) -> str:
    if output == "table":
        return "\n".join([*_table(plan), plan.summary])
    document = {
        "changes": [asdict(change) for change in plan.changes],
        "notes": [asdict(note) for note in plan.notes],
        "summary": {action: plan.count(action) for action in SYMBOLS},
    }
    return json.dumps(document, indent=2) if output == "json" else yaml.safe_dump(document, sort_keys=False).rstrip()


def _table(plan: Plan) -> Iterator[str]:
    rows = [
        (SYMBOLS[change.action], change.object, _what(change), change.reason, _printable(change.why))
        for change in plan.changes
    ]
    rows += [("=", note.object, "(unchanged)", note.reason, _printable(note.why)) for note in plan.notes]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)), row[4]]).rstrip()


def _what(change: Change) -> str:
    if not change.field:
        return "(whole object)"
    part, _, key = change.field.partition(".")
    name = f"{part.removesuffix('s')} {key}" if part in ("labels", "annotations") else change.field
    if change.action == "add":
        return f"{name}={_short(change.after)}"
    if change.action == "delete":
        return f"{name} (was {_short(change.before)})"
    return f"{name}: {_short(change.before)} -> {_short(change.after)}"


def _short(value: Any) -> str:
    text = _printable(value if isinstance(value, str) else compact_json(value))
    return text if len(text) <= 44 else f"{text[:41]}..."


def _printable(text: str) -> str:
    """One line, whatever an annotation holds."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def run(files: Sequence[str], output: str, *, samples: str = "", prometheus: str = "") -> int:
    """As `kubectl diff`: 0 if nothing would change, 1 if something would, above on an error or an unusable spec."""
    try:
        ask = ask_samples(samples) if samples else ask_backend(prometheus) if prometheus else ask_nobody
        plan = make_plan(read_objects(files), now=datetime.now(UTC), ask=ask)
    except (CannotPlan, Unreadable, Unusable) as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    for hint in plan.hints:
        print(f"plan: {hint}", file=sys.stderr)
    print(render(plan, output), flush=True)
    return (1 if plan.changes else 0) if plan.is_usable else 2
