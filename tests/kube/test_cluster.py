from typing import Any

import pytest

from hooks.kube.cluster import (
    AlreadyExists,
    Cluster,
    Conflict,
    Kind,
    Kinds,
    NotFound,
    Snapshot,
    UnknownKind,
)
from hooks.kube.metadata import JsonObject
from tests.builders import node

TOY = Kind("toys.io/v1", "Toy", "toys")
PLAIN = Kind("toys.io/v1", "Plain", "plains", has_status=False)
KINDS = Kinds([*(Kinds.of([]).by_resource("v1", name) for name in ("nodes", "configmaps")), TOY, PLAIN])


def toy(
    name: str = "t", *, kind: str = "Toy", uid: str = "", owners: tuple[str, ...] = (), **fields: Any
) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": "ns"}
    if uid:
        metadata["uid"] = uid
    if owners:
        metadata["ownerReferences"] = [{"uid": owner} for owner in owners]
    return {"apiVersion": "toys.io/v1", "kind": kind, "metadata": metadata, **fields}


def stored(cluster: Cluster, obj: JsonObject) -> JsonObject:
    found = cluster.read(obj)
    assert found is not None
    return found


def names(snapshot: Snapshot, kind: Kind = TOY) -> set[str]:
    return set(snapshot.of(kind))


# Kinds


def crd(**spec: Any) -> JsonObject:
    names = {"kind": "Widget", "plural": "widgets"}
    return {"spec": {"group": "w.io", "scope": "Cluster", "names": names, "versions": [{"name": "v1"}], **spec}}


def test_definitions_declare_kinds_by_version() -> None:
    versions = [{"name": "v1", "subresources": {"status": {}}}, {"name": "v2"}]
    kinds = Kinds.of([crd(versions=versions, scope="Namespaced")])
    first, second = (kinds.by_resource(f"w.io/{version}", "widgets") for version in ("v1", "v2"))
    assert (first.group_key, first.namespaced, first.has_status) == ("Widget.w.io/v1", True, True)
    assert (second.group_key, second.namespaced, second.has_status) == ("Widget.w.io/v2", True, False)
    assert kinds.of_object({"apiVersion": "w.io/v2", "kind": "Widget"}) == second


@pytest.mark.parametrize(
    "definition",
    [
        pytest.param({}, id="no spec"),
        pytest.param({"spec": None}, id="null"),
        pytest.param(crd(versions=None), id="no versions"),
        pytest.param(crd(versions=["v1"]), id="versions are no objects"),
        pytest.param(crd(names="widgets"), id="names are no object"),
    ],
)
def test_a_broken_definition_declares_nothing(definition: JsonObject) -> None:
    with pytest.raises(UnknownKind, match=r"no kind is known for resource widgets of w\.io/v1"):
        Kinds.of([definition]).by_resource("w.io/v1", "widgets")


@pytest.mark.parametrize("obj", [{}, {"kind": "Node"}, {"apiVersion": "v2", "kind": "Node"}, {"kind": ["Node"]}])
def test_an_unknown_object_is_said_to_be_one(obj: JsonObject) -> None:
    with pytest.raises(UnknownKind, match="is not known"):
        KINDS.of_object(obj)


# Snapshots


def test_a_snapshot_does_not_change_with_the_cluster() -> None:
    cluster = Cluster(KINDS, [toy("a")])
    before = cluster.snapshot()
    cluster.create(toy("b"))
    assert (names(before), names(cluster.snapshot())) == ({"ns/a"}, {"ns/a", "ns/b"})


def test_a_snapshot_lists_one_namespace_or_all() -> None:
    other = toy("a") | {"metadata": {"name": "a", "namespace": "other"}}
    snapshot = Cluster(KINDS, [toy("a"), other, node(name="n")]).snapshot()
    assert set(snapshot.of(TOY)) == {"ns/a", "other/a"}
    assert set(snapshot.of(TOY, "other")) == {"other/a"}
    assert set(snapshot.of(KINDS.by_resource("v1", "nodes"), "ns")) == {"n"}
    assert snapshot.of(PLAIN) == {}


# Writing


