"""What Metacontroller may do is what the controllers need: nothing is missing, and nothing is superfluous."""

import json
from collections.abc import Iterable, Mapping, Sequence

import pytest

from hooks import node_agent, node_labeler, storage_nodes, volume_autoscaler, volume_claim, wire
from hooks.kube.metadata import JsonObject, name_of
from hooks.manifests import ROOT, read_manifests, read_objects

Needs = frozenset[tuple[str, str, str]]
"""API group, resource and verb."""
LOOK = ("get", "list", "watch")
MANAGE = (*LOOK, "create", "update", "delete")
FOLDERS = ("metacontroller", "metacontroller/storage-nodes", "metacontroller/storage-data")
CONTROLLERS = {name_of(manifest): manifest for folder in FOLDERS for manifest in read_manifests(folder)}
ROLES: Mapping[str, tuple[str, Sequence[str]]] = {
    "metahooks-node-labeler": ("deploy/base", ["node-labeler"]),
    "metahooks-volume-autoscaler": ("deploy/base", ["volume-autoscaler", "volume-claim"]),
    "metahooks-node-agent": ("deploy/base", ["node-agent", "node-shape"]),
    "metahooks-storage-nodes": ("deploy/components/storage-nodes", ["storage-nodes"]),
    "metahooks-storage-data": ("deploy/components/storage-data-guard", ["storage-data"]),
}
"""Where each role is, and for which controllers."""
WRITES_NO_PARENT = {"node-shape"}
PARENTS: Mapping[str, JsonObject] = {
    "volume-autoscaler": {"spec": {"target": {"pvcName": "data"}, "maxSize": "1Gi"}},
    "node-agent": {"spec": {"templateConfigMap": {"name": "template"}}},
}
"""Parents that relate to all that one can relate to; others relate to the same whatever they are."""
CUSTOMIZE = {
    "node-labeler": node_labeler.customize,
    "volume-autoscaler": volume_autoscaler.customize,
    "volume-claim": volume_claim.customize,
    "node-agent": node_agent.customize,
    "storage-nodes": storage_nodes.customize,
}
GUARDED_BY = {"drbdresources": "storage-data"}
"""Resources that a controller relates to only beside another one, whose role then has them."""


def verbs(api_version: str, resource: str, wanted: Iterable[str]) -> set[tuple[str, str, str]]:
    group = api_version.rpartition("/")[0]
    return {(group, resource, verb) for verb in wanted}


def related(controller: str) -> Sequence[JsonObject]:
    if controller not in CUSTOMIZE:
        return []
    parent = {"metadata": {"name": "x", "namespace": "ns", "uid": "u"}} | PARENTS.get(controller, {})
    asked = {"controller": {"metadata": {"annotations": {storage_nodes.DATA_GUARD: "Enabled"}}}, "parent": parent}
    outcome = CUSTOMIZE[controller](wire.parse(wire.CustomizeRequest, json.dumps(asked).encode()))
    rules: Sequence[JsonObject] = json.loads(wire.encode(outcome.response))["relatedResources"]
    return rules


def needed(controller: str) -> Needs:
    spec = CONTROLLERS[controller]["spec"]
    is_composite = "parentResource" in spec
    children = spec.get("childResources" if is_composite else "attachments") or []
    found: set[tuple[str, str, str]] = set()
    for parent in [spec["parentResource"]] if is_composite else spec["resources"]:
        api, resource = parent["apiVersion"], parent["resource"]
        writes = not is_composite and controller not in WRITES_NO_PARENT
        found |= verbs(api, resource, (*LOOK, "update") if writes else LOOK)
        found |= verbs(api, f"{resource}/status", ["update"]) if is_composite else set()
        found |= verbs(api, f"{resource}/finalizers", ["update"]) if children else set()
    for child in children:
        found |= verbs(child["apiVersion"], child["resource"], MANAGE)
    for rule in related(controller):
        if GUARDED_BY.get(rule["resource"], controller) == controller:
            found |= verbs(rule["apiVersion"], rule["resource"], LOOK)
    return frozenset(found)


def granted(role: str, folder: str) -> Needs:
    files = sorted((ROOT / folder).glob("*rbac.yaml"))
    (found,) = [obj for obj in read_objects(files) if obj["kind"] == "ClusterRole" and name_of(obj) == role]
    return frozenset(
        (group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


@pytest.mark.parametrize("role", ROLES)
def test_a_role_allows_what_its_controllers_need_and_no_more(role: str) -> None:
    folder, controllers = ROLES[role]
    wanted = frozenset[tuple[str, str, str]]().union(*(needed(controller) for controller in controllers))
    has = granted(role, folder)
    assert (sorted(wanted - has), sorted(has - wanted)) == ([], []), "missing, superfluous"


def test_every_controller_has_a_role() -> None:
    assert sorted(name for _, controllers in ROLES.values() for name in controllers) == sorted(CONTROLLERS)


@pytest.mark.parametrize(
    ("component", "parents"),
    [
        pytest.param("events", set(), id="of hooks that have children anyway"),
        pytest.param("node-events", {("", "nodes/finalizers", "update")}, id="of Nodes, which then own something"),
    ],
)
def test_events_are_managed_like_other_children(component: str, parents: set[tuple[str, str, str]]) -> None:
    has = granted(f"metahooks-{component}", f"deploy/components/{component}")
    assert has == frozenset(verbs("v1", "events", MANAGE) | parents)


def test_the_check_sees_what_is_missing_and_what_is_superfluous() -> None:
    """It can fail."""
    assert ("", "nodes", "update") in needed("node-labeler")
    assert ("", "nodes", "update") not in needed("node-shape")
    assert ("", "configmaps", "list") in needed("node-agent")
    assert ("", "persistentvolumeclaims", "delete") not in needed("volume-claim") | needed("volume-autoscaler")
