"""The laws of the storage nodes, for any classes, pools and data, also those that make no sense."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hooks import storage_data, storage_nodes, wire
from hooks.kube.metadata import JsonObject, labels_of, name_of
from hooks.storage.classes import LABEL, ZONE
from hooks.storage.data import NODE_LABEL
from hooks.storage_nodes import REMOVAL, RESYNC_SECONDS
from tests.labelling import NOW, UNCHANGED, answer, obeyed, observed_events, said
from tests.storage import (
    CLASSES,
    POOLS,
    RESOURCES,
    ask_nodes,
    ask_nodes_with,
    configured,
    customize_request,
    data_request,
    drbd_resource,
    nodes_request,
    storage_node,
    storage_pool,
    unresolved_class,
    zoned_class,
)

NAMES = st.sampled_from(["n1", "n2"])
SELECTORS: Sequence[tuple[JsonObject, Callable[[Mapping[str, str]], bool]]] = (
    # a selector, and what it asks for, said once more in the simplest way
    ({}, lambda labels: True),
    ({"matchLabels": {"disk": "ssd"}}, lambda labels: labels.get("disk") == "ssd"),
    ({"matchExpressions": [{"key": "disk", "operator": "Exists"}]}, lambda labels: "disk" in labels),
    ({"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}, lambda labels: "disk" not in labels),
    (
        {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd", ""]}]},
        lambda labels: labels.get("disk") not in ("ssd", ""),
    ),
    (
        {
            "matchLabels": {"os": "linux"},
            "matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd", "ssd"]}],
        },
        lambda labels: labels.get("os") == "linux" and labels.get("disk") in ("hdd", "ssd"),
    ),
)
UNUSABLE: Sequence[JsonObject] = (
    {"matchLabels": {LABEL: ""}},
    {"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "disk", "operator": "in", "values": ["ssd"]}]},
    {"matchExpressions": [{"key": "disk", "operator": "In", "values": []}]},
    {"matchExpressions": [{"key": "disk", "operator": "Exists", "values": ["ssd"]}]},
    {"matchlabels": {"disk": "ssd"}},
)
WHOLE_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
JSON = WHOLE_JSON | st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        ZONE: st.sampled_from(["a", "b", ""]),
        "disk": st.sampled_from(["ssd", "hdd", ""]),
        "os": st.just("linux"),
        LABEL: st.sampled_from(["", "", "n1"]),
    },
)
ZONES = st.none() | st.lists(st.sampled_from(["a", "b", ""]), max_size=2)
GOOD_SELECTORS = st.none() | st.sampled_from([given for given, _ in SELECTORS])
POOL_NAMES = st.sampled_from(["hdd", "ssd", "gone", ""])
OLDER = st.fixed_dictionaries({}, optional={"zones": ZONES, "nodeLabelSelector": GOOD_SELECTORS})
NEWER = st.fixed_dictionaries(
    {},
    optional={"replicatedStoragePoolName": POOL_NAMES, "storagePoolName": POOL_NAMES, "failuresToTolerate": st.just(1)},
)
ODD = JSON | st.fixed_dictionaries(
    {},
    optional={
        "zones": ZONES | JSON,
        "nodeLabelSelector": GOOD_SELECTORS | st.sampled_from(UNUSABLE) | JSON,
        "replicatedStoragePoolName": POOL_NAMES | JSON,
        "storagePoolName": POOL_NAMES | JSON,
        "guaranteedMinimumDataRedundancy": JSON,
        "other": JSON,
    },
)
NODES = st.builds(lambda name, labels: storage_node(name=name, zone=None, labels=labels), NAMES, LABELS)


def named(several: Sequence[JsonObject]) -> Sequence[JsonObject]:
    return [each | {"metadata": {"name": f"c{number}"}} for number, each in enumerate(several)]


def some(configurations: st.SearchStrategy[Any]) -> st.SearchStrategy[Sequence[JsonObject]]:
    one = st.builds(configured, configurations) | st.just(unresolved_class())
    return st.lists(one, max_size=3).map(named)


ANY_CLASSES = some(OLDER | NEWER | ODD)
KNOWN_CLASSES = st.lists(st.builds(configured, OLDER), min_size=1, max_size=3).map(named)
SOME_CLASSES = KNOWN_CLASSES | ANY_CLASSES
SOME_POOLS = st.dictionaries(
    st.sampled_from(["hdd", "ssd"]), st.none() | st.lists(st.sampled_from(["n1", "n2", ""]), max_size=2)
).map(lambda several: [storage_pool(name=name, nodes=nodes) for name, nodes in several.items()])
SOME_DATA = st.none() | st.lists(st.none() | st.sampled_from(["n1", "n2", "n2", ""]), max_size=2).map(
    lambda several: [drbd_resource(name=f"pvc-{number}", node=node) for number, node in enumerate(several)]
)
WORLDS = st.fixed_dictionaries(
    {"node": NODES, "classes": SOME_CLASSES, "pools": SOME_POOLS, "resources": SOME_DATA, "events": st.booleans()}
)
PERMITS = st.sampled_from(["Strict", "Allowed"])
laws = settings(deadline=None, max_examples=100)


# The rule, said once more: the seed's for the older schema, a pool's list for the newer one


def says(storage_class: JsonObject, world: JsonObject) -> bool | None:
    """Whether a class means the Node; None if that cannot be told."""
    configuration = storage_class.get("status", {}).get("configuration")
    if not isinstance(configuration, dict):
        return None
    if "replicatedStoragePoolName" in configuration or "storagePoolName" in configuration:
        return listed(configuration, world)
    if "failuresToTolerate" in configuration or "guaranteedMinimumDataRedundancy" in configuration:
        return None
    if not {"zones", "nodeLabelSelector", "systemNetworkNames", "eligibleNodesPolicy"} & configuration.keys():
        return None
    labels = labels_of(world["node"])
    zone = is_zone(configuration.get("zones"), labels.get(ZONE, ""))
    selector = is_selected(configuration.get("nodeLabelSelector"), labels)
    return None if zone is None or selector is None else zone and selector


def listed(configuration: JsonObject, world: JsonObject) -> bool | None:
    fields = [configuration.get("replicatedStoragePoolName"), configuration.get("storagePoolName")]
    names = [name for name in fields if isinstance(name, str) and name]
    for pool in world["pools"]:
        if names[:1] == [name_of(pool)] and "eligibleNodes" in pool["status"]:
            return {"nodeName": name_of(world["node"]), "nodeReady": True} in pool["status"]["eligibleNodes"]
    return None


def is_zone(zones: Any, zone: str) -> bool | None:
    if zones is None:
        return True
    if not isinstance(zones, list) or any(not isinstance(each, str) for each in zones):
        return None
    return zones == [] or zone in zones


def is_selected(selector: Any, labels: Mapping[str, str]) -> bool | None:
    if selector is None:
        return True
    return next((meets(labels) for given, meets in SELECTORS if given == selector), None)


def verdicts(world: JsonObject) -> Sequence[bool | None]:
    return [says(each, world) for each in world["classes"]]


def has_data(world: JsonObject) -> bool:
    return any(each["spec"].get("nodeName") == name_of(world["node"]) for each in world["resources"] or [])


def is_wanted(world: JsonObject) -> bool:
    return True in verdicts(world) or is_listed(world) or has_data(world)


def is_listed(world: JsonObject) -> bool:
    """By any pool, whether or not a class names it."""
    entry = {"nodeName": name_of(world["node"]), "nodeReady": True}
    return any(entry in (pool["status"].get("eligibleNodes") or []) for pool in world["pools"])


def had(world: JsonObject) -> str | None:
    return labels_of(world["node"]).get(LABEL)


def permitted(world: JsonObject, permit: str) -> JsonObject:
    if permit == "Strict":
        return world | {"removals": "Strict"}
    of = world["node"]
    return world | {"node": of | {"metadata": of["metadata"] | {"annotations": {REMOVAL: "Allowed"}}}}


# The laws


@laws
@given(world=WORLDS)
@example(  # zones that say no do not make up for a selector that nobody can read
    world={
        "node": storage_node(name="n1", label=""),
        "classes": [zoned_class(zones=["z"], selector={"matchlabels": {}})],
        "pools": [],
        "resources": [],
    }
)
def test_the_label_goes_on_evidence_only(world: JsonObject) -> None:
    outcome = ask_nodes(**world)

    if answer(outcome)["labels"] == {LABEL: None}:
        assert had(world) is not None
        assert world["classes"]
        assert all(verdict is False for verdict in verdicts(world))
        assert world["resources"] is not None
        assert not has_data(world)


@laws
@given(world=WORLDS)
def test_the_label_goes_where_the_evidence_is_complete(world: JsonObject) -> None:
    """The same from the other side: the guard does not freeze for ever what is known."""
    is_known = bool(world["classes"]) and all(verdict is False for verdict in verdicts(world))

    if had(world) is not None and is_known and world["resources"] is not None and not has_data(world):
        assert answer(ask_nodes(**world))["labels"] == {LABEL: None}


@laws
@given(world=WORLDS, permit=PERMITS)
def test_with_a_permit_the_label_is_there_if_and_only_if_it_is_wanted(world: JsonObject, permit: str) -> None:
    given = permitted(world, permit)

    after = obeyed(given["node"], ask_nodes(**given))

    assert labels_of(after).get(LABEL) == ("" if is_wanted(world) else None)


@laws
@given(world=WORLDS)
def test_the_label_comes_if_and_only_if_it_is_wanted(world: JsonObject) -> None:
    outcome = ask_nodes(**world)

    is_wrong = had(world) != ""
    assert (answer(outcome)["labels"] == {LABEL: ""}) == (is_wanted(world) and is_wrong)
    assert [each.metric for each in outcome.measurements if "applied" in each.metric] == (
        ["storage_nodes_labels_applied_total"] if is_wanted(world) and had(world) is None else []
    )


@laws
@given(world=WORLDS)
def test_nothing_else_is_touched(world: JsonObject) -> None:
    given = answer(ask_nodes(**world))

    assert given["labels"] in ({}, {LABEL: ""}, {LABEL: None})
    assert given["annotations"] == {}
    assert given.get("resyncAfterSeconds", 0) == (RESYNC_SECONDS if given["labels"] else 0)
    assert len(given["attachments"]) == (1 if given["labels"] and world["events"] else 0)


@laws
@given(world=WORLDS, permit=st.none() | PERMITS)
def test_one_answer_settles_it(world: JsonObject, permit: str | None) -> None:
    given = permitted(world, permit) if permit else world
    first = ask_nodes(**given)

    sent = answer(first)["attachments"]
    second = ask_nodes(**given | {"node": obeyed(given["node"], first), "attachments": observed_events(*sent)})

    assert answer(second) | {"attachments": []} == UNCHANGED
    assert [name_of(each) for each in answer(second)["attachments"]] == [name_of(each) for each in sent]
    assert second.measurements == []


def other_way_round(value: Any) -> Any:
    """The same JSON with every object's keys in another order."""
    if isinstance(value, dict):
        return {key: other_way_round(item) for key, item in reversed(value.items())}
    return [other_way_round(item) for item in value] if isinstance(value, list) else value