def test_create_gives_what_a_server_gives_and_takes_nothing_that_it_gives() -> None:
    cluster = Cluster(KINDS, now="2026-05-05T00:00:00Z")
    given = toy(uid="mine", spec={"a": 1}, status={"mine": 1})
    given["metadata"] |= {"generation": 9, "resourceVersion": "9", "creationTimestamp": "x", "deletionTimestamp": "y"}
    cluster.create(given)
    obj = stored(cluster, toy())
    uid = obj["metadata"].pop("uid")
    assert uid not in ("", "mine")
    assert obj == toy(spec={"a": 1}) | {
        "metadata": {
            "name": "t",
            "namespace": "ns",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-05-05T00:00:00Z",
        }
    }


def test_a_name_is_taken_once_and_its_next_holder_has_another_uid() -> None:
    cluster = Cluster(KINDS, [toy()])
    with pytest.raises(AlreadyExists):
        cluster.create(toy())
    first = stored(cluster, toy())
    cluster.delete(first)
    cluster.create(toy())
    assert stored(cluster, toy())["metadata"]["uid"] != first["metadata"]["uid"]


def test_a_stale_write_is_refused_and_changes_nothing() -> None:
    cluster = Cluster(KINDS, [toy(spec={"a": 1})])
    old = stored(cluster, toy())
    cluster.put(toy(spec={"a": 2}))
    for write in (cluster.update, cluster.update_status):
        with pytest.raises(Conflict):
            write(old | {"spec": {"a": 3}, "status": {"a": 3}})
    assert stored(cluster, toy())["spec"] == {"a": 2}


def test_a_write_without_a_version_is_refused() -> None:
    with pytest.raises(Conflict):
        Cluster(KINDS, [toy()]).update(toy())


def test_a_write_to_nothing_is_not_found() -> None:
    cluster = Cluster(KINDS)
    for write in (cluster.update, cluster.update_status, cluster.delete):
        with pytest.raises(NotFound):
            write(toy(uid="u"))
    assert cluster.read(toy()) is None


def test_another_object_of_the_name_is_neither_written_nor_deleted() -> None:
    cluster = Cluster(KINDS, [toy(uid="new")])
    old = stored(cluster, toy()) | {"metadata": toy(uid="old")["metadata"] | {"resourceVersion": "1"}}
    for write in (cluster.update, cluster.update_status, cluster.delete):
        with pytest.raises(Conflict):
            write(old)
    assert names(cluster.snapshot()) == {"ns/t"}


def test_an_equal_write_is_no_new_version() -> None:
    cluster = Cluster(KINDS, [toy(spec={"a": 1})])
    before = stored(cluster, toy())
    assert cluster.update(before) == before


@pytest.mark.parametrize(
    ("kind", "change", "generation"),
    [
        pytest.param("Toy", {"spec": {"a": 2}}, 2, id="a changed spec counts"),
        pytest.param("Toy", {"data": {"a": 2}}, 2, id="any other field counts"),
        pytest.param("Toy", {"status": {"a": 2}}, 1, id="a status that is written apart does not"),
        pytest.param("Plain", {"status": {"a": 2}}, 2, id="a status that is a field like others counts"),
        pytest.param("Plain", {}, 1, id="an equal object does not"),
    ],
)
def test_the_generation_counts_changes(kind: str, change: JsonObject, generation: int) -> None:
    cluster = Cluster(KINDS, [toy(kind=kind, spec={"a": 1})])
    updated = cluster.update(stored(cluster, toy(kind=kind)) | change)
    assert updated["metadata"]["generation"] == generation
    assert (updated.get("status") == change.get("status")) is (kind == "Plain" or "status" not in change)


def test_labels_do_not_change_the_generation_but_the_version() -> None:
    cluster = Cluster(KINDS, [toy(spec={"a": 1})])
    obj = stored(cluster, toy())
    obj["metadata"]["labels"] = {"a": "b"}
    metadata = cluster.update(obj)["metadata"]
    assert (metadata["generation"], metadata["resourceVersion"]) == (1, "2")


def test_a_kind_without_generations_gets_none() -> None:
    assert "generation" not in stored(Cluster(KINDS, [node()]), node())["metadata"]


