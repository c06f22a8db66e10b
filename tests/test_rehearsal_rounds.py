"""What holds over several rounds: caches that lag behind lose nothing, and all comes to rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.controllers import Controller
from hooks.kube.metadata import JsonObject, uid_of
from hooks.rehearsal import Round
from tests.stage import PART, TOY, Stage, always, composite, decorator, labels_of_spec, obj, part, parts_of_spec, toy

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