@laws
@given(world=WORLDS)
def test_the_same_question_has_the_same_answer(world: JsonObject) -> None:
    """Any replica, any order of classes, pools and data."""
    body = nodes_request(**world)

    once, again = ask_nodes_with(body), ask_nodes_with(other_way_round(body))

    assert wire.encode(once.response) == wire.encode(again.response)
    assert said(once) == said(again)


@laws
@given(world=WORLDS, several=st.permutations(["c0", "c1", "c2"]))
def test_the_order_of_classes_does_not_matter(world: JsonObject, several: Sequence[str]) -> None:
    by_name = {name_of(each): each for each in world["classes"]}
    shuffled = [by_name[name] for name in several if name in by_name]

    assert wire.encode(ask_nodes(**world).response) == wire.encode(ask_nodes(**world | {"classes": shuffled}).response)


# Bodies of any kind

ANY_METADATA = WHOLE_JSON | st.fixed_dictionaries(
    {"name": st.text(max_size=5) | WHOLE_JSON},
    optional={"labels": LABELS | WHOLE_JSON, "annotations": WHOLE_JSON, "deletionTimestamp": WHOLE_JSON},
)
ANY_OBJECT = WHOLE_JSON | st.fixed_dictionaries(
    {"metadata": ANY_METADATA},
    optional={
        "spec": st.fixed_dictionaries({"nodeName": NAMES | WHOLE_JSON}) | WHOLE_JSON,
        "status": WHOLE_JSON
        | st.fixed_dictionaries({"configuration": ODD})
        | st.fixed_dictionaries({"eligibleNodes": WHOLE_JSON | st.lists(WHOLE_JSON, max_size=2)}),
    },
)
ANY_GROUP = WHOLE_JSON | st.dictionaries(st.text(max_size=3), ANY_OBJECT, max_size=2)
ANY_CONTROLLER = WHOLE_JSON | st.fixed_dictionaries(
    {},
    optional={"metadata": WHOLE_JSON, "spec": st.just({"attachments": [{"apiVersion": "v1", "resource": "events"}]})},
)
ANY_BODY = JSON | st.fixed_dictionaries(
    {"object": ANY_OBJECT},
    optional={
        "controller": ANY_CONTROLLER,
        "related": WHOLE_JSON
        | st.fixed_dictionaries({}, optional={CLASSES: ANY_GROUP, POOLS: ANY_GROUP, RESOURCES: ANY_GROUP}),
        "attachments": WHOLE_JSON | st.fixed_dictionaries({"Event.v1": ANY_GROUP}),
    },
)


