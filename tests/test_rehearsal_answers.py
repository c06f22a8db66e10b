"""What the rehearsal makes of an answer: children, the parent, resyncs, and answers that are refused."""

from typing import Any

import pytest

from hooks import wire
from hooks.controllers import Controller
from hooks.kube.merge import LAST_APPLIED
from hooks.kube.metadata import JsonObject, uid_of
from hooks.rehearsal import HookFailed, Round
from tests.stage import (
    GLOBAL,
    LABEL,
    MARK,
    PART,
    TOY,
    Stage,
    always,
    composite,
    decorator,
    labels_of_spec,
    obj,
    owned,
    part,
    parts_of_spec,
    toy,
)

# Children: what is written


def test_a_composite_creates_changes_and_deletes_its_children() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"a": {"n": 1}, "b": {"n": 1}})])
    assert stage.round().writes == ["create Part/ns/a", "create Part/ns/b", "update status of Toy/ns/t"]
    assert stage.get(PART, "a")["metadata"]["labels"] == LABEL
    assert stage.get(TOY, "t")["status"] == {"parts": 2, "observedGeneration": 1}
    stage.quiet()
    stage.cluster.put(toy(spec={"b": {"n": 2}, "c": {}}))
    writes = ["delete Part/ns/a", "update Part/ns/b", "create Part/ns/c", "update status of Toy/ns/t"]
    assert stage.round().writes == writes
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


def test_an_orphan_with_the_label_is_adopted_and_then_changed() -> None:
    """In the sync that adopts it, the hook saw an older one: the update is dropped, and done by the next sync."""
    orphan = obj(PART, "a", labels=LABEL, spec={"theirs": 1})
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"a": {"n": 1}}), orphan])
    done = stage.round()
    assert done.writes == ["update Part/ns/a", "update status of Toy/ns/t"]
    assert done.swallowed == ["update Part/ns/a: Conflict"]
    assert [ref["uid"] for ref in stage.get(PART, "a")["metadata"]["ownerReferences"]] == ["toy-uid"]
    assert stage.round().writes == ["update Part/ns/a"]
    assert stage.get(PART, "a")["spec"] == {"theirs": 1, "n": 1}
    stage.quiet()


def test_a_child_that_lost_the_label_is_released_and_left_alone() -> None:
    stage = Stage(parts_of_spec, composite(), objects=[toy(spec={"a": {"n": 1}})])
    stage.round()
    stage.cluster.put(stage.get(PART, "a") | {"metadata": stage.get(PART, "a")["metadata"] | {"labels": {}}})
    assert stage.round().writes == ["update Part/ns/a"]
    assert "ownerReferences" not in stage.get(PART, "a")["metadata"]
    stage.cluster.put(toy(spec={}))
    stage.round()
    assert stage.get(PART, "a")["spec"] == {"n": 1}


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
        seen = [child for child in echo(request)["children"] if "uid" in child["metadata"]]
        return {"children": [wire.last_applied(child) for child in seen]}

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
    answer = {"status": {"parts": 1}, "children": [wire.last_applied(stage.get(PART, "p"))]}
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
            {"children": [part(metadata={"name": "p", "labels": {"controller-uid": "x"}})]},
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
