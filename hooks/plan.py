"""`python -m hooks plan`: what the hooks would change in a set of objects, and why, without a cluster."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from hooks import wire
from hooks.app import HOOKS
from hooks.controllers import read_controllers
from hooks.kube.cluster import Cluster, Kinds, Snapshot, UnknownKind
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of, namespace_of
from hooks.rehearsal import HookFailed, Rehearsal
from hooks.service.endpoint import Action

ROOT = Path(__file__).resolve().parent.parent
MOST_ROUNDS = 10
"""Hooks feed each other: what one writes, another reads. More rounds than the longest such chain."""
DEEPEST, LARGEST = 500, 50_000_000
"""The nesting and the number of nodes up to which a YAML file is read."""
SYMBOLS = {"add": "+", "change": "~", "delete": "-"}


class CannotPlan(Exception):
    """The input cannot be read, or a hook refused it; the message says which and why."""


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
        return all(note.reason != wire.INVALID_SPEC for note in self.notes)

    def count(self, action: str) -> int:
        return sum(change.action == action for change in self.changes)

    @property
    def summary(self) -> str:
        return f"Plan: {self.count('add')} to add, {self.count('change')} to change, {self.count('delete')} to delete"


def make_plan(objects: Sequence[JsonObject], *, now: datetime) -> Plan:
    """Lets the hooks act on the objects in memory until nothing changes any more, and compares before and after."""
    if not objects:
        raise CannotPlan("the input holds no objects")
    definitions = read_manifests("deploy/crds")
    kinds = Kinds.of(crd for crd in [*definitions, *objects] if crd.get("kind") == "CustomResourceDefinition")
    cluster = Cluster(kinds, [obj for obj in objects if _is_known(kinds, obj)])
    caller = Caller(now)
    rehearsal = Rehearsal(read_controllers(read_manifests("metacontroller"), kinds), kinds, caller)
    before = cluster.snapshot()
    run_until_rest(rehearsal, cluster)
    changes = explain(compare(before, cluster.snapshot()), caller.decisions)
    return Plan([*changes], notes(caller.decisions), hints(rehearsal, caller))


def notes(decisions: Iterable[wire.Decision]) -> Sequence[Note]:
    """Each once, though the hooks are asked several times, and a complaint about a policy once for all Nodes."""
    found = {
        (decision.reason, decision.message): Note(str(decision.object), str(decision.reason), decision.message)
        for decision in decisions
        if not decision.changes
    }
    return list(found.values())


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
    return [
        f"the input holds no {group.partition('.')[0]}: {name} decides by them, so include them in the dump"
        for name, groups in caller.related.items()
        for group, is_present in groups.items()
        if not is_present
    ]


def _is_known(kinds: Kinds, obj: JsonObject) -> bool:
    """A dump may hold kinds that no hook looks at."""
    try:
        return bool(kinds.of_object(obj))
    except UnknownKind:
        return False


class Caller:
    """Calls the hooks in this process and remembers what they decided."""

    def __init__(self, now: datetime) -> None:
        self.now = now
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
            outcome = self._hooks[name].answer(wanted, json.dumps(body).encode(), now=self.now)
        except (wire.InvalidRequest, wire.RetryLater) as error:
            raise HookFailed(str(error)) from error
        self.decisions.extend(outcome.decisions)
        if wanted == "sync":
            groups = self.related.setdefault(name, {})
            groups |= {group: groups.get(group, False) or bool(found) for group, found in body["related"].items()}
        answer: JsonObject = json.loads(wire.encode(outcome.response))
        return answer


# Reading


def read_objects(files: Iterable[Path | str]) -> list[JsonObject]:
    """Objects from YAML or JSON files, lists (`kubectl get -o json`) taken apart; `-` is standard input."""
    return [
        obj
        for file in files
        for document in _documents(file)
        for obj in _flatten(document, "standard input" if str(file) == "-" else str(file))
    ]


def read_manifests(folder: str) -> list[JsonObject]:
    """What we ship in a folder of the project."""
    return read_objects(file for file in sorted((ROOT / folder).glob("*.yaml")) if file.name != "kustomization.yaml")


def _documents(file: Path | str) -> list[Any]:
    if str(file) == "-" and sys.stdin is None:
        raise CannotPlan("standard input is closed; name a file with -f")
    try:
        text = sys.stdin.read() if str(file) == "-" else Path(file).read_text(encoding="utf-8")
        # Through JSON once more: what has no place there, such as an anchor inside itself, is no Kubernetes object.
        documents: list[Any] = json.loads(json.dumps(_parse(text.removeprefix("\ufeff")), allow_nan=False))
    except OSError as error:
        raise CannotPlan(f"{file}: {error.strerror}") from error
    except RecursionError as error:
        raise CannotPlan(f"{file}: nested too deeply, or far larger than it looks") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise CannotPlan(f"{file}: neither YAML nor JSON: {' '.join(str(error).split())}") from error
    return documents


def _parse(text: str) -> list[Any]:
    if text.lstrip().startswith("{"):
        with suppress(ValueError):  # then it may still be YAML in braces
            return [json.loads(text)]
    _refuse_bombs(text)
    return list(yaml.load_all(text, _Loader))


def _refuse_bombs(text: str) -> None:
    """YAML can be nested deeper than the stack, and a few lines of aliases can stand for more than the memory."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []  # the anchor of each, and the size of what came before it
    size = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        size += sizes.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, size))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes |= {anchor: size - before} if anchor else {}
        if len(open_nodes) > DEEPEST or size > LARGEST:
            raise RecursionError