@laws
@given(body=ANY_BODY)
def test_any_body_is_answered_or_refused(body: Any) -> None:
    with suppress(wire.InvalidRequest, wire.RetryLater):
        wire.encode(ask_nodes_with(body).response)


@laws
@given(world=WORLDS, part=st.sampled_from(["object", "related", "attachments", "controller"]), odd=JSON | ANY_OBJECT)
def test_a_body_that_is_wrong_in_one_part_is_answered_or_refused(world: JsonObject, part: str, odd: Any) -> None:
    body = nodes_request(**world) | {part: odd}

    with suppress(wire.InvalidRequest, wire.RetryLater):
        wire.encode(ask_nodes_with(body).response)


@laws
@given(world=WORLDS, kind=st.sampled_from([CLASSES, POOLS, RESOURCES]), odd=ANY_OBJECT)
def test_one_odd_object_removes_nothing(world: JsonObject, kind: str, odd: Any) -> None:
    """It is refused, or read as a class that says something else; what was known of the others stays known."""
    body = nodes_request(**world)
    before = answer(ask_nodes_with(body))["labels"]
    body["related"].setdefault(kind, {})["zz-odd"] = odd

    with suppress(wire.InvalidRequest):
        after = answer(ask_nodes_with(body))["labels"]
        had_no_guard = kind == RESOURCES and world["resources"] is None
        had_no_class = kind == CLASSES and not world["classes"]
        assert after != {LABEL: None} or before == after or had_no_guard or had_no_class


@laws
@given(parent=ANY_OBJECT, manifest=ANY_CONTROLLER, guard=st.sampled_from([None, "Enabled"]))
def test_any_parent_is_customized_or_refused(parent: Any, manifest: Any, guard: str | None) -> None:
    sound = customize_request(guard=guard)
    for body in (sound | {"parent": parent}, sound | {"controller": manifest}):
        with suppress(wire.InvalidRequest):
            wire.encode(storage_nodes.customize(wire.parse(wire.CustomizeRequest, json.dumps(body).encode())).response)


@laws
@given(resource=ANY_OBJECT)
def test_any_resource_is_marked_or_refused_and_settles(resource: Any) -> None:
    def ask(of: Any) -> wire.Outcome:
        body = json.dumps(data_request(of)).encode()
        return storage_data.sync(wire.parse(storage_data.SyncRequest, body), now=NOW)

    with suppress(wire.InvalidRequest):
        first = ask(resource)
        assert answer(first)["labels"].keys() <= {NODE_LABEL}
        assert answer(ask(obeyed(resource, first))) == UNCHANGED
