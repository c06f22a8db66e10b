from typing import Any

import pytest

from hooks.controllers import Controller, read_controllers
from hooks.kube.cluster import Kinds, UnknownKind
from hooks.kube.metadata import JsonObject
from hooks.manifests import read_manifests

KINDS = Kinds.of(read_manifests("deploy/crds"))
CHILD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


def decorator(**spec: Any) -> Controller:
    resources = [{"apiVersion": "v1", "resource": "nodes"}]
    manifest = {"kind": "DecoratorController", "metadata": {"name": "d"}, "spec": {"resources": resources, **spec}}
    return read_controllers([manifest], KINDS)[0]


def composite(**spec: Any) -> Controller:
    parent = {"apiVersion": "v1", "resource": "pods"}
    manifest = {"kind": "CompositeController", "metadata": {"name": "c"}, "spec": {"parentResource": parent, **spec}}
    return read_controllers([manifest], KINDS)[0]


def test_our_own_manifests_are_read() -> None:
    shipped = {controller.name: controller for controller in read_controllers(read_manifests("metacontroller"), KINDS)}
    labeler = shipped["node-labeler"]
    assert not labeler.is_composite
    assert [rule.kind.kind for rule in labeler.parents] == ["Node"]
    assert [labeler.path(action) for action in ("sync", "customize", "finalize")] == [
        "/node-labeler/sync",
        "/node-labeler/customize",
        "",
    ]


def test_other_kinds_among_the_manifests_are_passed_over() -> None:
    assert read_controllers([{"kind": "Service"}, {}], KINDS) == []


def test_a_kind_that_nobody_declared_is_an_error() -> None:
    with pytest.raises(UnknownKind, match=r"no kind is known for resource gadgets of g\.io/v1"):
        decorator(resources=[{"apiVersion": "g.io/v1", "resource": "gadgets"}])


@pytest.mark.parametrize(
    ("webhook", "path"),
    [
        pytest.param({"url": "http://metahooks.ns.svc/toy/sync"}, "/toy/sync", id="a URL"),
        pytest.param({"url": "https://host:8443/a/b/c"}, "/a/b/c", id="a URL with a port"),
        pytest.param({"url": "http://host"}, "/", id="a URL without a path"),
        pytest.param({"url": "nonsense"}, "/", id="not a URL"),
        pytest.param({"service": {"name": "s", "namespace": "n"}, "path": "/toy/sync"}, "/toy/sync", id="a service"),
        pytest.param({}, "", id="neither"),
        pytest.param(None, "", id="no webhook"),
    ],
)
def test_the_path_of_a_hook(webhook: JsonObject | None, path: str) -> None:
    assert decorator(hooks={"sync": {"webhook": webhook}}).path("sync") == path


@pytest.mark.parametrize("hooks", [None, {}, {"sync": None}, {"sync": {}}])
def test_a_hook_that_is_not_given_has_no_path(hooks: JsonObject | None) -> None:
    assert decorator(hooks=hooks).path("sync") == ""


@pytest.mark.parametrize(
    ("strategy", "method"),
    [
        pytest.param({}, "OnDelete", id="none"),
        pytest.param({"updateStrategy": None}, "OnDelete", id="null"),
        pytest.param({"updateStrategy": {}}, "OnDelete", id="empty"),
        pytest.param({"updateStrategy": {"method": ""}}, "OnDelete", id="an empty method"),
        pytest.param({"updateStrategy": {"method": "InPlace", "statusChecks": {}}}, "InPlace", id="a method"),
    ],
)
def test_children_are_left_alone_unless_the_strategy_says_otherwise(strategy: JsonObject, method: str) -> None:
    rule = {"apiVersion": "v1", "resource": "configmaps", **strategy}
    kind = KINDS.by_resource("v1", "configmaps")
    assert decorator(attachments=[rule]).method(kind) == composite(childResources=[rule]).method(kind) == method


def test_annotation_selectors_are_read_as_label_selectors() -> None:
    selector = {"matchAnnotations": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    rule = {"apiVersion": "v1", "resource": "nodes", "annotationSelector": selector}
    assert decorator(resources=[rule]).parents[0].annotation_selector == {
        "matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "c", "operator": "Exists"}],
    }


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"labels": {"a": "b", "c": None}, "annotations": None, "status": None}, id="nulls"),
        pytest.param({"attachments": [CHILD], "resyncAfterSeconds": 1.5, "finalized": False}, id="all the rest"),
    ],
)
def test_a_decorator_may_answer(answer: JsonObject) -> None:
    assert decorator().problem_of("sync", answer) == ""


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param([], "the answer is not an object", id="a list"),
        pytest.param(None, "the answer is not an object", id="null"),
        pytest.param({"children": []}, "unknown field children in the answer", id="the field of the other controller"),
        pytest.param({"zz": 1, "aa": 1}, "unknown field aa in the answer", id="unknown fields"),
        pytest.param({"labels": []}, "labels in the answer has the wrong type", id="labels in a list"),
        pytest.param(
            {"resyncAfterSeconds": "5"}, "resyncAfterSeconds in the answer has the wrong type", id="seconds as text"
        ),
        pytest.param(
            {"annotations": {"a": 1}},
            "annotations in the answer hold something else than text and null",
            id="a number as annotation",
        ),
        pytest.param(
            {"attachments": [CHILD, None]},
            "a child in the answer has no kind, apiVersion or metadata.name",
            id="a child that is null",
        ),
        pytest.param(
            {"attachments": [CHILD | {"metadata": {"generateName": "c-"}}]},
            "a child in the answer has no kind, apiVersion or metadata.name",
            id="a child without a name",
        ),
    ],
)
def test_a_decorator_may_not_answer(answer: Any, problem: str) -> None:
    assert decorator().problem_of("sync", answer) == problem


def test_a_composite_may_not_answer_with_labels() -> None:
    assert composite().problem_of("sync", {"status": {}, "children": [CHILD]}) == ""
    assert composite().problem_of("sync", {"labels": {}}) == "unknown field labels in the answer"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param({}, "", id="no rules"),
        pytest.param({"relatedResources": None}, "", id="null"),
        pytest.param({"relatedResources": [{"apiVersion": "v1", "resource": "pods", "names": ["a"]}]}, "", id="a rule"),
        pytest.param({"related": []}, "unknown field related in the answer", id="an unknown field"),
        pytest.param(
            {"relatedResources": [{"apiVersion": "v1", "resource": "pods", "name": "a"}]},
            "relatedResources: unknown field name in the answer",
            id="an unknown field in a rule",
        ),
        pytest.param(
            {"relatedResources": [{"apiVersion": "v1"}]},
            "a related rule names no apiVersion or resource",
            id="a rule without a resource",
        ),
        pytest.param(
            {"relatedResources": [5]}, "relatedResources: the answer is not an object", id="a rule that is no object"
        ),
    ],
)
def test_customize_answers_are_checked(answer: JsonObject, problem: str) -> None:
    assert decorator().problem_of("customize", answer) == problem