class _Loader(yaml.CSafeLoader):
    """YAML as kubectl reads it: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _flatten(document: Any, file: str) -> Iterator[JsonObject]:
    if document is None:
        return
    if isinstance(document, list):
        for item in document:
            yield from _flatten(item, file)
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise CannotPlan(f"{file}: not a Kubernetes object: it has no kind")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _flatten(_with_kind(item, document), file)
    elif not isinstance(document.get("apiVersion"), str) or not name_of(document):
        raise CannotPlan(f"{file}: a {document['kind']} without apiVersion or metadata.name")
    else:
        yield document


def _with_kind(item: Any, of_list: JsonObject) -> Any:
    """Items of a typed list, as the API itself returns it, leave out what the list says."""
    if isinstance(item, dict) and "kind" not in item and of_list["kind"] != "List":
        return {"kind": of_list["kind"].removesuffix("List"), "apiVersion": of_list.get("apiVersion")} | item
    return item


# Comparing


def compare(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = before.all(), after.all()
    for key in sorted(old.keys() | new.keys()):
        ref = str(_ref(new.get(key) or old[key]))
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
            yield _change(ref, field, old.get(field), new.get(field))


def _changed_strings(ref: str, part: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for key in sorted((old.keys() | new.keys()) - {wire.LAST_APPLIED}):
        if old.get(key) != new.get(key):
            yield _change(ref, f"{part}.{key}", old.get(key), new.get(key))


def _change(ref: str, field: str, old: Any, new: Any) -> Change:
    action = "add" if old is None else "delete" if new is None else "change"
    return Change(action, ref, field, old, new)


def explain(changes: Iterable[Change], decisions: Iterable[wire.Decision]) -> Iterator[Change]:
    """Each change with the last decision about this very field, else with the first about the object.

    An annotation that no decision is about is the hook's own bookkeeping.
    """
    by_field: dict[tuple[str, str], wire.Decision] = {}
    by_object: dict[str, wire.Decision] = {}
    for decision in decisions:
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
    name = f"{part.removesuffix('s')} {key}" if key else part
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


def run(files: Sequence[str], output: str) -> int:
    """As `kubectl diff`: 0 if nothing would change, 1 if something would, above on an error or an unusable spec."""
    try:
        plan = make_plan(read_objects(files), now=datetime.now(UTC))
    except CannotPlan as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    for hint in plan.hints:
        print(f"plan: {hint}", file=sys.stderr)
    print(render(plan, output))
    return (1 if plan.changes else 0) if plan.is_usable else 2
