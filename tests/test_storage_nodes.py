"""The storage nodes: which Node is labelled, when the label may go, what is told, and what Metacontroller is asked for.

Case numbers are those of the list of edge cases that the hook was designed by.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hooks import storage_data, storage_nodes, wire
from hooks.controllers import read_controllers
from hooks.kube.cluster import Cluster, Kinds
from hooks.kube.metadata import JsonObject, check_label_value, name_of
from hooks.kube.times import format_time
from hooks.manifests import read_manifests
from hooks.rehearsal import Rehearsal
from hooks.storage.classes import LABEL, POOL_FIELDS, ZONE, Reason
from hooks.storage.data import NODE_LABEL
from hooks.storage_nodes import DATA_GUARD, REMOVAL, REMOVALS, RESYNC_SECONDS
from tests.labelling import NOW, UNCHANGED, answer, obeyed, observed_events, said
from tests.storage import (
    CLASSES,
    NEWER,
    OLDER,
    POOLS,
    ask_customize,
    ask_nodes,
    ask_nodes_with,
    configured,
    controller,
    drbd_resource,
    names_of,
    nodes_request,
    pooled_class,
    storage_node,
    storage_pool,
    unresolved_class,
    zoned_class,
)

DATA = Path(__file__).parent / "data"
APPLIED = [wire.Measurement("storage_nodes_labels_applied_total", 1)]
REMOVED = [wire.Measurement("storage_nodes_labels_removed_total", 1)]
ELSEWHERE = zoned_class(name="elsewhere", zones=["z"])
"""A class that is known and does not mean the Node of the tests."""
CIRCULAR = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
LOWER_CASE = {"matchExpressions": [{"key": "disk", "operator": "in", "values": ["ssd"]}]}


def expression(operator: str, *values: str, key: str = "disk") -> JsonObject:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": [*values]} if values else {})}]}


# What a class says about a Node without the label

MEANT = "class fast means it"
JUDGED: Mapping[str, tuple[JsonObject, JsonObject, tuple[str, str] | None]] = {
    # a Node, a class, and what is said; None if nothing is
    "case 26: a class without a status": (
        storage_node(),
        unresolved_class(name="fast"),
        ("Unresolved", "class fast has no configuration yet"),
    ),
    "case 26: a null configuration": (
        storage_node(),
        configured(None),
        ("Unresolved", "class fast has no configuration yet"),
    ),
    "neither zones nor a selector": (storage_node(), zoned_class(), ("MatchesStorageClass", MEANT)),
    "an empty configuration": (storage_node(), configured({}), ("Unresolved", "class fast names no pool yet")),
    "what a newer API server leaves of an older configuration": (
        storage_node(),
        configured({"topology": "Ignored", "volumeAccess": "PreferablyLocal"}),
        ("Unresolved", "class fast names no pool yet"),
    ),
    "case 29: a zone of the list": (storage_node(), zoned_class(zones=["a", "b"]), ("MatchesStorageClass", MEANT)),
    "case 29: another zone": (storage_node(zone="c"), zoned_class(zones=["a", "b"]), None),
    "case 29: a node without a zone": (storage_node(zone=None), zoned_class(zones=["a", "b"]), None),
    "case 29: the zone under the name of old": (
        storage_node(zone=None, labels={"failure-domain.beta.kubernetes.io/zone": "a"}),
        zoned_class(zones=["a"]),
        None,
    ),
    "an empty list of zones": (storage_node(), zoned_class(zones=[]), ("MatchesStorageClass", MEANT)),
    "null zones": (storage_node(), configured({"zones": None}), ("MatchesStorageClass", MEANT)),
    "case 31: the zone without a name, a node without a zone": (
        storage_node(zone=None),
        zoned_class(zones=[""]),
        ("MatchesStorageClass", MEANT),
    ),
    "case 31: the zone without a name, a node in a zone": (storage_node(), zoned_class(zones=[""]), None),
    "case 32: an empty selector": (storage_node(), zoned_class(selector={}), ("MatchesStorageClass", MEANT)),
    "case 32: a null selector": (
        storage_node(),
        configured({"nodeLabelSelector": None}),
        ("MatchesStorageClass", MEANT),
    ),
    "a selector with the label": (
        storage_node(labels={"disk": "ssd"}),
        zoned_class(selector={"matchLabels": {"disk": "ssd"}}),
        ("MatchesStorageClass", MEANT),
    ),
    "a selector with another value": (
        storage_node(labels={"disk": "hdd"}),
        zoned_class(selector={"matchLabels": {"disk": "ssd"}}),
        None,
    ),
    "the zone, but not the selector": (
        storage_node(),
        zoned_class(zones=["a"], selector=expression("Exists")),
        None,
    ),
    "the selector, but not the zone": (
        storage_node(labels={"disk": ""}),
        zoned_class(zones=["b"], selector=expression("Exists")),
        None,
    ),
    "case 34: NotIn without the key": (
        storage_node(),
        zoned_class(selector=expression("NotIn", "hdd")),
        ("MatchesStorageClass", MEANT),
    ),
    "case 34: DoesNotExist without the key": (
        storage_node(),
        zoned_class(selector=expression("DoesNotExist")),
        ("MatchesStorageClass", MEANT),
    ),
    "case 35: Exists with an empty value": (
        storage_node(labels={"disk": ""}),
        zoned_class(selector=expression("Exists")),
        ("MatchesStorageClass", MEANT),
    ),
    "In without values": (
        storage_node(),
        zoned_class(selector=expression("In")),
        ("InvalidSelector", "class fast: matchExpressions[0]: In needs at least one value"),
    ),
    "Exists with values": (
        storage_node(),
        zoned_class(selector=expression("Exists", "ssd")),
        ("InvalidSelector", "class fast: matchExpressions[0]: Exists takes no values"),
    ),
    "case 40: an operator in small letters": (
        storage_node(),
        zoned_class(selector=LOWER_CASE),
        (
            "InvalidSelector",
            'class fast: matchExpressions[0]: operator "in" is not one of In, NotIn, Exists, DoesNotExist',
        ),
    ),
    "case 41: a selector that asks for the label itself": (
        storage_node(),
        zoned_class(selector=CIRCULAR),
        ("InvalidSelector", f"class fast: nodeLabelSelector asks for {LABEL}, which is what it decides"),
    ),
    "case 41: a selector that asks for its absence": (
        storage_node(),
        zoned_class(selector=expression("DoesNotExist", key=LABEL)),
        ("InvalidSelector", f"class fast: nodeLabelSelector asks for {LABEL}, which is what it decides"),
    ),
    "an invalid selector, though the zone is another one": (
        storage_node(),
        zoned_class(zones=["z"], selector=LOWER_CASE),
        (
            "InvalidSelector",
            'class fast: matchExpressions[0]: operator "in" is not one of In, NotIn, Exists, DoesNotExist',
        ),
    ),
    "zones as one text": (
        storage_node(),
        configured({"zones": "a"}),
        ("InvalidSelector", "class fast: zones must be a list"),
    ),
    "zones as numbers": (
        storage_node(),
        configured({"zones": ["a", 1]}),
        ("InvalidSelector", "class fast: zones must be strings"),
    ),
    "a selector as a text": (
        storage_node(),
        zoned_class(selector="disk=ssd"),
        ("InvalidSelector", "class fast: selector must be an object"),
    ),
    "a configuration as a list": (
        storage_node(),
        configured([]),
        ("InvalidSelector", "class fast: its configuration is not an object"),
    ),
    "case 28: the newer schema before it names a pool": (
        storage_node(),
        configured(NEWER, name="bulk"),
        ("Unresolved", "class bulk names no pool yet"),
    ),
    "case 28: an empty name of a pool": (
        storage_node(),
        pooled_class(pool=""),
        ("Unresolved", "class bulk names no pool yet"),
    ),
    "case 28: a pool that is not there": (
        storage_node(),
        pooled_class(pool="ssd"),
        ("Unresolved", "pool ssd of class bulk is not there"),
    ),
    "case 28: a pool that does not say": (
        storage_node(),
        pooled_class(pool="silent"),
        ("Unresolved", "pool silent of class bulk does not say which nodes are eligible"),
    ),
    "case 28: a pool without a status": (
        storage_node(),
        pooled_class(pool="fresh"),
        ("Unresolved", "pool fresh of class bulk does not say which nodes are eligible"),
    ),
    "case 28: a pool that lists the node": (
        storage_node(),
        pooled_class(),
        ("EligibleInPool", "pool hdd of class bulk lists it"),
    ),
    "case 28: the other name of the field": (
        storage_node(),
        pooled_class(field="storagePoolName"),
        ("EligibleInPool", "pool hdd of class bulk lists it"),
    ),
    "case 28: both names, the newer one is empty": (
        storage_node(),
        configured({"replicatedStoragePoolName": "", "storagePoolName": "hdd"}, name="bulk"),
        ("EligibleInPool", "pool hdd of class bulk lists it"),
    ),
    "case 28: a pool that lists others": (storage_node(name="worker-9"), pooled_class(), None),
    "case 28: a pool that lists nobody": (storage_node(), pooled_class(pool="empty"), None),
    "case 28: the pool counts, not what an older schema left": (
        storage_node(),
        configured(OLDER | {"zones": ["a"], "storagePoolName": "empty"}),
        None,
    ),
}
SEVERAL_POOLS = [
    storage_pool(name="hdd", nodes=["worker-0", "worker-1"]),
    storage_pool(name="silent", nodes=None),
    storage_pool(name="empty", nodes=[]),
    {key: value for key, value in storage_pool(name="fresh").items() if key != "status"},
]


def pools_of(storage_class: JsonObject) -> list[JsonObject]:
    """Those that it names: one that no class names counts by itself."""
    text = json.dumps(storage_class)
    return [pool for pool in SEVERAL_POOLS if f'"{name_of(pool)}"' in text]


@pytest.mark.parametrize(("of", "storage_class", "verdict"), JUDGED.values(), ids=JUDGED.keys())
def test_a_class_means_a_node_or_not(
    of: JsonObject, storage_class: JsonObject, verdict: tuple[str, str] | None
) -> None:
    outcome = ask_nodes(node=of, classes=[storage_class], pools=pools_of(storage_class))

    is_meant = verdict is not None and verdict[0] in ("MatchesStorageClass", "EligibleInPool")
    assert said(outcome) == ([verdict] if verdict else [])
    assert answer(outcome)["labels"] == ({LABEL: ""} if is_meant else {})


@pytest.mark.parametrize(("of", "storage_class", "verdict"), JUDGED.values(), ids=JUDGED.keys())
def test_a_class_says_the_same_of_a_node_with_the_label(
    of: JsonObject, storage_class: JsonObject, verdict: tuple[str, str] | None
) -> None:
    labelled = deepcopy(of)
    labelled["metadata"]["labels"][LABEL] = ""

    outcome = ask_nodes(node=labelled, classes=[storage_class], pools=pools_of(storage_class))

    frozen = {"Unresolved", "InvalidSelector"}
    if verdict is None:
        assert said(outcome) == [("NoMatch", "no class means it, and no data is known to be on it")]
    elif verdict[0] in frozen:
        assert said(outcome) == [("RemovalFrozen", f"no class means it, but it stays labelled: {verdict[1]}")]
    else:
        assert said(outcome) == [verdict]
    assert answer(outcome)["labels"] == ({LABEL: None} if verdict is None else {})


def test_every_reason_has_its_test() -> None:
    told = {verdict[0] for _, _, verdict in JUDGED.values() if verdict}

    assert told | {"NoMatch", "RemovalFrozen", "RemovalPending", "HoldsData"} == {str(reason) for reason in Reason}


@pytest.mark.parametrize("field", POOL_FIELDS)
def test_a_current_class_does_not_label_every_node(field: str) -> None:
    """Case 28: it has no zones and no selector, which the older schema reads as all nodes."""
    outcome = ask_nodes(node=storage_node(name="other"), classes=[pooled_class(field=field)], pools=[storage_pool()])

    assert answer(outcome) == UNCHANGED


# Several classes

SEVERAL: Mapping[str, tuple[Sequence[JsonObject], tuple[str, str]]] = {
    "case 37: the first says no, the second means it": (
        [zoned_class(name="a", zones=["z"]), zoned_class(name="b", zones=["a"])],
        ("MatchesStorageClass", "class b means it"),
    ),
    "case 37: one cannot be told, another means it": (
        [unresolved_class(name="a"), pooled_class(name="b")],
        ("EligibleInPool", "pool hdd of class b lists it"),
    ),
    "two mean it, the first by name is told": (
        [zoned_class(name="b"), pooled_class(name="a")],
        ("EligibleInPool", "pool hdd of class a lists it"),
    ),
    "an invalid one does not stop the others": (
        [zoned_class(name="a", selector=LOWER_CASE), zoned_class(name="b")],
        ("MatchesStorageClass", "class b means it"),
    ),
    "two cannot be told, the first by name is told": (
        [unresolved_class(name="b"), unresolved_class(name="a"), ELSEWHERE],
        ("Unresolved", "class a has no configuration yet"),
    ),
}


@pytest.mark.parametrize(("classes", "verdict"), SEVERAL.values(), ids=SEVERAL.keys())
def test_one_class_is_enough(classes: Sequence[JsonObject], verdict: tuple[str, str]) -> None:
    pools = [storage_pool()] if verdict[0] != "Unresolved" else []
    outcome = ask_nodes(classes=classes, pools=pools)

    assert said(outcome) == [verdict]
    assert answer(outcome)["labels"] == ({} if verdict[0] == "Unresolved" else {LABEL: ""})


# When the label may go

KINDS_OF_CLASSES: Mapping[str, Sequence[JsonObject]] = {
    "case 25: no class at all": [],
    "every class says no": [ELSEWHERE, pooled_class(pool="empty")],
    "case 26: a class is unresolved": [ELSEWHERE, unresolved_class()],
    "case 28: a pool is missing": [ELSEWHERE, pooled_class(pool="gone")],
    "case 40: a selector is invalid": [ELSEWHERE, zoned_class(name="zz", selector=LOWER_CASE)],
    "case 41: a selector is circular": [ELSEWHERE, zoned_class(name="zz", selector=CIRCULAR)],
    "invalid beyond its zones": [ELSEWHERE, zoned_class(name="zz", zones=["z"], selector=LOWER_CASE)],
}
NO_GUARD = "nobody can tell whether data is on the node: the data guard is not installed"
BAD_OPERATOR = 'class zz: matchExpressions[0]: operator "in" is not one of In, NotIn, Exists, DoesNotExist'
DOUBTS: Mapping[str, tuple[str, str]] = {
    # why the label stays, with the guard that holds nothing and without a guard; empty: it goes
    "case 25: no class at all": ("there is no ReplicatedStorageClass at all",) * 2,
    "every class says no": ("", NO_GUARD),
    "case 26: a class is unresolved": ("class new has no configuration yet",) * 2,
    "case 28: a pool is missing": ("pool gone of class bulk is not there",) * 2,
    "case 40: a selector is invalid": (BAD_OPERATOR,) * 2,
    "case 41: a selector is circular": (
        f"class zz: nodeLabelSelector asks for {LABEL}, which is what it decides",
        f"class zz: nodeLabelSelector asks for {LABEL}, which is what it decides",
    ),
    "invalid beyond its zones": (BAD_OPERATOR,) * 2,
}
GUARDS: Mapping[str, Sequence[JsonObject] | None] = {
    "no data": [],
    "not wired": None,
    "data": [drbd_resource(name="pvc-2"), drbd_resource(name="pvc-1")],
}
PERMITS: Mapping[str, JsonObject] = {
    "Strict": {"removals": "Strict"},
    "Allowed": {"node": storage_node(label="", annotations={REMOVAL: "Allowed"})},
    "both": {"removals": "Strict", "node": storage_node(label="", annotations={REMOVAL: "Allowed"})},
}
EMPTY_POOL = [storage_pool(name="empty", nodes=[])]
HELD = ("HoldsData", "DRBDResource pvc-1 is on it")
GONE = ("NoMatch", "no class means it, and no data is known to be on it")


@pytest.mark.parametrize("value", ["", "worker-1"], ids=["the value", "case 38: a value of old"])
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("classes", DOUBTS)
def test_the_label_goes_on_evidence_only(classes: str, guard: str, value: str) -> None:
    outcome = ask_nodes(
        node=storage_node(label=value), classes=KINDS_OF_CLASSES[classes], pools=EMPTY_POOL, resources=GUARDS[guard]
    )

    doubt = DOUBTS[classes][guard == "not wired"]
    if guard == "data":
        corrected = f"label corrected from 'worker-1': {HELD[1]}" if value else HELD[1]
        assert said(outcome) == [("HoldsData", corrected)]
        assert answer(outcome)["labels"] == ({LABEL: ""} if value else {})
    elif doubt:
        assert said(outcome) == [("RemovalFrozen", f"no class means it, but it stays labelled: {doubt}")]
        assert answer(outcome) == UNCHANGED
    else:
        assert said(outcome) == [GONE]
        assert answer(outcome)["labels"] == {LABEL: None}


@pytest.mark.parametrize("permit", PERMITS)
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("classes", DOUBTS)
def test_who_permits_it_gets_the_rule_of_the_original(classes: str, guard: str, permit: str) -> None:
    """Cases 25 and 26 as in the original. Data wins even so."""
    of: JsonObject = {"node": storage_node(label="")} | PERMITS[permit]

    outcome = ask_nodes(classes=KINDS_OF_CLASSES[classes], pools=EMPTY_POOL, resources=GUARDS[guard], **of)

    assert said(outcome) == [HELD if guard == "data" else GONE]
    assert answer(outcome)["labels"] == ({} if guard == "data" else {LABEL: None})


@pytest.mark.parametrize(
    "asked",
    [
        {"removals": "strict"},
        {"removals": "Allowed"},
        {"removals": ""},
        {"node": storage_node(label="", annotations={REMOVAL: "allowed"})},
        {"node": storage_node(label="", annotations={REMOVAL: "Strict"})},
        {"node": storage_node(label="", annotations={REMOVALS: "Strict"})},
        {"node": storage_node(label="", labels={REMOVAL: "Allowed"})},
    ],
    ids=["small letters", "the Node's word", "empty", "small", "the controller's word", "its key", "as a label"],
)
def test_nothing_but_the_exact_word_permits_it(asked: JsonObject) -> None:
    of: JsonObject = {"node": storage_node(label="")} | asked

    assert answer(ask_nodes(**of)) == UNCHANGED


@pytest.mark.parametrize("permit", PERMITS)
def test_a_permit_does_not_remove_what_a_class_means(permit: str) -> None:
    of: JsonObject = {"node": storage_node(label="")} | PERMITS[permit]

    assert answer(ask_nodes(classes=[zoned_class()], **of)) == UNCHANGED


@pytest.mark.parametrize("permit", PERMITS)
def test_without_the_label_a_permit_changes_nothing(permit: str) -> None:
    of: JsonObject = deepcopy({"node": storage_node()} | PERMITS[permit])
    of["node"]["metadata"]["labels"].pop(LABEL, None)

    assert answer(ask_nodes(**of)) == UNCHANGED


# Data


def test_data_keeps_the_label_until_it_is_gone() -> None:
    """Case 43."""
    labelled = storage_node(label="")

    held = ask_nodes(node=labelled, classes=[ELSEWHERE], resources=[drbd_resource()])
    after = ask_nodes(node=labelled, classes=[ELSEWHERE], resources=[])

    assert (answer(held), said(held)) == (UNCHANGED, [HELD])
    assert (answer(after)["labels"], said(after)) == ({LABEL: None}, [GONE])


def test_data_brings_the_label_back() -> None:
    """Case 43: whoever took it off."""
    outcome = ask_nodes(classes=[ELSEWHERE], resources=[drbd_resource()])

    assert answer(outcome)["labels"] == {LABEL: ""}
    assert said(outcome) == [HELD]
    assert outcome.measurements == APPLIED


def test_data_that_is_being_deleted_is_still_data() -> None:
    """Case 43."""
    outcome = ask_nodes(node=storage_node(label=""), classes=[ELSEWHERE], resources=[drbd_resource(deleting=True)])

    assert said(outcome) == [HELD]


@pytest.mark.parametrize(
    "resource",
    [
        drbd_resource(node=""),
        drbd_resource(node=None),
        drbd_resource(node="worker-10"),
        drbd_resource(node="worker-2", labels={NODE_LABEL: "worker-1"}),
        {"metadata": {"name": "pvc-1"}},
    ],
    ids=["empty", "left out", "another node", "a label that lags behind", "no spec"],
)
def test_data_on_no_node_or_another_one_is_ignored(resource: JsonObject) -> None:
    """Case 44."""
    assert said(ask_nodes(node=storage_node(label=""), classes=[ELSEWHERE], resources=[resource])) == [GONE]


def test_a_class_is_told_before_data() -> None:
    assert said(ask_nodes(classes=[zoned_class()], resources=[drbd_resource()])) == [("MatchesStorageClass", MEANT)]


def test_data_that_is_not_marked_yet_keeps_the_label() -> None:
    """When the guard is installed, no DRBDResource carries a label, and nothing says which controller comes first."""
    kinds = Kinds.of([])
    labelled, resource = storage_node(label=""), drbd_resource()
    cluster = Cluster(kinds, [labelled, resource, ELSEWHERE])
    guarded = {"annotations": {DATA_GUARD: "Enabled"}}
    manifests = [
        manifest | {"metadata": manifest["metadata"] | guarded}
        for folder in ("metacontroller/storage-nodes", "metacontroller/storage-data")
        for manifest in read_manifests(folder)
    ]
    rehearsal = Rehearsal(read_controllers(manifests, kinds), kinds, called)

    rounds = [rehearsal.round(cluster.snapshot(), cluster) for _ in range(3)]

    assert [error for done in rounds for error in done.errors] == []
    assert [write for done in rounds for write in done.writes if "Node" in write] == []
    stored = cluster.read(resource)
    assert stored is not None
    assert stored["metadata"]["labels"] == {NODE_LABEL: "worker-1"}


def called(path: str, body: JsonObject) -> JsonObject:
    """The hooks, as Metacontroller calls them."""
    sent = json.dumps(body).encode()
    if path == "/storage-nodes/customize":
        return answer(storage_nodes.customize(wire.parse(wire.CustomizeRequest, sent)))
    if path == "/storage-data/sync":
        return answer(storage_data.sync(wire.parse(storage_data.SyncRequest, sent), now=NOW))
    return answer(ask_nodes_with(body))


# Values of old


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ({"classes": [zoned_class()]}, ("MatchesStorageClass", MEANT)),
        (
            {"classes": [pooled_class()], "pools": [storage_pool()]},
            ("EligibleInPool", "pool hdd of class bulk lists it"),
        ),
        ({"classes": [ELSEWHERE], "resources": [drbd_resource()]}, HELD),
    ],
    ids=["a class", "a pool", "data"],
)
def test_a_value_of_old_is_corrected_where_the_label_is_wanted(asked: JsonObject, verdict: tuple[str, str]) -> None:
    """Case 38."""
    outcome = ask_nodes(node=storage_node(label="worker-1"), **asked)

    assert answer(outcome) == {
        "labels": {LABEL: ""},
        "annotations": {},
        "attachments": [],
        "resyncAfterSeconds": RESYNC_SECONDS,
    }
    assert outcome.decisions == [
        wire.Decision(
            reason=verdict[0],
            message=f"label corrected from 'worker-1': {verdict[1]}",
            object=wire.ObjectRef("Node", "worker-1"),
            changes=True,
            field=f"labels.{LABEL}",
        )
    ]
    assert outcome.measurements == []


# The answer


def test_a_new_label_is_told_counted_and_looked_at_again() -> None:
    outcome = ask_nodes(classes=[zoned_class()])

    assert answer(outcome) == {
        "labels": {LABEL: ""},
        "annotations": {},
        "attachments": [],
        "resyncAfterSeconds": RESYNC_SECONDS,
    }
    assert outcome.decisions == [
        wire.Decision(
            reason="MatchesStorageClass",
            message=MEANT,
            object=wire.ObjectRef("Node", "worker-1"),
            changes=True,
            field=f"labels.{LABEL}",
        )
    ]
    assert outcome.measurements == APPLIED


def test_a_removal_is_told_counted_and_looked_at_again() -> None:
    outcome = ask_nodes(node=storage_node(label=""), classes=[ELSEWHERE])

    assert answer(outcome) == {
        "labels": {LABEL: None},
        "annotations": {},
        "attachments": [],
        "resyncAfterSeconds": RESYNC_SECONDS,
    }
    assert outcome.decisions == [
        wire.Decision(
            reason="NoMatch",
            message="no class means it, and no data is known to be on it",
            object=wire.ObjectRef("Node", "worker-1"),
            changes=True,
            field=f"labels.{LABEL}",
        )
    ]
    assert outcome.measurements == REMOVED


AT_REST: Mapping[str, JsonObject] = {
    "a node that is meant": {"node": storage_node(label=""), "classes": [zoned_class()]},
    "a node that is not": {"classes": [ELSEWHERE]},
    "a frozen one": {"node": storage_node(label="")},
    "a frozen one with a value of old": {"node": storage_node(label="worker-1")},
    "one that cannot be told": {"classes": [unresolved_class()]},
    "one without classes": {},
    "one that holds data": {"node": storage_node(label=""), "resources": [drbd_resource()]},
}


@pytest.mark.parametrize("asked", AT_REST.values(), ids=AT_REST.keys())
def test_nothing_is_answered_where_nothing_changes(asked: JsonObject) -> None:
    outcome = ask_nodes(**asked)

    assert answer(outcome) == UNCHANGED
    assert not any(decision.changes for decision in outcome.decisions)
    assert outcome.measurements == []


def test_a_node_that_nobody_means_is_not_talked_about() -> None:
    assert said(ask_nodes(classes=[ELSEWHERE])) == []
    assert said(ask_nodes()) == []


def test_a_heartbeat_changes_nothing() -> None:
    """Case 46."""
    of = storage_node(label="")
    beat: JsonObject = of | {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-03-01T11:59:00Z"}]}}

    assert answer(ask_nodes(node=beat, classes=[zoned_class()])) == UNCHANGED


def test_a_node_that_changes_its_zone_is_judged_anew() -> None:
    """The original did not look again."""
    classes = [zoned_class(zones=["a"])]

    came = ask_nodes(node=storage_node(zone="a"), classes=classes)
    went = ask_nodes(node=storage_node(zone="b", label=""), classes=classes)

    assert (answer(came)["labels"], answer(went)["labels"]) == ({LABEL: ""}, {LABEL: None})


@pytest.mark.parametrize("labels", [None, {}], ids=["null", "empty"])
@pytest.mark.parametrize("annotations", [None, {}], ids=["null", "empty"])
def test_a_node_may_come_without_labels_and_annotations(labels: object, annotations: object) -> None:
    bare = {"metadata": {"name": "worker-1", "labels": labels, "annotations": annotations}}

    assert answer(ask_nodes(node=bare, classes=[zoned_class()]))["labels"] == {LABEL: ""}


@pytest.mark.parametrize("permit", [None, "Strict"])
@pytest.mark.parametrize("label", [None, "", "worker-1"], ids=["none", "the value", "a value of old"])
@pytest.mark.parametrize("classes", [[], [zoned_class()], None], ids=["no class", "a class", "not wired"])
def test_a_node_that_is_being_deleted_is_left_alone(
    classes: Sequence[JsonObject] | None, label: str | None, permit: str | None
) -> None:
    outcome = ask_nodes(node=storage_node(label=label, deleting=True), classes=classes, removals=permit, events=True)

    assert answer(outcome) == UNCHANGED
    assert (said(outcome), outcome.measurements) == ([], ())


# Not wired


@pytest.mark.parametrize("removals", [None, "Strict"])
@pytest.mark.parametrize(
    ("missing", "kind"),
    [
        ([CLASSES], "ReplicatedStorageClass"),
        ([POOLS], "ReplicatedStoragePool"),
        ([CLASSES, POOLS], "ReplicatedStorageClass"),
    ],
    ids=["classes", "pools", "both"],
)
@pytest.mark.parametrize("how", ["left out", "null"])
def test_a_kind_that_is_not_wired_is_not_one_without_objects(
    missing: Sequence[str], kind: str, how: str, removals: str | None
) -> None:
    """Case 47: never "remove all"."""
    body = nodes_request(node=storage_node(label=""), classes=[ELSEWHERE], removals=removals)
    for group in missing:
        body["related"][group] = None
        if how == "left out":
            del body["related"][group]

    with pytest.raises(wire.RetryLater) as caught:
        ask_nodes_with(body)

    assert str(caught.value) == f"the request has no related {kind}, not even an empty map of them"
    assert caught.value.seconds == 60


def test_a_request_without_anything_related_is_not_one_without_objects() -> None:
    """Case 47."""
    body = nodes_request(node=storage_node(label=""))
    del body["related"]

    with pytest.raises(wire.RetryLater, match="the request has no related ReplicatedStorageClass"):
        ask_nodes_with(body)


# Events


@pytest.mark.parametrize(
    ("label", "classes", "reason", "message"),
    [
        (None, [zoned_class()], "Labeled", f"MatchesStorageClass: {MEANT}"),
        ("worker-1", [zoned_class()], "Labeled", f"MatchesStorageClass: {MEANT}"),
        ("", [ELSEWHERE], "Unlabeled", f"NoMatch: {GONE[1]}"),
    ],
    ids=["added", "corrected", "removed"],
)
def test_an_event_tells_what_changes(
    label: str | None, classes: Sequence[JsonObject], reason: str, message: str
) -> None:
    (sent,) = answer(ask_nodes(node=storage_node(label=label), classes=classes, events=True))["attachments"]

    assert (sent["kind"], sent["type"], sent["reason"]) == ("Event", "Normal", reason)
    assert sent["message"] == f"{LABEL}: {message}"
    uid = "uid-of-worker-1"
    assert sent["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "worker-1", "uid": uid}
    assert sent["source"] == {"component": "storage-nodes"}
    assert (sent["metadata"]["namespace"], sent["lastTimestamp"]) == ("default", "2026-03-01T12:00:00Z")


@pytest.mark.parametrize("asked", AT_REST.values(), ids=AT_REST.keys())
def test_no_event_where_nothing_changes(asked: JsonObject) -> None:
    assert answer(ask_nodes(events=True, **asked)) == UNCHANGED


@pytest.mark.parametrize("label", [None, ""], ids=["added", "removed"])
def test_no_event_unless_the_manifest_lists_them(label: str | None) -> None:
    old = answer(ask_nodes(classes=[zoned_class()], events=True))["attachments"]
    classes = [zoned_class()] if label is None else [ELSEWHERE]

    outcome = ask_nodes(node=storage_node(label=label), classes=classes, attachments=observed_events(*old))

    assert answer(outcome)["labels"] != {}
    assert answer(outcome)["attachments"] == []


def test_an_event_is_returned_unchanged_once_it_is_there() -> None:
    first = ask_nodes(classes=[zoned_class()], events=True)
    there = observed_events(*answer(first)["attachments"])

    later: Any = {"now": NOW + timedelta(minutes=5), "events": True, "attachments": there, "classes": [zoned_class()]}
    at_rest = ask_nodes(node=obeyed(storage_node(), first), **later)
    lost_again = ask_nodes(**later)

    (unchanged,) = [wire.without_nulls(each) for each in there["Event.v1"].values()]
    assert answer(at_rest) == UNCHANGED | {"attachments": [unchanged]}
    assert answer(lost_again)["attachments"] == [unchanged]


def test_earlier_events_are_kept_beside_a_new_one() -> None:
    first = ask_nodes(classes=[zoned_class()], events=True)
    there = observed_events(*answer(first)["attachments"])

    second = ask_nodes(node=storage_node(label=""), classes=[ELSEWHERE], events=True, attachments=there)

    assert [each["reason"] for each in answer(second)["attachments"]] == ["Labeled", "Unlabeled"]
    assert answer(second)["attachments"][0] == wire.without_nulls(next(iter(there["Event.v1"].values())))


def test_another_class_is_other_news() -> None:
    names = [
        names_of(answer(ask_nodes(classes=[zoned_class(name=name)], events=True))["attachments"]) for name in ("a", "b")
    ]

    assert names[0] != names[1]


# Metacontroller

RULES = [
    {"apiVersion": "storage.deckhouse.io/v1alpha1", "resource": "replicatedstorageclasses"},
    {"apiVersion": "storage.deckhouse.io/v1alpha1", "resource": "replicatedstoragepools"},
]


DRBD_RESOURCES = {"apiVersion": "storage.deckhouse.io/v1alpha1", "resource": "drbdresources"}


def test_a_node_relates_to_all_classes_and_pools() -> None:
    assert ask_customize() == RULES


def test_with_the_guard_a_node_relates_to_its_own_data_too() -> None:
    """And to all that is not marked yet: any of it may be on this Node.

    These come first: Metacontroller lists one rule after the other, and what is marked in between is in the second.
    """
    assert ask_customize(guard="Enabled") == [
        *RULES,
        DRBD_RESOURCES | {"labelSelector": {"matchExpressions": [{"key": NODE_LABEL, "operator": "DoesNotExist"}]}},
        DRBD_RESOURCES | {"labelSelector": {"matchLabels": {NODE_LABEL: "worker-1"}}},
    ]


@pytest.mark.parametrize("guard", ["", "enabled", "Disabled", "true"])
def test_nothing_but_the_exact_word_enables_the_guard(guard: str) -> None:
    """A cluster without the kind DRBDResource would fail every sync of a Node that relates to it."""
    assert ask_customize(guard=guard) == RULES


@pytest.mark.parametrize("guard", [None, "Enabled"])
def test_what_a_node_relates_to_depends_on_its_name_only(guard: str | None) -> None:
    """The answer is cached by UID: labels may change, and it would not."""
    parents = [
        storage_node(),
        storage_node(zone="b", label="", annotations={REMOVAL: "Allowed", DATA_GUARD: "Enabled"}),
        storage_node(deleting=True, labels={DATA_GUARD: "Enabled", ZONE: "z"}),
        {"metadata": {"name": "worker-1"}},
    ]

    answers = [
        ask_customize(parent=parent, guard=guard, removals=mode) for parent in parents for mode in (None, "Strict")
    ]

    assert all(rules == answers[0] for rules in answers)


@pytest.mark.parametrize("length", [63, 64, 253])
def test_a_long_name_is_asked_for_by_a_label_that_can_be(length: int) -> None:
    selectors = [
        rule["labelSelector"]["matchLabels"][NODE_LABEL]
        for rule in ask_customize(parent=storage_node(name="n" * length), guard="Enabled")
        if "matchLabels" in rule.get("labelSelector", {})
    ]

    assert [check_label_value(value) for value in selectors] == [None]
    assert (selectors == ["n" * length]) == (length <= 63)


def test_reads_what_metacontroller_sends_to_customize() -> None:
    body = json.loads((DATA / "decorator-customize-node.json").read_text())["request"]

    outcome = storage_nodes.customize(wire.parse(wire.CustomizeRequest, json.dumps(body).encode()))

    assert answer(outcome) == {"relatedResources": RULES}


def test_reads_what_metacontroller_sends_to_sync() -> None:
    body = json.loads((DATA / "decorator-sync-node-no-policies.json").read_text())["request"]
    body["related"] = nodes_request(classes=[zoned_class()])["related"]

    outcome = ask_nodes_with(body)

    assert answer(outcome)["labels"] == {LABEL: ""}


def test_a_controller_may_come_without_annotations() -> None:
    body = nodes_request(node=storage_node(label=""), classes=[ELSEWHERE])
    for manifest in ({}, controller(delay=None), {"metadata": {"annotations": None}}):
        assert said(ask_nodes_with(body | {"controller": manifest}))[0][0] == "RemovalPending"


# How long it takes to go


def waiting(since: str | None = None, *, now: datetime = NOW, delay: str | None = None, **more: Any) -> wire.Outcome:
    """A Node that no class means any more."""
    annotations = {} if since is None else {storage_nodes.REMOVABLE_SINCE: since}
    node = storage_node(label="", annotations=annotations)
    body = nodes_request(node=node, classes=[ELSEWHERE], **more)
    return ask_nodes_with(body | {"controller": controller(guard="Enabled", delay=delay)}, now=now)


def test_a_label_goes_ten_minutes_after_nothing_speaks_for_it_any_more() -> None:
    began = answer(waiting())
    later = answer(waiting(format_time(NOW), now=NOW + timedelta(minutes=9)))
    after = answer(waiting(format_time(NOW), now=NOW + timedelta(minutes=10)))

    until = format_time(NOW + timedelta(minutes=10))
    assert said(waiting()) == [("RemovalPending", f"no class means it: the label goes after {until}")]
    assert (began["labels"], began["annotations"]) == ({}, {storage_nodes.REMOVABLE_SINCE: format_time(NOW)})
    assert (later["labels"], later["annotations"], later["resyncAfterSeconds"]) == ({}, {}, 60)
    assert (after["labels"], after["annotations"]) == ({LABEL: None}, {storage_nodes.REMOVABLE_SINCE: None})


@pytest.mark.parametrize("since", ["", "yesterday", "2999-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_starts_again(since: str) -> None:
    assert answer(waiting(since))["annotations"] == {storage_nodes.REMOVABLE_SINCE: format_time(NOW)}


@pytest.mark.parametrize("delay", ["1d", "-5m", "soon", "99999h", ""])
def test_a_delay_that_cannot_be_used_is_the_default(delay: str) -> None:
    old = format_time(NOW - timedelta(minutes=9))
    assert answer(waiting(old, delay=delay))["labels"] == {}


def test_whatever_speaks_for_the_label_ends_the_wait() -> None:
    old = format_time(NOW - timedelta(minutes=9))
    for outcome in (
        waiting(old, resources=[drbd_resource()]),
        waiting(old, pools=[storage_pool()]),
        waiting(old, resources=None),
    ):
        assert answer(outcome)["annotations"] == {storage_nodes.REMOVABLE_SINCE: None}
        assert answer(outcome)["labels"] == {}


def test_a_pool_that_lists_the_node_counts_though_no_class_names_it() -> None:
    """A class may have moved to another pool while this one is still in use."""
    outcome = ask_nodes(classes=[ELSEWHERE], pools=[storage_pool()])

    assert said(outcome) == [("EligibleInPool", "pool hdd lists it, though no class names that pool")]
    assert answer(outcome)["labels"] == {LABEL: ""}


def test_a_node_that_is_not_ready_keeps_its_label() -> None:
    node = storage_node(label="") | {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    outcome = ask_nodes(node=node, classes=[ELSEWHERE])

    why = "no class means it, but it stays labelled: the node is not ready: its pool may have dropped it for that"
    assert said(outcome) == [("RemovalFrozen", why)]


def test_what_allowed_one_removal_does_not_allow_the_next() -> None:
    node = storage_node(label="", annotations={storage_nodes.REMOVAL: "Allowed"})
    outcome = ask_nodes(node=node, classes=[])

    assert answer(outcome)["labels"] == {LABEL: None}
    assert answer(outcome)["annotations"] == {storage_nodes.REMOVAL: None}
