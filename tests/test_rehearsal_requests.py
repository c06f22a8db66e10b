"""What a rehearsed hook is asked: parents, related objects and children, held to what the real Metacontroller sent."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hooks.controllers import read_controllers
from hooks.kube.cluster import Cluster, Kind, Kinds, Snapshot
from hooks.kube.metadata import JsonObject, group_key, object_key
from hooks.rehearsal import HookFailed, Rehearsal, Round
from tests.stage import (
    CONFIG_MAP,
    CORE,
    GLOBAL,
    KINDS,
    LABEL,
    MARK,
    NAMESPACE,
    NODE,
    PART,
    TOY,
    Stage,
    always,
    composite,
    decorator,
    obj,
    owned,
    part,
    parts_of_spec,
    toy,
)

L1 = {"matchLabels": {"l": "1"}}

# Which parents


@pytest.mark.parametrize(
    ("rules", "synced"),
    [
        pytest.param([{}], {"a", "b", "c"}, id="all without a selector"),
        pytest.param([{"labelSelector": L1}], {"a", "b"}, id="by label"),
        pytest.param([{"annotationSelector": {"matchAnnotations": {"n": "1"}}}], {"a", "c"}, id="by annotation"),
        pytest.param(
            [
                {
                    "labelSelector": L1,
                    "annotationSelector": {"matchExpressions": [{"key": "n", "operator": "Exists"}]},
                }
            ],
            {"a"},
            id="by both",
        ),
        pytest.param([{}, {"labelSelector": L1}], {"a", "b"}, id="the last rule of a kind counts"),
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
    rule = {"apiVersion": "toys.io/v1", "resource": "toys", "labelSelector": L1}
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
        pytest.param("configmaps", {"labelSelector": L1}, {"ns/a", "other/a"}, id="by label"),
        pytest.param("configmaps", {"labelSelector": L1, "namespace": "ns"}, {"ns/a"}, id="by label and namespace"),
        pytest.param(
            "configmaps",
            {"namespaceSelector": {"matchLabels": {"team": "x"}}},
            {"ns/a", "ns/b"},
            id="by the labels of the namespace",
        ),
        pytest.param(
            "configmaps",
            {"namespaceSelector": {}, "labelSelector": L1},
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


@pytest.mark.parametrize(
    ("child", "seen_by"),
    [
        pytest.param(owned("p", annotations=MARK, labels=LABEL), {"decorator", "composite"}, id="owned and marked"),
        pytest.param(owned("p", annotations=MARK), {"decorator"}, id="marked by the decorator"),
        pytest.param(owned("p", labels=LABEL), {"composite"}, id="labelled by the composite"),
        pytest.param(obj(PART, "p", annotations=MARK, labels=LABEL), {"composite"}, id="an orphan, to be adopted"),
        pytest.param(obj(PART, "p", annotations=MARK), set[str](), id="an orphan without the label"),
        pytest.param(
            obj(PART, "p", labels=LABEL, deletionTimestamp="2026-01-01T00:00:00Z"), set[str](), id="a dying orphan"
        ),
        pytest.param(owned("p", uid="other", annotations=MARK, labels=LABEL), set[str](), id="owned by another"),
        pytest.param(owned("p", controller=False, annotations=MARK, labels=LABEL), {"composite"}, id="not controlled"),
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
