"""ReplicatedStorageClasses of both schemas: whether one means a node, as far as that can be told.

The older schema names zones and a label selector in the class; the newer one names a pool, which lists its nodes. What
cannot be told is not a no: a pool that is missing today may list the node tomorrow.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from hooks import wire
from hooks.kube.selector import InvalidSelector, parse_selector

API_VERSION = "storage.deckhouse.io/v1alpha1"
CLASS, CLASSES = "ReplicatedStorageClass", "replicatedstorageclasses"
POOL, POOLS = "ReplicatedStoragePool", "replicatedstoragepools"
LABEL = "storage.deckhouse.io/sds-replicated-volume-node"
ZONE = "topology.kubernetes.io/zone"
POOL_FIELDS = ("replicatedStoragePoolName", "storagePoolName")
NEWER_FIELDS = frozenset({"failuresToTolerate", "guaranteedMinimumDataRedundancy"})
OLDER_FIELDS = frozenset({"zones", "nodeLabelSelector", "systemNetworkNames", "eligibleNodesPolicy"})
"""The older schema requires the last two.

Without any of these, "no zones and no selector" does not mean every node: an API server with the newer schema drops
what it does not know, and the pool is written later.
"""


class Reason(StrEnum):
    MATCHES_STORAGE_CLASS = "MatchesStorageClass"  # zones and selector of a class mean the node
    ELIGIBLE_IN_POOL = "EligibleInPool"  # a pool lists the node
    HOLDS_DATA = "HoldsData"  # no class means the node, but a DRBDResource is on it
    NO_MATCH = "NoMatch"  # every class is known, and none means the node
    REMOVAL_PENDING = "RemovalPending"  # the same, but not for long enough
    REMOVAL_FROZEN = "RemovalFrozen"  # no class means the node, but something that could is not known
    UNRESOLVED = "Unresolved"  # a class has no configuration yet, or its pool does not say which nodes are eligible
    INVALID_SELECTOR = "InvalidSelector"  # the zones or the selector of a class cannot be used


class ClassStatus(wire.Model):
    configuration: Any = None


class StorageClass(wire.Model, kw_only=True):
    metadata: wire.Metadata
    status: ClassStatus | None = None


class EligibleNode(wire.Model):
    node_name: str = ""


class PoolStatus(wire.Model):
    eligible_nodes: list[EligibleNode] | None = None


class Pool(wire.Model, kw_only=True):
    metadata: wire.Metadata
    status: PoolStatus | None = None


class Judgement(NamedTuple):
    """What one class says about one node."""

    means_node: bool | None  # None if it cannot be told
    reason: Reason
    sentence: str


def judge(storage_class: StorageClass, pools: Mapping[str, Pool], node: str, labels: Mapping[str, str]) -> Judgement:
    name = storage_class.metadata.name
    configuration = storage_class.status.configuration if storage_class.status else None
    if configuration is None:
        return Judgement(None, Reason.UNRESOLVED, f"class {name} has no configuration yet")
    if not isinstance(configuration, Mapping):
        return Judgement(None, Reason.INVALID_SELECTOR, f"class {name}: its configuration is not an object")
    if any(field in configuration for field in POOL_FIELDS):
        return _judge_pool(name, _pool_name(configuration), pools, node)
    if NEWER_FIELDS & configuration.keys() or not OLDER_FIELDS & configuration.keys():
        return Judgement(None, Reason.UNRESOLVED, f"class {name} names no pool yet")
    return _judge_labels(name, configuration, labels)


def _pool_name(configuration: Mapping[str, Any]) -> str:
    names = (configuration.get(field) for field in POOL_FIELDS)
    return next((name for name in names if isinstance(name, str) and name), "")


def _judge_pool(storage_class: str, pool_name: str, pools: Mapping[str, Pool], node: str) -> Judgement:
    if not pool_name:
        return Judgement(None, Reason.UNRESOLVED, f"class {storage_class} names no pool yet")
    pool = pools.get(pool_name)
    where = f"pool {pool_name} of class {storage_class}"
    if pool is None:
        return Judgement(None, Reason.UNRESOLVED, f"{where} is not there")
    eligible = pool.status.eligible_nodes if pool.status else None
    if eligible is None:
        return Judgement(None, Reason.UNRESOLVED, f"{where} does not say which nodes are eligible")
    if any(found.node_name == node for found in eligible):
        return Judgement(True, Reason.ELIGIBLE_IN_POOL, f"{where} lists it")
    return Judgement(False, Reason.NO_MATCH, f"{where} does not list it")


def _judge_labels(storage_class: str, configuration: Mapping[str, Any], labels: Mapping[str, str]) -> Judgement:
    try:
        in_zones = _is_in_zones(configuration.get("zones"), labels)
        is_selected = _is_selected(configuration, labels)  # outside of the zones too: what is invalid is not a no
    except InvalidSelector as error:
        return Judgement(None, Reason.INVALID_SELECTOR, f"class {storage_class}: {error}")
    if in_zones and is_selected:
        return Judgement(True, Reason.MATCHES_STORAGE_CLASS, f"class {storage_class} means it")
    return Judgement(False, Reason.NO_MATCH, f"class {storage_class} does not mean it")


def _is_in_zones(zones: Any, labels: Mapping[str, str]) -> bool:
    """No zones are all zones; a node without the label is in the zone that has no name."""
    if not isinstance(zones, Sequence | None) or isinstance(zones, str):
        raise InvalidSelector("zones must be a list")
    if not all(isinstance(zone, str) for zone in zones or []):
        raise InvalidSelector("zones must be strings")
    return not zones or labels.get(ZONE, "") in zones


def _is_selected(configuration: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    given = configuration.get("nodeLabelSelector")
    selector = parse_selector({} if given is None else given)
    if LABEL in selector.keys:
        raise InvalidSelector(f"nodeLabelSelector asks for {LABEL}, which is what it decides")
    return selector.matches(labels)


def listed_by(pools: Mapping[str, Pool], node: str) -> Judgement | None:
    """A pool that lists the node, though no class may name it any more: it may be in use."""
    for name, pool in sorted(pools.items()):
        if any(found.node_name == node for found in (pool.status.eligible_nodes if pool.status else None) or []):
            return Judgement(True, Reason.ELIGIBLE_IN_POOL, f"pool {name} lists it, though no class names that pool")
    return None


def in_order(classes: Mapping[str, StorageClass]) -> Sequence[StorageClass]:
    return [found for _, found in sorted(classes.items())]
