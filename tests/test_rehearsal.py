"""The rehearsal against toy hooks, and against what the real Metacontroller was seen to do."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks import wire
from hooks.controllers import Controller, read_controllers
from hooks.kube.cluster import Cluster, Kind, Kinds, Snapshot
from hooks.kube.merge import LAST_APPLIED
from hooks.kube.metadata import JsonObject, group_key, object_key, uid_of
from hooks.rehearsal import HookFailed, Rehearsal, Round

TOY = Kind("toys.io/v1", "Toy", "toys")
PART = Kind("toys.io/v1", "Part", "parts")
GLOBAL = Kind("toys.io/v1", "Global", "globals", namespaced=False)
CORE = Kinds.of([])
CONFIG_MAP, NAMESPACE, NODE = (CORE.by_resource("v1", name) for name in ("configmaps", "namespaces", "nodes"))
KINDS = Kinds([TOY, PART, GLOBAL, CONFIG_MAP, NAMESPACE, NODE])

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
            assert (done.writes, done.swallowed, done.errors) == ([], [], [])

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


# Which parents


@pytest.mark.parametrize(
    ("rules", "synced"),
    [
        pytest.param([{}], {"a", "b", "c"}, id="all without a selector"),
        pytest.param([{"labelSelector": {"matchLabels": {"l": "1"}}}], {"a", "b"}, id="by label"),
        pytest.param([{"annotationSelector": {"matchAnnotations": {"n": "1"}}}], {"a", "c"}, id="by annotation"),
        pytest.param(
            [
                {
                    "labelSelector": {"matchLabels": {"l": "1"}},
                    "annotationSelector": {"matchExpressions": [{"key": "n", "operator": "Exists"}]},
                }
            ],
            {"a"},
            id="by both",
        ),
        pytest.param(
            [{}, {"labelSelector": {"matchLabels": {"l": "1"}}}], {"a", "b"}, id="the last rule of a kind counts"
        ),
    ],
)
def test_parents_are_selected(rules: list[JsonObject], synced: set[str]) -> None:
    resources = [{"apiVersion": "toys.io/v1", "resource": "toys", **rule} for rule in rules]
    toys = [
        obj(TOY, "a", labels={"l": "1"}, annotations={"n": "1"}),
        obj(TOY, "b", labels={"l": "1"}),
        obj(TOY, "c", annotations={"n": "1"}),
        obj(PART, "no parent"),
    ]
    stage = Stage(always({}), decorator(resources=resources), objects=toys)
    assert stage.round() == Round()
    assert [body["object"]["metadata"]["name"] for _, body in stage.asked] == sorted(synced)


def test_a_composite_selects_its_parents_by_label() -> None:
    rule = {"apiVersion": "toys.io/v1", "resource": "toys", "labelSelector": {"matchLabels": {"l": "1"}}}
    stage = Stage(parts_of_spec, composite(parentResource=rule), objects=[obj(TOY, "a", labels={"l": "1"}), toy()])
    stage.round()
    assert [body["parent"]["metadata"]["name"] for _, body in stage.asked] == ["a"]


# Requests as recorded

DATA = Path(__file__).parent / "data"
RECORDED_KINDS = Kinds(
    [
        NODE,
        Kind("node-labeler.io/v1alpha1", "NodeLabelPolicy", "nodelabelpolicies", namespaced=False),
        *(
            Kind("autoscaling.volume-autoscaler.io/v1alpha1", kind, f"{kind.lower()}s")
            for kind in ("VolumeAutoscaler", "VolumeExpansion")
        ),
        *(CORE.by_resource("v1", name) for name in ("events", "persistentvolumeclaims")),
        CORE.by_resource("storage.k8s.io/v1", "storageclasses"),
    ]
)


def recorded(name: str) -> JsonObject:
    record: JsonObject = json.loads((DATA / f"{name}.json").read_text())
    return record


def snapshot(objects: Iterable[JsonObject]) -> Snapshot:
    """Objects exactly as given, with their own versions."""
    groups: dict[str, dict[str, JsonObject]] = {}
    for item in objects:
        groups.setdefault(group_key(item["apiVersion"], item["kind"]), {})[object_key(item)] = item
    return Snapshot(groups)


@pytest.mark.parametrize(
    ("name", "customize"),
    [
        ("decorator-sync-node-no-policies", "decorator-customize-node"),
        ("decorator-sync-node-one-policy", "decorator-customize-node"),
        ("composite-sync-autoscaler-first", "composite-customize-autoscaler"),
        ("composite-sync-autoscaler-with-children", "composite-customize-autoscaler"),
    ],
)
def test_the_request_is_the_one_that_was_recorded(name: str, customize: str) -> None:
    request = recorded(name)["request"]
    parent = request.get("object") or request["parent"]
    others = request.get("attachments") or request.get("children") or {}
    groups = [*request["related"].values(), *others.values()]
    seen = snapshot([*(item for group in groups for item in group.values()), parent])
    (controller,) = read_controllers([request["controller"]], RECORDED_KINDS)
    rehearsal = Rehearsal([controller], RECORDED_KINDS, lambda path, body: dict(recorded(customize)["response"]))
    assert [*rehearsal.parents(controller, seen)] == [parent]
    assert rehearsal.request(controller, parent, seen) == request


def test_the_customize_request_is_the_one_that_was_recorded() -> None:
    record = recorded("decorator-customize-node")["request"]
    (controller,) = read_controllers([record["controller"]], RECORDED_KINDS)
    asked: list[JsonObject] = []

    def call(path: str, body: JsonObject) -> JsonObject:
        asked.append(body)
        return {}

    Rehearsal([controller], RECORDED_KINDS, call).request(controller, record["parent"], snapshot([record["parent"]]))
    assert asked == [record]


def test_children_are_stored_as_metacontroller_stored_them() -> None:
    record = recorded("composite-sync-autoscaler-first")
    parent = record["request"]["parent"]
    (controller,) = read_controllers([record["request"]["controller"]], RECORDED_KINDS)
    cluster = Cluster(RECORDED_KINDS, [parent])
    rehearsal = Rehearsal(
        [controller], RECORDED_KINDS, lambda path, body: {} if "customize" in path else record["response"]
    )
    done = rehearsal.round(cluster.snapshot(), cluster)
    assert done.resyncs == {"VolumeAutoscaler/default/va1": 20}
    for stored in json.loads((DATA / "objects-after.json").read_text())["items"][:2]:
        ours = cluster.read(stored)
        assert ours is not None
        for name in ("annotations", "labels", "ownerReferences"):
            assert ours["metadata"][name] == stored["metadata"][name]


# Related objects

POOL = [
    obj(CONFIG_MAP, "a", labels={"l": "1"}),
    obj(CONFIG_MAP, "b"),
    obj(CONFIG_MAP, "a", namespace="other", labels={"l": "1"}),
    obj(NAMESPACE, "ns", labels={"team": "x"}),
    obj(NAMESPACE, "other"),
    obj(GLOBAL, "g", labels={"l": "1"}),
    obj(GLOBAL, "h"),
]


def related(rules: list[JsonObject]) -> tuple[Stage, Round]:
    stage = Stage(always({}), decorator(customize=True), objects=[toy(), *POOL])
    stage.related = {"relatedResources": rules}
    return stage, stage.round()


@pytest.mark.parametrize(
    ("resource", "rule", "keys"),
    [
        pytest.param("configmaps", {}, {"ns/a", "ns/b", "other/a"}, id="all of a kind, in all namespaces"),
        pytest.param("configmaps", {"namespace": "ns"}, {"ns/a", "ns/b"}, id="of a namespace"),
        pytest.param("configmaps", {"names": ["a", "x"]}, {"ns/a", "other/a"}, id="by name"),
        pytest.param("configmaps", {"names": ["a"], "namespace": "other"}, {"other/a"}, id="by name and namespace"),
        pytest.param(
            "configmaps", {"names": [], "labelSelector": {}}, {"ns/a", "ns/b", "other/a"}, id="nothing chosen"
        ),
        pytest.param("configmaps", {"labelSelector": {"matchLabels": {"l": "1"}}}, {"ns/a", "other/a"}, id="by label"),
        pytest.param(
            "configmaps",
            {"labelSelector": {"matchLabels": {"l": "1"}}, "namespace": "ns"},
            {"ns/a"},
            id="by label and namespace",
        ),
        pytest.param(
            "configmaps",
            {"namespaceSelector": {"matchLabels": {"team": "x"}}},
            {"ns/a", "ns/b"},
            id="by the labels of the namespace",
        ),
        pytest.param(
            "configmaps",
            {"namespaceSelector": {}, "labelSelector": {"matchLabels": {"l": "1"}}},
            {"ns/a", "other/a"},
            id="in any namespace, by label",
        ),
        pytest.param(
            "configmaps", {"labelSelector": None, "namespaceSelector": None}, {"ns/a", "ns/b", "other/a"}, id="null"
        ),
        pytest.param(
            "globals", {"namespace": "ns"}, {"g", "h"}, id="a namespace does not narrow a cluster-scoped kind"
        ),
        pytest.param("globals", {"names": ["h"]}, {"h"}, id="a cluster-scoped kind by name"),
    ],
)
def test_related_objects_are_chosen(resource: str, rule: JsonObject, keys: set[str]) -> None:
    api_version = "v1" if resource == "configmaps" else "toys.io/v1"
    stage, done = related([{"apiVersion": api_version, "resource": resource, **rule}])
    assert done.errors == []
    (objects,) = stage.asked[-1][1]["related"].values()
    assert objects.keys() == keys


def test_rules_for_one_kind_are_united_and_a_kind_without_objects_is_an_empty_map() -> None:
    rules: list[JsonObject] = [
        {"apiVersion": "v1", "resource": "configmaps", "names": ["b"]},
        {"apiVersion": "v1", "resource": "configmaps", "namespace": "other"},
        {"apiVersion": "toys.io/v1", "resource": "parts"},
    ]
    stage, _ = related(rules)
    assert {group: set(found) for group, found in stage.asked[-1][1]["related"].items()} == {
        "ConfigMap.v1": {"ns/b", "other/a"},
        "Part.toys.io/v1": set(),
    }


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        pytest.param({"names": ["a"], "labelSelector": {}}, "names together with a selector", id="names and labels"),
        pytest.param(
            {"names": ["a"], "namespaceSelector": {}}, "names together with a selector", id="names and spaces"
        ),
        pytest.param(
            {"namespace": "ns", "namespaceSelector": {}}, "a namespace together with a namespaceSelector", id="both"
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"a b": "c"}}}, "matchLabels: label key", id="a selector that is none"
        ),
        pytest.param({"resource": "gadgets"}, "no kind is known for resource gadgets of v1", id="an unknown kind"),
        pytest.param({"name": "a"}, "unknown field name", id="an unknown field"),
        pytest.param(
            {"apiVersion": "toys.io/v1", "resource": "globals", "namespaceSelector": {}},
            "a namespaceSelector for globals, which are in no namespace",
            id="namespaces of a cluster-scoped kind",
        ),
    ],
)
def test_a_rule_that_cannot_be_followed_fails_the_sync(rule: JsonObject, error: str) -> None:
    stage, done = related([{"apiVersion": "v1", "resource": "configmaps", **rule}])
    assert [path for path, _ in stage.asked] == ["/customize"]
    assert len(done.errors) == 1
    assert done.errors[0].startswith("Toy/ns/t: ")
    assert error in done.errors[0]


def test_customize_is_asked_once_per_generation() -> None:
    stage = Stage(always({"labels": {"touched": "yes"}}), decorator(customize=True), objects=[toy(spec={"a": 1})])
    asked = []
    for change in ({}, {}, {"labels": {"a": "b"}}, {"spec": {"a": 2}}, {}):
        if change:
            stage.cluster.put(toy(**{"spec": {"a": 1}, **change}))
        stage.round()
        asked.append([path for path, _ in stage.asked].count("/customize"))
    stage.rehearsal.forget()
    stage.round()
    assert [*asked, len(stage.asked)] == [1, 0, 0, 1, 0, 2]


def test_two_controllers_of_one_name_keep_their_customize_answers_apart() -> None:
    stage = Stage(always({}), decorator(customize=True), composite(customize=True), objects=[toy()])
    stage.round()
    assert [path for path, _ in stage.asked] == ["/customize", "/sync"] * 2


def test_a_failed_customize_is_asked_again_and_nothing_is_synced() -> None:
    stage = Stage(always({}), decorator(customize=True), objects=[toy()])
    stage.related = HookFailed("503")
    assert stage.round().errors == stage.round().errors == ["Toy/ns/t: 503"]
    stage.related = {}
    assert stage.round() == Round()


# Children: which are seen


def owned(name: str, *, uid: str = "toy-uid", controller: bool = True, **fields: Any) -> JsonObject:
    child = obj(PART, name, **fields)
    child["metadata"]["ownerReferences"] = [{"uid": uid, "controller": controller}]
    return child


MARK = {"metacontroller.k8s.io/decorator-controller": "toys"}
LABEL = {"controller-uid": "toy-uid"}


@pytest.mark.parametrize(
    ("child", "seen_by"),
    [
        pytest.param(owned("p", annotations=MARK, labels=LABEL), {"decorator", "composite"}, id="owned and marked"),
        pytest.param(owned("p", annotations=MARK), {"decorator"}, id="marked by the decorator"),
        pytest.param(owned("p", labels=LABEL), {"composite"}, id="labelled by the composite"),
        pytest.param(obj(PART, "p", annotations=MARK, labels=LABEL), set[str](), id="not owned"),
        pytest.param(owned("p", uid="other", annotations=MARK, labels=LABEL), set[str](), id="owned by another"),
        pytest.param(owned("p", controller=False, annotations=MARK, labels=LABEL), set[str](), id="not controlled"),
        pytest.param(
            owned("p", namespace="other", annotations=MARK, labels=LABEL), set[str](), id="in another namespace"
        ),
        pytest.param(
            owned("p", annotations={next(iter(MARK)): "other"}, labels={"controller-uid": "x"}),
            set[str](),
            id="marked by another controller",
        ),
        pytest.param(
            owned("p", annotations=MARK, labels=LABEL, deletionTimestamp="2026-01-01T00:00:00Z"),
            {"decorator", "composite"},
            id="on its way out",
        ),
    ],
)
def test_children_are_known_by_owner_and_mark(child: JsonObject, seen_by: set[str]) -> None:
    seen = Cluster(KINDS, [toy(), child]).snapshot()
    rehearsal = Rehearsal([], KINDS, lambda path, body: {})
    found = {
        name
        for name, controller in {"decorator": decorator(), "composite": composite()}.items()
        if rehearsal.children(controller, toy(), seen)["Part.toys.io/v1"]
    }
    assert found == seen_by


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        pytest.param({"matchLabels": {"app": "t"}}, "", id="the selector of the parent"),
        pytest.param(None, "spec.selector of the parent is empty", id="no selector"),
        pytest.param({}, "spec.selector of the parent is empty", id="an empty selector"),
        pytest.param(
            {"matchLabels": {"app": "u"}}, "labels on child p do not match", id="a child that it does not match"
        ),
        pytest.param("app=t", "selector must be an object", id="a selector that is none"),
    ],
)
def test_without_a_generated_selector_the_parent_brings_one(selector: Any, error: str) -> None:
    child = part()
    child["metadata"]["labels"] = {"app": "t"}
    stage = Stage(
        always({"children": [child], "status": {"a": 1}}),
        composite(generateSelector=False),
        objects=[toy(spec={"selector": selector})],
    )
    done = stage.round()
    assert error in "".join(done.errors)
    assert bool(done.errors) == bool(error)
    assert stage.names(PART) == (set() if error else {"ns/p"})
    assert ("status" in stage.get(TOY, "t")) is not bool(error)
    if not error:
        stage.quiet()


def test_an_empty_selector_fails_before_the_hook_is_asked() -> None:
    stage = Stage(parts_of_spec, composite(generateSelector=False), objects=[toy()])
    assert len(stage.round().errors) == 1
    assert stage.asked == []


# Children: what is written


def test_a_composite_creates_changes_and_deletes_its_children() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"a": {"n": 1}, "b": {"n": 1}})])
    assert stage.round().writes == ["create Part/ns/a", "create Part/ns/b", "update status of Toy/ns/t"]
    assert stage.get(PART, "a")["metadata"]["labels"] == LABEL
    assert stage.get(TOY, "t")["status"] == {"parts": 2, "observedGeneration": 1}
    stage.quiet()
    stage.cluster.put(toy(spec={"b": {"n": 2}, "c": {}}))
    done = stage.round()
    assert done.writes == [
        "delete Part/ns/a",
        "update Part/ns/b",
        "create Part/ns/c",
        "update status of Toy/ns/t",
    ]
    assert stage.get(PART, "b")["spec"] == {"n": 2}
    assert stage.get(TOY, "t")["status"] == {"parts": 2, "observedGeneration": 2}
    stage.quiet()


def test_a_decorator_labels_its_parent_and_marks_its_attachments() -> None:
    stage = Stage(labels_of_spec, decorator(), objects=[toy(spec={"a": "1"}, labels={"theirs": "x"})])
    assert stage.round().writes == ["update Toy/ns/t", "create Part/ns/p"]
    assert stage.get(TOY, "t")["metadata"]["labels"] == {"a": "1", "theirs": "x"}
    assert "status" not in stage.get(TOY, "t")
    assert stage.get(PART, "p")["metadata"]["annotations"].items() >= MARK.items()
    stage.quiet()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param([], ["toy-uid"], id="the parent owns it"),
        pytest.param([{"uid": "x"}], ["x", "toy-uid"], id="beside others"),
        pytest.param([{"uid": "toy-uid"}], ["toy-uid"], id="once, if the hook says so itself"),
    ],
)
def test_the_parent_is_written_into_a_new_child(given: list[JsonObject], stored: list[str]) -> None:
    child = part()
    child["metadata"]["ownerReferences"] = given
    stage = Stage(always({"children": [child]}), composite(), objects=[toy()])
    stage.round()
    assert [ref["uid"] for ref in stage.get(PART, "p")["metadata"]["ownerReferences"]] == stored


@pytest.mark.parametrize(
    ("method", "first", "second", "size"),
    [
        pytest.param("OnDelete", [], [], 1, id="OnDelete leaves it as it is"),
        pytest.param("InPlace", ["update Part/ns/p"], [], 2, id="InPlace changes it"),
        pytest.param("Recreate", ["delete Part/ns/p"], ["create Part/ns/p"], 2, id="Recreate deletes, then creates"),
    ],
)
def test_a_changed_child_follows_its_strategy(method: str, first: list[str], second: list[str], size: int) -> None:
    def hook(request: JsonObject) -> JsonObject:
        return {"attachments": [part(spec={"size": request["object"]["spec"]["size"]})]}

    stage = Stage(hook, decorator(method=method), objects=[toy(spec={"size": 1})])
    stage.round()
    before = uid_of(stage.get(PART, "p"))
    stage.cluster.put(toy(spec={"size": 2}))
    assert [stage.round().writes, stage.round().writes] == [first, second]
    assert stage.get(PART, "p")["spec"] == {"size": size}
    assert (uid_of(stage.get(PART, "p")) == before) is (method != "Recreate")
    stage.quiet()


def test_what_others_wrote_into_a_child_stays() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"p": {"ours": 1}})])
    stage.round()
    theirs = stage.get(PART, "p")
    theirs["metadata"]["annotations"]["theirs"] = "x"
    stage.cluster.put(theirs | {"spec": {"ours": 5, "defaulted": 1}, "status": {"ready": True}})
    assert stage.round().writes == ["update Part/ns/p"]
    assert stage.get(PART, "p")["spec"] == {"ours": 1, "defaulted": 1}
    assert stage.get(PART, "p")["status"] == {"ready": True}
    assert stage.get(PART, "p")["metadata"]["annotations"]["theirs"] == "x"
    stage.quiet()


def test_a_child_on_its_way_out_is_left_alone() -> None:
    leaving = owned("p", labels=LABEL, deletionTimestamp="2026-01-01T00:00:00Z")
    for spec in ({}, {"p": {"n": 1}}):
        stage = Stage(parts_of_spec, composite(), objects=[toy(spec=spec), leaving])
        assert stage.round().writes == ["update status of Toy/ns/t"]


@pytest.mark.parametrize("controller", [composite(), decorator()])
def test_no_children_are_managed_while_the_parent_is_deleted(controller: Controller) -> None:
    def hook(request: JsonObject) -> JsonObject:
        key = "children" if controller.is_composite else "attachments"
        own = {"status": {"seen": True}} if controller.is_composite else {"labels": {"seen": "yes"}}
        return {key: [part("new")], **own}

    child = owned("old", labels=LABEL, annotations=MARK)
    stage = Stage(hook, controller, objects=[toy(deletionTimestamp="2026-01-01T00:00:00Z"), child])
    assert len(stage.round().writes) == 1
    assert stage.names(PART) == {"ns/old"}
    stage.quiet()


def test_an_attachment_of_a_cluster_scoped_parent_says_its_namespace() -> None:
    child = part()
    child["metadata"]["namespace"] = "other"
    rule = {"apiVersion": "toys.io/v1", "resource": "globals"}
    stage = Stage(always({"attachments": [child]}), decorator(resources=[rule]), objects=[obj(GLOBAL, "g")])
    stage.round()
    assert stage.names(PART) == {"other/p"}
    stage.quiet()


def test_a_child_of_a_kind_that_is_not_listed_is_created_and_never_seen_again() -> None:
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    stage = Stage(always({"children": [foreign]}), composite(), objects=[toy()])
    assert "create ConfigMap/ns/c" in stage.round().writes
    assert stage.round().swallowed == ["create ConfigMap/ns/c: AlreadyExists"]


def test_an_object_of_that_name_which_others_own_is_invisible() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"p": {"n": 1}}), obj(PART, "p", spec={"theirs": 1})])
    for _ in range(2):
        assert stage.round().swallowed == ["create Part/ns/p: AlreadyExists"]
    assert stage.get(PART, "p")["spec"] == {"theirs": 1}


def test_one_bad_child_keeps_neither_the_others_nor_the_status_back() -> None:
    unknown = {"apiVersion": "v9", "kind": "Unknown", "metadata": {"name": "u"}}
    corrupt = owned("corrupt", labels=LABEL, annotations={LAST_APPLIED: "{"})
    answer = {"status": {"ok": True}, "children": [unknown, part("corrupt"), part("good")]}
    stage = Stage(always(answer), composite(), objects=[toy(), corrupt])
    done = stage.round()
    assert done.writes == ["create Part/ns/good", "update status of Toy/ns/t"]
    assert done.errors == [
        "Toy/ns/t: kind Unknown of v9 is not known",
        f"Toy/ns/t: the annotation {LAST_APPLIED} of ns/corrupt is not a JSON object",
    ]


def test_an_empty_map_that_kubernetes_does_not_store_is_written_at_every_round() -> None:
    child = part()
    child["metadata"]["finalizers"] = []
    stage = Stage(always({"children": [child]}), composite(), objects=[toy()])
    stage.round()
    assert [stage.round().writes for _ in range(2)] == [["update Part/ns/p"]] * 2


# Echo and keep


def test_an_echoed_child_is_written_at_every_round_and_a_kept_one_never() -> None:
    def echo(request: JsonObject) -> JsonObject:
        return {"children": [*request["children"]["Part.toys.io/v1"].values()] or [part(spec={"n": 1})]}

    def keep(request: JsonObject) -> JsonObject:
        return {"children": [wire.keep(child) for child in echo(request)["children"] if "uid" in child["metadata"]]}

    echoing = Stage(echo, composite(), objects=[toy()])
    echoing.round()
    assert [echoing.round().writes for _ in range(3)] == [["update Part/ns/p"]] * 3

    kept = Stage(keep, composite(), objects=[toy()])
    kept.cluster = echoing.cluster
    echoing.cluster.delete(echoing.get(PART, "p"))
    echoing.round()  # creates it anew
    kept.quiet()


def test_a_kept_child_keeps_what_others_wrote() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"p": {"n": 1}})])
    stage.round()
    theirs = stage.get(PART, "p")
    theirs["metadata"]["annotations"]["theirs"] = "x"
    stage.cluster.put(theirs | {"spec": {"n": 1, "theirs": 1}})
    answer = {"status": {"parts": 1}, "children": [wire.keep(stage.get(PART, "p"))]}
    kept = Stage(always(answer), composite())
    kept.cluster = stage.cluster
    kept.quiet()


def test_an_echoed_child_with_strategy_ondelete_is_not_written() -> None:
    stage = Stage(
        lambda request: {"children": [*request["children"]["Part.toys.io/v1"].values()] or [part()]},
        composite(method="OnDelete"),
        objects=[toy()],
    )
    stage.round()
    stage.quiet()


# The parent


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        pytest.param({"labels": {"a": "2"}}, {"a": "2", "b": "1"}, id="a value is set"),
        pytest.param({"labels": {"a": None}}, {"b": "1"}, id="null deletes"),
        pytest.param({"labels": {"a": ""}}, {"a": "", "b": "1"}, id="empty is a value"),
        pytest.param({"labels": {"x": None}}, {"a": "1", "b": "1"}, id="what is not there need not go"),
        pytest.param({"labels": None}, {"a": "1", "b": "1"}, id="no labels"),
        pytest.param({"labels": {"a": None, "b": None}}, {}, id="all go"),
    ],
)
def test_labels_of_the_parent(answer: JsonObject, labels: dict[str, str]) -> None:
    stage = Stage(always(answer), decorator(), objects=[toy(labels={"a": "1", "b": "1"})])
    stage.round()
    assert stage.get(TOY, "t")["metadata"].get("labels", {}) == labels
    stage.quiet()


def test_a_decorator_writes_a_status_apart_and_then_the_rest() -> None:
    answer = {"status": {"ready": True}, "annotations": {"a": "b"}}
    stage = Stage(always(answer), decorator(), objects=[toy(status={"old": 1})])
    assert stage.round().writes == ["update status of Toy/ns/t", "update Toy/ns/t"]
    assert stage.get(TOY, "t")["status"] == {"ready": True}
    assert stage.get(TOY, "t")["metadata"]["annotations"] == {"a": "b"}
    stage.quiet()


def test_a_composite_overwrites_the_status_whatever_is_there() -> None:
    stage = Stage(always({"status": {"n": 1}}), composite(), objects=[toy()])
    before = stage.cluster.snapshot()
    stage.cluster.put(toy(status={"written": "meanwhile"}, spec={"new": 1}))
    done = stage.round(parents=before)
    assert (done.writes, done.swallowed) == (["update status of Toy/ns/t"], [])
    assert stage.get(TOY, "t")["status"] == {"n": 1, "observedGeneration": 1}  # of the parent that was seen
    stage.round()
    assert stage.get(TOY, "t")["status"] == {"n": 1, "observedGeneration": 2}


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": {}}])
def test_a_composite_without_a_status_reports_its_generation(status: JsonObject) -> None:
    stage = Stage(always(status), composite(), objects=[toy(status={"old": 1})])
    stage.round()
    assert stage.get(TOY, "t")["status"] == {"observedGeneration": 1}
    stage.quiet()


@pytest.mark.parametrize(
    ("answer", "resyncs"),
    [
        ({"resyncAfterSeconds": 5}, {"Toy/ns/t": 5}),
        ({"resyncAfterSeconds": 0.5}, {"Toy/ns/t": 0.5}),
        ({"resyncAfterSeconds": 0}, {}),
        ({"resyncAfterSeconds": -1}, {}),
        ({"resyncAfterSeconds": None}, {}),
        ({}, {}),
    ],
)
def test_a_resync_is_reported_if_it_lies_ahead(answer: JsonObject, resyncs: dict[str, float]) -> None:
    assert Stage(always(answer), decorator(), objects=[toy()]).round().resyncs == resyncs


def test_of_two_controllers_the_sooner_resync_is_reported() -> None:
    seconds = iter([30, 5, 60])
    controllers = [decorator(name=name) for name in ("a", "b", "c")]
    stage = Stage(lambda request: {"resyncAfterSeconds": next(seconds)}, *controllers, objects=[toy()])
    assert stage.round().resyncs == {"Toy/ns/t": 5}


def test_two_decorators_do_not_see_each_others_attachments() -> None:
    def hook(request: JsonObject) -> JsonObject:
        name = request["controller"]["metadata"]["name"]
        assert all(name in key for key in request["attachments"]["Part.toys.io/v1"])
        return {"attachments": [part(name)], "labels": {name: "here"}}

    stage = Stage(hook, decorator(name="one"), decorator(name="two"), objects=[toy()])
    for _ in range(2):  # the second decorator's first write meets a newer parent
        stage.round()
    assert stage.names(PART) == {"ns/one", "ns/two"}
    assert stage.get(TOY, "t")["metadata"]["labels"] == {"one": "here", "two": "here"}
    stage.quiet()


# Answers that are refused


@pytest.mark.parametrize(
    ("controller", "answer", "error"),
    [
        pytest.param(decorator(), {"label": {}}, "/sync: unknown field label in the answer", id="a decorator"),
        pytest.param(composite(), {"labels": {}}, "/sync: unknown field labels in the answer", id="a composite"),
        pytest.param(composite(), [], "/sync: the answer is not an object", id="not an object"),
        pytest.param(composite(hooks={}), {}, "toys has no sync hook", id="no hook"),
        pytest.param(
            composite(),
            {
                "children": [
                    {
                        "apiVersion": "toys.io/v1",
                        "kind": "Part",
                        "metadata": {"name": "p", "labels": {"controller-uid": "x"}},
                    }
                ]
            },
            "labels on child p do not match the parent's selector",
            id="a child with the label of another parent",
        ),
    ],
)
def test_a_refused_answer_changes_nothing(controller: Controller, answer: Any, error: str) -> None:
    stage = Stage(always(answer), controller, objects=[toy(), owned("p", labels=LABEL, annotations=MARK)])
    assert stage.round() == Round(errors=[f"Toy/ns/t: {error}"])


def test_a_failing_hook_does_not_stop_the_other_parents() -> None:
    def hook(request: JsonObject) -> JsonObject:
        if request["object"]["metadata"]["name"] == "a":
            raise HookFailed("500 internal error")
        return {"labels": {"done": "yes"}}

    stage = Stage(hook, decorator(), objects=[obj(TOY, "a"), obj(TOY, "b")])
    done = stage.round()
    assert (done.errors, done.writes) == (["Toy/ns/a: 500 internal error"], ["update Toy/ns/b"])


# Caches that lag behind


def test_a_stale_parent_loses_nothing_and_a_later_round_repairs() -> None:
    stage = Stage(labels_of_spec, decorator(), objects=[toy(spec={"a": "1"})])
    before = stage.cluster.snapshot()
    stage.cluster.put(toy(spec={"a": "1", "b": "2"}, labels={"theirs": "x"}))
    done = stage.round(parents=before)
    assert done == Round(swallowed=["update Toy/ns/t: Conflict"])  # and its attachments wait
    assert stage.get(TOY, "t")["metadata"]["labels"] == {"theirs": "x"}
    assert stage.round().writes == ["update Toy/ns/t", "create Part/ns/p"]
    assert stage.get(TOY, "t")["metadata"]["labels"] == {"theirs": "x", "a": "1", "b": "2"}
    stage.quiet()


def test_a_stale_status_of_a_decorators_parent_drops_the_whole_answer() -> None:
    answer = {"status": {"n": 1}, "labels": {"a": "1"}, "attachments": [part()]}
    stage = Stage(always(answer), decorator(), objects=[toy()])
    before = stage.cluster.snapshot()
    stage.cluster.put(toy(labels={"theirs": "x"}))
    assert stage.round(parents=before) == Round(swallowed=["update status of Toy/ns/t: Conflict"])
    assert stage.round().writes == ["update status of Toy/ns/t", "update Toy/ns/t", "create Part/ns/p"]
    stage.quiet()


def test_stale_children_are_not_created_twice() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"a": {}, "b": {}})])
    before = stage.cluster.snapshot()
    stage.round()
    done = stage.round(seen=before)
    assert done.swallowed == ["create Part/ns/a: AlreadyExists", "create Part/ns/b: AlreadyExists"]
    assert stage.names(PART) == {"ns/a", "ns/b"}
    stage.quiet()


def test_a_stale_child_is_not_overwritten() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"p": {"n": 1}})])
    stage.round()
    before = stage.cluster.snapshot()
    stage.cluster.put(stage.get(PART, "p") | {"spec": {"n": 1, "theirs": 1}})
    stage.cluster.put(toy(spec={"p": {"n": 2}}))
    done = stage.round(seen=before, parents=stage.cluster.snapshot())
    assert done.swallowed == ["update Part/ns/p: Conflict"]
    stage.round()
    assert stage.get(PART, "p")["spec"] == {"n": 2, "theirs": 1}
    stage.quiet()


def test_a_child_that_is_gone_already_need_not_be_deleted() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"p": {}})])
    stage.round()
    before = stage.cluster.snapshot()
    stage.cluster.delete(stage.get(PART, "p"))
    stage.cluster.put(toy())
    assert stage.round(seen=before, parents=stage.cluster.snapshot()).swallowed == ["delete Part/ns/p: NotFound"]


def test_a_child_that_somebody_recreated_is_not_deleted() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"p": {}})])
    stage.round()
    before = stage.cluster.snapshot()
    stage.cluster.put(obj(PART, "p", uid="another"))
    stage.cluster.put(toy())
    done = stage.round(seen=before, parents=stage.cluster.snapshot())
    assert done.errors == ["Toy/ns/t: cannot delete Part/ns/p: Conflict"]
    assert uid_of(stage.get(PART, "p")) == "another"


@pytest.mark.parametrize("controller", [composite(), decorator()])
def test_a_parent_that_is_gone_is_not_written(controller: Controller) -> None:
    answer = {"status": {"a": 1}} if controller.is_composite else {"labels": {"a": "1"}}
    stage = Stage(always(answer), controller, objects=[toy()])
    before = stage.cluster.snapshot()
    stage.cluster.delete(toy())
    done = stage.round(seen=before)
    assert (done.writes, done.errors) == ([], [])
    assert stage.names(TOY) == set()


def test_a_parent_of_the_same_name_does_not_get_the_status_of_the_old_one() -> None:
    stage = Stage(always({"status": {"a": 1}}), composite(), objects=[toy()])
    before = stage.cluster.snapshot()
    stage.cluster.put(obj(TOY, "t", uid="new-uid"))
    assert stage.round(parents=before).writes == []
    assert "status" not in stage.get(TOY, "t")


# Laws

FIELDS = {"x": st.integers(0, 2), "y": st.lists(st.fixed_dictionaries({"name": st.sampled_from("pq")}), max_size=1)}
SPECS = st.dictionaries(st.sampled_from("abc"), st.fixed_dictionaries({}, optional=FIELDS), max_size=3)


@settings(deadline=None, max_examples=50)
@given(st.lists(SPECS, min_size=1, max_size=4), st.sampled_from(["OnDelete", "InPlace", "Recreate"]))
def test_children_of_the_spec_come_to_rest_and_are_complete(specs: list[JsonObject], method: str) -> None:
    stage = Stage(parts_of_spec, composite(method=method))
    for spec in specs:
        stage.cluster.put(toy(spec=spec))
        for _ in range(2 if method == "Recreate" else 1):
            assert stage.round().errors == []
        stage.quiet()
        assert stage.names(PART) == {f"ns/{name}" for name in spec}
        if method != "OnDelete":
            assert {name: stage.get(PART, name)["spec"] for name in spec} == spec


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2"])), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_labels_come_to_rest_however_stale_the_caches(specs: list[JsonObject], stale: list[bool]) -> None:
    stage = Stage(labels_of_spec, decorator(), objects=[toy(labels={"theirs": "x"})])
    before = stage.cluster.snapshot()
    for spec, is_stale in zip(specs, stale, strict=False):
        current = stage.get(TOY, "t")
        stage.cluster.put(current | {"spec": spec})
        stage.round(parents=before if is_stale else None)
        before = stage.cluster.snapshot()
    stage.round()
    stage.quiet()
    labels = stage.get(TOY, "t")["metadata"]["labels"]
    assert labels.items() >= {**specs[-1], "theirs": "x"}.items()
    assert stage.names(PART) == {"ns/p"}