def test_a_status_write_changes_nothing_but_the_status() -> None:
    cluster = Cluster(KINDS, [toy(spec={"a": 1}, status={"old": 1})])
    obj = stored(cluster, toy())
    obj["metadata"]["labels"] = {"a": "b"}
    written = cluster.update_status(obj | {"spec": {"a": 2}, "status": {"new": 1}})
    assert (written["spec"], written["status"]) == ({"a": 1}, {"new": 1})
    assert "labels" not in written["metadata"]


def test_an_update_cannot_change_what_the_server_gave() -> None:
    cluster = Cluster(KINDS, [toy(uid="u")])
    obj = stored(cluster, toy())
    obj["metadata"] |= {"creationTimestamp": "x", "deletionTimestamp": "x", "generation": 5, "labels": {"a": "b"}}
    metadata = cluster.update(obj)["metadata"]
    assert (metadata["uid"], metadata["generation"], metadata["labels"]) == ("u", 1, {"a": "b"})
    assert metadata["creationTimestamp"] != "x"
    assert "deletionTimestamp" not in metadata


@pytest.mark.parametrize("part", ["labels", "annotations", "ownerReferences", "finalizers"])
@pytest.mark.parametrize("empty", [None, {}, []])
def test_empty_parts_of_metadata_are_not_stored(part: str, empty: Any) -> None:
    obj = toy()
    obj["metadata"][part] = empty
    assert part not in stored(Cluster(KINDS, [obj]), toy())["metadata"]


def test_what_is_handed_out_and_taken_in_are_copies() -> None:
    mine = toy(spec={"a": 1})
    cluster = Cluster(KINDS, [mine])
    mine["spec"]["a"] = 2
    stored(cluster, toy())["spec"]["a"] = 3
    cluster.update(stored(cluster, toy()))["spec"]["a"] = 4
    assert stored(cluster, toy())["spec"] == {"a": 1}


def test_an_odd_generation_in_a_dump_counts_as_the_first() -> None:
    obj = toy()
    obj["metadata"]["generation"] = None
    assert stored(Cluster(KINDS, [obj]), toy())["metadata"]["generation"] == 1


# Owners


@pytest.mark.parametrize(
    ("objects", "left"),
    [
        pytest.param([toy("b", uid="b", owners=("a",))], set[str](), id="a child goes with its owner"),
        pytest.param(
            [toy("b", uid="b", owners=("a",)), toy("c", owners=("b",))], set[str](), id="and the child of the child"
        ),
        pytest.param([toy("b", uid="b"), toy("c", owners=("a", "b"))], {"ns/b", "ns/c"}, id="another owner keeps it"),
        pytest.param([toy("b", owners=("a", "gone"))], set[str](), id="an owner that is gone does not"),
        pytest.param(
            [toy("b", uid="b", owners=("a",)), toy("c", uid="c", owners=("a", "b"))],
            set[str](),
            id="one that is owned twice over goes once",
        ),
        pytest.param([toy("b", uid="b", owners=("other",))], {"ns/b"}, id="a child of something else stays"),
    ],
)
def test_what_a_deleted_object_owned_goes_too(objects: list[JsonObject], left: set[str]) -> None:
    cluster = Cluster(KINDS, [toy("a", uid="a"), *objects])
    cluster.delete(toy("a", uid="a"))
    assert names(cluster.snapshot()) == left


def test_an_object_that_somebody_recreates_loses_its_children() -> None:
    cluster = Cluster(KINDS, [toy("a", uid="a"), toy("b", owners=("a",))])
    cluster.put(toy("a", uid="new"))
    assert names(cluster.snapshot()) == {"ns/a"}


def test_a_replaced_object_keeps_what_the_server_gave() -> None:
    cluster = Cluster(KINDS, [toy(spec={"a": 1})])
    before = stored(cluster, toy())["metadata"]
    cluster.put(toy(spec={"a": 2}))
    after = stored(cluster, toy())["metadata"]
    assert (after["uid"], after["creationTimestamp"]) == (before["uid"], before["creationTimestamp"])
    assert (after["generation"], after["resourceVersion"]) == (2, "2")
