"""ReplicatedStorageClasses of both schemas, their pools, DRBDResources, and the requests that carry them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hooks import storage_data, storage_nodes, wire
from hooks.kube.metadata import JsonObject, group_key, name_of, object_key
from hooks.storage import classes, data
from hooks.storage.classes import LABEL, ZONE
from tests.builders import CREATED, node
from tests.labelling import LISTS_EVENTS, NOW

CLASSES = group_key(classes.API_VERSION, classes.CLASS)
POOLS = group_key(classes.API_VERSION, classes.POOL)
RESOURCES = group_key(data.API_VERSION, data.KIND)
OLDER: JsonObject = {
    "topology": "TransZonal",
    "replication": "ConsistencyAndAvailability",
    "volumeAccess": "PreferablyLocal",
    "systemNetworkNames": ["Internal"],
    "eligibleNodesPolicy": {"notReadyGracePeriod": "10m"},
}
"""What else a configuration of the older schema holds."""
NEWER: JsonObject = {
    "topology": "Ignored",
    "volumeAccess": "Any",
    "failuresToTolerate": 1,
    "guaranteedMinimumDataRedundancy": 1,
}
"""The same for the newer schema."""


def configured(configuration: Any, *, name: str = "fast") -> JsonObject:
    """A class with this as its resolved configuration, whatever it is."""
    return {
        "apiVersion": classes.API_VERSION,
        "kind": classes.CLASS,
        "metadata": {"name": name, "creationTimestamp": CREATED},
        "spec": {"reclaimPolicy": "Delete"},
        "status": {"configuration": configuration},
    }


def zoned_class(*, name: str = "fast", zones: Sequence[str] | None = None, selector: Any = None) -> JsonObject:
    """A class of the older schema; without zones and selector it means every Node."""
    given = {"zones": None if zones is None else list(zones), "nodeLabelSelector": selector}
    return configured(OLDER | {key: value for key, value in given.items() if value is not None}, name=name)


def pooled_class(*, name: str = "bulk", pool: str = "hdd", field: str = "replicatedStoragePoolName") -> JsonObject:
    """A class of the newer schema, with its pool under either name of the field."""
    return configured(NEWER | {field: pool}, name=name)


def unresolved_class(*, name: str = "new") -> JsonObject:
    """A class that its own controller has not looked at yet."""
    return {key: value for key, value in configured(None, name=name).items() if key != "status"}


def storage_pool(*, name: str = "hdd", nodes: Sequence[str] | None = ("worker-1",)) -> JsonObject:
    """A pool with its eligible nodes. None: it does not say."""
    eligible = [{"nodeName": each, "nodeReady": True} for each in nodes or []]
    return {
        "apiVersion": classes.API_VERSION,
        "kind": classes.POOL,
        "metadata": {"name": name, "creationTimestamp": CREATED},
        "spec": {"type": "LVM"},
        "status": {"phase": "Ready"} | ({} if nodes is None else {"eligibleNodes": eligible}),
    }


def drbd_resource(
    *,
    name: str = "pvc-1",
    node: str | None = "worker-1",
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
) -> JsonObject:
    """Data on a node. None: the field is left out."""
    metadata: JsonObject = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}
    metadata |= {} if labels is None else {"labels": dict(labels)}
    metadata |= {"deletionTimestamp": "2026-01-02T00:00:00Z"} if deleting else {}
    spec = {"size": "1Gi"} | ({} if node is None else {"nodeName": node})
    return {"apiVersion": data.API_VERSION, "kind": data.KIND, "metadata": metadata, "spec": spec}


def storage_node(
    *,
    name: str = "worker-1",
    label: str | None = None,
    zone: str | None = "a",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
) -> JsonObject:
    """A Node in zone a, with the storage label at this value. None: without the label."""
    given = dict(labels or {}) | ({} if zone is None else {ZONE: zone}) | ({} if label is None else {LABEL: label})
    return node(name=name, labels=given, annotations=annotations, deleting=deleting)


def controller(
    *, guard: str | None = None, removals: str | None = None, delay: str | None = "0s", events: bool = False
) -> JsonObject:
    """The DecoratorController as Metacontroller sends it; labels go at once unless a delay is given."""
    given = {
        storage_nodes.DATA_GUARD: guard,
        storage_nodes.REMOVALS: removals,
        storage_nodes.REMOVAL_DELAY: delay,
    }
    annotations = {key: value for key, value in given.items() if value is not None}
    metadata: JsonObject = {"name": "storage-nodes"} | ({"annotations": annotations} if annotations else {})
    return {"metadata": metadata} | (LISTS_EVENTS if events else {})


def nodes_request(
    *,
    node: JsonObject | None = None,
    classes: Sequence[JsonObject] | None = (),
    pools: Sequence[JsonObject] | None = (),
    resources: Sequence[JsonObject] | None = (),
    removals: str | None = None,
    events: bool = False,
    attachments: JsonObject | None = None,
) -> JsonObject:
    """The body for /storage-nodes/sync. None: the request does not name that kind at all."""
    kinds = {CLASSES: classes, POOLS: pools, RESOURCES: resources}
    return {
        "controller": controller(guard=None if resources is None else "Enabled", removals=removals, events=events),
        "object": storage_node() if node is None else node,
        "attachments": attachments or {},
        "related": {kind: by_key(objects) for kind, objects in kinds.items() if objects is not None},
        "finalizing": False,
    }


def customize_request(
    *, parent: JsonObject | None = None, guard: str | None = None, removals: str | None = None
) -> JsonObject:
    """The body for /storage-nodes/customize."""
    return {
        "controller": controller(guard=guard, removals=removals),
        "parent": storage_node() if parent is None else parent,
    }


def data_request(resource: JsonObject) -> JsonObject:
    """The body for /storage-data/sync."""
    manifest = {"metadata": {"name": "storage-data"}}
    return {"controller": manifest, "object": resource, "attachments": {}, "related": {}, "finalizing": False}


def by_key(objects: Sequence[JsonObject]) -> dict[str, JsonObject]:
    return {object_key(each): each for each in objects}


def ask_nodes(*, now: datetime = NOW, **request: Any) -> wire.Outcome:
    """One sync of a Node, through the bytes that Metacontroller would send."""
    return ask_nodes_with(nodes_request(**request), now=now)


def ask_nodes_with(body: Any, *, now: datetime = NOW) -> wire.Outcome:
    return storage_nodes.sync(wire.parse(storage_nodes.SyncRequest, json.dumps(body).encode()), now=now)


def ask_customize(**request: Any) -> Sequence[JsonObject]:
    """The related rules that a Node is given."""
    body = json.dumps(customize_request(**request)).encode()
    answer = json.loads(wire.encode(storage_nodes.customize(wire.parse(wire.CustomizeRequest, body)).response))
    rules: Sequence[JsonObject] = answer["relatedResources"]
    return rules


def ask_data(resource: JsonObject) -> wire.Outcome:
    """One sync of a DRBDResource."""
    body = json.dumps(data_request(resource)).encode()
    return storage_data.sync(wire.parse(storage_data.SyncRequest, body), now=NOW)


def asked_label(node: str) -> str:
    """The value of the label by which a Node of this name relates to its data."""
    rules = ask_customize(parent=storage_node(name=node), guard="Enabled")
    selectors = [rule["labelSelector"].get("matchLabels", {}) for rule in rules if rule["resource"] == data.RESOURCE]
    (value,) = [selector[data.NODE_LABEL] for selector in selectors if data.NODE_LABEL in selector]
    return str(value)


def names_of(objects: Sequence[JsonObject]) -> Sequence[str]:
    return [name_of(each) for each in objects]
